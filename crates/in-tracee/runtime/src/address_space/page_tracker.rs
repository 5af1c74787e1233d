//! The pages that the program may have written since the preemption before: what a
//! preemption has to compare.
//!
//! Writable memory is kept under asynchronous write protection from the first
//! preemption of an image on, and looking at what was written protects it again
//! (userfaultfd with UFFD_FEATURE_WP_ASYNC, PAGEMAP_SCAN with PM_SCAN_WP_MATCHING,
//! Linux 6.7). Memory that is not protected yet (all of it at first, new mappings
//! later) counts as written as far as it is populated. Where userfaultfd is refused,
//! as in containers, all populated memory counts each time.
//!
//! Invariant: a page that was written since the last event before a preemption is in that
//! preemption's set, or was not writable any more. Registers and the content of the set
//! then identify the point: what follows an event is determined, and what lies
//! outside of the set is as the event left it. A page more in the set does no harm.
//! PM_SCAN_CHECK_WPASYNC makes a protection that was lost unnoticed an error, upon
//! which everything counts as written.
//!
//! Deliberately absent: replay, where the event says which pages to compare; and
//! shared memory that the kernel takes out of the page table and writes to its file
//! while memory is short: such pages leave the set.

mod held_descriptor;

use events::SummedRange;

use crate::address_space::protected_parts::{Parts, WHOLE_BYTES_MAX};
use crate::address_space::written_pages::Uffd;
use crate::address_space::{checksum, unforked, written_pages as kernel_view};
use crate::code::trampolines;
use crate::ground::maps::{self, Mapping};
use crate::ground::owned::{Held, Owned};
use crate::ground::{kernel, map_changes, notices, stack_limit};
use crate::state::block::{self, process};
use crate::state::own_descriptors::{close, open_high};
pub use held_descriptor::{is_descriptor, is_open, yield_descriptor};
use runtime_logic::range_set::{RANGES_MAX, Range, RangeSet};

const PAGE_BYTES: u64 = 4096;
/// Ranges that a preemption logs, if filling gaps between them costs little.
const LOGGED_RANGES: usize = 256;
/// A gap of more pages costs more than a range.
const GAP_PAGES: u64 = 8;
/// Most ranges that a preemption logs: half an event.
const LOGGED_RANGES_MAX: usize = 4096;
/// Pages of a logged range: replay looks first at the one that differed last.
const LOGGED_RANGE_PAGES: u64 = 16;
/// Nanoseconds that protecting a page costs, with the fault that its next write is.
const PROTECTED_PAGE_NS: u64 = 1300;
/// Nanoseconds that summing a page costs.
const SUMMED_PAGE_NS: u64 = 350;

#[repr(C)]
struct Tracker {
    /// Plus one; 0: none.
    uffd: i32,
    /// The page map that is kept open with it, plus one; 0: none.
    pagemap: i32,
    /// userfaultfd or PAGEMAP_SCAN was refused.
    refused: bool,
    /// More than `writable` can hold is mapped.
    overflown: bool,
    /// `writable` is as it is now, if the runtime has mapped nothing since, and the stack's
    /// limit is the same.
    listed: bool,
    listed_with: (u32, u64),
    /// Mappings besides the stack grow without telling.
    grows: bool,
    /// Counts looks; 0: all sets are empty.
    looks: u32,
    /// Pages that the last look found written although they were protected.
    faulted_pages: u64,
    /// Pages that were populated when they came under protection.
    populated_pages: u64,
    /// The program's writable memory; the lowest bit of an end: it is shared.
    writable: RangeSet,
    /// What is protected.
    protected: RangeSet,
    /// What was written since the last preemption.
    written: RangeSet,
    logged_count: usize,
    logged: [[u64; 2]; LOGGED_RANGES_MAX],
}

static TRACKER: Owned<Tracker> = Owned::new(Tracker {
    uffd: 0,
    pagemap: 0,
    refused: false,
    overflown: false,
    listed: false,
    listed_with: (0, 0),
    grows: false,
    looks: 0,
    faulted_pages: 0,
    populated_pages: 0,
    writable: RangeSet::EMPTY,
    protected: RangeSet::EMPTY,
    written: RangeSet::EMPTY,
    logged_count: 0,
    logged: [[0; 2]; LOGGED_RANGES_MAX],
});

