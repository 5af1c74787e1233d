//! Copies of a replaying process that stands still, with all of its threads: what the
//! debugger goes back to.
//!
//! fork(2) copies memory and the calling thread. The others wait for their token at one
//! place, `rv_wait_standing`, which says on which stack; in the copy a new thread is made
//! for each, given what only the processor had, and put there.
//!
//! Invariant: nobody but the thread that holds the token wakes one that waits there, so that
//! its stack does not change while the process is copied.

use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};

use linux_abi::{errno, general as nr};

use crate::address_space::mapped_files;
use crate::code::clocks;
use crate::debugger::{displaced, watchpoints};
use crate::ground::owned::Held;
use crate::ground::registers::pop_preserved;
use crate::ground::{frame, kernel};
use crate::log::lanes;
use crate::scheduler::kernel_threads;
use crate::signals;
use crate::state::block::{
    Thread, enter_block, known_threads, lane, own_block, process, thread, thread_at, thread_status,
};
use crate::state::group_replay;
use crate::state::signal_state::KernelPart;
use crate::state::stacks::{signal_stack, stack_top};

const STACK: usize = offset_of!(Thread, waiting) + offset_of!(KernelPart, stack);
/// Below where a thread waits, for its way there.
const WAY_BYTES: u64 = 512;
/// A thread that was just made comes to its wait within microseconds, on a machine that is
/// not busy.
const LOOK_EVERY_NS: u64 = 50_000;
const LOOKS_MAX: u32 = 200_000;

global_asm!(
    // rdi: a futex word, esi: what it holds, rdx: the timeout, or 0.
    ".global rv_wait_standing",
    "rv_wait_standing:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov gs:[{stack}], rsp",
    "mov r10, rdx",
    "mov edx, esi",
    "xor esi, esi",
    "mov eax, 202",
    "syscall",
    "2:",
    "mov qword ptr gs:[{stack}], 0",
    pop_preserved!(),
    "ret",
    // rdi: where the stack of a thread ended that waited above. Does not return.
    ".global rv_end_waiting",
    "rv_end_waiting:",
    "mov rsp, rdi",
    "jmp 2b",
    // rdi: a word to clear and to wake. No memory is touched from then on.
    ".global rv_stay_behind",
    "rv_stay_behind:",
    "mov dword ptr [rdi], 0",
    "mov esi, 1",
    "mov edx, 0x7fffffff",
    "mov eax, 202",
    "syscall",
    "3:",
    "mov eax, 34",
    "syscall",
    "jmp 3b",
    stack = const STACK,
);

unsafe extern "C" {
    fn rv_wait_standing(word: *const AtomicU32, seen: u32, timeout: *const [u64; 2]);
    fn rv_end_waiting(stack: u64) -> !;
    fn rv_stay_behind(word: u64) -> !;
}

/// A thread of the program ends. In a copy any may be the process's first, without which
/// nobody could look at the process: that stays, as nobody's thread.
pub fn stay_if_first() {
    if process().has_agent() && process().replays() && thread().tid == process().pid {
        signals::block_all();
        // SAFETY: nothing of this thread's stack is used any more.
        unsafe { rv_stay_behind(thread().alive.as_ptr() as u64) }
    }
}

/// The calling thread, which does not run the program, waits while the word holds `seen`;
/// under the debugger in such a way that it can be copied.
pub fn wait_standing(word: &AtomicU32, seen: u32) {
    let timeout = [1, 0];
    let debugged = process().has_agent() && process().replays();
    // SAFETY: it returns as any function does, in a copy of the process too.
    unsafe { rv_wait_standing(word, seen, if debugged { core::ptr::null() } else { &raw const timeout }) }
}

/// The calling thread, which runs the program, is about to stand still for an image of the
/// process: the same. What its handler's frame has of the processor is in memory.
pub fn note_standing() {
    let own = &mut *thread();
    own.waiting.fs_base = crate::ground::registers::fs_base();
    own.waiting.mask = kernel::current_mask();
}

/// True if other processes have, or may have, memory in common with this one: they would
/// have it in common with a copy, which has its own where it goes without them. One that is
/// alone with its shared memory has held the token from the first ticket on.
pub fn would_share() -> bool {
    let process = &mut *process();
    let goes_without_others = process.has_agent() && group_replay::are_wanted() && !process.in_parents_memory;
    process.in_group && (process.ticket != 0 || process.made_others) && !goes_without_others
}

