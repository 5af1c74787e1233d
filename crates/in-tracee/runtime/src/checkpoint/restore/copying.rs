//! Copying from a shadow what differs, by the page tables of both.

use lane_protocol::{CANDIDATES_BYTES, CANDIDATES_START, Checkpoint};
use linux_abi::general as nr;

use crate::address_space::written_pages;
use crate::checkpoint::area::area;
use crate::checkpoint::kept_memory::{COMPARED_BYTES, FEW_MAX};
use crate::checkpoint::restore::fetching;
use crate::checkpoint::restore::snapshot_view::Then;
use crate::checkpoint::take::increments::tracking;
use crate::checkpoint::take::saved_pages::Found;
use crate::checkpoint::take::{slots, store};
use crate::ground::owned::Held;
use crate::ground::{kernel, memory};
use crate::log::borrowed;
use crate::state::own_descriptors::open_high;
use crate::state::report;
use runtime_logic::range_set::{Range, tidied};

const PAGE_BYTES: u64 = 4096;
/// Pages that are looked at at a time.
const CHUNK_PAGES: usize = 512;
/// Pieces that one call copies.
const COPIES_MAX: usize = 512;

/// Which pages are copied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Those that may differ.
    Differing,
    /// Those that no file has: the memory was mapped a moment ago.
    Own,
    /// All: their file is not there any more, and the shadow reads those from it that nobody has
    /// touched yet.
    Whole,
    /// All that the shadow has, after a comparison.
    Compare,
}

/// Whose memory is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Program,
    Runtime,
}

/// The page tables of now and of then, as the kernel shows them.
pub struct Pagemaps {
    /// What is gone back to.
    pub from: Then,
    now: i32,
    then: i32,
    /// Nobody else shares pages with us, so that a page that both have is the same, unless one came
    /// there from another place since.
    alone: bool,
    candidates: Candidates,
}

const PRESENT: u64 = 3 << 62;
const OF_FILE: u64 = 1 << 61;
const EXCLUSIVE: u64 = 1 << 56;

impl Pagemaps {
    /// Of this process and of a checkpoint.
    pub fn open(slot: &Checkpoint, part: Part) -> Pagemaps {
        let from = Then::of(slot);
        let mut then = fetching::path_of(from.base, b"/pagemap").open();
        if kernel::failed(then) {
            then = borrowed::open(lane_protocol::borrowed::PAGEMAP, [from.base as u64, 0]);
        }
        let now = open_high(c"/proc/thread-self/pagemap").unwrap_or(-1);
        // Without both, pages have to be compared.
        let alone = slots::is_alone_since(slot) && now >= 0 && then >= 0;
        let candidates = Candidates::find(slot, part);
        area().moved.tidy();
        Pagemaps { from, now, then: then as i32, alone, candidates }
    }

    /// Closes both.
    pub fn close(&self) {
        for fd in [self.now, self.then] {
            if fd >= 0 {
                kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
            }
        }
        self.candidates.end();
    }

    fn read(fd: i32, start: u64, pages: usize, to: &mut [u64; CHUNK_PAGES]) -> bool {
        let bytes = pages as u64 * 8;
        let arguments = [fd as u64, to.as_mut_ptr() as u64, bytes, start / PAGE_BYTES * 8, 0, 0];
        kernel::call(nr::__NR_pread64, arguments) as u64 == bytes
    }

    /// Calls `each` with the entries of then and now of each page that may differ.
    fn for_each_differing(&self, start: u64, end: u64, each: &mut dyn FnMut(u64, u64, u64)) {
        match self.candidates.all() {
            Some(ranges) => {
                let first = ranges.partition_point(|range| range.end <= start);
                let last = ranges.partition_point(|range| range.start < end);
                let mut rest = &ranges[first..last.max(first)];
                while let Some(next) = rest.first() {
                    let (near, others) = rest.split_at(near_ones(rest));
                    rest = others;
                    match near {
                        [_] => self.for_each(next.start.max(start), next.end.min(end), each),
                        _ => self.for_each_of(near, start, end, each),
                    }
                }
            }
            None => self.for_each(start, end, each),
        }
    }

