//! ptrace(2) on processes that are not recorded.
//!
//! A process that asks to be traced by its parent leaves the recording: what its tracer does
//! to it is beyond what a log can hold. The tracer is recorded on, and its calls are made for
//! real: what the kernel tells about the traced process is logged as what other calls tell.

use events::{StopReason, Tag};
use lane_protocol::Interception;
use linux_abi::errno;
use syscall_model::Arg;

use crate::ground::registers::Registers;
use crate::ground::{kernel, memory};
use crate::log::call_event::{self, begin_call};
use crate::process::detach;
use crate::signals::killing;
use crate::state::block::{process, session};
use crate::state::call_state::Done;

/// Requests of ptrace(2) that begin something, or write to the caller's memory.
mod request {
    pub const TRACEME: u64 = 0;
    pub const PEEKTEXT: u64 = 1;
    pub const PEEKDATA: u64 = 2;
    pub const PEEKUSER: u64 = 3;
    pub const GETREGS: u64 = 12;
    pub const GETFPREGS: u64 = 14;
    pub const ATTACH: u64 = 16;
    pub const DETACH: u64 = 17;
    pub const GET_THREAD_AREA: u64 = 25;
    pub const GETEVENTMSG: u64 = 0x4201;
    pub const GETSIGINFO: u64 = 0x4202;
    pub const GETREGSET: u64 = 0x4204;
    pub const SETREGSET: u64 = 0x4205;
    pub const SEIZE: u64 = 0x4206;
    pub const PEEKSIGINFO: u64 = 0x4209;
    pub const GETSIGMASK: u64 = 0x420a;
    pub const SECCOMP_GET_FILTER: u64 = 0x420c;
    pub const SECCOMP_GET_METADATA: u64 = 0x420d;
    pub const GET_SYSCALL_INFO: u64 = 0x420e;
    pub const GET_RSEQ_CONFIGURATION: u64 = 0x420f;
    pub const GET_SYSCALL_USER_DISPATCH_CONFIG: u64 = 0x4211;
}

const WORD_BYTES: u64 = 8;
/// Of `struct user_regs_struct`, `struct user_fpregs_struct`, `siginfo_t`, `struct user_desc`.
const REGISTERS_BYTES: u64 = 216;
const FLOATING_BYTES: u64 = 512;
const SIGINFO_BYTES: u64 = 128;
const SEGMENT_BYTES: u64 = 16;

/// The call, of a process that none of the lane is.
pub fn execute(registers: &mut Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    match args[0] {
        request::TRACEME => be_traced(registers, number, args, model),
        // Whoever is recorded does not stop for others; what others do is no part of the recording.
        request::ATTACH | request::SEIZE if killing::is_of_recording(args[1] as i32) => {
            call_event::reject(registers, number, args, model.len(), errno::EPERM)
        }
        // What such a request writes nobody has described.
        what if !is_described(what) => crate::syscalls::page_diff::record(registers, number, args, model),
        _ => {
            let result = kernel::call(number as u32, *args);
            begin_call(number, args, model.len(), result, 0);
            if !kernel::failed(result) {
                for (start, bytes) in written(args, result as u64).into_iter().filter(|range| range.1 != 0) {
                    process().log.blob(start, bytes, Tag::Memory, start);
                }
            }
            process().log.end();
            Done::Result(result)
        }
    }
}

fn be_traced(registers: &mut Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    let is_first = process().lane == 0;
    if !is_first && session().interception == Interception::Seccomp as u32 {
        // It would go on through the runtime, and its new image would die of the filter.
        return call_event::reject(registers, number, args, model.len(), errno::EPERM);
    }
    if !is_first && !process().in_parents_memory {
        return Done::Elsewhere(detach::detach(registers, StopReason::Traced as u16, ""));
    }
    // The parent of the first is not recorded, and traces nobody: programs ask to find out
    // whether they are traced already. A child of vfork leaves where it executes a program.
    process().is_to_be_traced = !is_first;
    begin_call(number, args, model.len(), 0, 0);
    process().log.end();
    Done::Result(0)
}

/// True for a request of which it is known what it writes.
fn is_described(what: u64) -> bool {
    matches!(
        what,
        request::PEEKTEXT..=10 // PTRACE_POKEUSER, CONT, KILL, SINGLESTEP among them
            | request::GETREGS..=request::DETACH
            | 24..=26 // SYSCALL, GET_THREAD_AREA, SET_THREAD_AREA
            | 31..=33 // SYSEMU, SYSEMU_SINGLESTEP, SINGLEBLOCK
            | 0x4200..=0x4212
    )
}

/// Where a request has written that succeeded: start and length in bytes.
fn written(args: &[u64; 6], result: u64) -> [(u64, u64); 2] {
    let [what, _, address, data, ..] = *args;
    let bytes = match what {
        request::PEEKTEXT | request::PEEKDATA | request::PEEKUSER | request::GETEVENTMSG => WORD_BYTES,
        request::GETREGS => REGISTERS_BYTES,
        request::GETFPREGS => FLOATING_BYTES,
        request::GETSIGINFO => SIGINFO_BYTES,
        request::GET_THREAD_AREA => SEGMENT_BYTES,
        request::PEEKSIGINFO => result * SIGINFO_BYTES,
        request::GETSIGMASK | request::GET_SYSCALL_USER_DISPATCH_CONFIG => address,
        request::SECCOMP_GET_FILTER if data != 0 => result * WORD_BYTES,
        request::SECCOMP_GET_METADATA | request::GET_SYSCALL_INFO | request::GET_RSEQ_CONFIGURATION => {
            result.min(address)
        }
        request::GETREGSET => {
            // The length in the vector is that of what was written.
            let vector = memory::read::<[u64; 2]>(data).unwrap_or_default();
            return [(vector[0], vector[1]), (data, size_of_val(&vector) as u64)];
        }
        // Of a longer vector the length becomes that of what was read.
        request::SETREGSET => size_of::<[u64; 2]>() as u64,
        _ => 0,
    };
    [(data, bytes), (0, 0)]
}
