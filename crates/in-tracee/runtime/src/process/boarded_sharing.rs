//! Memory that a process shares, or could share, which ran already when the session came to it.
//!
//! It is logged as it is found. What other processes can find too (a file, a segment of System V)
//! they share from here on as if the process had mapped it in the session.
//!
//! Invariant: nobody else can write there when the session comes, or what is there stays as it is
//! in rollbacks: the injector has seen to that.

use events::{SHARED_MAP_WORDS, Tag, shared_map};
use lane_protocol::{SharedMapping, report_kind};
use linux_abi::{PAGE_BYTES, general as nr};

use crate::address_space::mapped_files::{self, Place};
use crate::address_space::{recorded_places, shared_ranges};
use crate::ground::kernel;
use crate::ground::maps::{self, Mapping};
use crate::ground::memory::{self, in_region};
use crate::process::boarding::identity_of;
use crate::scheduler::shared_files;
use crate::state::block::process;
use crate::state::outside_memory::Source;
use crate::state::report;

/// Calls `each` with the mappings of the table, and with what identifies what they show.
fn for_each(table: &[SharedMapping], each: &mut dyn FnMut(&SharedMapping, &Mapping, [u64; 2])) {
    if table.is_empty() {
        return;
    }
    maps::for_each_named(c"/proc/thread-self/maps", &mut |map, name| {
        if let Some(shared) = table.iter().find(|one| (one.start, one.end) == (map.start, map.end)) {
            each(shared, map, identity_of(map, name));
        }
    });
}

// --- recording ---

/// Logs these mappings as blobs of the birth event at hand.
pub fn log(table: &[SharedMapping]) {
    for_each(table, &mut |shared, map, identity| log_one(shared, map, identity));
}

fn log_one(shared: &SharedMapping, map: &Mapping, identity: [u64; 2]) {
    let bytes = map.end - map.start;
    let flags = if map.private { shared_map::PRIVATE } else { 0 };
    let protection = maps::protection(map);
    let there = shared.there.min(bytes);
    let mut words = [map.end, u64::from(protection), flags, map.offset, identity[0], identity[1], there];
    log_words(map.start, &words);
    if !map.private {
        if !map.readable {
            kernel::mprotect(map.start, bytes, protection | nr::PROT_READ);
        }
        log_content(map.start, there);
        if !map.readable {
            kernel::mprotect(map.start, bytes, protection);
        }
    }
    words[2] |= shared_map::FILLED;
    log_words(map.start, &words);
}

fn log_words(start: u64, words: &[u64; SHARED_MAP_WORDS]) {
    let bytes = size_of_val(words) as u64;
    process().log.whole_blob(start, bytes, Tag::SharedMap, words.as_ptr() as u64);
}

/// Logs the pages that are not all zero. Behind a file's end there are none, and reading fails.
fn log_content(start: u64, there: u64) {
    let mut done = 0;
    while done < there {
        let part = (there - done).min(PAGE_BYTES);
        if !is_zero(start + done, part) {
            process().log.blob(start + done, part, Tag::Memory, start + done);
        }
        done += part;
    }
}

/// True if all words that can be read there are 0.
fn is_zero(start: u64, bytes: u64) -> bool {
    (0..bytes).step_by(8).all(|at| memory::read_word(start + at).unwrap_or(0) == 0)
}

/// From here on children share this memory, and so do those who can find it.
pub fn begin(table: &[SharedMapping]) {
    for_each(table, &mut |shared, map, identity| {
        if map.private {
            return;
        }
        if map.writable {
            shared_ranges::note_shared(map.start, map.end - map.start);
        }
        if shared.can_be_found != 0 {
            shared_files::enter(identity, true);
        }
    });
}

// --- replaying ---

/// A mapping of the birth event at hand: made when it comes, and protected when it is filled.
pub fn replay(start: u64, words: &[u64; SHARED_MAP_WORDS]) {
    let [end, protection, flags, offset, device, inode, there] = *words;
    let bytes = end.wrapping_sub(start);
    if end <= start || !start.is_multiple_of(PAGE_BYTES) || in_region(start, bytes) {
        report::fail("a birth maps shared memory where the runtime is");
    }
    if flags & shared_map::FILLED != 0 {
        kernel::mprotect(start, bytes, protection as u32);
        return;
    }
    let identity = [device, inode];
    let Some(fd) = mapped_files::common_copy(Source::Logged, identity, true, false) else {
        report::stand(report_kind::MISSING, 0, "a file for shared memory could not be made");
    };
    mapped_files::grow(fd, offset.saturating_add(there));
    let is_private = flags & shared_map::PRIVATE != 0;
    let kind = if is_private { nr::MAP_PRIVATE } else { nr::MAP_SHARED };
    let read_write = u64::from(nr::PROT_READ | nr::PROT_WRITE);
    recorded_places::map_at(start, bytes, read_write, u64::from(kind | nr::MAP_FIXED), fd, offset);
    let is_writable = protection & u64::from(nr::PROT_WRITE) != 0;
    mapped_files::note(Place {
        start,
        end,
        identity,
        offset,
        only_shows: !is_private && !is_writable,
        is_private,
    });
    if !is_private && is_writable {
        shared_ranges::note_shared(start, bytes);
    }
}
