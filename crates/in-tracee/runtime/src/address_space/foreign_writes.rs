//! What other processes of the recording write by calls to files that the program has mapped: a
//! mapping shows it, a private one where the program has not stored itself (mmap(2)). And what they write
//! to its memory (process_vm_writev(2)).
//!
//! Who writes says so in the session; everybody else looks there where it can learn of the write,
//! and logs what its mappings show: with the end of a call, with a signal, and as a change where
//! another process, with which it shares memory, held the token. What is stored, or written from outside of
//! the recording, is found by looking at it: see `outsiders.rs`.
//!
//! Deliberately absent: what a program finds that
//! reads a mapping again and again until a call changes it. More than a thousand writes between two
//! looks are not told apart: all is logged that the files' mappings show.

use events::{FOREIGN, Kind, SHARED, Tag};
use lane_protocol::{Written, WrittenPart};
use linux_abi::PAGE_BYTES;

use crate::address_space::{mapped_files, outsiders};
use crate::ground::owned::Held;
use crate::ground::{maps, memory};
use crate::state::block::{process, session};

/// The program has mapped the file, or is about to.
pub fn note_mapped(identity: [u64; 2]) {
    if !process().replays() {
        session().written_files.mark(identity);
    }
}

/// Recording: how much the process has read of the list; see [`look_again`].
pub fn known() -> u64 {
    *known_and_all().0
}

/// Recording: what came since then is new: something is mapped that was about to be.
pub fn look_again(known: u64) {
    process().foreign_writes.parts = known;
}

/// Recording: the program wrote these bytes to a file, or moved its end there.
pub fn tell(identity: [u64; 2], size: u64, from: u64, bytes: u64) {
    let files = &session().written_files;
    if files.is_marked(lane_protocol::mark_of(identity)) {
        files.add(&WrittenPart { lane: process().lane, identity, size, from, bytes });
    }
}

/// In place of the device of a file: memory of a process, whose lane is in place of the inode.
const MEMORY: u64 = u64::from_be_bytes(*b"\0Process");

/// Recording: the program wrote these bytes to the memory of another process.
pub fn tell_memory(lane: u32, from: u64, bytes: u64) {
    let identity = [MEMORY, u64::from(lane)];
    session().written_files.add(&WrittenPart { lane: process().lane, identity, size: 0, from, bytes });
}

/// What another process wrote here is the process's own memory.
fn is_own_memory(identity: [u64; 2]) -> bool {
    identity == [MEMORY, u64::from(process().lane)]
}

fn log_memory(start: u64, end: u64) {
    memory::each_readable(start & !(PAGE_BYTES - 1), end, &mut |from, to| {
        let (from, to) = (from.max(start), to.min(end));
        process().log.blob(from, to - from, Tag::Memory, from);
    });
}

/// True if there may be something new.
#[inline]
pub fn are_new() -> bool {
    has_parts() || outsiders::are_about()
}

#[inline]
fn has_parts() -> bool {
    process().foreign_writes.parts != session().written_files.count() + 1
}

/// Recording, in the event of a call that ended: logs what is new.
#[inline]
pub fn log_new(number: u64, args: &[u64; 6]) {
    if has_parts() {
        log_parts();
    }
    outsiders::log_new(number, args);
}

/// Recording, in the event of a signal: the same.
#[inline]
pub fn log_all_new() {
    if has_parts() {
        log_parts();
    }
    outsiders::log_all_new();
}

/// Recording: the token comes from another process, and the program goes on where it stands.
#[inline]
pub fn log_change() {
    if has_parts() && are_shown() {
        let log = &mut process().log;
        log.begin(Kind::Change, SHARED, FOREIGN);
        log.word(0);
        log.word(0);
        log_parts();
        log.end();
    }
}

/// Passes over what no mapping shows. True if one may show what comes then.
#[cold]
fn are_shown() -> bool {
    let files = &session().written_files;
    let (mut known, count) = known_and_all();
    while *known <= count {
        match files.part(*known - 1) {
            Written::Part(part)
                if part.lane == process().lane
                    || !(mapped_files::is_mapped(part.identity) || is_own_memory(part.identity)) =>
            {
                *known += 1;
            }
            Written::NotYet => return false,
            _ => return true,
        }
    }
    false
}

/// How many parts the process knows, plus one, and how many there are.
fn known_and_all() -> (Held<u64>, u64) {
    let mut known = process().part(|process| &mut process.foreign_writes.parts);
    let count = session().written_files.count();
    if *known == 0 {
        // What it maps it maps from now on.
        *known = count + 1;
    }
    (known, count)
}

#[cold]
fn log_parts() {
    let files = &session().written_files;
    let (mut known, count) = known_and_all();
    while *known <= count {
        match files.part(*known - 1) {
            Written::Part(part) => {
                if is_own_memory(part.identity) {
                    log_memory(part.from, part.from.saturating_add(part.bytes));
                } else if part.lane != process().lane {
                    mapped_files::log_part(part.identity, part.size, part.from, part.bytes);
                }
                *known += 1;
            }
            Written::NotYet => break,
            Written::Gone => {
                *known = count + 1;
                mapped_files::log_all(|identity| files.is_written(identity));
                if files.is_written([MEMORY, u64::from(process().lane)]) {
                    maps::for_each(&mut |mapping| {
                        if mapping.writable {
                            log_memory(mapping.start, mapping.end);
                        }
                    });
                }
            }
        }
    }
}
