//! Reads of regular files by reference: the file's content is kept once, as a whole, and the log says
//! which part of it a call read.
//!
//! Invariant: a reference is logged only where the kept content is what the call read. The content was
//! kept under the file's size and times; they are looked at again *behind* the call, and what had been
//! written before it had changed them. Nobody had the file open to write when its content was asked
//! for, so nobody can store to it later without that being seen in its times either. The place of a
//! read that names none is the descriptor's offset behind it, which nobody else moves: the process
//! opened the file itself, and gave the descriptor to no other process since. A redirected standard input
//! others may move, who are not recorded: its reads have to go on where the one before ended.
//!
//! Deliberately absent: files in memory (tmpfs), whose times do not tell of stores; files that the
//! program has mapped; sessions that can go back, which give back what was read.

use events::Tag;
use lane_protocol::request;
use linux_abi::general as nr;

use crate::address_space::{descriptor_classes, outsider_signs};
use crate::ground::kernel;
use crate::log::kept_files::{self, Status};
use crate::state::block::{process, session};
use crate::state::call_state::{INHERITED, NOT_OWN, REMEMBERED, Read};
use crate::state::{in_lab, live};

/// Shorter reads are logged as they are.
const READ_BYTES_MIN: i64 = 1024;
/// A file's content is asked for once so much of it was read...
const ASKED_FROM_BYTES: u64 = 64 << 10;
/// ... and again whenever this part more was read.
const ASKED_AGAIN_PART: u64 = 4;

impl Read {
    fn new(fd: u32) -> Read {
        Read { fd, file: 0, bytes: 0, asks_at: 0, next: 0 }
    }
}

/// A part of a kept file, as the log has it.
#[repr(C)]
pub struct Part {
    file: u64,
    offset: u64,
    bytes: u64,
}

/// Where in a kept file a call began to read.
#[derive(Clone, Copy)]
pub struct Reference {
    file: u32,
    offset: u64,
}

/// The process opened a file under this descriptor.
#[inline]
pub fn note_opened(number: u64, fd: i64) {
    let opens = matches!(number as u32, nr::__NR_open | nr::__NR_openat | nr::__NR_openat2 | nr::__NR_creat);
    let reads = &mut process().reads;
    if opens && let Some(opened) = reads.opened.get_mut(fd as usize) {
        *opened = if reads.is_shared == 0 { reads.given + 1 } else { NOT_OWN };
        if let Some(read) = reads.files.get_mut(fd as usize % REMEMBERED) {
            *read = Read::new(fd as u32);
        }
    }
}

/// A descriptor is another name of one that the process has.
pub fn note_copied(from: u64, to: i64) {
    let reads = &mut process().reads;
    let opened = reads.opened.get(from as u32 as usize).copied().unwrap_or(NOT_OWN);
    if let Some(copy) = reads.opened.get_mut(to as usize) {
        *copy = opened;
    }
}

/// The first process begins: a shell may have redirected its standard input.
pub fn note_inherited() {
    const STANDARD_INPUT: u64 = 0;
    if process().lane == 0 && process().log.events == 0 {
        let reads = &mut process().reads;
        reads.opened[STANDARD_INPUT as usize] = INHERITED;
        reads.files[STANDARD_INPUT as usize].next = offset_of(STANDARD_INPUT);
    }
}

/// Who else moves a descriptor's offset.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Movers {
    Nobody,
    Outsiders,
    Recorded,
}

fn movers_of(fd: u64) -> Movers {
    let own = &mut *process();
    if own.in_group || own.in_parents_memory {
        return Movers::Recorded;
    }
    match own.reads.opened.get(fd as u32 as usize).copied().unwrap_or(NOT_OWN) {
        INHERITED if own.reads.given == 0 => Movers::Outsiders,
        opened if opened == own.reads.given.wrapping_add(1) => Movers::Nobody,
        _ => Movers::Recorded,
    }
}

fn offset_of(fd: u64) -> u64 {
    const SEEK_CUR: u64 = 1;
    kernel::call(nr::__NR_lseek, [fd, 0, SEEK_CUR, 0, 0, 0]) as u64
}

/// The part of a kept file that a call read, if that is what it did.
#[inline]
pub fn find(number: u64, args: &[u64; 6], result: i64) -> Option<Reference> {
    let place = match number as u32 {
        nr::__NR_read | nr::__NR_readv => None,
        nr::__NR_pread64 | nr::__NR_preadv => Some(args[3]),
        _ => return None,
    };
    let bytes_min = if session().refers == 0 { READ_BYTES_MIN } else { 1 };
    if result < bytes_min || live::is_on() || in_lab::is_on() {
        return None;
    }
    find_part(args[0], place, result as u64)
}

fn find_part(fd: u64, place: Option<u64>, bytes: u64) -> Option<Reference> {
    let movers = movers_of(fd);
    if place.is_none() && movers == Movers::Recorded
        || !descriptor_classes::is_regular(fd)
        || descriptor_classes::is_mapped(fd)
    {
        return None;
    }
    let read = &mut process().reads.files[fd as u32 as usize % REMEMBERED];
    if read.fd != fd as u32 {
        *read = Read::new(fd as u32);
    }
    read.bytes = read.bytes.saturating_add(bytes);
    let asked_from = if session().refers == 0 { ASKED_FROM_BYTES } else { 0 };
    if read.file == 0 && read.bytes < read.asks_at.max(asked_from) {
        return None;
    }
    let status = Status::of(fd as i32)?;
    let key = status.key();
    if read.file == 0 || !kept_files::is_kept(read.file - 1, key) {
        *read = Read { file: ask(fd, &status, read.bytes), ..*read };
        read.asks_at = read.bytes + (read.bytes / ASKED_AGAIN_PART).max(ASKED_FROM_BYTES);
    }
    let file = read.file.checked_sub(1)?;
    let offset = match place {
        Some(place) => place,
        None => {
            let begun_at = offset_of(fd).checked_sub(bytes)?;
            let expected = core::mem::replace(&mut read.next, begun_at + bytes);
            if movers == Movers::Outsiders && begun_at != expected {
                return None;
            }
            begun_at
        }
    };
    let ends_inside = offset.checked_add(bytes).is_some_and(|end| end <= status.size());
    ends_inside.then_some(Reference { file, offset })
}

/// Asks for a file's content: its id plus one, 0 if it is not there (yet).
#[cold]
fn ask(fd: u64, status: &Status, bytes: u64) -> u32 {
    if session().refers == 0 && status.size() < ASKED_FROM_BYTES || status.is_memory(fd as i32) {
        return 0;
    }
    if let Some(file) = kept_files::find(status.key()) {
        return file + 1;
    }
    // Who has it open to write may have it mapped, too.
    if !outsider_signs::is_only_read(fd, 0) && !outsider_signs::is_of_system(fd) {
        return 0;
    }
    let arguments = [fd, bytes, process().outer_pid as u64, 0];
    match kept_files::request_answer(request::REFER, arguments, &session().keep_doorbell) {
        Some(0) => kept_files::find(status.key()).map_or(0, |file| file + 1),
        Some(_) | None => 0,
    }
}

impl Reference {
    /// Logs that memory has the next bytes of the part.
    pub fn log(&mut self, address: u64, bytes: u64) {
        let part = Part { file: u64::from(self.file), offset: self.offset, bytes };
        process().log.whole_blob(address, size_of::<Part>() as u64, Tag::FilePart, &raw const part as u64);
        self.offset += bytes;
    }
}
