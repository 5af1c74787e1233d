//! Filters that leave the process's memory: for the image that execve makes, and for the
//! kernel, where recording ends.

use bytecode::classic::{INSTRUCTIONS_MAX, Instruction, is_valid, op};
use lane_protocol::{CARRIED_BYTES, LANE_HEADER_BYTES, RING_BYTES, carried_address, segment_offset};
use linux_abi::general as nr;

use crate::code::filter_tree::{self, AUDIT_ARCH_X86_64, BY_PRCTL, Filter, LOG, SPEC_ALLOW, STRICT, action};
use crate::ground::{kernel, memory};
use crate::state::block::{lane, process, thread};
use crate::state::report;

/// Ahead of each carried filter: its flags, its instructions.
const HEAD_BYTES: u64 = 16;

fn map_carried() -> Option<u64> {
    let process = &mut *process();
    let at = carried_address(process.slot);
    let offset = segment_offset(process.segment) + LANE_HEADER_BYTES + RING_BYTES;
    let flags = nr::MAP_SHARED | nr::MAP_FIXED;
    let mapped = kernel::mmap(at, CARRIED_BYTES, 3, flags, process.control_fd, offset);
    (!kernel::failed(mapped)).then_some(at)
}

/// The filters of a thread, the oldest first.
fn oldest_first(newest: u64) -> impl Iterator<Item = &'static Filter> {
    let count = filter_tree::chain(newest).count();
    (0..count).rev().filter_map(move |depth| filter_tree::chain(newest).nth(depth))
}

/// The calling thread executes another program, which inherits its filters. False: there is
/// no memory for it.
pub fn carry() -> bool {
    let lane = &mut *lane();
    lane.carried_filters = 0;
    lane.carried_privileges = u32::from(process().no_new_privileges);
    if filter_tree::newest(thread().filters.newest).is_none() {
        return true;
    }
    let Some(start) = map_carried() else { return false };
    let mut at = start;
    for filter in oldest_first(thread().filters.newest) {
        let program = filter.program();
        memory::write(at, &[filter.flags, program.len() as u64]);
        memory::copy(at + HEAD_BYTES, program.as_ptr() as u64, size_of_val(program) as u64);
        at += HEAD_BYTES + size_of_val(program) as u64;
    }
    lane.carried_filters = (at - start) as u32;
    kernel::munmap(start, CARRIED_BYTES);
    true
}

/// A new image takes over what the one before carried.
pub fn take_carried() {
    let lane = &mut *lane();
    process().no_new_privileges = core::mem::take(&mut lane.carried_privileges) != 0;
    let bytes = u64::from(core::mem::take(&mut lane.carried_filters)).min(CARRIED_BYTES);
    if bytes == 0 {
        return;
    }
    let Some(start) = map_carried() else {
        report::die("the program's seccomp filters could not be taken over");
    };
    let mut at = start;
    while at + HEAD_BYTES <= start + bytes {
        let [flags, count] = memory::read::<[u64; 2]>(at).unwrap_or_default();
        let end = at + HEAD_BYTES + (count & 0xffff) * size_of::<Instruction>() as u64;
        // SAFETY: the slice ends inside what is mapped, which nobody else writes to.
        let program: &[Instruction] = match end <= start + bytes {
            true => unsafe {
                core::slice::from_raw_parts((at + HEAD_BYTES) as *const _, count as usize & 0xffff)
            },
            false => &[],
        };
        let made =
            if is_valid(program) { Filter::add(program, flags, thread().filters.newest) } else { None };
        let Some(made) = made else {
            report::die("the program's seccomp filters could not be taken over");
        };
        thread().filters.newest = made;
        at = end;
    }
    const MADV_REMOVE: u64 = 9;
    kernel::call(nr::__NR_madvise, [start, CARRIED_BYTES, MADV_REMOVE, 0, 0, 0]);
    kernel::munmap(start, CARRIED_BYTES);
}

// --- the end of recording ---

/// What stands ahead of a filter that the kernel gets: calls that the vDSO would answer
/// pass, which the functions of ours make from then on.
const AHEAD: [Instruction; 10] = {
    const fn pass(at: u8, number: u32, otherwise: u8) -> Instruction {
        Instruction { code: op::IF_EQUAL, if_true: 7 - at, if_false: otherwise, operand: number }
    }
    const fn plain(code: u16, operand: u32) -> Instruction {
        Instruction { code, if_true: 0, if_false: 0, operand }
    }
    [
        plain(op::LOAD, 4),
        Instruction { code: op::IF_EQUAL, if_true: 0, if_false: 7, operand: AUDIT_ARCH_X86_64 },
        plain(op::LOAD, 0),
        pass(3, nr::__NR_gettimeofday, 0),
        pass(4, nr::__NR_time, 0),
        pass(5, nr::__NR_clock_gettime, 0),
        pass(6, nr::__NR_clock_getres, 0),
        pass(7, nr::__NR_getcpu, 1),
        plain(op::RETURN, action::ALLOW),
        plain(op::LOAD_OPERAND, 0),
    ]
};

/// The calling thread goes on without us: the kernel keeps its filters from here on, which
/// may forbid any call of ours.
pub fn give_back() {
    const PR_SET_SECCOMP: u64 = 22;
    const PR_SET_NO_NEW_PRIVS: u64 = 38;
    let filters = core::mem::take(&mut thread().filters).newest;
    if filters == STRICT {
        kernel::call(nr::__NR_prctl, [PR_SET_SECCOMP, 1, 0, 0, 0, 0]);
        return;
    }
    for (index, filter) in oldest_first(filters).enumerate() {
        if kernel::failed(give(filter)) && index == 0 {
            // It had all privileges once, and has dropped them: without it gets no filter now.
            kernel::call(nr::__NR_prctl, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]);
            if kernel::failed(give(filter)) {
                report::tell("the program goes on without its seccomp filters, which the kernel refuses");
                return;
            }
        }
    }
}

/// Adds a filter, by the call that the program used, which the ones before let through.
fn give(filter: &Filter) -> i64 {
    const PR_SET_SECCOMP: u64 = 22;
    const SECCOMP_SET_MODE_FILTER: u64 = 1;
    const SECCOMP_MODE_FILTER: u64 = 2;
    let program = filter.program();
    let mut all = [Instruction::default(); INSTRUCTIONS_MAX];
    let ahead: &[Instruction] = if program.len() + AHEAD.len() <= all.len() { &AHEAD } else { &[] };
    let count = ahead.len() + program.len();
    all[..ahead.len()].copy_from_slice(ahead);
    all[ahead.len()..count].copy_from_slice(program);
    let description = [count as u64, all.as_ptr() as u64];
    let description = core::hint::black_box(&description).as_ptr() as u64;
    if filter.flags & BY_PRCTL != 0 {
        return kernel::call(nr::__NR_prctl, [PR_SET_SECCOMP, SECCOMP_MODE_FILTER, description, 0, 0, 0]);
    }
    let flags = filter.flags & (LOG | SPEC_ALLOW);
    kernel::call(nr::__NR_seccomp, [SECCOMP_SET_MODE_FILTER, flags, description, 0, 0, 0])
}