    /// Calls `each` for the pages of ranges that lie near each other.
    fn for_each_of(&self, near: &[Range], start: u64, end: u64, each: &mut dyn FnMut(u64, u64, u64)) {
        let (mut now, mut then) = ([0u64; CHUNK_PAGES], [0u64; CHUNK_PAGES]);
        let first = near[0].start;
        let pages = ((near[near.len() - 1].end - first) / PAGE_BYTES) as usize;
        self.read_both(first, pages, &mut now, &mut then);
        for range in near {
            for page in (range.start.max(start)..range.end.min(end)).step_by(PAGE_BYTES as usize) {
                let index = ((page - first) / PAGE_BYTES) as usize;
                self.pass(page, then[index], now[index], each);
            }
        }
    }

    fn read_both(&self, at: u64, pages: usize, now: &mut [u64; CHUNK_PAGES], then: &mut [u64; CHUNK_PAGES]) {
        if !Self::read(self.now, at, pages, now) || !Self::read(self.then, at, pages, then) {
            now[..pages].fill(PRESENT);
            then[..pages].fill(PRESENT);
        }
    }

    /// Calls `each` if either has the page, which is said.
    fn pass(&self, page: u64, in_base: u64, now: u64, each: &mut dyn FnMut(u64, u64, u64)) -> bool {
        let then = match self.from.find(page) {
            Found::InBase => in_base,
            Found::Saved(_) => PRESENT,
            Found::Cleared => 0,
        };
        let is_there = (now | then) & PRESENT != 0;
        if is_there {
            each(page, then, now);
        }
        is_there
    }

    /// Calls `each` with the entries of then and now of each page that either has.
    /// Without page maps, all pages count as there.
    fn for_each(&self, start: u64, end: u64, each: &mut dyn FnMut(u64, u64, u64)) {
        let (mut now, mut then) = ([0u64; CHUNK_PAGES], [0u64; CHUNK_PAGES]);
        let mut at = start;
        while at < end {
            let pages = (((end - at) / PAGE_BYTES) as usize).min(CHUNK_PAGES);
            self.read_both(at, pages, &mut now, &mut then);
            let mut any = false;
            for index in 0..pages {
                any |= self.pass(at + index as u64 * PAGE_BYTES, then[index], now[index], each);
            }
            at += pages as u64 * PAGE_BYTES;
            if !any && at < end {
                // Reserved memory is long and empty.
                let next = |fd| written_pages::next_populated(fd, at, end).unwrap_or(at);
                at = next(self.now).min(next(self.then)).min(self.from.next_saved(at, end));
            }
        }
    }

    /// What has to be done with the page at this address.
    fn judge(&self, page: u64, then: u64, now: u64) -> Judgement {
        match (is_own(then), is_own(now)) {
            (false, false) => Judgement::Same,
            (false, true) => Judgement::Drop,
            (true, false) => Judgement::Copy,
            _ if self.candidates.all().is_some() => Judgement::Copy,
            _ if self.alone && (then | now) & EXCLUSIVE == 0 => match area().moved.holds(page) {
                true => Judgement::Compare,
                false => Judgement::Same,
            },
            _ if self.alone => Judgement::Copy,
            _ => Judgement::Compare,
        }
    }

    /// What has to be done where pages of the range may differ.
    pub fn differ(&self, start: u64, end: u64) -> Differing {
        let mut differing = Differing::Nowhere;
        self.for_each_differing(start, end, &mut |page, then, now| {
            differing = match (self.judge(page, then, now), differing) {
                (Judgement::Same, before) => before,
                (Judgement::Drop, Differing::Nowhere) => Differing::Dropped,
                (Judgement::Drop, before) => before,
                (_, Differing::Written(first, _)) => Differing::Written(first, page + PAGE_BYTES),
                _ => Differing::Written(page, page + PAGE_BYTES),
            }
        });
        differing
    }
}

/// Where pages of a range differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Differing {
    Nowhere,
    /// Only such as are dropped.
    Dropped,
    /// Between these addresses some are written.
    Written(u64, u64),
}

