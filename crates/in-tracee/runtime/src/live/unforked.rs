//! Memory that children of the program do not get, by madvise(2): shadows do.

use linux_abi::general as nr;

use crate::block::space;
use crate::kernel;

/// Ranges that are followed.
pub const RANGES_MAX: usize = lane_protocol::ADVISED_MAX;

/// A range, and what the program asked for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Unforked {
    start: u64,
    end: u64,
    advice: u32,
}

/// What the program asked for is in force; goes back with memory.
#[repr(C)]
pub struct Ranges {
    count: usize,
    all: [Unforked; RANGES_MAX],
}

/// madvise(2) succeeded.
pub fn note(start: u64, bytes: u64, advice: u32) {
    let asks = matches!(advice, nr::MADV_DONTFORK | nr::MADV_WIPEONFORK);
    let takes_back = matches!(advice, nr::MADV_DOFORK | nr::MADV_KEEPONFORK);
    if !super::is_on() || !(asks || takes_back) {
        return;
    }
    let ranges = &mut space().unforked;
    let end = start + bytes.next_multiple_of(4096);
    let mut index = 0;
    while index < ranges.count {
        let one = ranges.all[index];
        let same = opposite(one.advice) == opposite(advice) || opposite(one.advice) == advice;
        if !same || one.end <= start || one.start >= end {
            index += 1;
            continue;
        }
        ranges.count -= 1;
        ranges.all[index] = ranges.all[ranges.count];
        ranges.add(Unforked { end: start, ..one });
        ranges.add(Unforked { start: end, ..one });
    }
    if asks {
        ranges.add(Unforked { start, end, advice });
    }
}

impl Ranges {
    fn add(&mut self, one: Unforked) {
        if one.start < one.end && self.count < RANGES_MAX {
            self.all[self.count] = one;
            self.count += 1;
        }
    }
}

fn opposite(advice: u32) -> u32 {
    match advice {
        nr::MADV_DONTFORK | nr::MADV_DOFORK => nr::MADV_DOFORK,
        _ => nr::MADV_KEEPONFORK,
    }
}

/// Lets the next fork have all memory, or not any more.
pub fn permit(permit: bool) {
    let ranges = &space().unforked;
    for one in &ranges.all[..ranges.count] {
        let advice = if permit { opposite(one.advice) } else { one.advice };
        kernel::call(nr::__NR_madvise, [one.start, one.end - one.start, u64::from(advice), 0, 0, 0]);
    }
}
