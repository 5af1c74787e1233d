//! Who the process is: its user, its groups, its rights and its root. The kernel changes them in
//! one direction only, so that a rollback cannot: it is refused where they have changed since.
//!
//! Doing the same again (replay in place) asks nothing of the kernel, and ends in the present.

use core::sync::atomic::Ordering;

use lane_protocol::Checkpoint;
use linux_abi::{errno, general as nr};
use syscall_model::row;

use crate::checkpoint::area::area;
use crate::ground::kernel::{self, error};

const CHANGES: usize = 6;

/// A process begins, or an image.
pub fn begin() {
    note_ids();
}

/// A checkpoint is taken.
pub fn note(slot: &Checkpoint) {
    for (place, word) in slot.user.iter().zip(area().user) {
        place.store(word, Ordering::Relaxed);
    }
}

/// An errno if the process is another than at a checkpoint.
pub fn is_as_then(slot: &Checkpoint) -> Result<(), i64> {
    let same = slot.user.iter().zip(area().user).all(|(then, now)| then.load(Ordering::Relaxed) == now);
    same.then_some(()).ok_or(error(errno::EACCES))
}

/// True for calls of which [`after_call`] wants to know the end.
pub fn is_changed_by(number: u64, args: &[u64; 6]) -> bool {
    changes_ids(number) || changes_rest(number, args)
}

fn changes_ids(number: u64) -> bool {
    row(number).is_some_and(|row| row.changes_ids)
}

fn changes_rest(number: u64, args: &[u64; 6]) -> bool {
    const PR_CAPBSET_DROP: u64 = 24;
    /// CLONE_NEWUSER and its like.
    const NAMESPACES: u64 = 0x7e02_0080;
    match number as u32 {
        nr::__NR_unshare => args[0] & NAMESPACES != 0,
        nr::__NR_prctl => args[0] == PR_CAPBSET_DROP,
        _ => row(number).is_some_and(|row| row.changes_rights),
    }
}

/// Such a call has ended.
pub fn after_call(number: u64, args: &[u64; 6], result: i64) {
    if kernel::failed(result) {
        return;
    }
    if changes_ids(number) {
        note_ids();
    } else if changes_rest(number, args) {
        area().user[CHANGES] += 1;
    }
}

fn note_ids() {
    let user = &mut area().user;
    for (call, first) in [(nr::__NR_getresuid, 0), (nr::__NR_getresgid, 3)] {
        let mut place = |index: usize| &raw mut user[first + index] as u64;
        kernel::call(call, [place(0), place(1), place(2), 0, 0, 0]);
    }
}
