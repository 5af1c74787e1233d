//! Whether processes of this session can go back in time.

use crate::state::block::{Mode, process, session};

/// True if processes of this session can go back.
#[inline]
pub fn is_on() -> bool {
    session().live != 0
}

/// True while the process does again what it did.
#[inline]
pub fn goes_again() -> bool {
    is_on() && process().replays()
}

/// True for a process in the present that the debugger looks at.
pub fn is_debugged() -> bool {
    let process = &mut *process();
    process.mode == Mode::Watched
}
