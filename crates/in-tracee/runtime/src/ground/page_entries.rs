//! What pagemap says of each page (proc_pid_pagemap(5)), where a scan does not tell.

use linux_abi::general as nr;

use crate::ground::kernel;
use crate::ground::owned::Owned;

const PAGE_BYTES: u64 = 4096;
/// Entries of pagemap that are read at once.
const ENTRIES: usize = 512;
/// What an entry says (proc_pid_pagemap(5)). One that is being moved counts as swapped out.
pub const PRESENT: u64 = 1 << 63;
pub const SWAPPED: u64 = 1 << 62;
pub const POPULATED: u64 = PRESENT | SWAPPED;
/// A file's page, or shared memory.
pub const OF_FILE: u64 = 1 << 61;
/// No other process has it.
pub const EXCLUSIVE: u64 = 1 << 56;

static ENTRY_BUFFER: Owned<[u64; ENTRIES]> = Owned::new([0; ENTRIES]);

/// A guard's page, which has no content (Linux 6.13).
const GUARD: u64 = 1 << 58;

/// The page has content that is no file's.
pub fn is_own(entry: u64) -> bool {
    entry & POPULATED != 0 && entry & (OF_FILE | GUARD) == 0
}

/// Calls `each` with the address of every page and what pagemap says of it.
pub fn for_each_entry(pagemap: Option<i32>, start: u64, end: u64, each: &mut dyn FnMut(u64, Option<u64>)) {
    // SAFETY: one thread runs.
    let buffer = unsafe { &mut *ENTRY_BUFFER.get() };
    let mut at = start;
    while at < end {
        let pages = ((end - at) / PAGE_BYTES).min(ENTRIES as u64);
        let known = pagemap.map_or(0, |fd| read_entries(fd, at / PAGE_BYTES, &mut buffer[..pages as usize]));
        for index in 0..pages {
            each(at + index * PAGE_BYTES, buffer[..known].get(index as usize).copied());
        }
        at += pages * PAGE_BYTES;
    }
}

/// Reads the entries of pages from the first one on: how many.
pub fn read_entries(pagemap: i32, first: u64, entries: &mut [u64]) -> usize {
    let place = entries.as_mut_ptr() as u64;
    let bytes = size_of_val(entries) as u64;
    let read = kernel::call(nr::__NR_pread64, [pagemap as u64, place, bytes, first * 8, 0, 0]);
    read.max(0) as usize / 8
}
