//! Calls on ranges of memory that reach over the runtime's region: sanitizers reserve all
//! that is not to be used, with mappings without access, and what lies there they do not
//! see (see `visible_maps`). Such a call is made for what is below and above the region.

use lane_protocol::{REGION_BYTES, REGION_START};
use linux_abi::{errno, general as nr};

use crate::address_space::{mapped_files, page_tracker, shared_ranges};
use crate::code::{sites, trampolines};
use crate::ground::memory::{self, in_region};
use crate::ground::{kernel, notices};
use crate::state::report;

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

/// The arguments for the kernel of a mapping that the program asks for: a wish for a place in the region
/// is none.
pub fn without_wish(args: &[u64; 6]) -> [u64; 6] {
    let mut real = *args;
    if in_region(args[0], args[1].max(1)) {
        real[0] = 0;
    }
    real
}

/// Recording: a mapping has come to the region, where the kernel had nothing better: another place,
/// below it.
#[cold]
pub fn elsewhere(args: &[u64; 6], found: i64) -> i64 {
    let bytes = memory::pages(args[1]);
    kernel::munmap(found as u64, bytes);
    let Some(mut below) = REGION_START.checked_sub(bytes) else { return -i64::from(errno::ENOMEM) };
    while below > bytes {
        let mut real = *args;
        (real[0], real[3]) = (below & !4095, args[3] | u64::from(nr::MAP_FIXED_NOREPLACE));
        let result = kernel::call(nr::__NR_mmap, real);
        if result != -i64::from(errno::EEXIST) {
            return result;
        }
        below -= bytes;
    }
    -i64::from(errno::ENOMEM)
}

/// What a program gets that wants just these addresses, of the region's.
#[cold]
pub fn refuse_place(flags: u64) -> i64 {
    if flags & u64::from(nr::MAP_FIXED_NOREPLACE) != 0 {
        return -i64::from(errno::EEXIST);
    }
    static WAS_TOLD: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);
    if !WAS_TOLD.swap(true, core::sync::atomic::Ordering::Relaxed) {
        report::tell(
            "the program wants memory at addresses from 0x6a0000000000 to 0x6affffffffff, where its \
             recorder is: it gets none there (ENOMEM)",
        );
    }
    -i64::from(errno::ENOMEM)
}

/// Makes such a mapping, in both modes: its address, or an error.
pub fn reserve(args: &[u64; 6]) -> i64 {
    let [address, bytes, protection, flags, ..] = *args;
    let result = around(address, bytes, 0, &mut |start, bytes| {
        notices::room_is_needed(start, bytes);
        page_tracker::forget(start, memory::pages(bytes));
        mapped_files::forget(start, memory::pages(bytes));
        sites::unmapped(start, memory::pages(bytes));
        shared_ranges::forget_shared(start, memory::pages(bytes));
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

/// Unmaps a range: what is around the region and the trampolines.
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
    around(address, bytes, -i64::from(errno::EINVAL), &mut trampolines::unmap_around)
}

/// The parts of a range around the region, as start and length; a length of 0: none.
fn below_and_above(address: u64, bytes: u64) -> [(u64, u64); 2] {
    const REGION_END: u64 = REGION_START + REGION_BYTES;
    let end = address.saturating_add(bytes);
    let above = end.saturating_sub(REGION_END);
    [(address, REGION_START.saturating_sub(address)), (end - above, above)]
}
