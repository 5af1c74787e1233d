//! Which memory was written since the newest state that is kept: the program's private
//! writable memory, and the runtime's own, under asynchronous write protection
//! (userfaultfd and PAGEMAP_SCAN, Linux 6.7).
//!
//! Invariant: what differs from that state is in `lost`, or lies in `protected` and the
//! kernel says that it was written. Memory that came or went since is lost; so is what
//! the program dropped, and code that the runtime has changed.
//!
//! Deliberately absent: memory that is shared; and a process that is under the protection
//! of preemptions.

use lane_protocol::{DATA_START, THREAD_AREA_BYTES, THREADS_START};

use crate::address_space::written_pages::Uffd;
use crate::address_space::{page_tracker, written_pages as kernel_view};
use crate::checkpoint::kept_memory::Protection;
use crate::state::block::space;
use crate::state::own_descriptors::{close, open_high};
use runtime_logic::range_set::{RANGES_MAX, Range};

/// The runtime's variables and its threads' memory.
pub fn runtime_ranges() -> [Range; 2] {
    let end = crate::state::block::runtime_end().next_multiple_of(4096);
    let areas = space().areas as u64;
    [
        Range { start: DATA_START, end },
        Range { start: THREADS_START, end: THREADS_START + areas * THREAD_AREA_BYTES },
    ]
}

/// Calls `each` with the parts of the ranges that are private memory which can be
/// written, as `lists.now` has it, or the runtime's.
pub fn for_each_writable(ranges: &[Range], each: &mut dyn FnMut(u64, u64)) {
    let list = &crate::checkpoint::area::area().lists.now;
    let writable = list.all[..list.count].iter().filter(|mapping| mapping.private && mapping.writable);
    let program = writable.map(|mapping| Range { start: mapping.start, end: mapping.end });
    for whole in program.chain(runtime_ranges()) {
        for range in ranges {
            let (start, end) = (whole.start.max(range.start), whole.end.min(range.end));
            if start < end {
                each(start, end);
            }
        }
    }
}

impl Protection {
    pub fn is_on(&self) -> bool {
        self.uffd != 0
    }

    /// True if the system was asked and refused.
    pub fn is_refused(&self) -> bool {
        self.refused != 0
    }

    pub fn is_descriptor(&self, fd: u64) -> bool {
        self.uffd != 0 && (fd as u32 as i32 == self.uffd - 1 || self.behind.descriptor() == Some(fd as u32))
    }

    pub(in crate::checkpoint) fn protected(&self) -> &[Range] {
        self.protected.all()
    }

    /// Plus one; 0: none.
    pub fn descriptor(&self) -> i32 {
        self.uffd
    }

    /// A fork is about to be made: what is there now is the state. Where all of it is to be protected,
    /// that is done behind the fork. Where there is protection already, of which nothing is
    /// unlearned, little is, and the fork need not protect again what is. False where it is refused.
    pub fn begin_again(&mut self) -> bool {
        if !self.settle() {
            self.end();
        }
        let is_first = !self.is_on();
        if is_first && !self.open() {
            return false;
        }
        self.find_lost();
        // What was lost is not looked at twice.
        let done = if is_first {
            self.register_lost(&mut |_, _| true)
        } else {
            self.protect_all() && self.protect_lost()
        };
        self.behind.expect(is_first && done);
        if !done {
            self.end();
        }
        done
    }

    /// False where it is refused.
    fn open(&mut self) -> bool {
        if self.refused != 0 || page_tracker::is_open() {
            return false;
        }
        let uffd = Uffd::open();
        self.refused = u32::from(uffd.is_none());
        self.uffd = uffd.map_or(0, |uffd| uffd.fd + 1);
        self.is_on()
    }

    /// Nothing counts as written; false if protection was lost unnoticed.
    fn protect_all(&self) -> bool {
        let Some(pagemap) = open_high(kernel_view::PAGEMAP) else { return false };
        let mut ranges = self.protected.all().iter();
        let done = ranges.all(|range| kernel_view::protect_populated(pagemap, range.start, range.end));
        close(pagemap);
        done
    }

    /// Ends all protection. Not by the descriptor's end alone: a shadow may still have it.
    pub fn end(&mut self) {
        self.end_behind();
        if self.uffd != 0 {
            let uffd = Uffd { fd: self.uffd - 1 };
            for range in self.protected.all().iter().chain(self.lost.all()) {
                uffd.unregister(range.start, range.end);
            }
            close(self.uffd - 1);
        }
        self.uffd = 0;
        self.protected.clear();
        self.lost.clear();
    }