fn tracker() -> Held<Tracker> {
    TRACKER.hold()
}

/// What a preemption is identified by, and what it cost.
pub struct Summed {
    /// The ranges as the log holds them, or `None`: too many, all writable memory was
    /// summed.
    pub ranges: Option<&'static [[u64; 2]]>,
    pub sum: u64,
    /// Nanoseconds that the program spends on protection because of this preemption.
    pub protection_ns: u64,
}

/// Looks at what was written since the last look, which also protects it again, and
/// calls `each` with what was written to protected memory.
pub fn look(each: &mut dyn FnMut(u64, u64)) {
    let tracker = &mut *tracker();
    tracker.looks = tracker.looks.wrapping_add(1).max(1);
    if !tracker.is_listed() {
        tracker.list_writable();
    }
    if !shares_its_memory() {
        tracker.begin();
    }
    if tracker.uffd == 0 || shares_its_memory() {
        tracker.protected.clear();
        tracker.written.clear();
    }
    let Some(pagemap) = tracker.open_pagemap() else {
        tracker.all_is_written();
        return;
    };
    if !tracker.look_at_all(pagemap, each) {
        tracker.begin_again();
        // Nothing is protected now: this look cannot fail.
        tracker.look_at_all(pagemap, each);
    }
    if tracker.pagemap == 0 || shares_its_memory() {
        close(pagemap);
    }
}

/// True if looks tell which memory was written.
pub fn protects() -> bool {
    tracker().protected.count != 0
}

/// Pages that were populated when they came under protection; 0: nothing is protected.
pub fn protected_pages() -> u64 {
    if protects() { tracker().populated_pages } else { 0 }
}

/// Sums what was written since the last preemption. After `look`.
pub fn sum() -> Summed {
    let tracker = &mut *tracker();
    let mut complete = !tracker.overflown && tracker.choose_logged();
    let mut sum = 0u64;
    if complete {
        for words in &mut tracker.logged[..tracker.logged_count] {
            let mut range = SummedRange::from_words(*words);
            range.sum = checksum::range_sum(range.first, range.pages);
            sum = sum.wrapping_add(range.sum);
            *words = range.to_words();
        }
    } else if let Some(all) = checksum::sum() {
        sum = all;
    } else {
        (tracker.logged_count, complete) = (0, true);
    }
    tracker.written.clear();
    let protection_ns = core::mem::take(&mut tracker.faulted_pages) * PROTECTED_PAGE_NS;
    if protection_ns > tracker.populated_pages * SUMMED_PAGE_NS {
        // To sum all costs less than to find what changed. The next look protects again.
        tracker.begin_again();
    }
    // SAFETY: what is summed is logged before the next look.
    let tracker = unsafe { self::tracker().shared() };
    Summed { ranges: complete.then(|| &tracker.logged[..tracker.logged_count]), sum, protection_ns }
}

/// The pages that count as written so far.
pub fn each_written_page(each: &mut dyn FnMut(u64)) {
    tracker().written.tidy();
    tracker().written.for_each_page(each);
}

/// True if the page of this address counts as written so far.
pub fn is_written(address: u64) -> bool {
    tracker().written.all().iter().any(|range| (range.start..range.end).contains(&address))
}

/// True if the page of this address was writable when mappings were looked at last.
pub fn is_writable(address: u64) -> bool {
    tracker().writable.holds(address)
}

// --- what else happens to memory ---

/// Other memory is at these addresses from now on.
#[inline]
pub fn forget(start: u64, bytes: u64) {
    notices::memory_lost(start, bytes);
    unforked::forget(start, bytes);
    map_changes::note(start, bytes);
    let tracker = &mut *tracker();
    tracker.listed = false;
    if tracker.looks != 0 && tracker.protected.count != 0 {
        tracker.protected.remove(start, start.saturating_add(bytes));
    }
}

/// Mappings changed, or their protection.
#[inline]
pub fn mappings_changed() {
    tracker().listed = false;
}

/// A mapping was made that grows downwards without telling.
pub fn note_growing() {
    map_changes::note_growing();
    tracker().grows = true;
}

