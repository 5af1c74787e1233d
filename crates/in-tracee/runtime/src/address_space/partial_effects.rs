//! Calls on mappings that fail after a part of their effect: madvise(2) behind pages that are locked
//! or missing, mprotect(2) up to a hole or to a mapping that may not be written, mmap(2) and mremap(2)
//! that have cleared the place for what then could not be put there.
//!
//! What the part was, the kernel does not say. Recording looks for it: advice and protection are given
//! once more, mapping by mapping, which changes nothing where they were given before and fails where
//! the call did; and what was unmapped, or moved away, is missing. The parts are in the failed call's
//! event ([`Tag::Part`]), and replay does them.
//!
//! Invariant: the caller holds the token, so that nobody stores there in between. Deliberately absent: what
//! other processes that share a mapping store meanwhile, and locks (mlock(2)), which replay needs none of.

use events::Tag;
use linux_abi::{PAGE_BYTES, general as nr};

use crate::address_space::region;
use crate::code::trampolines;
use crate::ground::kernel;
use crate::ground::maps::{self, Mapping};
use crate::state::block::process;

/// Mappings that are looked at in one go through the list.
const PIECES_MAX: usize = 64;

/// Whole pages.
fn pages(bytes: u64) -> u64 {
    bytes.saturating_add(PAGE_BYTES - 1) & !(PAGE_BYTES - 1)
}

/// A part of a range: where it begins and ends.
type Piece = (u64, u64);

struct Pieces {
    count: usize,
    all: [Piece; PIECES_MAX],
    /// There are more behind these.
    more: bool,
}

impl Pieces {
    /// The mappings in a range of addresses; none if it wraps around.
    fn of(start: u64, end: u64) -> Pieces {
        let mut pieces = Pieces { count: 0, all: [(0, 0); PIECES_MAX], more: false };
        maps::for_each(&mut |mapping: &Mapping| {
            if mapping.end <= start || mapping.start >= end || trampolines::is_trampoline(mapping.start) {
                return;
            }
            match pieces.all.get_mut(pieces.count) {
                Some(place) => {
                    *place = (mapping.start.max(start), mapping.end.min(end));
                    pieces.count += 1;
                }
                None => pieces.more = true,
            }
        });
        pieces
    }

    fn all(&self) -> &[Piece] {
        &self.all[..self.count]
    }

    /// Where the next look begins.
    fn end(&self) -> u64 {
        self.all().last().map_or(u64::MAX, |piece| piece.1)
    }
}

/// Calls `each` for every mapping in the range, in their order, as long as it says so.
fn each_piece(start: u64, bytes: u64, each: &mut dyn FnMut(Piece) -> bool) {
    let Some(end) = start.checked_add(pages(bytes)) else { return };
    let mut from = start;
    loop {
        let pieces = Pieces::of(from, end);
        if !pieces.all().iter().all(|&piece| each(piece)) || !pieces.more {
            return;
        }
        from = pieces.end();
    }
}

/// Recording: a call failed that the kernel makes mapping by mapping: `make` makes it for one, and
/// `done` takes those that it was made for. It ends before a hole, or goes on behind.
pub fn each_done(
    range: [u64; 2],
    stops_at_hole: bool,
    make: &mut dyn FnMut(u64, u64) -> i64,
    done: &mut dyn FnMut(u64, u64),
) {
    let mut reached = range[0];
    each_piece(range[0], range[1], &mut |(start, end)| {
        let goes_on = !(stops_at_hole && start != reached || kernel::failed(make(start, end - start)));
        if goes_on {
            done(start, end - start);
            reached = end;
        }
        goes_on
    });
}

/// Calls `each` with what is not mapped of a range.
pub fn each_hole(start: u64, bytes: u64, each: &mut dyn FnMut(u64, u64)) {
    let Some(end) = start.checked_add(pages(bytes)) else { return };
    let mut reached = start;
    let mut tell = |from: u64, to: u64| {
        if from < to {
            each(from, to - from);
        }
    };
    each_piece(start, bytes, &mut |piece| {
        tell(reached, piece.0);
        reached = piece.1;
        true
    });
    tell(reached, end);
}

/// Recording, in the event of a call that failed: a part that it had done. `moved_to` is 0 where
/// nothing was moved.
pub fn log(start: u64, bytes: u64, moved_to: u64) {
    let words = [bytes, moved_to];
    process().log.whole_blob(start, 16, Tag::Part, words.as_ptr() as u64);
}

/// Recording, in the event of a call that failed: what is unmapped of a range is so now.
pub fn log_holes(start: u64, bytes: u64, forget: &mut dyn FnMut(u64, u64)) {
    each_hole(start, bytes, &mut |start, bytes| {
        forget(start, bytes);
        log(start, bytes, 0);
    });
}

/// Replay: a part that was unmapped is so now.
pub fn unmap(start: u64, bytes: u64) {
    region::unmap(start, bytes);
}

/// Mappings that a call is about to move.
pub struct Moving {
    pieces: Pieces,
    from: u64,
    to: u64,
}

impl Moving {
    /// Linux 6.17 moves several at once, one after the other.
    pub fn of(from: u64, bytes: u64, to: u64) -> Moving {
        Moving { pieces: Pieces::of(from, from.saturating_add(pages(bytes))), from, to }
    }

    /// Recording, in the event of the call, which failed: those that are gone from their place, and
    /// were put at the other.
    pub fn log_moved(&self, forget: &mut dyn FnMut(u64, u64, u64)) {
        for &(start, end) in self.pieces.all() {
            let target = self.to + (start - self.from);
            let is_moved = Pieces::of(start, end).count == 0 && Pieces::of(target, target + 1).count == 1;
            if is_moved {
                forget(start, end - start, target);
                log(start, end - start, target);
            }
        }
    }
}

/// Replay: a mapping that a call moved before it failed.
pub fn follow_move(start: u64, bytes: u64, target: u64) {
    let flags = u64::from(nr::MREMAP_MAYMOVE | nr::MREMAP_FIXED);
    kernel::call(nr::__NR_mremap, [start, bytes, bytes, flags, target, 0]);
}
