//! Where a kept file is found in the session's table of them.

use crate::session::FILES_MAX;

/// Slots that a search for a kept file looks at.
pub const FILE_PROBES: usize = 64;
/// The first of them lie in this many slots at the start of the table, so that
/// the files of a program are found on few pages.
const NEAR_REPLAY_TRAPS: usize = 16;
const NEAR_SLOTS: usize = 1024;

/// Where a search for a kept file looks at its given step.
pub const fn file_slot(device: u64, inode: u64, step: usize) -> usize {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let start = ((device.wrapping_mul(MIX) ^ inode).wrapping_mul(MIX) >> 50) as usize;
    if step < NEAR_REPLAY_TRAPS { (start + step) % NEAR_SLOTS } else { (start + step) % FILES_MAX }
}

const _: () = assert!(FILES_MAX == 1 << 14);
