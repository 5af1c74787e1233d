//! The program's writable memory, as a list in the runtime's region.

use linux_abi::general as nr;

use crate::code::trampolines;
use crate::ground::kernel;
use crate::ground::maps::{self, Mapping};
use runtime_logic::range_set::Range;

/// The program's writable memory as sorted ranges that do not touch.
pub struct Ranges {
    pub count: usize,
}

pub const RANGES_BYTES: u64 = (RANGES_MAX * size_of::<Range>()) as u64;

/// How memory is mapped that is needed for a call: shared, so that a limit of the
/// program's data (RLIMIT_DATA) does not count it.
pub const SCRATCH_FLAGS: u32 = nr::MAP_SHARED | nr::MAP_ANONYMOUS | nr::MAP_FIXED | nr::MAP_NORESERVE;

/// As many as the kernel permits mappings (vm.max_map_count is 65530).
pub const RANGES_MAX: usize = 65536;

impl Ranges {
    /// Lists the program's writable memory; `None` if that is not possible.
    pub fn list() -> Option<Ranges> {
        if kernel::failed(kernel::mmap(RANGES_START, RANGES_BYTES, 3, SCRATCH_FLAGS, -1, 0)) {
            return None;
        }
        let mut ranges = Ranges { count: 0 };
        let mut fits = true;
        let listed = for_each_range(&mut |start, end| {
            fits &= ranges.count < RANGES_MAX;
            if fits {
                // SAFETY: below the maximum, inside of the mapping made above.
                unsafe { (RANGES_START as *mut Range).add(ranges.count).write(Range { start, end }) };
                ranges.count += 1;
            }
        });
        if !listed || !fits {
            ranges.forget();
            return None;
        }
        Some(ranges)
    }

    /// The ranges, in the order of their addresses.
    pub fn all(&self) -> &'static [Range] {
        // SAFETY: `list` wrote as many, and nobody borrows them while they change.
        unsafe { core::slice::from_raw_parts(RANGES_START as *const Range, self.count) }
    }

    /// Lists once more; false if something else than the lower end of a range,
    /// where a stack grows, has changed; `None` if that is not possible any more.
    pub fn list_again(&self) -> Option<bool> {
        // SAFETY: as in `all`.
        let all = unsafe { core::slice::from_raw_parts_mut(RANGES_START as *mut Range, self.count) };
        let mut index = 0;
        let mut same = true;
        let listed = for_each_range(&mut |start, end| {
            match all.get_mut(index) {
                Some(range) if range.end == end && start <= range.start => range.start = start,
                _ => same = false,
            }
            index += 1;
        });
        listed.then_some(same && index == self.count)
    }

    pub fn forget(&self) {
        kernel::munmap(RANGES_START, RANGES_BYTES);
    }
}

/// Ranges of memory: in the runtime's region, behind the lanes, mapped while needed.
pub const RANGES_START: u64 = lane_protocol::SCRATCH_START;

/// Calls `each` with the start and end of each stretch of writable memory.
pub fn for_each_range(each: &mut dyn FnMut(u64, u64)) -> bool {
    let mut open: Option<(u64, u64)> = None;
    let listed = maps::for_each(&mut |mapping: &Mapping| {
        if !mapping.writable || trampolines::is_trampoline(mapping.start) {
            return;
        }
        open = match open {
            Some((start, end)) if end == mapping.start => Some((start, mapping.end)),
            Some((start, end)) => {
                each(start, end);
                Some((mapping.start, mapping.end))
            }
            None => Some((mapping.start, mapping.end)),
        };
    });
    if let Some((start, end)) = open {
        each(start, end);
    }
    listed
}
