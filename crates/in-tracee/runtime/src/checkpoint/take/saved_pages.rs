//! Where pages are that increments have saved.

use lane_protocol::{INCREMENT_BYTES, INCREMENTS_START};

use crate::checkpoint::kept_memory::Increment;
use crate::ground::owned::Held;

/// Content of a page of then.
pub enum Found {
    /// At this address.
    Saved(u64),
    /// It was empty, or as its file has it.
    Cleared,
    /// The base has it.
    InBase,
}

/// The increment with this index.
pub fn of(index: usize) -> Held<Increment> {
    // SAFETY: the callers name one that is mapped; the token's holder uses it alone, but
    // for its keeper, which uses its own fields.
    unsafe { Held::of((INCREMENTS_START + index as u64 * INCREMENT_BYTES) as *mut Increment) }
}

pub const PAGE_BYTES: u64 = 4096;
