//! Whether a copy of the program may stay for many tries, and what it has to know of its memory.
//!
//! Invariant: it may only where all that a try writes to is private memory, and where no signal that a try
//! may die of is the program's own matter.

use std::io;

use super::resident_code::SAVED_PAGES_MAX;
use super::server::{Caller, Shared};
use super::server_code::{CODE_BYTES, RANGES_MAX, place};
use crate::maps::{Mapping, read_maps};
use crate::process_facts::signal_set;
use crate::tracee::rseq_of;

const PAGE: u64 = 4096;
/// So much of the stack below where it ends is written to at most, while a copy stays.
const STACK_MORE_BYTES: u64 = 256 << 10;
/// How long a stack is surely allowed to be, with what is behind its end now.
const STACK_MIN_BYTES: u64 = 1 << 20;
/// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, as in /proc/PID/status.
const SIGNALS_OF_DEATH: u64 = 0x4000_04f8;

/// Writes what the copy has to know to the shared memory, which the program has at `base`; false if none may stay.
pub(super) fn prepare(caller: &Caller, shared: &mut Shared, code_at: u64, base: u64) -> io::Result<bool> {
    let pid = caller.pid;
    if !std::arch::is_x86_feature_detected!("xsave") || has_own_signals(pid)? {
        return Ok(false);
    }
    let Some(kernels) = kernels_pages(pid) else { return Ok(false) };
    let Some((ranges, stack_low)) = writable(&read_maps(pid)?, [code_at, base], kernels) else {
        return Ok(false);
    };
    for (row, range) in ranges.iter().enumerate() {
        for (word, value) in range.iter().enumerate() {
            shared.write(place::RANGES + 32 * row + 8 * word, &value.to_le_bytes());
        }
    }
    shared.set(place::RANGES_COUNT, ranges.len() as u32);
    shared.write(place::STACK_LOW, &stack_low.to_le_bytes());
    for (index, page) in kernels.iter().enumerate() {
        shared.write(place::KERNELS + 8 * index, &page.to_le_bytes());
    }
    Ok(true)
}

/// True if a signal that ends a try is blocked, ignored or handled.
fn has_own_signals(pid: i32) -> io::Result<bool> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(["SigBlk", "SigIgn", "SigCgt"].iter().any(|name| signal_set(&status, name) & SIGNALS_OF_DEATH != 0))
}

/// The pages where the kernel writes on which processor the thread runs (rseq(2)): 0 where there is none; `None` if nobody
/// says where that is.
fn kernels_pages(pid: i32) -> Option<[u64; 2]> {
    let [address, bytes, _] = rseq_of(pid).ok()?;
    if address == 0 {
        return Some([0; 2]);
    }
    let first = address & !(PAGE - 1);
    let last = (address.checked_add(bytes.max(1))? - 1) & !(PAGE - 1);
    Some([first, if last == first { 0 } else { last }])
}

/// Ranges of memory that a try may write to (begin, end, rights, nothing), and the lowest page of the
/// stack, which is in none of them; `None` where they are shared with others or too many.
fn writable(maps: &[Mapping], ours: [u64; 2], kernels: [u64; 2]) -> Option<(Vec<[u64; 4]>, u64)> {
    let mut ranges = Vec::new();
    let mut stack_low = None;
    for map in maps.iter().filter(|map| map.protection & libc::PROT_WRITE as u32 != 0) {
        if map.start == ours[1] || map.start >= ours[0] && map.end <= ours[0] + CODE_BYTES {
            continue;
        }
        if map.shared {
            return None;
        }
        let mut from = map.start;
        // The kernel may have joined the code's pages to what is beside them.
        if (map.start..map.end).contains(&ours[0]) {
            ranges.push([from, ours[0], u64::from(map.protection), 0]);
            from = ours[0] + CODE_BYTES;
        }
        if map.name == b"[stack]" {
            let length =
                (map.end - map.start + STACK_MORE_BYTES).min(STACK_MIN_BYTES.max(map.end - map.start));
            let low = map.end - length;
            stack_low = Some(low);
            from = low + PAGE;
        }
        for page in kernels {
            if (from..map.end).contains(&page) {
                ranges.push([from, page, u64::from(map.protection), 0]);
                from = page + PAGE;
            }
        }
        ranges.push([from, map.end, u64::from(map.protection), 0]);
    }
    ranges.retain(|range| range[0] < range[1]);
    (ranges.len() <= RANGES_MAX.min(SAVED_PAGES_MAX)).then_some(())?;
    Some((ranges, stack_low?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, name: &str) -> Mapping {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u32;
        let name = name.as_bytes().to_vec();
        Mapping { start, end, protection, shared: false, file_offset: 0, device: 0, inode: 0, name }
    }

    #[test]
    fn ranges_leave_out_what_is_the_kernels_and_ours() {
        let maps = [
            mapping(0x1000, 0x5000, ""),
            mapping(0x10_0000, 0x10_0000 + CODE_BYTES, ""),
            mapping(0x7f0_0000, 0x7f2_1000, "[stack]"),
        ];
        let (ranges, low) = writable(&maps, [0x10_0000, 0x900_0000], [0x2000, 0]).expect("there is a stack");
        let bounds: Vec<_> = ranges.iter().map(|range| (range[0], range[1])).collect();
        assert_eq!(low, 0x7f0_0000 - STACK_MORE_BYTES);
        assert_eq!(bounds, [(0x1000, 0x2000), (0x3000, 0x5000), (low + PAGE, 0x7f2_1000)]);
        let shared = Mapping { shared: true, ..mapping(0x6000, 0x7000, "") };
        assert_eq!(writable(&[shared], [0, 0x900_0000], [0; 2]), None);
    }
}
