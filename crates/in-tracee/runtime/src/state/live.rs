//! Whether processes of this session can go back in time.

use core::sync::atomic::Ordering;

use crate::state::block::{process, session};

/// True if processes of this session can go back.
#[inline]
pub fn is_on() -> bool {
    session().live != 0
}

/// True while the process does again what it did.
#[inline]
pub fn goes_again() -> bool {
    is_on() && process().replaying
}

/// It has its turn, or will never be there.
pub fn sharer_is_there(segment: u64) {
    if segment != NO_SEGMENT {
        session().unborn[segment as usize].store(0, Ordering::SeqCst);
    }
}

/// In place of a segment: a process that is not recorded.
pub const NO_SEGMENT: u64 = u64::MAX;

/// True for a process in the present that the debugger looks at.
pub fn is_debugged() -> bool {
    let process = process();
    process.debugged && !process.replaying && !process.branched
}
