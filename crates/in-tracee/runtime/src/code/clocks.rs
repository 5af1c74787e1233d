//! Time: the program's calls are answered from the kernel's vDSO, which the
//! program itself does not see (it sees [`super::own_vdso`]).
//!
//! The vDSO reads the time stamp counter. Where the program could read it unseen
//! (generated code, code that could not be analysed), the counter traps, and then
//! time is asked of the kernel. There cpuid traps, too, if the processor can do that (ADR 0044).

use linux_abi::{errno, general as nr};

use crate::ground::kernel;
use crate::ground::memory::{self, in_region};
use crate::state::block::{session, space, thread};
use crate::state::patched_code::Clocks;

/// True where the runtime's code runs: its own, or the vDSO's on its behalf.
pub fn is_ours_at(rip: u64) -> bool {
    let clocks = &space().clocks;
    in_region(rip, 1) || clocks.in_vdso && (clocks.image[0]..clocks.image[1]).contains(&rip)
}

/// True for the address that the vDSO's image begins at.
pub fn is_vdso(start: u64) -> bool {
    let image = space().clocks.image;
    image[0] == start && image[1] != 0
}

/// Finds the vDSO's entry points. `image` is its address or 0.
pub fn find_vdso(image: u64) {
    let clocks = &mut space().clocks;
    *clocks = Clocks::default();
    if image == 0 {
        return;
    }
    let Some((symbols, count, strings)) = dynamic_symbols(image) else {
        return;
    };
    clocks.image = [image, end_of_code(image)];
    for index in 0..count {
        let symbol = symbols + index * 24;
        // SAFETY: inside the vDSO's symbol table.
        let (name, value) = unsafe { ((symbol as *const u32).read(), ((symbol + 8) as *const u64).read()) };
        let name = strings + u64::from(name);
        let address = image + value;
        if is_text(name, b"__vdso_clock_gettime\0") {
            clocks.clock_gettime = address;
        } else if is_text(name, b"__vdso_gettimeofday\0") {
            clocks.gettimeofday = address;
        } else if is_text(name, b"__vdso_time\0") {
            clocks.time = address;
        } else if is_text(name, b"__vdso_getcpu\0") {
            clocks.getcpu = address;
        }
    }
}

fn is_text(address: u64, text: &[u8]) -> bool {
    // SAFETY: the string table holds NUL-terminated names; the comparison stops
    // at the first difference.
    text.iter().enumerate().all(|(index, &byte)| unsafe { *((address + index as u64) as *const u8) } == byte)
}

/// A word of the image: the kernel mapped a complete ELF file there.
fn word(address: u64) -> u64 {
    // SAFETY: every caller stays in the image's headers and tables.
    unsafe { (address as *const u64).read_unaligned() }
}

/// The program headers of this type.
fn program_headers(image: u64, wanted: u32) -> impl Iterator<Item = u64> {
    let headers = image + word(image + 32);
    let [size, count] = [54, 56].map(|at| word(image + at) & 0xffff);
    (0..count).map(move |index| headers + index * size).filter(move |&at| word(at) as u32 == wanted)
}

/// Where what is mapped of the image ends.
fn end_of_code(image: u64) -> u64 {
    const PT_LOAD: u32 = 1;
    program_headers(image, PT_LOAD).map(|at| image + word(at + 16) + word(at + 40)).max().unwrap_or(image)
}

/// The dynamic symbols of the image: table, count, strings.
fn dynamic_symbols(image: u64) -> Option<(u64, u64, u64)> {
    const PT_DYNAMIC: u32 = 2;
    let dynamic = program_headers(image, PT_DYNAMIC).next().map(|at| image + word(at + 16))?;
    let (mut symbols, mut strings) = (0, 0);
    let mut at = dynamic;
    while word(at) != 0 {
        match word(at) {
            5 => strings = image + word(at + 8),
            6 => symbols = image + word(at + 8),
            _ => {}
        }
        at += 16;
    }
    // The string table follows the symbols in every vDSO.
    (symbols != 0 && strings > symbols).then(|| (symbols, (strings - symbols) / 24, strings))
}

const FAULTS: u64 = 2;

/// prctl(2), PR_GET_TSC: whether the program may read the counter; what it gives.
pub fn tell_permission(place: u64) -> i64 {
    const READS: u32 = 1;
    let mode = if thread().time_forbidden { FAULTS as u32 } else { READS };
    if memory::write(place, &mode) { 0 } else { -i64::from(errno::EFAULT) }
}

/// The same, PR_SET_TSC: the thread wants a fault where it reads the counter, or wants to read it. The
/// kernel's own switch is ours.
pub fn set_permission(mode: u64) -> i64 {
    if !(1..=FAULTS).contains(&mode) {
        return -i64::from(errno::EINVAL);
    }
    thread().time_forbidden = mode == FAULTS;
    if thread().time_forbidden {
        trap_time();
    }
    0
}

