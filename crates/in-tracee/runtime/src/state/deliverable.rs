//! Whether a signal that came waits for a boundary, and can be delivered there.

use lane_protocol::Mode;

use crate::state::block::{process, session, thread};
use crate::state::signal_numbers::{DEFAULT, HARMLESS, IGNORE, SIGBUS, SIGFPE, SIGILL, SIGSEGV, bit};

/// True for a signal that ends the process by default, and waits for a call or a preemption to do so as
/// one with a handler does: replay ends there too, and what the process wrote until then others
/// may see.
pub fn waits(signal: u32) -> bool {
    let can_wait = process().in_group || !crate::state::live::is_on();
    can_wait && ends_told(signal)
}

/// True if a queued signal can be delivered now.
#[inline]
pub fn has_deliverable() -> bool {
    thread().pending != 0 && next_deliverable().is_some()
}

pub fn next_deliverable() -> Option<usize> {
    next_deliverable_with(0)
}

/// The next one that is not blocked by the mask and `more`.
pub fn next_deliverable_with(more: u64) -> Option<usize> {
    let signals = &thread().signals;
    let mask = signals.mask | more;
    signals.queue[..signals.count].iter().position(|waiting| {
        // Another thread may have taken the handler away since it came.
        is_delivered(waiting.signal) && (if waiting.forced { more } else { mask }) & bit(waiting.signal) == 0
    })
}

/// True for a signal that comes at a boundary: to a handler, or to end a process there.
pub fn is_delivered(signal: u32) -> bool {
    let handler = process().actions().actions[signal as usize].handler;
    handler > IGNORE || handler == DEFAULT && waits(signal)
}

/// True for a signal that ends the process by default, and of which we hear before.
pub fn ends_told(signal: u32) -> bool {
    HARMLESS & bit(signal) == 0 && dies_told()
}

/// True if we hear of the process's end before. The first process of a namespace does not die
/// (pid_namespaces(7)), nor is it disturbed.
pub fn dies_told() -> bool {
    session().mode == Mode::Record as u32 && process().pid != 1
}

/// True if the program has a handler for faults of its computing.
pub fn faults_are_seen() -> bool {
    let actions = &process().actions().actions;
    [SIGILL, SIGBUS, SIGFPE, SIGSEGV].iter().any(|&signal| actions[signal as usize].handler > IGNORE)
}

/// Whether a signal that can be delivered lets a call that it interrupts be made again (SA_RESTART);
/// `None`: there is none.
pub fn comes() -> Option<bool> {
    if thread().pending == 0 {
        return None;
    }
    let waiting = &thread().signals.queue[next_deliverable()?];
    let action = process().actions().actions[waiting.signal as usize];
    Some(action.handler <= IGNORE || action.flags & SA_RESTART != 0)
}

pub const SA_RESTART: u64 = 0x1000_0000;
