//! Words that count the rounds of a loop and that the log does not name: each round would trap
//! until such a word is as it is to be.
//!
//! What it will be follows from the sum of its range of pages, if nothing else there changes from
//! round to round: the sum of a page can be undone word by word. Where something else does differ
//! there, the result is any number; it is believed if the word comes to it by the steps that it
//! takes.

use events::SummedRange;
use linux_abi::PAGE_BYTES;

use crate::address_space::checksum::{PAGE_WORDS, range_sum, word_for_sum};
use crate::ground::memory;
use crate::ground::owned::{Held, Owned};

/// Pages of a range that is looked at.
const PAGES_MAX: usize = 1024;
/// Rounds that fail before the first look.
const MISSES_FIRST: u64 = 8;
/// Rounds that a word is believed to go on counting: a number that means nothing is so small once
/// in 2^28 times.
const ITERATIONS_MAX: u64 = 1 << 36;

#[derive(Clone, Copy)]
enum Stage {
    Waiting,
    /// The sums of the pages are known as they were a round before.
    Pages,
    /// So is the content of the page that changes.
    Words,
}

struct Search {
    stage: Stage,
    /// Rounds that failed, and how many are to fail before the next look.
    misses: u64,
    next: u64,
    /// Number of the range's first page.
    first: u64,
    pages: u64,
    sums: [u64; PAGES_MAX],
    /// Which page changes.
    changing: usize,
    copy: [u64; PAGE_WORDS],
}

static SEARCH: Owned<Search> = Owned::new(Search {
    stage: Stage::Waiting,
    misses: 0,
    next: 0,
    first: 0,
    pages: 0,
    sums: [0; PAGES_MAX],
    changing: 0,
    copy: [0; PAGE_WORDS],
});

fn search() -> Held<Search> {
    SEARCH.hold()
}

/// A replay trap is planted.
pub fn begin() {
    let search = &mut *search();
    (search.stage, search.misses, search.next) = (Stage::Waiting, 0, MISSES_FIRST);
}

/// A round failed because this range does not have its sum: the address of a word there and what it
/// will hold when the range does, if that is found.
pub fn on_miss(range: &SummedRange) -> Option<(u64, u64)> {
    let search = &mut *search();
    let &SummedRange { first, pages, sum } = range;
    search.misses += 1;
    let is_same = (search.first, search.pages) == (first, pages);
    let stage = search.stage;
    match stage {
        Stage::Waiting if search.misses >= search.next && pages <= PAGES_MAX as u64 => {
            (search.first, search.pages) = (first, pages);
            search.take_sums();
            search.stage = Stage::Pages;
        }
        Stage::Waiting => {}
        Stage::Pages if is_same && search.finds_page() => search.stage = Stage::Words,
        Stage::Words if is_same => {
            let found = search.solve(sum);
            search.wait();
            return found;
        }
        Stage::Pages | Stage::Words => search.wait(),
    }
    None
}

impl Search {
    fn wait(&mut self) {
        self.stage = Stage::Waiting;
        self.next = self.misses + self.misses.max(MISSES_FIRST) / 4;
    }

    /// Keeps the sums of the pages: how many have changed, and the last that has.
    fn take_sums(&mut self) -> (usize, usize) {
        let mut changed = (0, 0);
        for (index, kept) in self.sums.iter_mut().take(self.pages as usize).enumerate() {
            let sum = range_sum(self.first + index as u64, 1);
            if core::mem::replace(kept, sum) != sum {
                changed = (changed.0 + 1, index);
            }
        }
        changed
    }

    /// True if one page has changed since the sums were taken: what it holds is kept.
    fn finds_page(&mut self) -> bool {
        let (changed, last) = self.take_sums();
        self.changing = last;
        changed == 1 && memory::copy(self.copy.as_mut_ptr() as u64, self.page(), PAGE_BYTES)
    }

    fn page(&self) -> u64 {
        (self.first + self.changing as u64) * PAGE_BYTES
    }

    /// The word of the page that counts, and what it is to hold for the range to have this sum.
    fn solve(&mut self, sum: u64) -> Option<(u64, u64)> {
        let (changed, last) = self.take_sums();
        if (changed, last) != (1, self.changing) {
            return None;
        }
        let mut now = [0; PAGE_WORDS];
        memory::copy(now.as_mut_ptr() as u64, self.page(), PAGE_BYTES);
        let mut differing = (0..PAGE_WORDS).filter(|&index| now[index] != self.copy[index]);
        let (index, None) = (differing.next()?, differing.next()) else { return None };
        let others = (0..self.pages as usize).filter(|&page| page != self.changing);
        let rest = others.fold(sum, |rest, page| rest.wrapping_sub(self.sums[page]));
        let wanted = word_for_sum(self.page(), &now, index, rest);
        let step = now[index].wrapping_sub(self.copy[index]) as i64;
        let way = wanted.wrapping_sub(now[index]) as i64;
        let comes_to_it =
            way.checked_rem(step) == Some(0) && (1..=ITERATIONS_MAX as i64).contains(&(way / step));
        comes_to_it.then_some((self.page() + index as u64 * 8, wanted))
    }
}
