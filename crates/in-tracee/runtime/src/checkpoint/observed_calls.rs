//! What the program does, and what checkpoints have to know of it.

use core::sync::atomic::Ordering;

use linux_abi::general as nr;

use crate::checkpoint::area::{HAS_AREA, area, has_area, lane_takes_part, map_area};
use crate::checkpoint::resources::{files, first_use, locks, user};
use crate::checkpoint::restore::agent;
use crate::checkpoint::take::increments::tracking;
use crate::checkpoint::take::slots;
use crate::ground::kernel;
use crate::state::block::{lane, process};
use crate::state::live::is_on;

/// Memory was moved to these addresses by mremap(2): pages that the process and a shadow share are
/// at another place there.
pub fn note_moved(start: u64, bytes: u64) {
    if has_area() {
        area().moved.add(start, start.saturating_add(bytes));
    }
}

/// The program makes a process that shares its pages until either writes to them.
pub fn note_fork(shares: bool) {
    if shares || !is_on() || !lane_takes_part() {
        return;
    }
    tracking::settle();
    if process().slot == 0 {
        area().forks += 1;
    }
}

/// The program is about to make a call of lseek(2).
#[inline]
pub fn before_seek(args: &[u64; 6]) {
    if is_on() && lane_takes_part() && process().slot == 0 {
        first_use::before_change(u64::from(nr::__NR_lseek), args);
    }
}

/// The program is about to make a call; true if [`after_call`] wants to know its end.
#[inline]
pub fn before_call(number: u64, args: &[u64; 6]) -> bool {
    if !lane_takes_part() || process().slot != 0 {
        return false;
    }
    first_use::before_change(number, args);
    match number as u32 {
        nr::__NR_wait4 | nr::__NR_waitid => slots::reap_before(number, args),
        nr::__NR_close
        | nr::__NR_close_range
        | nr::__NR_dup2
        | nr::__NR_dup3
        | nr::__NR_flock
        | nr::__NR_fcntl => locks::before_call(number, args),
        nr::__NR_timer_create => area().has_timers = true,
        _ => {}
    }
    user::is_changed_by(number, args) || files::before(number, args)
}

/// A call of which [`before_call`] said so has ended.
pub fn after_call(number: u64, args: &[u64; 6], result: i64) {
    if user::is_changed_by(number, args) {
        user::after_call(number, args, result);
    } else {
        files::after(number, args, result);
    }
}

/// Who the agent is among those who acquire the token.
pub fn agent_identity() -> Option<u64> {
    let is_there = is_on() && lane_takes_part() && process().slot == 0;
    is_there.then(|| lane_protocol::thread_identity(process().lane, area().agent_index))
}

/// An image begins, or a process with the memory of another.
pub fn begin() {
    if !is_on() || process().replays() || process().slot != 0 {
        return;
    }
    slots::forget_all();
    lane().image.fetch_add(1, Ordering::AcqRel);
    kernel::futex_wake(&lane().image);
    lane().takes_part.store(0, Ordering::Release);
    HAS_AREA.store(0, Ordering::Relaxed);
    if !map_area() {
        return;
    }
    HAS_AREA.store(1, Ordering::Relaxed);
    user::begin();
    agent::begin();
}
