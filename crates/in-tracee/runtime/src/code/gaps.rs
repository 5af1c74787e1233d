//! Ranges of addresses that nothing is mapped in, within reach of the program's code: what
//! its jumps lead to has its place there. Engines of generated code reserve hundreds of
//! megabytes around it, several of them side by side.

use core::ops::Range;

use crate::ground::maps;
use crate::ground::memory::in_region;

/// A relative jump reaches this far, less the length of code around it.
pub const REACH_BYTES: u64 = 0x7fff_0000;
const LOWEST: u64 = 0x10_0000;
/// Above are the stack and what the kernel maps; below is not looked at either.
const HIGHEST: u64 = 0x7fff_f000_0000;

/// What `chosen` finds first, in ranges of `bytes` and more within reach, from low addresses
/// to high ones; `None` without a list of mappings, too.
pub fn find(address: u64, bytes: u64, chosen: &mut dyn FnMut(&Range<u64>) -> Option<u64>) -> Option<u64> {
    let low = address.saturating_sub(REACH_BYTES).max(LOWEST);
    let high = address.saturating_add(REACH_BYTES).min(HIGHEST);
    let mut behind = low;
    let mut found = None;
    let mut look = |gap: Range<u64>| {
        let is_room =
            gap.end.saturating_sub(gap.start) >= bytes && !in_region(gap.start, gap.end - gap.start);
        if found.is_none() && is_room {
            found = chosen(&gap);
        }
    };
    let complete = maps::for_each(&mut |mapping| {
        look(behind..mapping.start.min(high));
        behind = behind.max(mapping.end);
    });
    if complete {
        look(behind..high);
    }
    found
}
