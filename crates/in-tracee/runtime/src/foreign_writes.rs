//! What other processes of the recording write by calls to files that the program has mapped: a
//! mapping shows it, a private one where the program has not stored itself (mmap(2)).
//!
//! Who writes says so in the session; everybody else looks there at the end of each call, since
//! it can learn of the write by a call only, and logs what its mappings show with that call.
//!
//! Deliberately absent: what somebody stores through a shared mapping of a file that others have
//! mapped privately, and what is written from outside of the recording. More than a thousand
//! writes between two calls are not told apart: all is logged that the files' mappings show.

use lane_protocol::{Written, WrittenPart};

use crate::block::{process, session};
use crate::mapped_files;

/// What the process has read of the session's list.
#[repr(C)]
#[derive(Default)]
pub struct Known {
    /// Plus one; 0: it has not looked yet.
    parts: u64,
}

/// The program has mapped the file.
pub fn note_mapped(identity: [u64; 2]) {
    if !process().replaying {
        session().written_files.mark(identity);
    }
}

/// Recording: the program wrote these bytes to a file, or moved its end there.
pub fn tell(identity: [u64; 2], size: u64, from: u64, bytes: u64) {
    let files = &session().written_files;
    if files.is_marked(lane_protocol::mark_of(identity)) {
        files.add(&WrittenPart { lane: process().lane, identity, size, from, bytes });
    }
}

/// True if there is something new.
#[inline]
pub fn are_new() -> bool {
    process().foreign_writes.parts != session().written_files.count() + 1
}

/// Recording, in the event of a call that ended: logs what is new.
#[inline]
pub fn log_new() {
    if are_new() {
        log_parts();
    }
}

#[cold]
fn log_parts() {
    let files = &session().written_files;
    let known = &mut process().foreign_writes.parts;
    let count = files.count();
    if *known == 0 {
        // What it maps it maps from now on.
        *known = count + 1;
    }
    while *known <= count {
        match files.part(*known - 1) {
            Written::Part(part) => {
                if part.lane != process().lane {
                    mapped_files::log_part(part.identity, part.size, part.from, part.bytes);
                }
                *known += 1;
            }
            Written::NotYet => break,
            Written::Gone => {
                *known = count + 1;
                mapped_files::log_all(|identity| files.is_written(identity));
            }
        }
    }
}
