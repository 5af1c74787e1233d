//! What pagemap says of each page (proc_pid_pagemap(5)), where a scan does not tell.

use linux_abi::general as nr;

use crate::address_space::written_pages::for_each_part;
use crate::ground::kernel;
use crate::state::block::Owned;

const PAGE_BYTES: u64 = 4096;
/// Entries of pagemap that are read at once.
const ENTRIES: usize = 512;
/// What an entry says (proc_pid_pagemap(5)). One that is being moved counts as swapped out.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
pub const POPULATED: u64 = PRESENT | SWAPPED;
/// A file's page, or shared memory.
pub const OF_FILE: u64 = 1 << 61;
/// No other process has it.
const EXCLUSIVE: u64 = 1 << 56;

static ENTRY_BUFFER: Owned<[u64; ENTRIES]> = Owned::new([0; ENTRIES]);

/// Calls `each` with the pages that no other process has, and those of which that is not known: all
/// that were written since a fork whose child is there, or the program has made others from since.
/// It says whether it wants more; false where it does not, or the kernel does not tell.
pub fn scan_unshared(pagemap: i32, start: u64, end: u64, each: &mut dyn FnMut(u64, u64) -> bool) -> bool {
    let mut entries = [0u64; ENTRIES];
    let is_unshared = |entry: u64| {
        let own = entry & (PRESENT | OF_FILE | EXCLUSIVE) == PRESENT | EXCLUSIVE;
        own || entry & SWAPPED != 0
    };
    for_each_part(pagemap, start, end, &mut |mut at, end| {
        while at < end {
            let pages = ((end - at) / PAGE_BYTES).min(ENTRIES as u64);
            if read_entries(pagemap, at / PAGE_BYTES, &mut entries[..pages as usize]) != pages as usize {
                return false;
            }
            let mut index = 0;
            for run in entries[..pages as usize].chunk_by(|a, b| is_unshared(*a) == is_unshared(*b)) {
                let from = at + index * PAGE_BYTES;
                index += run.len() as u64;
                if is_unshared(run[0]) && !each(from, at + index * PAGE_BYTES) {
                    return false;
                }
            }
            at += pages * PAGE_BYTES;
        }
        true
    })
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
fn read_entries(pagemap: i32, first: u64, entries: &mut [u64]) -> usize {
    let place = entries.as_mut_ptr() as u64;
    let bytes = size_of_val(entries) as u64;
    let read = kernel::call(nr::__NR_pread64, [pagemap as u64, place, bytes, first * 8, 0, 0]);
    read.max(0) as usize / 8
}
