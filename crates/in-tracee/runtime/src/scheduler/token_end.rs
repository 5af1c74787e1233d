//! The token where a process ends, or its recording. Once its log is complete, the
//! supervisor gives its token and its segment to others: no other thread of the process
//! may run any more, or count as one that waits.

use core::sync::atomic::Ordering;

use crate::ground::kernel;
use crate::scheduler::{own_token, tickets, token};
use crate::state::block::{process, thread};

/// The process ends, or has new memory.
pub fn leave_group() {
    let process = &mut *process();
    if !process.in_group {
        return;
    }
    process.in_group = false;
    if process.replays() {
        return tickets::leave();
    }
    token::give();
}

/// Recording was given up: all who wait may go.
pub fn give_for_good() {
    let token = own_token::my_token();
    token.give(thread().identity);
    token.wake.fetch_add(1, Ordering::SeqCst);
    kernel::futex_wake(&token.wake);
}

/// Recording: the calling thread is about to acquire the token, or to count itself among
/// those who wait for it. False: the log ends, and it must not.
pub fn begin_taking() -> bool {
    let process = &mut *process();
    process.taking.fetch_add(1, Ordering::SeqCst);
    let goes_on = process.log_ends.load(Ordering::SeqCst) == 0;
    if !goes_on {
        end_taking();
    }
    goes_on
}

/// What [`begin_taking`] announced is done.
pub fn end_taking() {
    process().taking.fetch_sub(1, Ordering::SeqCst);
}

/// The calling thread's event was the log's last: from here on no other thread of the
/// process acquires the token, or uses what the supervisor is about to give to others.
pub fn end_log() {
    let process = &mut *process();
    process.log_ends.store(1, Ordering::SeqCst);
    while process.taking.load(Ordering::SeqCst) != 0 {
        kernel::sched_yield();
    }
}

/// Waits until the process is gone, or goes on unrecorded.
pub fn wait_for_end() {
    let process = &mut *process();
    while process.log_ends.load(Ordering::SeqCst) != 0 && process.given_up.load(Ordering::Acquire) == 0 {
        kernel::futex_wait(&process.log_ends, 1, 100);
    }
}
