//! `int 0x80` in a program of 64 bits, as beginners' programs in assembly have it: a call with the
//! number and the registers of a 32-bit program (arch/x86/entry/syscalls/syscall_32.tbl).
//!
//! Those that mean the same with 64 bits are made, logged and replayed as these. With any other the
//! recording of the process ends.
//!
//! Deliberately absent: calls whose structures differ, and programs of 32 bits.

use events::{Kind, StopReason};
use lane_protocol::Interception;
use linux_abi::{errno, general as nr};

use crate::debugger::agent;
use crate::ground::assembly::rv_resume;
use crate::ground::registers::{Leave, Registers};
use crate::ground::{kernel, memory};
use crate::process::detach;
use crate::state::block::{process, session};
use crate::syscalls::direct_calls::on_made;
use crate::syscalls::dispatch::on_call;

/// In place of a signal's number: such a call is to be made.
pub const MAKES_CALL: u32 = u32::MAX - 2;

/// linux/audit.h
const AUDIT_ARCH_I386: u32 = 0x4000_0003;
/// Bytes of the instruction.
const INT_BYTES: u64 = 2;
const LSEEK: u32 = 19;

/// The numbers of both kinds.
const NUMBERS: [(u32, u32); 23] = [
    (1, nr::__NR_exit),
    (3, nr::__NR_read),
    (4, nr::__NR_write),
    (5, nr::__NR_open),
    (6, nr::__NR_close),
    (8, nr::__NR_creat),
    (9, nr::__NR_link),
    (10, nr::__NR_unlink),
    (12, nr::__NR_chdir),
    (15, nr::__NR_chmod),
    (LSEEK, nr::__NR_lseek),
    (20, nr::__NR_getpid),
    (33, nr::__NR_access),
    (36, nr::__NR_sync),
    (37, nr::__NR_kill),
    (38, nr::__NR_rename),
    (39, nr::__NR_mkdir),
    (40, nr::__NR_rmdir),
    (41, nr::__NR_dup),
    (45, nr::__NR_brk),
    (63, nr::__NR_dup2),
    (64, nr::__NR_getppid),
    (252, nr::__NR_exit_group),
];

/// True for what SIGSYS says of such a call.
pub fn is_one(architecture: u64) -> bool {
    architecture as u32 == AUDIT_ARCH_I386
}

/// Makes the call that the program's registers say.
pub fn make(mut registers: Registers) -> ! {
    let behind = registers.rip;
    let known = NUMBERS.iter().find(|(number, _)| *number == registers.rax as u32);
    match known {
        Some(&(number, wide)) => {
            let mut call = widened(&registers, number, wide);
            execute(&mut call);
            match call.rip {
                rip if rip == behind => registers.rax = call.rax,
                // A signal came first.
                rip if rip == behind - INT_BYTES => registers.rip = rip,
                _ => {
                    mend_frame(&call, &registers);
                    registers = call;
                }
            }
        }
        None => leave(&mut registers),
    }
    agent::leaving(&mut registers);
    // SAFETY: the registers are the program's, complete.
    unsafe { rv_resume(&registers) }
}

/// A signal's handler begins behind the call, or before it is made again: its frame has the registers of
/// the wide one.
fn mend_frame(handler: &Registers, registers: &Registers) {
    // Words of the frame behind the address to return to; see `frame::restore`.
    const RAX: u64 = 18;
    const RIP: u64 = 21;
    let place = |index: u64| handler.rsp + 8 + 8 * index;
    match memory::read_word(place(RIP)) {
        Some(rip) if rip == registers.rip => {}
        Some(rip) if rip == registers.rip - INT_BYTES => {
            memory::write(place(RAX), &registers.rax);
        }
        _ => return,
    }
    let before = [
        (5, registers.r8),
        (6, registers.r9),
        (7, registers.r10),
        (8, registers.r11),
        (13, registers.rdi),
        (14, registers.rsi),
        (17, registers.rdx),
        (19, registers.rcx),
    ];
    for (index, word) in before {
        memory::write(place(index), &word);
    }
}

/// The same call with 64 bits.
fn widened(registers: &Registers, number: u32, wide: u32) -> Registers {
    let low = |word: u64| word & 0xffff_ffff;
    let second = if number == LSEEK { registers.rcx as i32 as u64 } else { low(registers.rcx) };
    Registers {
        rax: u64::from(wide),
        rdi: low(registers.rbx),
        rsi: second,
        rdx: low(registers.rdx),
        r10: low(registers.rsi),
        r8: low(registers.rdi),
        r9: low(registers.rbp),
        // As behind a call.
        rcx: registers.rip,
        r11: registers.flags,
        ..*registers
    }
}

fn execute(call: &mut Registers) {
    // SAFETY: the registers are ours, and stay.
    if unsafe { on_call(call) } == Leave::Make {
        let result = kernel::call_for_program(u64::from(call.rax as u32), &call.args());
        // SAFETY: the same.
        unsafe { on_made(call, result) };
    }
}

/// Recording ends, and the program makes it by itself. Under seccomp it could not.
fn leave(registers: &mut Registers) {
    const TEXT: &str = "it makes a system call of 32-bit programs (int 0x80)";
    let process = &mut *process();
    let ends = match process.replays() {
        true => process.log.peek().is_none_or(|word| word.is(Kind::Stop)),
        false => session().interception != Interception::Seccomp as u32,
    };
    if !ends {
        registers.rax = -i64::from(errno::ENOSYS) as u64;
        return;
    }
    let argument = core::mem::replace(&mut registers.rcx, registers.rip);
    if process.replays() {
        // SAFETY: the registers are ours, and stay.
        unsafe { on_call(registers) };
    } else {
        detach::detach(registers, StopReason::Unsupported as u16, TEXT);
    }
    registers.rcx = argument;
}
