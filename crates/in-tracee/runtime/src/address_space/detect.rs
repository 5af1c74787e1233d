//! Calls that nobody described: the pages that the kernel wrote are found and
//! logged, and the event is marked.
//!
//! Two methods find them. *Write protection*: all writable memory is protected
//! asynchronously by userfaultfd, and PAGEMAP_SCAN tells afterwards what was
//! written (Linux 6.7, see ioctl(2) PAGEMAP_SCAN). *Sums*: every populated page
//! is summed before and after the call; slow, but it needs nothing more than
//! /proc/self/maps, and serves where userfaultfd is refused, as in containers.
//!
//! Invariant: a call whose effect cannot be found out ends the recording; it is
//! never logged in part. Deliberately absent: effects other than on memory that
//! is mapped before and after the call.

use crate::ground::range_set::Range;
use crate::state::own_descriptors::RaisedLimit;
use events::{DETECTED, StopReason, Tag};
use lane_protocol::Detection;
use linux_abi::general as nr;
use syscall_model::Arg;

use crate::address_space::written_pages::{PageSums, WriteProtection};
use crate::address_space::{foreign_writes, outsider_signs, page_tracker};
use crate::checkpoint;
use crate::code::islands;
use crate::ground::kernel::{self, ABORTED};
use crate::ground::maps::{self, Mapping};
use crate::ground::memory;
use crate::ground::owned::Owned;
use crate::ground::registers::Registers;
use crate::process::detach;
use crate::state::block::{process, session};
use crate::syscalls::dispatch::{Done, begin_call};

/// Ranges of memory: in the runtime's region, behind the lanes, mapped while needed.
const RANGES_START: u64 = lane_protocol::SCRATCH_START;
/// As many as the kernel permits mappings (vm.max_map_count is 65530).
const RANGES_MAX: usize = 65536;
pub const RANGES_BYTES: u64 = (RANGES_MAX * size_of::<Range>()) as u64;

/// How memory is mapped that is needed for a call: shared, so that a limit of the
/// program's data (RLIMIT_DATA) does not count it.
pub const SCRATCH_FLAGS: u32 = nr::MAP_SHARED | nr::MAP_ANONYMOUS | nr::MAP_FIXED | nr::MAP_NORESERVE;

/// Set once write protection was refused here.
static PROTECTION_IS_MISSING: Owned<bool> = Owned::new(false);

/// The program's writable memory as sorted ranges that do not touch.
pub struct Ranges {
    count: usize,
}

/// What was prepared before the call.
enum Method {
    Protection(WriteProtection),
    Sums(PageSums),
}

const NO_LIST: &str =
    "it makes a call that nobody described, whose effect cannot be found without /proc/self/maps";
const NO_METHOD: &str =
    "it makes a call that nobody described, and this machine offers no way to find its effect";
const LOST_LIST: &str = "it made a call that nobody described, and its mappings cannot be listed any more";
const OTHER_LIST: &str = "it made a call that nobody described and that changed its mappings";

/// Performs and logs a call.
#[inline(never)]
pub fn record(registers: &mut Registers, number: u64, args: &[u64; 6], model: &[Arg]) -> Done {
    page_tracker::end();
    checkpoint::end_increments();
    let limit = RaisedLimit::raise(false);
    let Some(ranges) = Ranges::list() else {
        limit.restore();
        return stop(registers, NO_LIST);
    };
    let Some(method) = prepare(&ranges) else {
        ranges.forget();
        limit.restore();
        return stop(registers, NO_METHOD);
    };
    limit.restore();
    let result = kernel::call_for_program(number, args);
    if result == ABORTED {
        end(method, &ranges);
        ranges.forget();
        return Done::Aborted;
    }
    begin_call(number, args, model.len(), result, DETECTED);
    let limit = RaisedLimit::raise(false);
    // A stack may have grown; nothing else may have changed.
    let failure = match ranges.list_again() {
        Some(true) if log_written(&method, &ranges) => None,
        Some(true) => Some(NO_METHOD),
        Some(false) => Some(OTHER_LIST),
        None => Some(LOST_LIST),
    };
    outsider_signs::note_call(number, args, result);
    foreign_writes::log_new(number, args);
    process().log.end();
    end(method, &ranges);
    ranges.forget();
    limit.restore();
    match failure {
        None => Done::Result(result),
        Some(text) => {
            Done::Elsewhere(detach::detach_behind(registers, StopReason::Unsupported as u16, text, result))
        }
    }
}

fn stop(registers: &mut Registers, text: &str) -> Done {
    Done::Elsewhere(detach::detach(registers, StopReason::Unsupported as u16, text))
}

fn prepare(ranges: &Ranges) -> Option<Method> {
    let wanted = session().detection;
    // SAFETY: one thread runs in an address space.
    let missing = unsafe { &mut *PROTECTION_IS_MISSING.get() };
    if wanted != Detection::Sums as u32 && !*missing {
        match WriteProtection::begin(ranges) {
            Some(protection) => return Some(Method::Protection(protection)),
            None => *missing = true,
        }
    }
    if wanted == Detection::WriteProtection as u32 {
        return None;
    }
    PageSums::begin(ranges).map(Method::Sums)
}

/// Logs what was written; false if that cannot be told.
fn log_written(method: &Method, ranges: &Ranges) -> bool {
    // What has not come to be there counts as written, also behind a file's end.
    let mut log = |start: u64, end: u64| {
        memory::each_readable(start, end, &mut |from, to| {
            process().log.blob(from, to - from, Tag::Memory, from);
        });
    };
    match method {
        Method::Protection(protection) => protection.written(ranges, &mut log),
        Method::Sums(sums) => {
            sums.written(ranges, &mut log);
            true
        }
    }
}

fn end(method: Method, ranges: &Ranges) {
    match method {
        Method::Protection(protection) => protection.end(ranges),
        Method::Sums(sums) => sums.end(),
    }
}

impl Ranges {
    /// Lists the program's writable memory; `None` if that is not possible.
    fn list() -> Option<Ranges> {
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
    fn list_again(&self) -> Option<bool> {
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

    fn forget(&self) {
        kernel::munmap(RANGES_START, RANGES_BYTES);
    }
}

/// Calls `each` with the start and end of each stretch of writable memory.
fn for_each_range(each: &mut dyn FnMut(u64, u64)) -> bool {
    let mut open: Option<(u64, u64)> = None;
    let listed = maps::for_each(&mut |mapping: &Mapping| {
        if !mapping.writable || islands::is_island(mapping.start) {
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
