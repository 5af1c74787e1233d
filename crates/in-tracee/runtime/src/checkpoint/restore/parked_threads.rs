//! Kernel threads without a thread of the program: parked where no memory is used,
//! so that all memory can go back under them, and taken up again by their ids.
//!
//! While there are checkpoints, a thread that ends only sits down here: a replay may
//! need it again, with the same id. It leaves when none reaches back to its end any more.
//!
//! Invariant: there is a seat for each thread that lives, whoever sits.

use core::arch::global_asm;
use core::sync::atomic::Ordering;

use lane_protocol::checkpoint_state;

use crate::checkpoint::area::area;
use crate::checkpoint::kept_memory::{SEATS, Seat};
use crate::checkpoint::take::quiesce;
use crate::checkpoint::take::slots;
use crate::ground::kernel;
use crate::signals;
use crate::state::block::{THREAD_ALIVE, THREAD_STACK_TOP, THREAD_START, Thread, process, thread};

/// Those of them that may have ended without being in a checkpoint: only a replay needs them.
const ENDED_MAX: usize = SEATS / 2;

const FREE: u32 = 0;
const PARKED: u32 = 1;
const GO: u32 = 2;
const END: u32 = 3;
const CLAIMED: u32 = 4;

global_asm!(
    // rdi: the seat, rsi: a word to clear and wake, or 0. From here on no memory but
    // the seat is touched.
    ".global rv_sit_down",
    "rv_sit_down:",
    "mov rbx, rdi",
    "mov r12, rsi",
    "xor edi, edi",
    "mov eax, 218",
    "syscall",
    "mov dword ptr [rbx], 1",
    "test r12, r12",
    "jz 2f",
    "mov dword ptr [r12], 0",
    "mov rdi, r12",
    "mov esi, 1",
    "mov edx, 0x7fffffff",
    "mov eax, 202",
    "syscall",
    "2:",
    "mov rdi, rbx",
    "xor esi, esi",
    "mov edx, 1",
    "xor r10d, r10d",
    "mov eax, 202",
    "syscall",
    "mov eax, [rbx]",
    "cmp eax, 1",
    "je 2b",
    "cmp eax, 3",
    "je 3f",
    "mov r12, [rbx + 8]",
    "mov dword ptr [rbx], 0",
    "mov edi, 0x1001",
    "mov rsi, r12",
    "mov eax, 158",
    "syscall",
    "lea rdi, [r12 + {alive}]",
    "mov eax, 218",
    "syscall",
    "mov rsp, [r12 + {stack_top}]",
    "mov rdi, r12",
    "xor ebp, ebp",
    "call qword ptr [r12 + {start}]",
    "ud2",
    "3:",
    "mov dword ptr [rbx], 0",
    "xor edi, edi",
    "mov eax, 60",
    "syscall",
    "ud2",
    alive = const THREAD_ALIVE,
    stack_top = const THREAD_STACK_TOP,
    start = const THREAD_START,
);

unsafe extern "C" {
    fn rv_sit_down(seat: *const Seat, word: u64) -> !;
}

/// All seats: atomics.
fn seats() -> &'static [Seat] {
    // SAFETY: they are atomics.
    unsafe { &area().shared().seats }
}

fn claim(ended_at: u64) -> Option<&'static Seat> {
    let tid = thread().tid;
    let seat = seats().iter().find(|seat| {
        let claimed = seat.state.compare_exchange(FREE, CLAIMED, Ordering::AcqRel, Ordering::Relaxed);
        claimed.is_ok()
    })?;
    seat.tid.store(tid, Ordering::Relaxed);
    seat.ended_at.store(ended_at, Ordering::Relaxed);
    Some(seat)
}

/// The calling thread leaves its stack for good; `word` is cleared then, as the
/// kernel would at its end. Returns if there is no seat.
pub fn sit_down(word: u64) {
    sit_down_until(word, u64::MAX);
}

fn sit_down_until(word: u64, ended_at: u64) {
    signals::block_all();
    if let Some(seat) = claim(ended_at) {
        // SAFETY: nothing of this thread's stack is used any more.
        unsafe { rv_sit_down(seat, word) }
    }
}

/// A thread of the program ended. Returns if the kernel's may end with it.
pub fn sit_down_at_end(ended_at: u64) {
    if !crate::state::live::is_on() || process().slot != 0 {
        return;
    }
    let mut taken =
        slots::all().iter().filter(|at| at.state.load(Ordering::Relaxed) == checkpoint_state::TAKEN);
    let born_at = thread().born_at;
    let is_kept = if taken.clone().any(|at| at.position.load(Ordering::Relaxed) > born_at) {
        // No way back there without it. Those that live are to find seats, too.
        room() > quiesce::threads()
    } else {
        (crate::state::live::goes_again() || taken.next().is_some()) && count() < ENDED_MAX
    };
    if is_kept {
        sit_down_until(thread().alive.as_ptr() as u64, ended_at);
    }
}

/// The seat of the kernel's thread with this id, once it sits.
fn find(tid: i32) -> Option<&'static Seat> {
    seats()
        .iter()
        .find(|seat| seat.state.load(Ordering::Acquire) == PARKED && seat.tid.load(Ordering::Relaxed) == tid)
}

/// True if a kernel thread with this id sits here.
pub fn has(tid: i32) -> bool {
    find(tid).is_some()
}

/// Lets the kernel's thread with this id take up the block, at its `start`; false if
/// it does not sit here.
pub fn adopt(tid: i32, block: &Thread) -> bool {
    let Some(seat) = find(tid) else { return false };
    seat.block.store(block.own_address, Ordering::Relaxed);
    seat.state.store(GO, Ordering::Release);
    kernel::futex_wake(&seat.state);
    true
}

/// Nobody will need those any more that sit: they end.
pub fn end_all() {
    end_where(|_| true);
}

/// The log is not gone again from before this position on.
pub fn end_before(position: u64) {
    end_where(|ended_at| ended_at <= position);
}

/// What was logged from this position on is dropped, and who lived then does not sit.
pub fn end_since(position: u64) {
    end_where(|ended_at| ended_at > position);
}

fn end_where(is_over: impl Fn(u64) -> bool) {
    for seat in &area().seats {
        if seat.state.load(Ordering::Acquire) == PARKED && is_over(seat.ended_at.load(Ordering::Relaxed)) {
            seat.state.store(END, Ordering::Release);
            kernel::futex_wake(&seat.state);
        }
    }
}

/// Threads that could sit down now.
pub fn room() -> usize {
    area().seats.iter().filter(|seat| seat.state.load(Ordering::Relaxed) == FREE).count()
}

/// Number of threads that sit.
pub fn count() -> usize {
    area().seats.iter().filter(|seat| seat.state.load(Ordering::Acquire) == PARKED).count()
}
