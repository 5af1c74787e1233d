//! Replay under the debugger: which of the processes of a group a process is, see `imports`.

use core::sync::atomic::Ordering;

use crate::state::block::{process, session};

/// True if copies of the process that is debugged go without the others of its group.
pub fn are_wanted() -> bool {
    process().replays() && session().imports.wants.load(Ordering::Relaxed) != 0
}

/// True for the process that is debugged and goes with the others.
pub fn is_lead() -> bool {
    process().has_agent() && !process().copied && are_wanted()
}

/// True for a copy, which goes without them.
pub fn is_without_others() -> bool {
    process().has_agent() && process().copied && are_wanted()
}