    /// Other memory is at these addresses from now on, or none.
    pub fn lose(&mut self, start: u64, end: u64) {
        if self.uffd != 0 && start < end {
            self.lost.add(start, end);
            if self.behind.loses() {
                self.protected.remove(start, end);
            }
        }
    }

    /// Memory can be written from now on that could not be.
    pub fn begin_writing(&mut self, start: u64, end: u64) {
        if self.uffd == 0 {
            return;
        }
        let is_whole = self.protected.all().iter().any(|range| range.start <= start && range.end >= end);
        if !is_whole {
            self.lose(start, end);
        }
    }

    /// mremap(2) is about to move these addresses: the kernel refuses where only a part
    /// is protected.
    pub fn release(&mut self, start: u64, end: u64) {
        if self.uffd != 0 {
            Uffd { fd: self.uffd - 1 }.unregister(start, end);
            self.lose(start, end);
        }
    }

    /// Everything that can be written now and is not protected is lost.
    /// After `mappings::list_now`.
    pub fn find_lost(&mut self) {
        let list = &crate::checkpoint::area::area().lists.now;
        for mapping in list.all[..list.count].iter().filter(|mapping| mapping.private && mapping.writable) {
            self.find_lost_in(mapping.start, mapping.end);
        }
        for range in runtime_ranges() {
            self.find_lost_in(range.start, range.end);
        }
        self.lost.tidy();
        self.release_lost();
    }

    pub(in crate::checkpoint) fn release_lost(&mut self) {
        for index in 0..self.lost.count {
            let Range { start, end } = self.lost.ranges[index];
            self.protected.remove(start, end);
        }
    }

    fn find_lost_in(&mut self, start: u64, end: u64) {
        let mut at = start;
        for index in 0..self.protected.count {
            let range = self.protected.ranges[index];
            if range.end <= at || range.start >= end {
                continue;
            }
            if range.start > at {
                self.lost.add(at, range.start);
            }
            at = range.end;
        }
        if at < end {
            self.lost.add(at, end);
        }
    }

    pub fn lost(&self) -> &[Range] {
        self.lost.all()
    }

    /// Protects what was lost, as far as it is mapped; false if that is refused. What
    /// is lost stays listed.
    pub fn protect_lost(&mut self) -> bool {
        if self.lost.all().is_empty() {
            return true;
        }
        let Some(pagemap) = open_high(kernel_view::PAGEMAP) else { return false };
        let done = self.register_lost(&mut |start, end| kernel_view::protect_populated(pagemap, start, end));
        close(pagemap);
        done
    }

    /// Registers what was lost; false if that, or what `protect` does to it, is refused.
    fn register_lost(&mut self, protect: &mut dyn FnMut(u64, u64) -> bool) -> bool {
        let uffd = Uffd { fd: self.uffd - 1 };
        let mut all = true;
        for_each_writable(self.lost.all(), &mut |start, end| {
            let room = self.protected.count < RANGES_MAX - 1;
            if room && uffd.register(start, end) && protect(start, end) {
                self.protected.add(start, end);
            } else {
                all = false;
            }
        });
        self.protected.tidy();
        all
    }

    /// What was lost is part of a newer state.
    pub fn forget_lost(&mut self) {
        self.lost.clear();
    }

    /// Calls `each` with the protected memory of the runtime's, or of the program's, that was written
    /// since, but for most of what a file has. `each` says whether it wants more. False if it does
    /// not, or protection was lost unnoticed.
    pub fn scan(&mut self, runtimes: bool, each: &mut dyn FnMut(u64, u64) -> bool) -> bool {
        let is_runtimes =
            |range: &Range| crate::ground::memory::in_region(range.start, range.end - range.start);
        self.scan_some(&|range| is_runtimes(range) == runtimes, false, each)
    }

    /// The same of all memory, which is protected again.
    pub fn scan_again(&mut self, each: &mut dyn FnMut(u64, u64) -> bool) -> bool {
        self.scan_some(&|_| true, true, each)
    }

    fn scan_some(
        &mut self,
        is_wanted: &dyn Fn(&Range) -> bool,
        again: bool,
        each: &mut dyn FnMut(u64, u64) -> bool,
    ) -> bool {
        if !self.settle() {
            return false;
        }
        let Some(pagemap) = open_high(kernel_view::PAGEMAP) else { return false };
        let mut ranges = self.protected.all().iter().filter(|range| is_wanted(range));
        let known = ranges.all(|range| kernel_view::scan_written_private(pagemap, range, again, &mut *each));
        close(pagemap);
        known
    }
}
