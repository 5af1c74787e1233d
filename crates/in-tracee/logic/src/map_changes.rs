//! Parts of the address space that have changed since somebody looked, in a table of fixed size.

use crate::range_set::{Range, tidied};

const PAGE_BYTES: u64 = 4096;
/// More at a time count as everything.
pub const CHANGES_MAX: usize = 32;

pub struct Changes {
    count: usize,
    /// More than fit, or it is not known where.
    everything: bool,
    all: [Range; CHANGES_MAX],
}

impl Changes {
    pub const NONE: Changes =
        Changes { count: 0, everything: false, all: [Range { start: 0, end: 0 }; CHANGES_MAX] };

    /// The parts, which do not touch, of changes that are tidy; `None`: everything may have changed.
    pub fn parts(&self) -> Option<&[Range]> {
        (!self.everything).then_some(&self.all[..self.count])
    }

    /// The pages of these addresses have changed.
    pub fn note(&mut self, start: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let range = Range { start: start & !(PAGE_BYTES - 1), end: page_end(start.saturating_add(bytes)) };
        if let Some(last) = self.all[..self.count].last_mut()
            && range.start <= last.end
            && last.start <= range.end
        {
            (last.start, last.end) = (last.start.min(range.start), last.end.max(range.end));
            return;
        }
        if self.count == CHANGES_MAX {
            self.count = tidied(&mut self.all);
        }
        match self.all.get_mut(self.count) {
            Some(place) => {
                *place = range;
                self.count += 1;
            }
            None => self.everything = true,
        }
    }

    /// Something has changed, and it is not known where.
    pub fn note_everything(&mut self) {
        self.everything = true;
    }

    /// Sorts the parts, and joins those that touch.
    pub fn tidy(&mut self) {
        self.count = tidied(&mut self.all[..self.count]);
    }
}

/// The end of the page that an address behind the last byte is in, or the last page's start at the very top.
fn page_end(end: u64) -> u64 {
    end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(!(PAGE_BYTES - 1))
}
