//! Saving what was written since the state before.

use core::sync::atomic::Ordering;

use lane_protocol::{INCREMENT_BYTES, INCREMENTS_START, idle_base};

use super::{SAVED_LEAST, SAVED_PART, SHARED_MAX};
use crate::address_space::{page_tracker, written_pages};
use crate::checkpoint::area::area;
use crate::checkpoint::group::undertaking;
use crate::checkpoint::kept_memory::{CLEARED_MAX, Increments, KnownIncrement, SAVED_MAX, Saved};
use crate::checkpoint::resources::mappings;
use crate::checkpoint::take::protection::for_each_writable;
use crate::checkpoint::take::saved_pages::{PAGE_BYTES, of};
use crate::checkpoint::take::slots;
use crate::checkpoint::take::store::map_unforked;
use crate::ground::{kernel, memory};
use crate::state::block::{lane, space};
use crate::state::own_descriptors::{close, open_high};
use runtime_logic::range_set::Range;

impl Increments {
    /// Pages that may be saved for the next checkpoint.
    fn room(&self) -> u64 {
        let saved = self.chain().map(|index| self.known[index].saved as u64).sum::<u64>();
        let all = self.base_pages.max(4 * SAVED_LEAST).min(SAVED_MAX as u64);
        (self.base_pages / SAVED_PART).max(SAVED_LEAST).min(all.saturating_sub(saved))
    }

    /// The increments of the present, the newest first.
    pub(super) fn chain(&self) -> impl Iterator<Item = usize> + '_ {
        let mut at = self.newest;
        core::iter::from_fn(move || {
            let index = usize::from(at).checked_sub(1)?;
            at = self.known[index].before;
            Some(index)
        })
    }

    fn reserve(&mut self) -> Option<usize> {
        let index = self.known.iter().position(|one| !one.is_used)?;
        let place = INCREMENTS_START + index as u64 * INCREMENT_BYTES;
        let known = &mut self.known[index];
        if !known.is_mapped && !map_unforked(place, INCREMENT_BYTES) {
            return None;
        }
        *known = KnownIncrement {
            is_used: true,
            is_mapped: true,
            before: self.newest,
            base: self.base - 1,
            cleared: 0,
            saved: 0,
        };
        Some(index)
    }

    /// The base is there, and may be used.
    fn base_is_there(&mut self) -> bool {
        if self.base == 0
            || !self.protection.settle()
            || !self.protection.is_on()
            || page_tracker::is_open()
            || !little_is_shared()
        {
            return false;
        }
        lane().idle_base.swap(idle_base::NONE, Ordering::SeqCst) != idle_base::GONE
            && slots::is_there(self.bases[usize::from(self.base) - 1].pid)
    }

    /// Saves what was written; `None` if a fork is the better way, or the only one.
    pub(super) fn save(&mut self) -> Option<usize> {
        if !self.base_is_there() {
            return None;
        }
        let index = self.reserve()?;
        let increment = &mut *of(index);
        if mappings::list_now_with(&mut increment.names) {
            increment.list.copy(&area().lists.now);
            if self.save_pages(index) {
                return Some(index);
            }
        }
        self.free(index);
        None
    }

    fn save_pages(&mut self, index: usize) -> bool {
        let room = self.room() as usize;
        self.protection.find_lost();
        if !lost_fits(self.protection.lost(), room as u64) {
            return false;
        }
        // What is lost may also be written while it is saved, by the runtime.
        self.protection.protect_lost();
        if !self.list_lost(index, room) || !self.list_shared(index, room) {
            return false;
        }
        let increment = &mut *of(index);
        let mut count = self.known[index].saved;
        let mut fits = true;
        let mut each = |start: u64, end: u64| {
            for page in (start..end).step_by(PAGE_BYTES as usize) {
                fits &= count < room;
                if fits {
                    increment.saved[count] = Saved { page, copy: 0 };
                    count += 1;
                }
            }
            fits
        };
        let known = self.protection.scan_again(&mut each);
        self.known[index].saved = count;
        if !known {
            return false;
        }
        let mut saved = self.saved(index);
        saved.sort_unstable_by_key(|one| one.page);
        self.known[index].saved = without_doubles(&mut saved);
        let mut saved = self.saved(index);
        if !self.store.reserve(saved.len() as u64) {
            return false;
        }
        for one in saved.iter_mut() {
            let Some(copy) = self.store.take() else { return false };
            one.copy = copy;
            if !memory::copy(copy, one.page, PAGE_BYTES) && !read_closed(copy, one.page) {
                return false;
            }
        }
        self.protection.forget_lost();
        true
    }

    /// Lists what is there of the memory that is lost, and what of it is clear.
    fn list_lost(&mut self, index: usize, room: usize) -> bool {
        if self.protection.lost().is_empty() {
            return true;
        }
        let Some(pagemap) = open_high(written_pages::PAGEMAP) else { return false };
        let earlier: usize = self.chain().map(|one| self.known[one].cleared).sum();
        let increment = &mut *of(index);
        let (mut count, mut cleared, mut fits) = (0, 0, true);
        for_each_private(self.protection.lost(), &mut |start, end| {
            let before = count;
            written_pages::scan_populated(pagemap, start, end, false, &mut |start, end| {
                for page in (start..end).step_by(PAGE_BYTES as usize) {
                    fits &= count < room;
                    if fits {
                        increment.saved[count] = Saved { page, copy: 0 };
                        count += 1;
                    }
                }
            });
            if (count - before) as u64 != (end - start) / PAGE_BYTES {
                fits &= earlier + cleared < CLEARED_MAX;
                if fits {
                    increment.cleared[cleared] = Range { start, end };
                    cleared += 1;
                }
            }
        });
        close(pagemap);
        increment.cleared[..cleared].sort_unstable_by_key(|range| range.start);
        self.known[index].saved = count;
        self.known[index].cleared = cleared;
        fits
    }

    /// Lists all of the little that is shared: who writes to it is not known.
    fn list_shared(&mut self, index: usize, room: usize) -> bool {
        if undertaking::keeps_shared() {
            return true;
        }
        let space = &mut *space();
        let mut count = self.known[index].saved;
        for range in &space.shared[..space.shared_count] {
            for page in (range.start..range.end).step_by(PAGE_BYTES as usize) {
                // Behind the end of a file there is nothing.
                if memory::read::<u8>(page).is_none() {
                    continue;
                }
                if count == room {
                    return false;
                }
                of(index).saved[count] = Saved { page, copy: 0 };
                count += 1;
            }
        }
        self.known[index].saved = count;
        true
    }
}