/// How many of these ranges, from the first on, are looked at with one question. There is a first.
fn near_ones(ranges: &[Range]) -> usize {
    const NEAR_BYTES: u64 = 64 * PAGE_BYTES;
    let reach = ranges[0].start + CHUNK_PAGES as u64 * PAGE_BYTES;
    let is_near = |pair: &&[Range]| pair[1].start - pair[0].end <= NEAR_BYTES && pair[1].end <= reach;
    1 + ranges.windows(2).take_while(is_near).count()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Judgement {
    Same,
    /// It was empty, or as its file has it.
    Drop,
    Copy,
    Compare,
}

/// True for an entry of a page that no file has.
fn is_own(entry: u64) -> bool {
    entry & PRESENT != 0 && entry & OF_FILE == 0
}

/// The ranges that may differ, if that is known.
struct Candidates {
    /// `usize::MAX`: it is not known.
    count: usize,
    /// They lie in memory of their own.
    many: bool,
}

const CANDIDATES_MAX: usize = CANDIDATES_BYTES as usize / size_of::<Range>();

impl Candidates {
    const UNKNOWN: Candidates = Candidates { count: usize::MAX, many: false };

    fn find(slot: &Checkpoint, part: Part) -> Candidates {
        let mut found = Candidates { count: 0, many: false };
        let mut fits = true;
        let known = area().increments.changed_since(slot, part == Part::Runtime, &mut |start, end| {
            fits = fits && found.add(Range { start, end });
        });
        if !known || !fits {
            found.end();
            return Candidates::UNKNOWN;
        }
        found.count = tidied(&mut found.places()[..found.count]);
        found
    }

    /// False if there is no room.
    fn add(&mut self, range: Range) -> bool {
        let mut places = self.places();
        if let Some(last) = self.count.checked_sub(1).map(|last| &mut places[last])
            && last.end == range.start
        {
            last.end = range.end;
            return true;
        }
        if self.count == FEW_MAX && !self.many {
            if !store::map_unforked(CANDIDATES_START, CANDIDATES_BYTES) {
                return false;
            }
            self.many = true;
            self.places()[..FEW_MAX].copy_from_slice(&area().candidates);
        }
        let (count, mut places) = (self.count, self.places());
        let Some(place) = places.get_mut(count) else { return false };
        *place = range;
        self.count += 1;
        true
    }

    fn places(&self) -> Held<[Range]> {
        if !self.many {
            return area().part(|area| &mut area.candidates[..]);
        }
        // SAFETY: mapped, as there are many; the agent uses it alone.
        unsafe { Held::of(CANDIDATES_START as *mut [Range; CANDIDATES_MAX]) }.part(|all| &mut all[..])
    }

    fn all(&self) -> Option<Held<[Range]>> {
        (self.count != usize::MAX).then(|| self.places().part(|places| &mut places[..self.count]))
    }

    fn end(&self) {
        if self.many {
            kernel::munmap(CANDIDATES_START, CANDIDATES_BYTES);
        }
    }
}

/// Pieces of memory to be copied from the shadow.
struct Copies {
    from: Then,
    pieces: [[u64; 2]; COPIES_MAX],
    count: usize,
    /// A page became memory without a file.
    replaced: bool,
}

impl Copies {
    fn add(&mut self, page: u64) {
        if let Found::Saved(copy) = self.from.find(page) {
            return self.put(page, copy);
        }
        if let Some(last) = self.pieces[..self.count].last_mut()
            && last[0] + last[1] == page
        {
            last[1] += PAGE_BYTES;
            return;
        }
        if self.count == COPIES_MAX {
            self.flush();
        }
        self.pieces[self.count] = [page, PAGE_BYTES];
        self.count += 1;
    }

    fn flush(&mut self) {
        let total: u64 = self.pieces[..self.count].iter().map(|piece| piece[1]).sum();
        let pieces = self.pieces.as_ptr() as u64;
        let count = self.count as u64;
        self.count = 0;
        if total == 0 {
            return;
        }
        let arguments = [self.from.base as u64, pieces, count, pieces, count, 0];
        if kernel::call(nr::__NR_process_vm_readv, arguments) as u64 == total {
            return;
        }
        // A part of it may not be read there, or not be written here.
        for index in 0..count as usize {
            let [start, bytes] = self.pieces[index];
            for page in (start..start + bytes).step_by(PAGE_BYTES as usize) {
                let buffer = area().compared.as_ptr() as u64;
                if !fetching::fetch(self.from.base, buffer, page, PAGE_BYTES) {
                    report::die("the memory of a checkpoint could not be read");
                }
                self.put(page, buffer);
            }
        }
    }

    /// Writes a page. What is behind its file's end by now has its content without the file.
    fn put(&mut self, page: u64, content: u64) {
        if memory::copy(page, content, PAGE_BYTES) {
            return;
        }
        let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED | nr::MAP_NORESERVE;
        let mapped = kernel::mmap(page, PAGE_BYTES, nr::PROT_READ | nr::PROT_WRITE, flags, -1, 0);
        if kernel::failed(mapped) || !memory::copy(page, content, PAGE_BYTES) {
            report::die("a page could not be written as it was");
        }
        tracking::lose_memory(page, PAGE_BYTES);
        self.replaced = true;
    }
}

/// Pages in a row that are compared with the shadow's.
struct Compared {
    from: Then,
    start: u64,
    bytes: u64,
}

impl Compared {
    fn add(&mut self, page: u64) {
        if self.bytes != 0 && (self.start + self.bytes != page || self.bytes == COMPARED_BYTES as u64) {
            self.flush();
        }
        if self.bytes == 0 {
            self.start = page;
        }
        self.bytes += PAGE_BYTES;
    }

    fn flush(&mut self) {
        let buffer = area().compared.as_ptr() as u64;
        if !self.from.fetch(buffer, self.start, self.bytes) {
            report::die("the memory of a checkpoint could not be read");
        }
        for done in (0..self.bytes).step_by(PAGE_BYTES as usize) {
            if !is_same_page(self.start + done, buffer + done) {
                memory::copy(self.start + done, buffer + done, PAGE_BYTES);
            }
        }
        self.bytes = 0;
    }
}

/// Compares two pages, of which the first may not be there.
fn is_same_page(page: u64, other: u64) -> bool {
    if memory::read::<u8>(page).is_none() {
        return false;
    }
    // SAFETY: the first can be read, as was just tried; the second is ours.
    let (one, other) = unsafe {
        let words = PAGE_BYTES as usize / 8;
        let words_at = |at: u64| core::slice::from_raw_parts(at as *const u64, words);
        (words_at(page), words_at(other))
    };
    one == other
}

/// Pages in a row that are given back to the kernel.
struct Drops {
    start: u64,
    bytes: u64,
}

impl Drops {
    fn add(&mut self, page: u64) {
        if self.start + self.bytes != page {
            self.flush();
            self.start = page;
        }
        self.bytes += PAGE_BYTES;
    }

    fn flush(&mut self) {
        const MADV_DONTNEED: u64 = 4;
        if self.bytes != 0 {
            kernel::call(nr::__NR_madvise, [self.start, self.bytes, MADV_DONTNEED, 0, 0, 0]);
            tracking::lose_memory(self.start, self.bytes);
        }
        self.bytes = 0;
    }
}

/// Copies what can be read there. Behind its end a file has nothing.
fn copy_whole(start: u64, end: u64, from: Then) {
    let buffer = area().compared.as_ptr() as u64;
    for page in (start..end).step_by(PAGE_BYTES as usize) {
        if from.fetch(buffer, page, PAGE_BYTES) && !memory::copy(page, buffer, PAGE_BYTES) {
            report::die("a page could not be written as it was");
        }
    }
}

/// Makes a range as it was then, but for what may not be written now. True if the protection of a
/// part is to be set anew.
pub fn copy(start: u64, end: u64, pagemaps: &Pagemaps, how: How) -> bool {
    let from = pagemaps.from;
    let mut copies = Copies { from, pieces: [[0; 2]; COPIES_MAX], count: 0, replaced: false };
    let mut compared = Compared { from, start: 0, bytes: 0 };
    let mut drops = Drops { start: 0, bytes: 0 };
    let mut each = |page: u64, then: u64, now: u64| {
        let judgement = match how {
            How::Differing => pagemaps.judge(page, then, now),
            How::Own if is_own(then) => Judgement::Copy,
            How::Compare if then & PRESENT != 0 => Judgement::Compare,
            How::Own | How::Whole | How::Compare => Judgement::Same,
        };
        match judgement {
            Judgement::Same => {}
            Judgement::Copy => copies.add(page),
            Judgement::Drop => drops.add(page),
            Judgement::Compare => compared.add(page),
        }
    };
    match how {
        How::Differing => pagemaps.for_each_differing(start, end, &mut each),
        How::Own | How::Compare => pagemaps.for_each(start, end, &mut each),
        How::Whole => copy_whole(start, end, from),
    }
    drops.flush();
    compared.flush();
    copies.flush();
    copies.replaced
}
