//! The pages of the runtime's state that every process writes to at its birth.

use core::mem::offset_of;

use super::{FIRST_STACK_TOP, HOME, Home, Process, SIGNAL_STACKS_END, Space, Thread};
use crate::ground::kernel;
use crate::state::patched_code::Sites;

const PAGE: u64 = 4096;
/// Where the sites end that every process has, in its space.
const SITES_AT_BIRTH: usize = offset_of!(Space, sites) + Sites::FEW_BYTES;
/// Pages of its stack that the runtime uses in each call that it records.
const STACK_PAGES: u64 = 4;

/// Makes the pages that every process writes to at its birth private to it in one go
/// (Linux 5.14): each page fault costs several times as much as the page.
pub fn populate(with_signal_stack: bool) {
    const MADV_POPULATE_WRITE: u64 = 23;
    let home = HOME.get() as u64;
    let advise = |start: u64, end: u64| {
        let (start, end) = (start & !(PAGE - 1), end.next_multiple_of(PAGE));
        kernel::call(linux_abi::general::__NR_madvise, [start, end - start, MADV_POPULATE_WRITE, 0, 0, 0]);
    };
    let first_stack_top = home + FIRST_STACK_TOP as u64;
    let space = home + offset_of!(Home, space) as u64;
    let processes = home + offset_of!(Home, processes) as u64;
    advise(first_stack_top - STACK_PAGES * PAGE, first_stack_top + size_of::<Thread>() as u64);
    advise(space + offset_of!(Space, areas) as u64, space + SITES_AT_BIRTH as u64);
    advise(processes, processes + size_of::<Process>() as u64);
    if with_signal_stack {
        let end = home + SIGNAL_STACKS_END as u64;
        advise(end - 2 * PAGE, end);
    }
}
