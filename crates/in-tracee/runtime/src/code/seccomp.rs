//! Interception where syscall user dispatch is missing: a seccomp filter that
//! traps every call from outside of the runtime.
//!
//! A filter is inherited over fork and execve and cannot be taken away, so the
//! first image installs it for all that follow. The one call that a new image
//! makes before the runtime is there, mapping the runtime's text, is recognised
//! by its arguments: it replaces nothing, so that a program that makes the same
//! call gains nothing.

use core::sync::atomic::Ordering;

use lane_protocol::{Interception, TEXT_BYTES_MAX, TEXT_START};
use linux_abi::{errno, general as nr};

use crate::ground::kernel;
use crate::state::block::{session, space};
use crate::state::report;

/// `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    operand: u32,
}

// linux/bpf_common.h
const LOAD_WORD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;
// linux/seccomp.h
const RET_ALLOW: u32 = 0x7fff_0000;
const RET_TRAP: u32 = 0x0003_0000;
/// linux/audit.h
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const CALLER_LOW: u32 = 8;
const CALLER_HIGH: u32 = 12;
/// Place of the lower half of an argument; the upper half follows.
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

const TEXT_LOW: u32 = TEXT_START as u32;
const TEXT_HIGH: u32 = (TEXT_START >> 32) as u32;
const TEXT_END_LOW: u32 = (TEXT_START + TEXT_BYTES_MAX) as u32;
/// How the injector maps the text into a new image.
const BIRTH_FLAGS: u32 = nr::MAP_PRIVATE | nr::MAP_FIXED_NOREPLACE;

const FILTER_LEN: usize = 17;
const ALLOW_AT: usize = 15;
const TRAP_AT: usize = 16;

static FILTER: [Instruction; FILTER_LEN] = [
    load(ARCHITECTURE),
    expect(1, AUDIT_ARCH_X86_64),
    // From the runtime's text?
    load(CALLER_HIGH),
    if_not(3, JUMP_EQUAL, TEXT_HIGH, 7),
    load(CALLER_LOW),
    if_not(5, JUMP_GREATER_EQUAL, TEXT_LOW, 7),
    if_not(6, JUMP_GREATER_EQUAL, TEXT_END_LOW, ALLOW_AT),
    // A new image mapping the runtime?
    load(NUMBER),
    expect(8, nr::__NR_mmap),
    load(argument(0) + 4),
    expect(10, TEXT_HIGH),
    load(argument(0)),
    expect(12, TEXT_LOW),
    load(argument(3)),
    expect(14, BIRTH_FLAGS),
    give(RET_ALLOW),
    give(RET_TRAP),
];

const fn load(offset: u32) -> Instruction {
    Instruction { code: LOAD_WORD, if_true: 0, if_false: 0, operand: offset }
}

const fn give(value: u32) -> Instruction {
    Instruction { code: RETURN, if_true: 0, if_false: 0, operand: value }
}

/// At place `at`: goes on with the next if the word is equal, else traps.
const fn expect(at: usize, operand: u32) -> Instruction {
    if_not(at, JUMP_EQUAL, operand, TRAP_AT)
}

/// At place `at`: goes on with the next if the comparison holds, else at `target`.
const fn if_not(at: usize, code: u16, operand: u32, target: usize) -> Instruction {
    assert!(target > at && target < FILTER_LEN);
    Instruction { code, if_true: 0, if_false: (target - at - 1) as u8, operand }
}

// The text lies in one stretch of addresses whose upper halves are equal.
const _: () = assert!(TEXT_HIGH == ((TEXT_START + TEXT_BYTES_MAX) >> 32) as u32);

/// Upper half of the addresses of the vsyscall page, the lower half of its first, and of what is
/// behind it.
const VSYSCALLS_HIGH: u32 = 0xffff_ffff;
const VSYSCALLS_LOW: u32 = 0xff60_0000;
const VSYSCALLS_END_LOW: u32 = VSYSCALLS_LOW + 4096;

/// Traps the calls of the vsyscall page, which the kernel answers in its page fault: user
/// dispatch does not see them, filters do.
static VSYSCALL_FILTER: [Instruction; 7] = [
    load(CALLER_HIGH),
    // Elsewhere: on to the end, which allows.
    Instruction { code: JUMP_EQUAL, if_true: 0, if_false: 4, operand: VSYSCALLS_HIGH },
    load(CALLER_LOW),
    Instruction { code: JUMP_GREATER_EQUAL, if_true: 0, if_false: 2, operand: VSYSCALLS_LOW },
    Instruction { code: JUMP_GREATER_EQUAL, if_true: 1, if_false: 0, operand: VSYSCALLS_END_LOW },
    give(RET_TRAP),
    give(RET_ALLOW),
];

/// From now on calls of the vsyscall page come to us as others do: SIGSYS, behind the page's own
/// return. A filter stays for good, also over execve.
pub fn trap_vsyscalls() {
    let traps = &mut space().clocks.vsyscalls_trap;
    if session().interception == Interception::Seccomp as u32 || core::mem::replace(traps, true) {
        return;
    }
    /// All threads of the process have it.
    const TSYNC: u64 = 1;
    if install(&VSYSCALL_FILTER, TSYNC) != 0 {
        report::tell("a seccomp filter is refused here: what the vsyscall page says is not recorded");
    }
}

/// Installs the filter in the first image of the session.
pub fn install_once() {
    let session = session();
    if session.filter_installed.load(Ordering::Acquire) != 0 {
        return;
    }
    if kernel::failed(install(&FILTER, 0)) {
        report::die("a seccomp filter is refused here, and so is everything that could take its place");
    }
    session.filter_installed.store(1, Ordering::Release);
}

/// The calling process does not descend from the session's first image.
pub fn begin_anew() {
    session().filter_installed.store(0, Ordering::Release);
}

fn install(filter: &[Instruction], flags: u64) -> i64 {
    const SECCOMP_SET_MODE_FILTER: u64 = 1;
    let description = [filter.len() as u64, filter.as_ptr() as u64];
    let set = || {
        kernel::call(nr::__NR_seccomp, [SECCOMP_SET_MODE_FILTER, flags, description.as_ptr() as u64, 0, 0, 0])
    };
    let result = set();
    if result != -i64::from(errno::EACCES) {
        return result;
    }
    // Without CAP_SYS_ADMIN a filter needs that no program gains rights.
    const PR_SET_NO_NEW_PRIVS: u64 = 38;
    kernel::call(nr::__NR_prctl, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]);
    set()
}
