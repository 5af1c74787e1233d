//! Pages of files that hold bytes of which nobody knows whether they are data or an
//! instruction that reads time: the program may read them, but not execute them. Data
//! never is executed, so time need not trap for its sake. Where the program does execute
//! such a page, all of them are given back, and time traps from there on.

use lane_protocol::{CodeMap, Recipe, site_kind};
use linux_abi::{PAGE_BYTES, general as nr};

use crate::code::clocks;
use crate::ground::kernel;
use crate::state::block::space;
use crate::state::patched_code::{WITHHELD_RANGES, WithheldRange};

/// Pages between two such places that are withheld with them: tables of constants hold
/// many, and each range costs a call.
const NEAR_BYTES: u64 = 8 * PAGE_BYTES;

impl WithheldRange {
    fn meets(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }

    fn protect(&self, protection: u32) -> bool {
        let bytes = self.end - self.start;
        !kernel::failed(kernel::mprotect(self.start, bytes, protection))
    }

    fn withhold(&self) -> bool {
        self.protect(self.protection & !nr::PROT_EXEC)
    }
}

/// Code of a file was mapped: withholds what its recipes are not sure of.
pub fn code_mapped(map: &CodeMap, recipes: &[Recipe]) {
    if clocks::time_traps() {
        return;
    }
    let mut open: Option<WithheldRange> = None;
    for recipe in recipes.iter().filter(|recipe| recipe.kind == site_kind::UNSURE) {
        let page = (map.start + u64::from(recipe.site_offset) - map.file_offset) & !(PAGE_BYTES - 1);
        match &mut open {
            Some(range) if page <= range.end + NEAR_BYTES => range.end = page + PAGE_BYTES,
            _ => {
                add(open);
                let (start, end) = (page, page + PAGE_BYTES);
                open = Some(WithheldRange { start, end, protection: map.protection });
            }
        }
    }
    add(open);
}

fn add(range: Option<WithheldRange>) {
    let Some(range) = range else { return };
    let withheld = &mut space().withheld;
    if withheld.count == WITHHELD_RANGES || !range.withhold() {
        clocks::trap_time();
        return;
    }
    withheld.ranges[withheld.count] = range;
    withheld.count += 1;
}

/// A page fault of the program's: true if it executed what was withheld, and may now.
pub fn on_fault(error: u64, address: u64) -> bool {
    const INSTRUCTION_FETCH: u64 = 16;
    error & INSTRUCTION_FETCH != 0 && give_back_if_met(address, 1)
}

/// The program changes or moves memory: true if it was withheld, and is not any more.
pub fn give_back_if_met(start: u64, bytes: u64) -> bool {
    let end = start.saturating_add(bytes);
    let withheld = &space().withheld;
    let met = withheld.ranges[..withheld.count].iter().any(|range| range.meets(start, end));
    if met {
        give_back();
        clocks::trap_time();
    }
    met
}

/// Code was written: what is withheld of it stays so.
pub fn again(start: u64, end: u64) {
    let withheld = &space().withheld;
    for range in withheld.ranges[..withheld.count].iter().filter(|range| range.meets(start, end)) {
        range.withhold();
    }
}

/// Memory of the program went away. What is left of a range may be executed.
pub fn unmapped(start: u64, end: u64) {
    let withheld = &mut space().withheld;
    let mut index = 0;
    while index < withheld.count {
        let range = withheld.ranges[index];
        if !range.meets(start, end) {
            index += 1;
            continue;
        }
        withheld.count -= 1;
        withheld.ranges[index] = withheld.ranges[withheld.count];
        for (from, to) in [(range.start, start), (end, range.end)] {
            if from < to {
                WithheldRange { start: from, end: to, ..range }.protect(range.protection);
                clocks::trap_time();
            }
        }
    }
}

/// The program may execute all of its code.
pub fn give_back() {
    let withheld = &mut space().withheld;
    for range in &withheld.ranges[..withheld.count] {
        range.protect(range.protection);
    }
    withheld.count = 0;
}

/// A new image: nothing of it is withheld.
pub fn reset() {
    space().withheld.count = 0;
}