/// The live threads of the running process, without the calling one.
fn others() -> impl Iterator<Item = Held<Thread>> {
    let own = thread();
    (0..known_threads()).map(thread_at).filter(move |other| {
        other.index != own.index && other.process == own.process && other.status == thread_status::LIVE
    })
}

/// Waits until all others wait for their token: one that has just handed it on may not be
/// that far. False if one does not come there.
pub fn settle() -> bool {
    for other in others() {
        let mut looks = 0;
        while other.waiting.stack.load(Ordering::Acquire) == 0 {
            looks += 1;
            if looks == LOOKS_MAX {
                return false;
            }
            kernel::futex_wait_ns(&other.alive, 1, LOOK_EVERY_NS);
        }
    }
    true
}

/// Makes a copy of the process, with a segment of its own; returns its process in
/// the one that asked, and 0 in the copy.
pub fn make(segment: u32) -> i32 {
    let busy = -(errno::EBUSY as i32);
    if !settle() {
        return busy;
    }
    let shared = if process().in_group || mapped_files::has_objects() {
        let Some(views) = mapped_files::shared_views() else { return busy };
        Some(views)
    } else {
        None
    };
    let made = make_alone(segment);
    if made == 0 {
        if let Some(views) = shared {
            views.take_over();
        }
        make_threads();
    }
    made
}

/// The program's other threads are made, in a process that has only the calling one.
fn make_threads() {
    for ended in (0..known_threads()).map(thread_at).filter(|other| other.status == thread_status::ENDED) {
        // The kernel will have seen it off where it was copied from.
        ended.alive.store(0, Ordering::Relaxed);
    }
    others().for_each(|mut other| make_thread(&mut other));
}

/// A new process has the memory of one that stood still, and the calling thread is the one
/// that ran there: it becomes what a copy would be.
pub fn begin_from_image(segment: u32) {
    become_copy(segment);
    let own = &mut *thread();
    // As every replaying process begins.
    own.time_traps = true;
    clocks::follow_traps();
    kernel::set_fs_base(own.waiting.fs_base);
    make_threads();
    signals::set_whole_mask(own.waiting.mask);
}

/// The same with the calling thread alone.
pub fn make_alone(segment: u32) -> i32 {
    const SIGCHLD: u64 = 17;
    let result = kernel::call(nr::__NR_clone, [u64::from(nr::CLONE_PARENT) | SIGCHLD, 0, 0, 0, 0, 0]);
    if result != 0 {
        return result as i32;
    }
    kernel::end_with_parent();
    become_copy(segment);
    0
}

/// The calling process is a copy, with a segment of its own.
fn become_copy(segment: u32) {
    let own = &mut *process();
    own.pid = kernel::call(nr::__NR_getpid, [0; 6]) as i32;
    own.segment = u64::from(segment);
    own.copied = true;
    own.family = own.pid as u64;
    if group_replay::is_without_others() {
        (own.has_ticket, own.met_others, own.made_others) = (false, false, false);
    }
    own_block();
    lanes::map_lane(own.slot, own.segment, own.control_fd);
    own.log.go_on();
    signals::use_own_stack();
    crate::code::interception::intercept();
    watchpoints::forget();
    // Stubs are in memory that the two would share.
    displaced::forget();
    let header = &mut *lane();
    header.pid.store(own.pid, Ordering::Relaxed);
    header.agent.running_tid.store(own.pid, Ordering::Relaxed);
}

/// The copy gets a thread for this block.
fn make_thread(block: &mut Thread) {
    let stack = block.waiting.stack.swap(0, Ordering::Relaxed);
    block.waiting.to_stack = stack;
    block.start = arrive as *const () as u64;
    block.stack_top = (stack - WAY_BYTES) & !15;
    block.time_traps = thread().time_traps;
    if kernel::failed(kernel_threads::make_kernel_thread(block)) {
        // The one who asked learns of the end.
        kernel::exit_group(1);
    }
}

/// A new thread arrives here, to wait where the one waited that it stands for.
unsafe extern "C" fn arrive(block: *mut Thread) -> ! {
    // SAFETY: the maker prepared the block for us alone.
    let block = unsafe { &mut *block };
    block.stack_top = stack_top(block.index);
    enter_block(block.index);
    signals::use_own_stack();
    crate::code::interception::intercept();
    clocks::follow_traps();
    kernel::set_fs_base(block.waiting.fs_base);
    frame::load_vectors_from(signal_stack(block.index));
    signals::set_whole_mask(block.waiting.mask);
    // SAFETY: the stack is as it was left there.
    unsafe { rv_end_waiting(block.waiting.to_stack) }
}
