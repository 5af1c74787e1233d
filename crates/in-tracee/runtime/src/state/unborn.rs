//! Processes that will share memory and have not had their first token.

use core::sync::atomic::Ordering;

use crate::state::block::session;

/// It has its token, or will never be there.
pub fn sharer_is_there(segment: u64) {
    if segment != NO_SEGMENT {
        session().unborn[segment as usize].store(0, Ordering::SeqCst);
    }
}

/// In place of a segment: a process that is not recorded.
pub const NO_SEGMENT: u64 = u64::MAX;
