//! Shared mappings of the present, while the process does again what it did: a replay makes
//! those again that were made since, but with objects of its own in place of the files. Where
//! the log ends the program has the real ones again, by which it shares with others.
//!
//! Invariant: nothing of the program's is stored to what lies aside.
//!
//! Deliberately absent: descriptors of the files; a second mapping of the same pages needs none,
//! and none can be had of some.

use lane_protocol::{ASIDE_BYTES, ASIDE_START};
use linux_abi::{errno, general as nr};

use crate::checkpoint::area::area;
use crate::checkpoint::kept_memory::{ASIDE_PARTS, AsidePart};
use crate::checkpoint::resources::mappings::{self, Piece};
use crate::ground::kernel::{self, error};
use crate::state::block::process;
use crate::state::report;

const MREMAP_MAYMOVE: u64 = 1;
const MREMAP_FIXED: u64 = 2;

/// Before a replay, with the lists of then and now: what is shared now is put aside, or an errno
/// says that it cannot be. One that goes back on its way to the present keeps what lies there: it
/// is of the present still.
pub fn put() -> Result<(), i64> {
    if process().replays() {
        return Ok(());
    }
    leave();
    let mut result = Ok(());
    mappings::for_each_piece(&mut |piece| {
        let is_shared = piece.now.as_ref().is_some_and(|now| !now.private && now.inode != 0);
        // What is the same then and now is mostly there in between.
        if is_shared && !put_piece(piece) && !piece.is_same() {
            result = Err(error(errno::ENOMEM));
        }
        result.is_ok()
    });
    if result.is_err() {
        leave();
    }
    result
}

fn put_piece(piece: &Piece) -> bool {
    const LARGE_PAGE_BYTES: u64 = 2 << 20;
    let aside = &mut area().aside;
    let bytes = piece.end - piece.start;
    let place = ASIDE_START + aside.filled;
    if aside.count == ASIDE_PARTS || bytes > ASIDE_BYTES - aside.filled {
        return false;
    }
    // Of no bytes: the mapping stays, and its pages are mapped once more.
    let arguments = [piece.start, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place, 0];
    if kernel::call(nr::__NR_mremap, arguments) as u64 != place {
        return false;
    }
    aside.parts[aside.count] = AsidePart { start: piece.start, bytes, place };
    aside.count += 1;
    aside.filled += bytes.next_multiple_of(LARGE_PAGE_BYTES).min(ASIDE_BYTES - aside.filled);
    true
}

/// The process comes to the present: all is back where it belongs.
pub fn take_back() {
    let aside = &mut area().aside;
    for part in &aside.parts[..aside.count] {
        let arguments = [part.place, part.bytes, part.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, part.start, 0];
        if kernel::call(nr::__NR_mremap, arguments) as u64 != part.start {
            report::die("a mapping of the present could not be moved back");
        }
    }
    (aside.count, aside.filled) = (0, 0);
}

/// Another present begins, or the same goes on.
pub fn leave() {
    let aside = &mut area().aside;
    for part in &aside.parts[..aside.count] {
        kernel::munmap(part.place, part.bytes);
    }
    (aside.count, aside.filled) = (0, 0);
}
