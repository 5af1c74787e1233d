//! Whether the process is recorded in a lab.

use crate::state::block::{process, session};
use core::sync::atomic::Ordering;

/// True where the process is recorded in a lab.
#[inline]
pub fn is_on() -> bool {
    session().lab.is_on.load(Ordering::Relaxed) != 0 && !process().replaying
}
