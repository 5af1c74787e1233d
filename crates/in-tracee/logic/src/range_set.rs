//! Ranges of addresses in a table of fixed size.

const PAGE_BYTES: u64 = 4096;
/// Most ranges of a set; beyond, gaps between ranges are filled, small ones first.
pub const RANGES_MAX: usize = 4096;

/// A stretch of writable memory, of one mapping or several.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Range {
    pub start: u64,
    pub end: u64,
}

/// Ranges of whole pages: sorted, and none touches another, after `tidy`.
#[repr(C)]
pub struct RangeSet {
    pub count: usize,
    pub ranges: [Range; RANGES_MAX],
}

/// Sorts ranges, and joins what touches or overlaps; how many there are then.
pub fn tidied(ranges: &mut [Range]) -> usize {
    ranges.sort_unstable_by_key(|range| range.start);
    joined(ranges, 0)
}

/// Joins sorted ranges with gaps of at most so many bytes; how many there are then.
fn joined(ranges: &mut [Range], gap_bytes: u64) -> usize {
    let mut kept = 0;
    for index in 0..ranges.len() {
        let range = ranges[index];
        if kept > 0 && range.start <= ranges[kept - 1].end.saturating_add(gap_bytes) {
            ranges[kept - 1].end = ranges[kept - 1].end.max(range.end);
        } else {
            ranges[kept] = range;
            kept += 1;
        }
    }
    kept
}

impl RangeSet {
    pub const EMPTY: RangeSet = RangeSet { count: 0, ranges: [Range { start: 0, end: 0 }; RANGES_MAX] };

    pub fn clear(&mut self) {
        self.count = 0;
    }

    pub fn all(&self) -> &[Range] {
        &self.ranges[..self.count]
    }

    /// True if the address is in one of the ranges, which are in their order; the lowest bit of
    /// an end does not count.
    pub fn holds(&self, address: u64) -> bool {
        let behind = self.all().partition_point(|range| range.start <= address);
        behind != 0 && address < self.ranges[behind - 1].end & !1
    }

    pub fn for_each_page(&self, each: &mut dyn FnMut(u64)) {
        for range in self.all() {
            (range.start..range.end).step_by(PAGE_BYTES as usize).for_each(&mut *each);
        }
    }

    pub fn pages(&self) -> u64 {
        self.all().iter().map(|range| (range.end - range.start) / PAGE_BYTES).sum()
    }

    pub fn add(&mut self, start: u64, end: u64) {
        if let Some(last) = self.ranges[..self.count].last_mut()
            && last.end == start
        {
            last.end = end;
            return;
        }
        if self.count == RANGES_MAX {
            self.tidy();
            // The nearest ones first: what lies between is not mapped, or counts too.
            self.fill_gaps(RANGES_MAX / 2, u64::MAX / PAGE_BYTES);
        }
        self.ranges[self.count] = Range { start, end };
        self.count += 1;
    }

    /// Sorts, and joins what touches.
    pub fn tidy(&mut self) {
        self.count = tidied(&mut self.ranges[..self.count]);
    }

    /// Joins sorted ranges with gaps of at most so many bytes.
    fn join(&mut self, gap_bytes: u64) {
        self.count = joined(&mut self.ranges[..self.count], gap_bytes);
    }

    /// Fills gaps of at most so many pages, small ones first, until few ranges are left.
    pub fn fill_gaps(&mut self, wanted: usize, pages_max: u64) {
        let mut gap_pages = 1;
        while self.count > wanted && gap_pages <= pages_max {
            self.join(gap_pages * PAGE_BYTES);
            gap_pages *= 2;
        }
    }

    /// Calls `each` with the first page and the number of pages of what lies in ranges of the other
    /// set, too, in pieces of at most so many pages; the lowest bit of an end of the other set does
    /// not count. Both are in their order. `each` says whether it wants more; false where it does not.
    pub fn each_part_in(
        &self,
        other: &RangeSet,
        pages_max: u64,
        each: &mut dyn FnMut(u64, u64) -> bool,
    ) -> bool {
        let mut next = 0;
        for &Range { start, end } in other.all() {
            let end = end & !1;
            next += self.all()[next..].iter().take_while(|range| range.end <= start).count();
            for own in self.all()[next..].iter().take_while(|range| range.start < end) {
                let (mut first, last) = (own.start.max(start) / PAGE_BYTES, own.end.min(end) / PAGE_BYTES);
                while first < last {
                    let pages = (last - first).min(pages_max);
                    if !each(first, pages) {
                        return false;
                    }
                    first += pages;
                }
            }
        }
        true
    }

    /// Takes these addresses out of sorted ranges. A full set has no room for the second of two parts:
    /// it forgets what lies behind.
    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let mut index = 0;
        while index < self.count {
            let range = self.ranges[index];
            if range.end <= start || range.start >= end {
                index += 1;
            } else if range.start < start && range.end > end {
                self.ranges[index].end = start;
                if self.count < RANGES_MAX {
                    self.ranges.copy_within(index + 1..self.count, index + 2);
                    self.ranges[index + 1] = Range { start: end, end: range.end };
                    self.count += 1;
                }
                return;
            } else if range.start < start {
                self.ranges[index].end = start;
                index += 1;
            } else if range.end > end {
                self.ranges[index].start = end;
                index += 1;
            } else {
                self.ranges.copy_within(index + 1..self.count, index);
                self.count -= 1;
            }
        }
    }
}
