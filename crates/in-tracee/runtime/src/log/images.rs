//! An image of the process in the log: pages of its own, and threads as they stand.

use events::{BOARDED_THREAD_WORDS, Tag};
use linux_abi::{PAGE_BYTES, general as nr};

use crate::ground::maps::Mapping;
use crate::ground::{kernel, page_entries};
use crate::state::block::{Thread, process};

/// Logs pages of a private mapping that are not its file's. Without a list of pages,
/// all that may be such.
pub fn log_own_pages(map: &Mapping, pagemap: i64) {
    const ENTRIES: usize = 512;
    let mut entries = [0u64; ENTRIES];
    let mut run = map.start..map.start;
    let mut at = map.start;
    while at < map.end {
        let count = ((map.end - at) / PAGE_BYTES).min(ENTRIES as u64);
        let place = [pagemap as u64, entries.as_mut_ptr() as u64, count * 8, at / PAGE_BYTES * 8, 0, 0];
        let is_known = kernel::call(nr::__NR_pread64, place) as u64 == count * 8;
        for &entry in &entries[..count as usize] {
            let is_own = if is_known { page_entries::is_own(entry) } else { map.inode == 0 || map.writable };
            if is_own && run.end == at {
                run.end = at + PAGE_BYTES;
            } else if is_own {
                log_run(&run);
                run = at..at + PAGE_BYTES;
            }
            at += PAGE_BYTES;
        }
    }
    log_run(&run);
}

fn log_run(run: &core::ops::Range<u64>) {
    if run.start < run.end {
        process().log.blob(run.start, run.end - run.start, Tag::Memory, run.start);
    }
}

/// A thread as the log has it.
pub fn words_of(of: &Thread) -> [u64; BOARDED_THREAD_WORDS] {
    let mut words = [0; BOARDED_THREAD_WORDS];
    let stack = &of.signals.stack;
    words[..8].copy_from_slice(&[
        of.fs_base,
        of.signals.mask,
        stack.address,
        u64::from(stack.flags),
        stack.bytes,
        of.clear_tid,
        of.robust_list[0],
        of.robust_list[1],
    ]);
    words[8..].copy_from_slice(&of.fault_registers.words());
    words
}