/// mremap(2) is about to move these addresses: the kernel refuses where only a part
/// is protected, and older kernels (before 6.13) move the protection's marks along.
#[inline]
pub fn release(start: u64, bytes: u64) {
    notices::memory_released(start, bytes);
    let tracker = &mut *tracker();
    tracker.listed = false;
    if tracker.protected.count != 0 {
        let end = start.saturating_add(bytes);
        tracker.unprotect(start, end);
        tracker.protected.remove(start, end);
    }
}

/// Ends all protection, for somebody else's; it begins again without a baseline.
pub fn end() {
    let tracker = &mut *tracker();
    tracker.begin_again();
    tracker.close();
}

/// Processes of different memory are about to have the same descriptors: a number may become
/// another's at any time, so memory stays unprotected from now on.
pub fn give_up() {
    end();
    tracker().refused = true;
}

/// A child of fork: its memory is not protected, the descriptor is its parent's.
pub fn begin_child() {
    notices::tracked_child_begins();
    tracker().forget_sets();
    tracker().close();
}

/// Live: memory is as it was then; what the kernel protects, and what is open, was
/// given back before.
pub fn forget_all() {
    (tracker().uffd, tracker().pagemap) = (0, 0);
    tracker().forget_sets();
}

/// How often somebody looked at what was written.
pub fn looks() -> u32 {
    tracker().looks
}

/// A child of vfork has a descriptor table of its own, and the memory of its parent.
fn shares_its_memory() -> bool {
    process().slot != 0
}

impl Tracker {
    fn begin(&mut self) {
        // Who is here already could not take the protection back.
        if self.uffd == 0 && !self.refused && !block::are_several_here() {
            // Memory is under one protection at a time.
            notices::memory_watched_otherwise();
            match Uffd::open() {
                Some(uffd) => self.uffd = uffd.fd + 1,
                None => self.refused = true,
            }
        }
    }

    fn forget_sets(&mut self) {
        self.listed = false;
        if self.looks != 0 {
            (self.protected.count, self.written.count) = (0, 0);
        }
    }

    fn close(&mut self) {
        for own in [&mut self.uffd, &mut self.pagemap] {
            if *own != 0 {
                close(*own - 1);
                *own = 0;
            }
        }
    }

    /// The page map, which stays open as long as memory is protected.
    fn open_pagemap(&mut self) -> Option<i32> {
        if shares_its_memory() || self.pagemap == 0 {
            let opened = open_high(kernel_view::PAGEMAP)?;
            if self.uffd == 0 || shares_its_memory() {
                return Some(opened);
            }
            self.pagemap = opened + 1;
        }
        Some(self.pagemap - 1)
    }

    fn is_listed(&self) -> bool {
        let now = (kernel::mappings_made(), stack_limit::stack_limit());
        self.listed && !self.grows && self.listed_with == now
    }

    /// Takes all protection back: everything counts as written.
    fn begin_again(&mut self) {
        self.unprotect(0, u64::MAX);
        self.protected.clear();
    }

    fn unprotect(&self, start: u64, end: u64) {
        if self.uffd == 0 {
            return;
        }
        let uffd = Uffd { fd: self.uffd - 1 };
        for range in self.protected.all() {
            let (start, end) = (range.start.max(start), range.end.min(end));
            if start < end {
                uffd.unregister(start, end);
            }
        }
    }

    fn list_writable(&mut self) {
        let stack_limit = stack_limit::stack_limit();
        let list = &mut self.writable;
        list.count = 0;
        self.overflown = false;
        let mut before = 0;
        // Protection divides mappings: what is alike and adjacent is one range.
        let mut joins = false;
        let complete = maps::for_each(&mut |mapping: &Mapping| {
            let mut start = mapping.start;
            if mapping.is_stack {
                // It grows downwards without telling.
                let lowest = mapping.end.saturating_sub(stack_limit.min(1 << 40));
                start = start.min(lowest).max(before);
            }
            before = mapping.end;
            let is_ours = trampolines::is_trampoline(mapping.start) || notices::is_stub_page(mapping.start);
            if !mapping.readable || !mapping.writable || is_ours {
                return;
            }
            let is_anonymous = mapping.private && mapping.inode == 0 && !mapping.is_stack;
            let joined = core::mem::replace(&mut joins, is_anonymous) && is_anonymous;
            if joined && list.ranges[list.count - 1].end == start {
                list.ranges[list.count - 1].end = mapping.end;
                return;
            }
            self.overflown |= list.count == RANGES_MAX;
            if !self.overflown {
                list.ranges[list.count] = Range { start, end: mapping.end | u64::from(!mapping.private) };
                list.count += 1;
            }
        });
        if !complete {
            // Where /proc cannot be read, registers and words have to do.
            (self.writable.count, self.overflown) = (0, false);
        }
        (self.listed, self.listed_with) = (complete, (kernel::mappings_made(), stack_limit));
    }

