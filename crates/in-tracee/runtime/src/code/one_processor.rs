//! Generated code that asks the processor for its features, where cpuid does not trap.
//!
//! A compiler that emits what the processor can do (Java's) asks by code that it has just
//! generated, of which no recipe knows. The answers hold the number of the processor, and the
//! program keeps them. So from the mapping of memory for such code to the next call that is
//! not about memory, the thread runs on the first processor that it may use: when it is
//! recorded, and when it is replayed. So it does where a little memory becomes executable that holds
//! the instruction (as Python programs ask that have it in a string).
//!
//! Deliberately absent: threads that do not map it, more memory that becomes executable at once, and
//! code that asks again later.

use core::sync::atomic::Ordering;

use linux_abi::general as nr;

use crate::code::clocks;
use crate::ground::{kernel, memory};
use crate::state::block::{session, thread};
use crate::state::in_lab;
use crate::state::patched_code::PROCESSOR_WORDS;

/// Calls after which the thread is let go at the latest.
const CALLS_MAX: u32 = 64;

/// More memory that becomes executable is not searched: compilers that write code by and by protect it
/// again each time.
const SEARCHED_BYTES_MAX: u64 = 1 << 16;
const PART_BYTES: usize = 1024;
const CPUID: [u8; 2] = [0x0f, 0xa2];

/// The program has mapped memory for code that it generates.
pub fn generated_code_mapped() {
    let processors = &mut thread().processors;
    if clocks::cpuid_traps() || processors.calls_left != 0 {
        return;
    }
    let room = size_of_val(&processors.set) as u64;
    let bytes =
        kernel::call(nr::__NR_sched_getaffinity, [0, room, processors.set.as_mut_ptr() as u64, 0, 0, 0]);
    let words = bytes.max(0) as usize / 8;
    let mut usable = processors.set;
    if in_lab::is_on() {
        // All of a lab runs on one of these, and its replay does not.
        for (usable, lab) in usable.iter_mut().zip(&session().lab.processors) {
            *usable = lab.load(Ordering::Relaxed);
        }
    }
    let Some(word) = usable[..words].iter().position(|&word| word != 0) else { return };
    let mut first = [0u64; PROCESSOR_WORDS];
    first[word] = 1 << usable[word].trailing_zeros();
    processors.bytes = bytes as u32;
    if run_on(&first[..words]) {
        processors.calls_left = CALLS_MAX;
    }
}

/// This memory, which the program has written, is executable now.
pub fn generated_code_protected(start: u64, bytes: u64) {
    if !clocks::cpuid_traps() && bytes <= SEARCHED_BYTES_MAX && has_cpuid(start, bytes) {
        generated_code_mapped();
    }
}

fn has_cpuid(start: u64, bytes: u64) -> bool {
    let mut last = 0;
    (start..start + bytes).step_by(PART_BYTES).any(|at| {
        // The last byte of the part before comes first.
        let mut part = [0u8; 1 + PART_BYTES];
        part[0] = last;
        let length = (start + bytes - at).min(PART_BYTES as u64) as usize;
        let is_read = memory::copy(part[1..].as_mut_ptr() as u64, at, length as u64);
        last = part[length];
        is_read && part[..=length].windows(2).any(|pair| pair == CPUID)
    })
}

/// A call of the program begins on one processor.
#[cold]
pub fn before_call(number: u32) {
    let about_memory = matches!(
        number,
        nr::__NR_mmap
            | nr::__NR_munmap
            | nr::__NR_mprotect
            | nr::__NR_madvise
            | nr::__NR_brk
            | nr::__NR_clock_gettime
            | nr::__NR_rt_sigprocmask
            | nr::__NR_rt_sigreturn
    );
    let processors = &mut thread().processors;
    processors.calls_left = if about_memory { processors.calls_left - 1 } else { 0 };
    if processors.calls_left == 0 {
        let words = processors.bytes as usize / 8;
        run_on(&processors.set[..words]);
    }
}

fn run_on(set: &[u64]) -> bool {
    let bytes = size_of_val(set) as u64;
    !kernel::failed(kernel::call(nr::__NR_sched_setaffinity, [0, bytes, set.as_ptr() as u64, 0, 0, 0]))
}
