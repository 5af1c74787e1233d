//! Interception where syscall user dispatch is missing: a seccomp filter that
//! traps every call from outside of the runtime.
//!
//! A filter is inherited over fork and execve, so the first image installs it.
//! The one call that a new image makes before the runtime is there, mapping the
//! runtime's text, is recognised by its address.

use core::sync::atomic::Ordering;

use lane_protocol::{TEXT_BYTES_MAX, TEXT_START};
use linux_abi::general as nr;

use crate::block::session;
use crate::{kernel, report};

#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    operand: u32,
}

const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const TRAP: u32 = 0x0003_0000;

const fn load(offset: u32) -> Instruction {
    Instruction { code: LOAD, if_true: 0, if_false: 0, operand: offset }
}
const fn jump(code: u16, operand: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code, if_true, if_false, operand }
}
const fn give(value: u32) -> Instruction {
    Instruction { code: RETURN, if_true: 0, if_false: 0, operand: value }
}

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ADDRESS_LOW: u32 = 8;
const ADDRESS_HIGH: u32 = 12;
const ARGUMENT_LOW: u32 = 16;
const ARGUMENT_HIGH: u32 = 20;

static PROGRAM: [Instruction; 12] = [
    load(ADDRESS_HIGH),
    jump(JUMP_EQUAL, (TEXT_START >> 32) as u32, 0, 3),
    load(ADDRESS_LOW),
    jump(JUMP_GREATER_EQUAL, (TEXT_START + TEXT_BYTES_MAX) as u32, 1, 0),
    give(ALLOW),
    load(NUMBER),
    jump(JUMP_EQUAL, nr::__NR_mmap, 0, 3),
    load(ARGUMENT_HIGH),
    jump(JUMP_EQUAL, (TEXT_START >> 32) as u32, 0, 1),
    jump(JUMP_EQUAL, u32::MAX, 0, 1),
    give(TRAP),
    give(TRAP),
];

/// Installs the filter in the first image of the session.
pub fn install_once() {
    let session = session();
    if session.filter_installed.swap(1, Ordering::AcqRel) != 0 {
        return;
    }
    // The last two comparisons depend on each other: written out here.
    let mut program = PROGRAM;
    program[8] = jump(JUMP_EQUAL, (TEXT_START >> 32) as u32, 0, 2);
    program[9] = load(ARGUMENT_LOW);
    program[10] = jump(JUMP_EQUAL, TEXT_START as u32, 0, 0);
    program[11] = give(TRAP);
    let mut full = [give(TRAP); 13];
    full[..12].copy_from_slice(&program);
    // mmap at the runtime's own address is allowed.
    full[10] = jump(JUMP_EQUAL, TEXT_START as u32, 0, 1);
    full[11] = give(ALLOW);
    full[12] = give(TRAP);
    full[6] = jump(JUMP_EQUAL, nr::__NR_mmap, 0, 5);
    full[8] = jump(JUMP_EQUAL, (TEXT_START >> 32) as u32, 0, 3);
    const PR_SET_NO_NEW_PRIVS: u64 = 38;
    const SECCOMP_SET_MODE_FILTER: u64 = 1;
    kernel::call(nr::__NR_prctl, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]);
    let description = [full.len() as u64, full.as_ptr() as u64];
    let result = kernel::call(
        nr::__NR_seccomp,
        [SECCOMP_SET_MODE_FILTER, 0, description.as_ptr() as u64, 0, 0, 0],
    );
    if kernel::failed(result) {
        report::die("a seccomp filter is refused here, and so is everything that could take its place");
    }
}