    /// Without a page map: all that is mapped. Where the stack may grow to, nothing is.
    fn all_is_written(&mut self) {
        maps::for_each(&mut |mapping: &Mapping| {
            if mapping.readable && mapping.writable {
                self.written.add(mapping.start, mapping.end);
            }
        });
    }

    /// False if memory that should be protected is not.
    fn look_at_all(&mut self, pagemap: i32, each: &mut dyn FnMut(u64, u64)) -> bool {
        self.written.tidy();
        let protected_before = self.protected.count;
        // Sorted, as `writable` is: one goes along with the other.
        let mut next = 0;
        for index in 0..self.writable.count {
            let Range { start, end } = self.writable.ranges[index];
            let (shared, end) = (end & 1 != 0, end & !1);
            let sparse = end - start > WHOLE_BYTES_MAX;
            let mut at = start;
            while at < end {
                while next < protected_before && self.protected.ranges[next].end <= at {
                    next += 1;
                }
                let ranges = &self.protected.ranges[..protected_before];
                let protected = ranges.get(next).copied().unwrap_or(Range { start: u64::MAX, end: u64::MAX });
                let from = at;
                if protected.start <= at {
                    at = protected.end.min(end);
                    if !self.look_at_protected(pagemap, from, at, each) {
                        return false;
                    }
                } else {
                    at = protected.start.min(end);
                    self.look_at_unprotected(pagemap, Range { start: from, end: at }, shared, sparse);
                }
            }
        }
        self.protected.tidy();
        true
    }

    fn look_at_protected(
        &mut self,
        pagemap: i32,
        start: u64,
        end: u64,
        each: &mut dyn FnMut(u64, u64),
    ) -> bool {
        let (written, faulted) = (&mut self.written, &mut self.faulted_pages);
        kernel_view::scan_written(pagemap, start, end, &mut |start, end| {
            written.add(start, end);
            *faulted += (end - start) / PAGE_BYTES;
            each(start, end);
        })
    }

    /// All that is populated counts as written; then it is protected.
    fn look_at_unprotected(&mut self, pagemap: i32, range: Range, shared: bool, sparse: bool) {
        let (written, populated) = (&mut self.written, &mut self.populated_pages);
        if self.protected.count == 0 {
            *populated = 0;
        }
        let mut parts = Parts::of(range, sparse);
        kernel_view::scan_populated(pagemap, range.start, range.end, shared, &mut |start, end| {
            written.add(start, end);
            *populated += (end - start) / PAGE_BYTES;
            parts.add(start, end);
        });
        if self.uffd == 0 || shares_its_memory() {
            return;
        }
        let uffd = Uffd { fd: self.uffd - 1 };
        for &Range { start, end } in &parts.list[..parts.count] {
            let room = self.protected.count < RANGES_MAX;
            if room && uffd.register(start, end) && kernel_view::protect(pagemap, start, end) {
                self.protected.ranges[self.protected.count] = Range { start, end };
                self.protected.count += 1;
            }
        }
    }

    /// Cuts what was written into the ranges of the log; false if they are too many.
    fn choose_logged(&mut self) -> bool {
        self.written.tidy();
        self.written.fill_gaps(LOGGED_RANGES, GAP_PAGES);
        let pages_each = (self.written.pages() / LOGGED_RANGES as u64).max(LOGGED_RANGE_PAGES);
        self.logged_count = 0;
        let (logged, count) = (&mut self.logged, &mut self.logged_count);
        self.written.each_part_in(
            &self.writable,
            pages_each.min(SummedRange::PAGES_MAX),
            &mut |first, pages| {
                let has_room = *count < LOGGED_RANGES_MAX;
                if has_room {
                    logged[*count] = SummedRange { first, pages, sum: 0 }.to_words();
                    *count += 1;
                }
                has_room
            },
        )
    }
}
