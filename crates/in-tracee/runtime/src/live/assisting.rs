//! Two threads protect much memory faster than one: the thread that takes a checkpoint leaves a
//! half of it to the agent, if that has nothing to do, and takes the half back if the agent has not
//! begun when the rest is done.
//!
//! Invariant: when [`protect`] returns, nobody works on its ranges any more.

use core::sync::atomic::{AtomicU32, Ordering};

use lane_protocol::command;

use super::area;
use crate::block::{lane, thread, thread_status};
use crate::detect::Range;
use crate::{kernel, written_pages};

/// From so many bytes on waking the agent is worth it.
const MUCH_BYTES: u64 = 16 << 20;
const PAGE_BYTES: u64 = 4096;

mod state {
    /// There is nothing to do, or not any more.
    pub const NONE: u32 = 0;
    pub const OFFERED: u32 = 1;
    pub const TAKEN: u32 = 2;
    pub const DONE: u32 = 3;
    pub const FAILED: u32 = 4;
}

/// The agent's half. All zero: none.
#[repr(C)]
pub struct Half {
    /// A futex word.
    state: AtomicU32,
    pagemap: i32,
    /// All of the ranges, and where in them the half begins, in bytes.
    ranges: u64,
    count: u64,
    from: u64,
}

/// Protects what is populated in ranges that are registered; false if that fails.
pub fn protect(pagemap: i32, ranges: &[Range]) -> bool {
    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let middle = bytes / 2 & !(PAGE_BYTES - 1);
    if bytes < MUCH_BYTES || !offer(pagemap, ranges, middle) {
        return protect_part(pagemap, ranges, 0, bytes);
    }
    let own = protect_part(pagemap, ranges, 0, middle);
    let half = &area().half;
    if half.state.compare_exchange(state::OFFERED, state::NONE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        withdraw();
        return own && protect_part(pagemap, ranges, middle, bytes);
    }
    while half.state.load(Ordering::Acquire) == state::TAKEN {
        kernel::futex_wait(&half.state, state::TAKEN, 100);
    }
    own && half.state.load(Ordering::Acquire) == state::DONE
}

/// False if the agent has something else to do.
fn offer(pagemap: i32, ranges: &[Range], from: u64) -> bool {
    if thread().status == thread_status::AGENT || !super::lane_takes_part() {
        return false;
    }
    let command = &lane().command.kind;
    let claimed =
        command.compare_exchange(command::NONE, command::CLAIMED, Ordering::AcqRel, Ordering::Relaxed);
    if claimed.is_err() {
        return false;
    }
    let half = &mut area().half;
    half.pagemap = pagemap;
    (half.ranges, half.count, half.from) = (ranges.as_ptr() as u64, ranges.len() as u64, from);
    half.state.store(state::OFFERED, Ordering::Release);
    command.store(command::ASSIST, Ordering::Release);
    kernel::futex_wake(command);
    true
}

/// The command is no more, unless another one has come.
fn withdraw() {
    let command = &lane().command.kind;
    let _ = command.compare_exchange(command::ASSIST, command::NONE, Ordering::AcqRel, Ordering::Relaxed);
    kernel::futex_wake(command);
}

/// The agent does its half, if it is still wanted.
pub fn take_part() {
    let half = &area().half;
    let taken =
        half.state.compare_exchange(state::OFFERED, state::TAKEN, Ordering::AcqRel, Ordering::Acquire);
    if taken.is_ok() {
        // SAFETY: who offered it waits, and changes nothing of them.
        let ranges = unsafe { core::slice::from_raw_parts(half.ranges as *const Range, half.count as usize) };
        let done = protect_part(half.pagemap, ranges, half.from, u64::MAX);
        half.state.store(if done { state::DONE } else { state::FAILED }, Ordering::Release);
        kernel::futex_wake(&half.state);
    }
    withdraw();
}

/// The same for bytes of them.
fn protect_part(pagemap: i32, ranges: &[Range], from: u64, to: u64) -> bool {
    let mut passed = 0;
    ranges.iter().all(|range| {
        let (start, end) = (passed, passed + (range.end - range.start));
        passed = end;
        let (first, last) = (from.max(start), to.min(end));
        let at = |offset: u64| range.start + (offset - start);
        first >= last || written_pages::protect(pagemap, at(first), at(last))
    })
}
