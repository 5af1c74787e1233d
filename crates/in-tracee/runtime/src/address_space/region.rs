//! Calls on ranges of memory that reach over the runtime's region: sanitizers reserve all
//! that is not to be used, with mappings without access, and what lies there they do not
//! see (see `visible_maps`). Such a call is made for what is below and above the region.

use lane_protocol::{REGION_BYTES, REGION_START};
use linux_abi::{errno, general as nr};

use crate::address_space::{mapped_files, page_tracker};
use crate::code::{islands, sites};
use crate::debugger::displaced;
use crate::ground::kernel;
use crate::log::in_region;
use crate::syscalls::memory_calls;

/// True for a mapping of the program's that only keeps others out.
pub fn is_reserved(args: &[u64; 6]) -> bool {
    let [address, bytes, protection, flags, ..] = *args;
    let needed = u64::from(nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED);
    protection == 0
        && flags & needed == needed
        && flags & u64::from(nr::MAP_FIXED_NOREPLACE) == 0
        && address & 4095 == 0
        && below_and_above(address, bytes).iter().any(|range| range.1 != 0)
}

/// Makes such a mapping, in both modes: its address, or an error.
pub fn reserve(args: &[u64; 6]) -> i64 {
    let [address, bytes, protection, flags, ..] = *args;
    let result = around(address, bytes, 0, &mut |start, bytes| {
        displaced::make_room(start, bytes);
        page_tracker::forget(start, memory_calls::pages(bytes));
        mapped_files::forget(start, memory_calls::pages(bytes));
        sites::unmapped(start, memory_calls::pages(bytes));
        memory_calls::forget_shared(start, memory_calls::pages(bytes));
        let mapped = kernel::mmap(start, bytes, protection as u32, flags as u32, -1, 0);
        if kernel::failed(mapped) { mapped } else { 0 }
    });
    if result == 0 { address as i64 } else { result }
}

/// Makes a call for what of a range lies around the region: its first error, or what it
/// gives last. `inside` is the answer if all of the range is the region's.
pub fn around(address: u64, bytes: u64, inside: i64, call: &mut dyn FnMut(u64, u64) -> i64) -> i64 {
    if !in_region(address, bytes) || wraps(address, bytes) {
        return call(address, bytes);
    }
    let mut result = inside;
    for (start, bytes) in below_and_above(address, bytes).into_iter().filter(|range| range.1 != 0) {
        result = call(start, bytes);
        if kernel::failed(result) {
            break;
        }
    }
    result
}

/// True for a range that reaches over the end of all addresses: the kernel refuses it.
pub fn wraps(address: u64, bytes: u64) -> bool {
    address.checked_add(bytes).and_then(|end| end.checked_add(4095)).is_none()
}

/// Unmaps a range: what is around the region and the islands.
pub fn unmap(address: u64, bytes: u64) -> i64 {
    const TOP: u64 = (1 << 47) - 4096;
    let end = address.saturating_add(bytes);
    if address & 4095 != 0 || bytes == 0 || wraps(address, bytes) {
        return -i64::from(errno::EINVAL);
    }
    if end > TOP {
        // With five levels of page tables there is more; otherwise nothing is to be unmapped.
        let start = address.max(TOP);
        let result = kernel::munmap(start, end - start);
        if result != 0 {
            return result;
        }
    }
    around(address, bytes, -i64::from(errno::EINVAL), &mut islands::unmap_around)
}

/// The parts of a range around the region, as start and length; a length of 0: none.
fn below_and_above(address: u64, bytes: u64) -> [(u64, u64); 2] {
    const REGION_END: u64 = REGION_START + REGION_BYTES;
    let end = address.saturating_add(bytes);
    let above = end.saturating_sub(REGION_END);
    [(address, REGION_START.saturating_sub(address)), (end - above, above)]
}
