//! What a process left behind in shared memory that died while it held the token, where its log does not
//! tell: the kernel killed it by itself (no memory left, a limit, PR_SET_PDEATHSIG of prctl(2)), or
//! somebody outside of the recording did.
//!
//! How far it had come is not known. So whoever holds the token next, and shares memory with it, logs
//! what that shows; replay puts it there, whatever the process stores that goes on behind its log.
//!
//! Deliberately absent: memory that processes share as threads do (CLONE_VM without CLONE_THREAD),
//! and pages of files that are neither in memory nor in one of memory's own files.

use events::{Kind, SHARED, Tag};
use lane_protocol::SharedPart;
use linux_abi::{PAGE_BYTES, general as nr};

use crate::ground::maps::{self, Mapping};
use crate::ground::{kernel, memory};
use crate::state::block::{process, session};
use crate::state::live;

/// Pages that the kernel is asked about at once.
const ASKED_MAX: usize = 1024;
const WORDS: usize = PAGE_BYTES as usize / 8;
static ZEROS: [u64; WORDS] = [0; WORDS];

/// The process comes to a token: what its memory shows is known so far.
pub fn begin() {
    process().left_memory.deaths = session().unlogged_deaths.count();
}

// --- recording ---

/// The process holds the token: if somebody died with it since, logs what is shared.
#[inline]
pub fn log_new() {
    let count = session().unlogged_deaths.count();
    let seen = core::mem::replace(&mut process().left_memory.deaths, count);
    if count != seen {
        log_left(seen);
    }
}

#[cold]
fn log_left(seen: u32) {
    let Some(death) = session().unlogged_deaths.latest_of(process().token, seen) else { return };
    if live::is_on() {
        return;
    }
    let log = &mut process().log;
    log.begin(Kind::Change, SHARED, 0);
    log.word(0);
    log.word(0);
    maps::for_each_named(c"/proc/thread-self/maps", &mut |map, name| {
        if is_programs(map, name) {
            log_mapping(death, map, is_of_memory(name));
        }
    });
    process().log.end();
}

/// Memory that processes share: not that of a device, or what the kernel writes.
fn is_programs(map: &Mapping, name: &[u8]) -> bool {
    let is_devices = name.starts_with(b"/dev/") && !is_of_memory(name);
    !map.private
        && map.readable
        && map.writable
        && !is_devices
        && !name.starts_with(b"socket:")
        && !name.starts_with(b"anon_inode:")
}

/// The object is nowhere but in memory: a page that is not there is zero.
fn is_of_memory(name: &[u8]) -> bool {
    let prefixes: [&[u8]; 4] = [b"/dev/zero", b"/memfd:", b"/SYSV", b"/dev/shm/"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

fn log_mapping(death: u32, map: &Mapping, is_of_memory: bool) {
    let deaths = &session().unlogged_deaths;
    let to = map.offset + (map.end - map.start);
    let part = SharedPart { identity: [map.device, map.inode], from: map.offset, to };
    if deaths.is_logged(death, &part) {
        return;
    }
    let mut run = Run { start: map.start, holds: Holds::Unknown };
    each_page(map.start, map.end, &mut |page, is_there| {
        let holds = match is_there {
            _ if is_of_memory && (!is_there || is_zero(page)) => Holds::Zeros,
            true => Holds::Data,
            false => Holds::Unknown,
        };
        run.go_on(page, holds);
    });
    run.go_on(map.end, Holds::Unknown);
    deaths.note_logged(death, &part);
}

/// What pages in a row hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Data,
    Zeros,
    /// It is where a process cannot have changed it, or is lost.
    Unknown,
}

struct Run {
    start: u64,
    holds: Holds,
}

impl Run {
    /// The page holds this: if that is something else, logs the pages before it.
    fn go_on(&mut self, page: u64, holds: Holds) {
        if holds == self.holds {
            return;
        }
        let bytes = page - self.start;
        let log = &mut process().log;
        match self.holds {
            Holds::Data => log.blob(self.start, bytes, Tag::Memory, self.start),
            Holds::Zeros => log.whole_blob(self.start, 8, Tag::Zeros, &raw const bytes as u64),
            Holds::Unknown => {}
        }
        *self = Run { start: page, holds };
    }
}

// --- replaying ---

/// A blob of a change that is not memory.
pub fn replay(tag: Tag, address: u64, _bytes: u64, source: u64) {
    if tag == Tag::Zeros
        && let Some(bytes) = memory::read_word(source)
    {
        each_page(address, address.saturating_add(bytes), &mut |page, is_there| {
            if is_there && !is_zero(page) {
                memory::copy(page, ZEROS.as_ptr() as u64, PAGE_BYTES);
            }
        });
    }
}

// --- both ---

/// Calls `each` with the pages between two addresses, and with whether each is in memory (mincore(2)).
fn each_page(start: u64, end: u64, each: &mut dyn FnMut(u64, bool)) {
    let mut at = start;
    while at < end {
        let bytes = (end - at).min(ASKED_MAX as u64 * PAGE_BYTES);
        let mut there = [1u8; ASKED_MAX];
        kernel::call(nr::__NR_mincore, [at, bytes, there.as_mut_ptr() as u64, 0, 0, 0]);
        for (page, there) in (at..at + bytes).step_by(PAGE_BYTES as usize).zip(there) {
            each(page, there & 1 != 0);
        }
        at += bytes;
    }
}

/// True for a page that can be read, and is zero.
fn is_zero(page: u64) -> bool {
    let mut words = [0u64; WORDS];
    memory::copy(words.as_mut_ptr() as u64, page, PAGE_BYTES) && words == ZEROS
}
