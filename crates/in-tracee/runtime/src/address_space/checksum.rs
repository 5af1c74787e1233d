//! Checksums of the program's writable memory, on request: replay finds a
//! difference soon after it arises, rather than where it first shows.

use events::{Header, Kind};
use runtime_logic::page_sums;
pub use runtime_logic::page_sums::{PAGE_WORDS, word_for_sum};

use crate::address_space::written_pages;
use crate::code::trampolines;
use crate::ground::maps::{self, Mapping};
use crate::ground::memory;
use crate::ground::registers::Registers;
use crate::state::block::process;
use crate::state::own_descriptors::{close, open_high};
use crate::state::report;

/// Recording: logs a checksum if one is due.
pub fn record_if_due() {
    let process = &mut *process();
    if process.log.events < process.next_check {
        return;
    }
    process.next_check = process.log.events + process.check_every;
    let Some(sum) = sum() else { return };
    let events = process.log.events;
    process.log.begin(Kind::Checksum, 0, 0);
    process.log.word(sum);
    process.log.word(events);
    process.log.end();
}

/// Replay: compares memory with the checksum at hand.
pub fn verify(registers: &Registers, word: Header) {
    let sum = sum();
    let log = &mut process().log;
    if word.bytes() != 24 || sum.is_some_and(|sum| sum != log.body(0)) {
        report::diverge(registers, word, u64::MAX, &[sum.unwrap_or(0)]);
    }
    log.consume(word);
    log.events += 1;
}

/// A sum over address and content of all pages that the program can write and
/// that are not all zero: how mappings are split makes no difference. `None`: what is mapped
/// cannot be read (no descriptor is free, or no /proc here).
pub fn sum() -> Option<u64> {
    let mut total = 0u64;
    let is_complete = maps::for_each(&mut |mapping: &Mapping| {
        if !is_summed(mapping) {
            return;
        }
        let mut add = |page| total = total.wrapping_add(page_sum(page));
        if is_zero_at_first(mapping) {
            each_populated_page(mapping.start, mapping.end, &mut add);
        } else {
            // A mapping may go on behind the end of its file.
            (mapping.start..mapping.end)
                .step_by(4096)
                .filter(|&page| memory::read::<u8>(page).is_some())
                .for_each(add);
        }
    });
    is_complete.then_some(total)
}

/// True for memory that belongs to the program's state.
pub fn is_summed(mapping: &Mapping) -> bool {
    mapping.readable && mapping.writable && mapping.private && !trampolines::is_trampoline(mapping.start)
}

/// True if pages that are not populated are all zero.
fn is_zero_at_first(mapping: &Mapping) -> bool {
    mapping.readable && mapping.private && mapping.inode == 0
}

/// Hands over the pages to sum: in sparse memory, those that are not populated would be
/// gigabytes.
fn each_populated_page(start: u64, end: u64, hand_over: &mut dyn FnMut(u64)) {
    let mut each_readable = |start, end| {
        for page in (start..end).step_by(4096) {
            if memory::read::<u8>(page).is_some() {
                hand_over(page);
            }
        }
    };
    let Some(pagemap) = open_high(written_pages::PAGEMAP) else {
        return each_readable(start, end);
    };
    written_pages::scan_populated(pagemap, start, end, true, &mut each_readable);
    close(pagemap);
}

/// Pages from which on it is worth a look at what is mapped there.
const MANY_PAGES: u64 = 1024;

/// The wrapping sum of the sums of so many pages, the first by its number. A page that cannot be
/// read counts as zeros do: where a file has ended below it, it is zero in replay.
pub fn range_sum(first: u64, pages: u64) -> u64 {
    let (from, end) = (first.wrapping_mul(4096), first.saturating_add(pages).wrapping_mul(4096));
    if pages < MANY_PAGES {
        return sum_one_by_one(from, end);
    }
    let mut total = 0u64;
    let complete = maps::for_each(&mut |mapping: &Mapping| {
        let (start, stop) = (mapping.start.max(from), mapping.end.min(end));
        if start >= stop || !mapping.readable {
            return;
        }
        if is_zero_at_first(mapping) {
            each_populated_page(start, stop, &mut |page| total = total.wrapping_add(page_sum(page)));
        } else {
            total = total.wrapping_add(sum_one_by_one(start, stop));
        }
    });
    if complete { total } else { sum_one_by_one(from, end) }
}

fn sum_one_by_one(start: u64, end: u64) -> u64 {
    let is_readable = |&page: &u64| memory::read::<u8>(page).is_some();
    (start..end).step_by(4096).filter(is_readable).fold(0, |total, page| total.wrapping_add(page_sum(page)))
}

/// The sum of one page, which is readable; 0 if it is all zero.
pub fn page_sum(page: u64) -> u64 {
    // SAFETY: the page is mapped and readable; nothing else runs.
    page_sums::page_sum(page, |index| unsafe { (page as *const u64).add(index).read_volatile() })
}
