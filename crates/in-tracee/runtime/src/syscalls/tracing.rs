//! ptrace(2) on threads of one's own memory, as leak detectors do it: a process made with
//! CLONE_VM stops the threads of the one that made it, and reads their registers. Who asks to
//! be traced by its parent leaves the recording: see `tracing_outside`.
//!
//! Nothing of the former reaches the kernel. A thread that has not got the token stands, with
//! registers that are known; a thread that is traced and *held* does not get the token until
//! it is let go. The calls' answers are in the log as other answers are, and replay, where
//! the log says who runs, knows nothing of holding.
//!
//! Deliberately absent: attaching to recorded processes with memory of their own, which is
//! refused; and what changes a traced thread (its registers, steps, stops at calls).

use core::sync::atomic::Ordering;

use events::Tag;
use linux_abi::{errno, general as nr};
use syscall_model::Arg;

use crate::ground::owned::Held;
use crate::ground::registers::Registers;
use crate::ground::vector_state::vector_state;
use crate::ground::{kernel, memory};
use crate::log::call_event::{self, begin_call};
use crate::scheduler::held_threads::let_go;
use crate::state::block::{Thread, known_threads, pid_of, process, thread, thread_at, thread_status};
use crate::state::call_state::Done;
use crate::state::signal_state::ResumeState;
use crate::state::stacks::signal_stack;
use crate::syscalls::tracing_outside;

/// Requests of ptrace(2).
mod request {
    pub const PEEKTEXT: u64 = 1;
    pub const PEEKDATA: u64 = 2;
    pub const CONT: u64 = 7;
    pub const KILL: u64 = 8;
    pub const GETREGS: u64 = 12;
    pub const ATTACH: u64 = 16;
    pub const DETACH: u64 = 17;
    pub const GETREGSET: u64 = 0x4204;
}

/// Sets of registers, as core files name them.
const NT_PRSTATUS: u64 = 1;
const NT_X86_XSTATE: u64 = 0x202;
/// What wait4(2) tells of a thread that SIGSTOP stopped.
const STOPPED: u32 = 0x137f;
/// In place of a result while the kernel is in a call (ERESTARTSYS).
const IN_CALL: u64 = -512i64 as u64;
/// `struct user_regs_struct`: its words.
const WORDS: usize = 27;

// --- the traced thread ---

// --- the tracer ---

/// ptrace(2).
pub fn ptrace(registers: &mut Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    if process().replays() {
        return call_event::replayed(registers);
    }
    let [what, pid, address, data, ..] = *args;
    let Some(mut other) = find(pid as i32) else {
        return tracing_outside::execute(registers, number, args, model);
    };
    let mut written = [(0, 0); 2];
    let result = match what {
        request::ATTACH => attach(&mut other),
        _ if !is_ours(&other) => Err(errno::ESRCH),
        request::DETACH | request::CONT => go_on(&mut other, what == request::DETACH, data),
        request::KILL => kill(&mut other),
        request::PEEKTEXT | request::PEEKDATA => peek(address, data).map(|range| written[0] = range),
        request::GETREGS => {
            let words = words_of(&other);
            give(data, words.as_ptr() as u64, size_of_val(&words) as u64).map(|range| written[0] = range)
        }
        request::GETREGSET => set_of_registers(&other, address, data).map(|ranges| written = ranges),
        _ => Err(errno::EIO),
    };
    let result = result.map_or_else(|error| -i64::from(error), |()| 0);
    begin_call(number, args, model.len(), result, 0);
    for (start, bytes) in written.into_iter().filter(|range| range.1 != 0) {
        process().log.blob(start, bytes, Tag::Memory, start);
    }
    process().log.end();
    Done::Result(result)
}

/// A thread of the memory at hand, of another process of the lane.
fn find(tid: i32) -> Option<Held<Thread>> {
    let own = &raw const *process() as u64;
    let index = (0..known_threads()).find(|&index| {
        let other = &mut *thread_at(index);
        other.status == thread_status::LIVE && other.tid == tid && other.process != own
    })?;
    (process().in_group && tid != 0).then(|| thread_at(index))
}

fn is_ours(other: &Thread) -> bool {
    other.traced.by.load(Ordering::Relaxed) == thread().index as u32 + 1
}

fn attach(other: &mut Thread) -> Result<(), u32> {
    if other.traced.by.load(Ordering::Relaxed) != 0 {
        return Err(errno::EPERM);
    }
    other.traced.unreported = true;
    other.traced.by.store(thread().index as u32 + 1, Ordering::SeqCst);
    other.traced.held.store(1, Ordering::SeqCst);
    Ok(())
}

