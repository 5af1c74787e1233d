//! The process that keeps an increment's descriptors: it shares the program's memory,
//! and has a descriptor table of its own.

use core::arch::global_asm;
use core::sync::atomic::Ordering;

use lane_protocol::{Checkpoint, checkpoint_state};
use linux_abi::general as nr;

use crate::checkpoint::kept_memory::Increment;
use crate::checkpoint::resources::tables;
use crate::checkpoint::take::increments::tracking;
use crate::checkpoint::take::slots;
use crate::ground::assembly::rv_make_keeper;
use crate::ground::kernel;
use crate::state::block::{lane, process};

global_asm!(
    // rdi: flags, rsi: top of the child's stack, rdx, rcx: what it calls, with what.
    ".global rv_make_keeper",
    "rv_make_keeper:",
    "push rbx",
    "push r12",
    "mov rbx, rdx",
    "mov r12, rcx",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "pop r12",
    "pop rbx",
    "ret",
    "2:",
    "xor ebp, ebp",
    "mov rdi, r12",
    "call rbx",
    "ud2",
);

/// What a keeper begins with; lies at the low end of its stack.
#[repr(C)]
struct Start {
    slot: &'static Checkpoint,
    increment: *mut Increment,
    parent: i32,
    image: u32,
    id: u32,
}

/// Makes the keeper of an increment: its process id, or an errno.
pub fn make(slot: &'static Checkpoint, increment: &mut Increment) -> i64 {
    let start = Start {
        slot,
        increment: &raw mut *increment,
        parent: process().pid,
        image: lane().image.load(Ordering::Acquire),
        id: slot.id.load(Ordering::Relaxed),
    };
    let (bottom, top) = increment.stack();
    let place = bottom as *mut Start;
    // SAFETY: the stack is mapped, and nobody else's.
    unsafe { place.write(start) };
    tracking::settle();
    // No signal at its end, so that the program never waits for it.
    // SAFETY: the child uses its own stack, and returns from nothing.
    unsafe { rv_make_keeper(u64::from(nr::CLONE_VM), top, run as *const () as u64, place as u64) }
}

/// The keeper. It shares all memory, and writes to its own only.
unsafe extern "C" fn run(start: *const Start) -> ! {
    // SAFETY: `make` wrote it, and leaves it to us until our end.
    let start = unsafe { &*start };
    slots::hide();
    // SAFETY: its descriptors are this keeper's alone until the checkpoint is ready, and constant
    // then.
    let increment = unsafe { &mut *start.increment };
    tables::keep_files(&mut increment.table, &increment.offsets, Some(&increment.notes));
    let slot = start.slot;
    slot.ready.store(1, Ordering::Release);
    kernel::futex_wake(&slot.ready);
    let is_kept = || {
        slot.state.load(Ordering::Acquire) == checkpoint_state::TAKEN
            && slot.id.load(Ordering::Relaxed) == start.id
    };
    while is_kept() && !slots::is_left_over(start.parent, start.image) {
        kernel::futex_wait(&slot.state, checkpoint_state::TAKEN, slots::LOOK_EVERY_MS);
    }
    kernel::exit_group(0)
}