/// Takes doubles out of sorted pages; how many are left.
fn without_doubles(saved: &mut [Saved]) -> usize {
    let mut kept = 0;
    for place in 0..saved.len() {
        if kept == 0 || saved[kept - 1].page != saved[place].page {
            saved[kept] = saved[place];
            kept += 1;
        }
    }
    kept
}

/// True if there are at most so many pages in the memory that is lost.
fn lost_fits(lost: &[Range], room: u64) -> bool {
    if lost.is_empty() {
        return true;
    }
    let Some(pagemap) = open_high(written_pages::PAGEMAP) else { return false };
    let mut count = Some(0);
    for_each_private(lost, &mut |start, end| {
        let left = count.map_or(0, |count| (room + 1).saturating_sub(count));
        if left > 0 {
            let more = written_pages::count_populated(pagemap, start, end, left);
            count = count.zip(more).map(|(count, more)| count + more);
        }
    });
    close(pagemap);
    count.is_some_and(|count| count <= room)
}

/// True if little enough is shared that all of it can be saved each time.
pub(super) fn little_is_shared() -> bool {
    if undertaking::keeps_shared() {
        return true;
    }
    let space = &mut *space();
    let shared = &space.shared[..space.shared_count];
    shared.iter().map(|range| (range.end - range.start) / PAGE_BYTES).sum::<u64>() <= SHARED_MAX
}

/// Calls `each` with the parts of the ranges that are private memory.
fn for_each_private(ranges: &[Range], each: &mut dyn FnMut(u64, u64)) {
    let list = &area().lists.now;
    let closed = list.all[..list.count].iter().filter(|mapping| mapping.private && !mapping.writable);
    for mapping in closed {
        for range in ranges {
            let (start, end) = (mapping.start.max(range.start), mapping.end.min(range.end));
            if start < end {
                each(start, end);
            }
        }
    }
    for_each_writable(ranges, each);
}

/// Reads a page that may not be read: /proc/self/mem asks nobody.
fn read_closed(to: u64, page: u64) -> bool {
    let Some(fd) = open_high(c"/proc/thread-self/mem") else { return false };
    let arguments = [fd as u64, to, PAGE_BYTES, page, 0, 0];
    let read = kernel::call(linux_abi::general::__NR_pread64, arguments);
    close(fd);
    read as u64 == PAGE_BYTES
}

/// Pages of the program's that no file has.
pub(super) fn own_pages() -> u64 {
    let Some(fd) = open_high(c"/proc/thread-self/statm") else { return 0 };
    let mut text = [0u8; 128];
    let arguments = [fd as u64, text.as_mut_ptr() as u64, text.len() as u64, 0, 0, 0];
    let read = kernel::call(linux_abi::general::__NR_read, arguments).max(0) as usize;
    close(fd);
    let mut numbers = text[..read].split(|byte| !byte.is_ascii_digit()).map(|digits| {
        digits.iter().fold(0u64, |sum, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
    });
    let (_, resident, shared) = (numbers.next(), numbers.next(), numbers.next());
    resident.unwrap_or(0).saturating_sub(shared.unwrap_or(0))
}