/// It goes on, with a signal or without; traced as before, or no more.
fn go_on(other: &mut Thread, detaches: bool, signal: u64) -> Result<(), u32> {
    if signal > 64 {
        return Err(errno::EIO);
    }
    if signal != 0 {
        let pid = pid_of(other);
        kernel::call(nr::__NR_tgkill, [pid as u64, other.tid as u64, signal, 0, 0, 0]);
    }
    if detaches {
        let_go(&other.traced);
    } else {
        other.traced.held.store(0, Ordering::SeqCst);
        kernel::futex_wake(&other.traced.held);
    }
    Ok(())
}

fn kill(other: &mut Thread) -> Result<(), u32> {
    const SIGKILL: u64 = 9;
    kernel::call(nr::__NR_kill, [pid_of(other) as u64, SIGKILL, 0, 0, 0, 0]);
    Ok(())
}

/// A word of memory, which is the tracer's own as well.
fn peek(address: u64, data: u64) -> Result<(u64, u64), u32> {
    let word = memory::read::<u64>(address).ok_or(errno::EIO)?;
    if memory::write(data, &word) { Ok((data, 8)) } else { Err(errno::EFAULT) }
}

fn give(target: u64, source: u64, bytes: u64) -> Result<(u64, u64), u32> {
    if memory::copy(target, source, bytes) { Ok((target, bytes)) } else { Err(errno::EFAULT) }
}

/// PTRACE_GETREGSET: `vector` is a `struct iovec`, of which the length is updated.
fn set_of_registers(other: &Thread, kind: u64, vector: u64) -> Result<[(u64, u64); 2], u32> {
    let [base, room] = memory::read::<[u64; 2]>(vector).ok_or(errno::EFAULT)?;
    let words = words_of(other);
    let (source, there) = match kind {
        NT_PRSTATUS => (words.as_ptr() as u64, size_of_val(&words) as u64),
        // What the processor has of a thread in the kernel is not to be had from here; no
        // call leaves anything in those registers that its caller could rely on.
        NT_X86_XSTATE if other.traced.has_vectors && vector_state().features != 0 => {
            (vectors_of(other), u64::from(vector_state().bytes))
        }
        _ => return Err(errno::EINVAL),
    };
    let bytes = room.min(there);
    let given = give(base, source, bytes)?;
    if !memory::write(vector + 8, &bytes) {
        return Err(errno::EFAULT);
    }
    Ok([given, (vector, 16)])
}

/// The saved area, with the word by which readers know its features (the first of those
/// that XSAVE leaves to software).
fn vectors_of(other: &Thread) -> u64 {
    const SOFTWARE_WORDS: u64 = 464;
    let area = signal_stack(other.index);
    memory::write(area + SOFTWARE_WORDS, &vector_state().features);
    area
}

/// `struct user_regs_struct` of a thread that has not got the token.
fn words_of(other: &Thread) -> [u64; WORDS] {
    const USER_CODE: u64 = 0x33;
    const USER_STACK: u64 = 0x2b;
    let in_call = other.resume_state == ResumeState::Call;
    let r = match other.resume_state {
        // SAFETY: the thread stands below these registers, on its own stack of the runtime's.
        ResumeState::Call | ResumeState::Preemption => unsafe { *(other.registers_at as *const Registers) },
        ResumeState::Beginning | ResumeState::Fault | ResumeState::Boarded => other.fault_registers,
    };
    let (rax, asked) = if in_call { (IN_CALL, r.rax & 0xffff_ffff) } else { (r.rax, u64::MAX) };
    [
        r.r15,
        r.r14,
        r.r13,
        r.r12,
        r.rbp,
        r.rbx,
        r.r11,
        r.r10,
        r.r9,
        r.r8,
        rax,
        r.rcx,
        r.rdx,
        r.rsi,
        r.rdi,
        asked,
        r.rip,
        USER_CODE,
        r.flags,
        r.rsp,
        USER_STACK,
        other.fs_base,
        0,
        0,
        0,
        0,
        0,
    ]
}

/// wait4(2) for a traced thread; `None`: it is the kernel's affair.
pub fn wait(number: u64, args: &[u64; 6]) -> Option<i64> {
    if number != u64::from(nr::__NR_wait4) || !process().in_group {
        return None;
    }
    let pid = args[0] as i32;
    let is_meant = |other: &Thread| is_ours(other) && (pid == -1 || other.tid == pid);
    let index = (0..known_threads()).find(|&index| {
        let other = &mut *thread_at(index);
        is_meant(other) && other.traced.unreported
    })?;
    let other = &mut *thread_at(index);
    other.traced.unreported = false;
    let [_, status, _, usage, ..] = *args;
    let written =
        (status == 0 || memory::write(status, &STOPPED)) && (usage == 0 || memory::write(usage, &[0u64; 18]));
    Some(if written { i64::from(other.tid) } else { -i64::from(errno::EFAULT) })
}
