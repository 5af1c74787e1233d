//! What of a range of memory comes under write protection (see `page_tracker`).

use runtime_logic::range_set::Range;

/// Longest range that is protected whole, in bytes. Each look goes through the kernel's marks
/// for all of it, populated or not: six nanoseconds a page.
pub const WHOLE_BYTES_MAX: u64 = 4 << 20;
/// What is protected around a populated page of a longer one: a part of this many, within these
/// bounds in bytes. Less than a page of the page table is not looked at any faster, and each part
/// divides a mapping.
const PARTS_OF_RANGE: u64 = 64;
const PART_BYTES_MIN: u64 = 2 << 20;
const PART_BYTES_MAX: u64 = 16 << 20;
/// Such parts, at most, that come under protection at a look.
const PARTS: usize = 128;

/// What of a range comes under protection: all of it, or, of a longer one (stacks of threads, a
/// sanitizer's shadow), where the kernel's marks for what is not populated would take time and
/// memory, the surroundings of what is populated. The rest counts as written once it is.
pub struct Parts {
    whole: Range,
    sparse: bool,
    part_bytes: u64,
    pub count: usize,
    pub list: [Range; PARTS],
}

impl Parts {
    pub fn of(whole: Range, sparse: bool) -> Parts {
        let part_bytes = ((whole.end - whole.start) / PARTS_OF_RANGE).next_power_of_two();
        let part_bytes = part_bytes.clamp(PART_BYTES_MIN, PART_BYTES_MAX);
        Parts { whole, sparse, part_bytes, count: usize::from(!sparse), list: [whole; PARTS] }
    }

    /// Something is populated there; called in the order of addresses.
    pub fn add(&mut self, start: u64, end: u64) {
        if !self.sparse {
            return;
        }
        let start = (start & !(self.part_bytes - 1)).max(self.whole.start);
        let end = end.next_multiple_of(self.part_bytes).min(self.whole.end);
        if self.count != 0 && start <= self.list[self.count - 1].end {
            self.list[self.count - 1].end = end;
        } else if self.count < PARTS {
            self.list[self.count] = Range { start, end };
            self.count += 1;
        }
    }
}
