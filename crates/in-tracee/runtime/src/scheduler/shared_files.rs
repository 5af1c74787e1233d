//! Memory that processes share through a file, or a segment of System V: who maps
//! what another process of the session has mapped joins its lane.

use core::sync::atomic::Ordering;

use lane_protocol::{SharedFile, shared_state};

use crate::address_space::known_shared_files::is;
use crate::address_space::outsiders;
use crate::scheduler::token;
use crate::state::block::{process, session};

/// Recording: the process is about to map a file shared. True if the session has
/// shared it before, so that its memory has to be logged as it is now. A file that
/// nobody can write to through memory is of no interest.
pub fn enter(identity: [u64; 2], writable: bool) -> bool {
    for file in &session().shared_files {
        loop {
            match file.state.load(Ordering::Acquire) {
                shared_state::FREE if !writable => return false,
                shared_state::FREE => {
                    // Before the claim, which nobody gives back for who is killed.
                    token::begin_group();
                    let claimed = file.state.compare_exchange(
                        shared_state::FREE,
                        shared_state::CLAIMED,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    );
                    if claimed.is_ok() {
                        publish(file, identity);
                        return false;
                    }
                }
                shared_state::READY if is(file, identity) => {
                    token::join(file.token.load(Ordering::Relaxed));
                    return true;
                }
                shared_state::READY => break,
                _ => core::hint::spin_loop(),
            }
        }
    }
    // The table is full: what is shared from here on is logged as it is mapped, and
    // its users have one token, the first file's.
    token::join(session().shared_files[0].token.load(Ordering::Relaxed));
    true
}

fn publish(file: &SharedFile, identity: [u64; 2]) {
    file.device.store(identity[0], Ordering::Relaxed);
    file.inode.store(identity[1], Ordering::Relaxed);
    file.token.store(process().token, Ordering::Relaxed);
    file.state.store(shared_state::READY, Ordering::Release);
    outsiders::note_stored(identity);
}
