//! Numbers for threads that processes of several namespaces tell apart.

use crate::state::block::process;

/// A number for the calling thread that no thread of another process has.
pub fn writer(tid: u32) -> u32 {
    const APART: u32 = 1 << 31;
    match process().pid_space {
        0 => tid,
        _ => APART | (process().outer_pid as u32) << 9 ^ tid & 0x1ff,
    }
}

/// Whether the thread that [`writer`] gave the number of can be looked at from here.
pub fn is_visible(writer: u32) -> bool {
    process().pid_space == 0 && writer >> 31 == 0
}
