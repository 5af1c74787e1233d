//! Files that processes of the session share through memory.

use core::sync::atomic::Ordering;

use lane_protocol::{SharedFile, shared_state};

use crate::state::block::session;

/// True if a process of the session stores through memory to the file, or may do so.
pub fn is_known(identity: [u64; 2]) -> bool {
    let known = |file: &&SharedFile| file.state.load(Ordering::Acquire) != shared_state::FREE;
    session().shared_files.iter().take_while(known).any(|file| is(file, identity))
}

pub fn is(file: &SharedFile, identity: [u64; 2]) -> bool {
    [&file.device, &file.inode].map(|word| word.load(Ordering::Relaxed)) == identity
}
