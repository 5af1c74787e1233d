//! What of a range of memory comes under write protection (see `page_tracker`).

use crate::detect::Range;

/// Longest range that is protected whole, in bytes. Each look goes through the kernel's marks
/// for all of it, populated or not: six nanoseconds a page.
pub const WHOLE_BYTES_MAX: u64 = 256 << 20;
/// What is protected around a populated page of a longer one.
const PART_BYTES: u64 = 16 << 20;
/// Such parts, at most, that come under protection at a look.
const PARTS: usize = 128;

/// What of a range comes under protection: all of it, or, of a sparse one (a sanitizer's
/// shadow), where the kernel's marks for what is not populated would fill the memory, the
/// surroundings of what is populated. The rest counts as written once it is.
pub struct Parts {
    whole: Range,
    sparse: bool,
    pub count: usize,
    pub list: [Range; PARTS],
}

impl Parts {
    pub fn of(whole: Range, sparse: bool) -> Parts {
        Parts { whole, sparse, count: usize::from(!sparse), list: [whole; PARTS] }
    }

    /// Something is populated there; called in the order of addresses.
    pub fn add(&mut self, start: u64, end: u64) {
        if !self.sparse {
            return;
        }
        let start = (start & !(PART_BYTES - 1)).max(self.whole.start);
        let end = end.next_multiple_of(PART_BYTES).min(self.whole.end);
        if self.count != 0 && start <= self.list[self.count - 1].end {
            self.list[self.count - 1].end = end;
        } else if self.count < PARTS {
            self.list[self.count] = Range { start, end };
            self.count += 1;
        }
    }
}
