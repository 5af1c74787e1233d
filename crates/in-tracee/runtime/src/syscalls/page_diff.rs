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

use events::{DETECTED, StopReason, Tag};
use lane_protocol::Detection;
use syscall_model::Arg;

use crate::address_space::writable_ranges::Ranges;
use crate::address_space::written_pages::{PageSums, WriteProtection};
use crate::address_space::{foreign_writes, outsider_signs, page_tracker};
use crate::checkpoint::take::increments::tracking;
use crate::ground::kernel::{self, ABORTED};
use crate::ground::memory;
use crate::ground::owned::Owned;
use crate::ground::registers::Registers;
use crate::log::call_event::begin_call;
use crate::process::detach;
use crate::state::block::{process, session};
use crate::state::call_state::Done;
use crate::state::own_descriptors::RaisedLimit;

/// Set once write protection was refused here.
static PROTECTION_IS_MISSING: Owned<bool> = Owned::new(false);

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
    tracking::end_increments();
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
