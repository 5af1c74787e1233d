//! Whether the process is recorded in a lab.

use core::sync::atomic::Ordering;

use crate::state::block::{process, session};

/// True where the process is recorded in a lab.
#[inline]
pub fn is_on() -> bool {
    session().lab.is_on.load(Ordering::Relaxed) != 0 && !process().replays()
}
