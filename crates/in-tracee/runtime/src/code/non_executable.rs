//! Pages of files that hold bytes of which nobody knows whether they are data or an
//! instruction that reads time: the program may read them, but not execute them. Data
//! never is executed, so time need not trap for its sake. Where the program does execute
//! such a page, all of them are given back, and time traps from there on.

use lane_protocol::{CodeMap, Recipe, site_kind};
use linux_abi::{PAGE_BYTES, general as nr};

use crate::code::clocks;
use crate::ground::kernel;
use crate::state::block::space;
use crate::state::patched_code::{NON_EXECUTABLE_RANGES, NonExecutableRange};

/// Pages between two such places that are held non-executable with them: tables of constants hold
/// many, and each range costs a call.
const NEAR_BYTES: u64 = 8 * PAGE_BYTES;

impl NonExecutableRange {
    fn meets(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }

    fn protect(&self, protection: u32) -> bool {
        let bytes = self.end - self.start;
        !kernel::failed(kernel::mprotect(self.start, bytes, protection))
    }

    fn hold_non_executable(&self) -> bool {
        self.protect(self.protection & !nr::PROT_EXEC)
    }
}

/// Code of a file was mapped: holds non-executable what its recipes are not sure of.
pub fn code_mapped(map: &CodeMap, recipes: &[Recipe]) {
    if clocks::time_traps() {
        return;
    }
    let mut open: Option<NonExecutableRange> = None;
    for recipe in recipes.iter().filter(|recipe| recipe.kind == site_kind::UNSURE) {
        let page = (map.start + u64::from(recipe.site_offset) - map.file_offset) & !(PAGE_BYTES - 1);
        match &mut open {
            Some(range) if page <= range.end + NEAR_BYTES => range.end = page + PAGE_BYTES,
            _ => {
                add(open);
                let (start, end) = (page, page + PAGE_BYTES);
                open = Some(NonExecutableRange { start, end, protection: map.protection });
            }
        }
    }
    add(open);
}

fn add(range: Option<NonExecutableRange>) {
    let Some(range) = range else { return };
    let non_executable = &mut space().non_executable;
    if non_executable.count == NON_EXECUTABLE_RANGES || !range.hold_non_executable() {
        clocks::trap_time();
        return;
    }
    non_executable.ranges[non_executable.count] = range;
    non_executable.count += 1;
}

/// A page fault of the program's: true if it executed what was held non-executable, and may now.
pub fn on_fault(error: u64, address: u64) -> bool {
    const INSTRUCTION_FETCH: u64 = 16;
    error & INSTRUCTION_FETCH != 0 && give_back_if_met(address, 1)
}

/// The program changes or moves memory: true if it was held non-executable, and is not any more.
pub fn give_back_if_met(start: u64, bytes: u64) -> bool {
    let end = start.saturating_add(bytes);
    let non_executable = &space().non_executable;
    let met = non_executable.ranges[..non_executable.count].iter().any(|range| range.meets(start, end));
    if met {
        give_back();
        clocks::trap_time();
    }
    met
}

/// Code was written: what is held non-executable of it stays so.
pub fn again(start: u64, end: u64) {
    let non_executable = &space().non_executable;
    for range in non_executable.ranges[..non_executable.count].iter().filter(|range| range.meets(start, end))
    {
        range.hold_non_executable();
    }
}

/// Memory of the program went away. What is left of a range may be executed.
pub fn unmapped(start: u64, end: u64) {
    let non_executable = &mut space().non_executable;
    let mut index = 0;
    while index < non_executable.count {
        let range = non_executable.ranges[index];
        if !range.meets(start, end) {
            index += 1;
            continue;
        }
        non_executable.count -= 1;
        non_executable.ranges[index] = non_executable.ranges[non_executable.count];
        for (from, to) in [(range.start, start), (end, range.end)] {
            if from < to {
                NonExecutableRange { start: from, end: to, ..range }.protect(range.protection);
                clocks::trap_time();
            }
        }
    }
}

/// The program may execute all of its code.
pub fn give_back() {
    let non_executable = &mut space().non_executable;
    for range in &non_executable.ranges[..non_executable.count] {
        range.protect(range.protection);
    }
    non_executable.count = 0;
}

/// A new image: nothing of it is held non-executable.
pub fn reset() {
    space().non_executable.count = 0;
}
