//! Memory that children of the program do not get, by madvise(2): shadows do.

use linux_abi::general as nr;

use crate::ground::kernel;
use crate::state::block::space;
use crate::state::outside_memory::{RANGES_MAX, Unforked, UnforkedRanges};

/// madvise(2) succeeded.
pub fn note(start: u64, bytes: u64, advice: u32) {
    let asks = matches!(advice, nr::MADV_DONTFORK | nr::MADV_WIPEONFORK);
    let takes_back = matches!(advice, nr::MADV_DOFORK | nr::MADV_KEEPONFORK);
    if !crate::state::live::is_on() || !(asks || takes_back) {
        return;
    }
    let ranges = &mut space().unforked;
    let end = start + bytes.next_multiple_of(4096);
    ranges.remove(start, end, &|one| opposite(one.advice) == opposite(advice));
    if asks {
        ranges.add(Unforked { start, end, advice });
    }
}

/// Other memory is there from now on, of which nothing was asked.
pub fn forget(start: u64, bytes: u64) {
    let ranges = &mut space().unforked;
    if ranges.count != 0 {
        ranges.remove(start, start.saturating_add(bytes), &|_| true);
    }
}

/// What was asked of the memory at this place.
pub type Advices = [Option<u32>; 2];

/// mremap(2) is about to move what begins here.
pub fn of_memory_at(start: u64) -> Advices {
    let ranges = &space().unforked;
    let covers = |one: &Unforked| one.start <= start && start < one.end;
    [nr::MADV_DONTFORK, nr::MADV_WIPEONFORK].map(|advice| {
        let asked = ranges.all[..ranges.count].iter().any(|one| one.advice == advice && covers(one));
        asked.then_some(advice)
    })
}

/// It has moved: what was asked of it holds where it is now, and nothing where it was.
pub fn moved(old: u64, old_bytes: u64, new: u64, new_bytes: u64, advices: Advices) {
    forget(old, old_bytes);
    forget(new, new_bytes);
    advices.into_iter().flatten().for_each(|advice| note(new, new_bytes, advice));
}

/// True if a shadow can have all memory.
pub fn is_known() -> bool {
    !space().unforked.overflown
}

impl UnforkedRanges {
    fn add(&mut self, one: Unforked) {
        if one.start >= one.end {
            return;
        }
        let touches = |other: &Unforked| other.advice == one.advice && other.end == one.start;
        if let Some(other) = self.all[..self.count].iter_mut().find(|other| touches(other)) {
            other.end = one.end;
        } else if self.count < RANGES_MAX {
            self.all[self.count] = one;
            self.count += 1;
        } else {
            self.overflown = true;
        }
    }

    /// Takes these addresses out of those ranges that are concerned.
    fn remove(&mut self, start: u64, end: u64, concerns: &dyn Fn(&Unforked) -> bool) {
        let mut index = 0;
        while index < self.count {
            let one = self.all[index];
            if !concerns(&one) || one.end <= start || one.start >= end {
                index += 1;
                continue;
            }
            self.count -= 1;
            self.all[index] = self.all[self.count];
            // These lie outside: they are passed over when they are come to.
            self.add(Unforked { end: start, ..one });
            self.add(Unforked { start: end, ..one });
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