/// From now on reading the time stamp counter traps, and cpuid where it can.
pub fn trap_time() {
    if space().clocks.trapping {
        return;
    }
    thread().time_traps = true;
    set_time_counter(false);
    let cpuid_trapping = session().cpuid_faulting != 0 && set_cpuid(false);
    let clocks = &mut space().clocks;
    (clocks.trapping, clocks.cpuid_trapping) = (true, cpuid_trapping);
}

/// True if the counter traps.
pub fn time_traps() -> bool {
    space().clocks.trapping
}

/// True if cpuid traps.
pub fn cpuid_traps() -> bool {
    space().clocks.cpuid_trapping
}

/// The traps are each thread's own: the running one takes over what another began.
#[inline]
pub fn follow_traps() {
    if space().clocks.trapping != thread().time_traps {
        take_over_traps();
    }
}

/// The running thread is another's from now on, or its memory went back: whatever traps it has had,
/// it has that one's.
pub fn take_over_traps() {
    let clocks = &space().clocks;
    thread().time_traps = clocks.trapping;
    set_time_counter(!clocks.trapping);
    if session().cpuid_faulting != 0 {
        set_cpuid(!clocks.cpuid_trapping);
    }
}

/// A new image inherits the counter's trap from the one before it, and not that of cpuid: ends it.
pub fn begin_untrapped() {
    thread().time_traps = false;
    set_time_counter(true);
}

/// Ends all traps.
pub fn end_traps() {
    set_time_counter(true);
    if space().clocks.cpuid_trapping {
        set_cpuid(true);
    }
}

fn set_time_counter(enabled: bool) {
    const PR_SET_TSC: u64 = 26;
    let mode = if enabled { 1 } else { 2 };
    kernel::call(nr::__NR_prctl, [PR_SET_TSC, mode, 0, 0, 0, 0]);
}

fn set_cpuid(enabled: bool) -> bool {
    const ARCH_SET_CPUID: u64 = 0x1012;
    kernel::call(nr::__NR_arch_prctl, [ARCH_SET_CPUID, u64::from(enabled), 0, 0, 0, 0]) == 0
}

/// Runs `read` with the time stamp counter readable.
pub fn with_time_counter<T>(read: impl FnOnce() -> T) -> T {
    let trapping = space().clocks.trapping;
    if trapping {
        set_time_counter(true);
    }
    let value = read();
    if trapping {
        set_time_counter(false);
    }
    value
}

/// Runs `read` with cpuid working.
pub fn with_cpuid<T>(read: impl FnOnce() -> T) -> T {
    let trapping = space().clocks.cpuid_trapping;
    if trapping {
        set_cpuid(true);
    }
    let value = read();
    if trapping {
        set_cpuid(false);
    }
    value
}

type TwoWords = unsafe extern "sysv64" fn(u64, u64) -> i32;
type OneWord = unsafe extern "sysv64" fn(u64) -> i64;
type ThreeWords = unsafe extern "sysv64" fn(u64, u64, u64) -> i64;

/// Asks for the time, from the vDSO where possible, and writes the answer into
/// `answer`, which is the runtime's. The number is of a time call.
#[inline]
pub fn ask(number: u64, first: u64, answer: &mut [u64; 4]) -> i64 {
    let to = answer.as_mut_ptr() as u64;
    space().clocks.in_vdso = true;
    let result = ask_vdso(&space().clocks, number, first, to);
    space().clocks.in_vdso = false;
    result
}

#[inline]
fn ask_vdso(clocks: &Clocks, number: u64, first: u64, to: u64) -> i64 {
    // SAFETY: the entry points are the vDSO's, with these signatures; the vDSO
    // uses no vector registers.
    unsafe {
        match number as u32 {
            nr::__NR_clock_gettime if clocks.clock_gettime != 0 && !clocks.trapping => {
                i64::from(core::mem::transmute::<u64, TwoWords>(clocks.clock_gettime)(first, to))
            }
            nr::__NR_gettimeofday if clocks.gettimeofday != 0 && !clocks.trapping => {
                i64::from(core::mem::transmute::<u64, TwoWords>(clocks.gettimeofday)(to, to + 16))
            }
            nr::__NR_time if clocks.time != 0 => core::mem::transmute::<u64, OneWord>(clocks.time)(0),
            nr::__NR_getcpu if clocks.getcpu != 0 => {
                core::mem::transmute::<u64, ThreeWords>(clocks.getcpu)(to, to + 8, 0)
            }
            nr::__NR_clock_gettime => kernel::call(nr::__NR_clock_gettime, [first, to, 0, 0, 0, 0]),
            nr::__NR_gettimeofday => kernel::call(nr::__NR_gettimeofday, [to, to + 16, 0, 0, 0, 0]),
            nr::__NR_time => kernel::call(nr::__NR_time, [0; 6]),
            _ => kernel::call(nr::__NR_getcpu, [to, to + 8, 0, 0, 0, 0]),
        }
    }
}
