//! Changes of the program's code that the supervisor asked for, where the program went
//! back instead of dying: memory that is mapped for new code, and jumps to it.
//!
//! A change is an event: what was written, with the addresses. It stands in the log where
//! all threads stood still, behind the last event of the thread that comes next, so that
//! replay makes it before this thread does anything else.
//!
//! Memory that others share changes so, too, where one of them died unlogged: see `left_memory`.
//!
//! Invariant: no thread goes on inside of what a jump has replaced.

use events::{BLOB_HEADER_BYTES, HEADER_BYTES, Header, Kind, padded};

use crate::address_space::left_memory;
use crate::ground::memory::in_region;
use crate::ground::{kernel, notices};
use crate::state::block::{process, space};
use crate::state::report;

/// Bytes of a jump.
pub const JUMP_BYTES: u64 = 5;
/// Bytes of the event's header and of its words.
const FIXED_BYTES: u64 = HEADER_BYTES as u64 + 16;

/// A jump was written there.
pub fn note_jump(address: u64) {
    let changes = &mut space().changes;
    if let Some(slot) = changes.jumps.get_mut(changes.count) {
        *slot = address;
        changes.count += 1;
    }
}

/// True for an address inside of a jump, which no instruction of the program's has any more.
pub fn is_inside_jump(address: u64) -> bool {
    let changes = &space().changes;
    changes.jumps[..changes.count].iter().any(|&jump| (jump + 1..jump + JUMP_BYTES).contains(&address))
}

/// Replay: makes the changes that come next, if any do.
pub fn follow() {
    while let Some(word) = process().log.peek()
        && word.is(Kind::Change)
    {
        replay(word);
    }
}

/// Replay: the event at hand is a change.
pub fn replay(word: Header) {
    let log = &mut process().log;
    let (place, bytes) = (log.body(0), log.body(1));
    // A change of what files show needs none.
    if bytes != 0 && (in_region(place, bytes) || !kernel::map_code(place, bytes)) {
        report::fail("the memory of a recorded change is not free");
    }
    note_jumps(word.bytes());
    notices::code_changed();
    notices::without_breakpoints(&mut || process().log.apply(word, FIXED_BYTES, &mut left_memory::replay));
}

/// Notes the jumps of the event at hand, which is so long.
fn note_jumps(event_bytes: u64) {
    let log = &process().log;
    let mut offset = FIXED_BYTES;
    while offset + BLOB_HEADER_BYTES as u64 <= event_bytes {
        let at = (offset - HEADER_BYTES as u64) / 8;
        let bytes = log.body(at + 1) & 0xffff_ffff;
        if bytes == JUMP_BYTES {
            note_jump(log.body(at));
        }
        offset += BLOB_HEADER_BYTES as u64 + padded(bytes as usize) as u64;
    }
}
