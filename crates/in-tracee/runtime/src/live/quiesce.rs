//! Bringing all threads of the process to a stand: each either goes on afterwards, or
//! leaves its stack for good.

use core::sync::atomic::Ordering;

use linux_abi::errno;

use super::{area, seats};
use crate::block::{known_threads, process, thread, thread_at, thread_status};
use crate::{kernel, signals, turn};

/// What parked threads do next.
mod verdict {
    pub const NONE: u32 = 0;
    /// Go on as if nothing had been.
    pub const GO_ON: u32 = 1;
    /// Leave the stack.
    pub const SIT_DOWN: u32 = 2;
    /// Take no signals any more, and wait.
    pub const BLOCK: u32 = 3;
}

/// How long a thread may take to come out of the kernel.
const PATIENCE_NS: u64 = 5_000_000_000;
const LOOK_EVERY_NS: u64 = 2_000_000;
/// How long one that has ended may take to leave its stack.
const LEAVING_NS: u64 = 1_000_000_000;

/// Threads of the program that run, but for the calling one.
fn others() -> impl Iterator<Item = usize> {
    let (own, process) = (thread().index, process() as *const _ as u64);
    (0..known_threads()).filter(move |&index| {
        let other = thread_at(index);
        index != own && other.process == process && other.status == thread_status::LIVE
    })
}

/// How many those are.
pub fn threads() -> usize {
    others().count()
}

/// Waits for threads that have ended, and given the turn, but do not sit yet.
/// Nobody holds them up; where one does not come, it is met at the next checkpoint.
pub fn wait_for_leaving() {
    let begin_ns = kernel::monotonic_ns();
    while leaving() && kernel::monotonic_ns() - begin_ns < LEAVING_NS {
        kernel::call(linux_abi::general::__NR_sched_yield, [0; 6]);
    }
}

/// Ended threads whose kernel thread has not left its stack yet.
fn leaving() -> bool {
    (0..known_threads()).any(|index| {
        let other = thread_at(index);
        other.status == thread_status::ENDED && other.alive.load(Ordering::Acquire) != 0
    })
}

/// The agent, which has the turn, brings all threads to a stand; it has the turn
/// again when this returns. An errno if one does not come.
pub fn park_all() -> Result<(), i64> {
    let area = area();
    area.verdict.store(verdict::NONE, Ordering::SeqCst);
    area.parked.store(0, Ordering::SeqCst);
    for index in 0..known_threads() {
        thread_at(index).parked = false;
    }
    area.parking.store(1, Ordering::SeqCst);
    let mut waited_ns = 0;
    loop {
        let seen = area.parked.load(Ordering::SeqCst);
        let missing = others().filter(|&index| !thread_at(index).parked).count();
        if missing == 0 && !leaving() {
            return Ok(());
        }
        for index in others().filter(|&index| !thread_at(index).parked) {
            signals::ask_to_stop(thread_at(index).tid);
        }
        turn::give();
        kernel::futex_wait_ns(&area.parked, seen, LOOK_EVERY_NS);
        turn::take();
        waited_ns += LOOK_EVERY_NS;
        if waited_ns > PATIENCE_NS {
            let error = Err(super::error(errno::ETIMEDOUT));
            let_go_on();
            return error;
        }
    }
}

/// All parked threads go on as if nothing had been.
pub fn let_go_on() {
    let area = area();
    area.parking.store(0, Ordering::SeqCst);
    area.verdict.store(verdict::GO_ON, Ordering::SeqCst);
    kernel::futex_wake(&area.verdict);
    // The next time another verdict is waited for.
    while others().any(|index| thread_at(index).parked) {
        kernel::call(linux_abi::general::__NR_sched_yield, [0; 6]);
    }
}

/// No parked thread takes signals any more: whose handlers they come to is about to
/// change. They go on so.
pub fn block_all() {
    let area = area();
    area.arrived.store(0, Ordering::SeqCst);
    area.verdict.store(verdict::BLOCK, Ordering::SeqCst);
    kernel::futex_wake(&area.verdict);
    let wanted = others().count() as u32;
    loop {
        let blocked = area.arrived.load(Ordering::SeqCst);
        if blocked >= wanted {
            return;
        }
        kernel::futex_wait(&area.arrived, blocked, 100);
    }
}

/// All parked threads leave their stacks; true once they have.
pub fn sit_down_all() -> bool {
    let wanted = others().count();
    let before = seats::count();
    let area = area();
    area.verdict.store(verdict::SIT_DOWN, Ordering::SeqCst);
    kernel::futex_wake(&area.verdict);
    let mut looks = 0u32;
    while seats::count() < before + wanted {
        looks += 1;
        if looks > 1000 {
            kernel::call(linux_abi::general::__NR_sched_yield, [0; 6]);
        }
        if looks > 10_000_000 {
            return false;
        }
        core::hint::spin_loop();
    }
    area.parking.store(0, Ordering::SeqCst);
    true
}

/// True if the calling thread is to stop.
#[inline]
pub fn stop_asked() -> bool {
    super::is_on()
        && process().slot == 0
        && !process().replaying
        && super::lane_takes_part()
        && area().parking.load(Ordering::Relaxed) != 0
}

/// At a boundary, with the turn: parks if that is asked. Returns with the turn.
#[inline]
pub fn park_if_wanted() {
    if stop_asked() {
        park();
    }
}

/// The same at a pause that was logged, and gives the turn.
pub fn park_at_pause() {
    thread().yielded = true;
    park();
    crate::detach::leave_if_over();
}

#[cold]
fn park() {
    if thread().index as u32 == area().agent_index {
        return;
    }
    let area = area();
    turn::give();
    thread().parked = true;
    area.parked.fetch_add(1, Ordering::SeqCst);
    kernel::futex_wake(&area.parked);
    loop {
        match area.verdict.load(Ordering::SeqCst) {
            verdict::NONE => {
                kernel::futex_wait(&area.verdict, verdict::NONE, 1000);
            }
            verdict::GO_ON => break,
            verdict::BLOCK => {
                signals::block_all();
                area.arrived.fetch_add(1, Ordering::SeqCst);
                kernel::futex_wake(&area.arrived);
                while area.verdict.load(Ordering::SeqCst) == verdict::BLOCK {
                    kernel::futex_wait(&area.verdict, verdict::BLOCK, 1000);
                }
            }
            _ => seats::sit_down(0),
        }
    }
    thread().parked = false;
    turn::take();
}
