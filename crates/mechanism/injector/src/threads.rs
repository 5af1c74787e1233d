//! All threads of a process, brought to a stand where they are.

use std::collections::BTreeMap;
use std::io;

use lane_protocol::THREADS_MAX;

use crate::error::{InjectError, Refusal};
use crate::remote::ProcessMemory;
use crate::tracee::{Held, NotHeld};

/// Code segment of 64-bit user code.
const CS_64_BIT: u64 = 0x33;
/// What the kernel notes in rax for a call that it would make again by itself
/// (include/linux/errno.h): ERESTARTSYS, -NOINTR, -NOHAND, _RESTARTBLOCK.
const RESTARTED: [i64; 4] = [-512, -513, -514, -516];
/// Blocks that the runtime needs for itself.
const OWN_BLOCKS: usize = 8;

/// Stops all threads of a process; the first is the process's first. On an error those
/// that stand go on.
pub(crate) fn stop_all(pid: i32) -> Result<Vec<Held>, InjectError> {
    let mut held: BTreeMap<i32, Held> = BTreeMap::new();
    let result = stop_each(pid, &mut held).and_then(|()| look_at(pid, &held));
    match result {
        Ok(()) => {
            let first = held.remove(&pid);
            Ok(first.into_iter().chain(held.into_values()).collect())
        }
        Err(why) => {
            let_go_as_found(held.into_values());
            Err(InjectError::Boarding { pid, why })
        }
    }
}

/// Until a look finds no new thread: those that stand make none.
fn stop_each(pid: i32, held: &mut BTreeMap<i32, Held>) -> Result<(), Refusal> {
    loop {
        let mut found_new = false;
        for tid in thread_ids(pid).map_err(Refusal::Memory)? {
            if held.contains_key(&tid) {
                continue;
            }
            found_new = true;
            match Held::stop(tid) {
                Ok(thread) => {
                    held.insert(tid, thread);
                }
                Err(NotHeld::Gone) if tid == pid => return Err(Refusal::FirstThreadEnded),
                Err(NotHeld::Gone) => {}
                Err(NotHeld::Refused(error)) => return Err(refused_by_kernel(pid, tid, error)),
                Err(NotHeld::JobStopped) => return Err(Refusal::JobStopped),
                Err(NotHeld::Stuck) => return Err(Refusal::Stuck(tid)),
            }
        }
        if !found_new {
            return Ok(());
        }
    }
}

fn refused_by_kernel(pid: i32, tid: i32, error: io::Error) -> Refusal {
    match crate::process_facts::tracer_of(tid) {
        Some(tracer) if tracer != 0 && tracer != std::process::id() as i32 => Refusal::Traced(tracer),
        _ => crate::process_facts::why_not_permitted(pid, error),
    }
}

fn look_at(pid: i32, held: &BTreeMap<i32, Held>) -> Result<(), Refusal> {
    if !held.contains_key(&pid) {
        return Err(Refusal::FirstThreadEnded);
    }
    if held.len() + OWN_BLOCKS > THREADS_MAX {
        return Err(Refusal::TooManyThreads(held.len()));
    }
    for thread in held.values() {
        if thread.found.cs != CS_64_BIT {
            return Err(Refusal::ThirtyTwoBit);
        }
        if thread.dispatches_calls() {
            return Err(Refusal::DispatchesCalls);
        }
        if thread.found.gs_base != 0 {
            return Err(Refusal::UsesGs);
        }
    }
    Ok(())
}

fn thread_ids(pid: i32) -> io::Result<Vec<i32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    let mut ids = Vec::new();
    for entry in entries {
        if let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// The registers with which a thread goes on: one that was in a call that would be made
/// again stands at its instruction.
pub(crate) fn interrupted_call(thread: &Held) -> libc::user_regs_struct {
    const SYSCALL_BYTES: u64 = 2;
    let mut registers = thread.found;
    let in_call = registers.orig_rax as i64 >= 0;
    if in_call && (RESTARTED.contains(&(registers.rax as i64)) || is_spurious_end(thread)) {
        registers.rip -= SYSCALL_BYTES;
        registers.rax = registers.orig_rax;
    }
    registers.orig_rax = u64::MAX;
    registers
}

/// All go on as if nothing had been.
pub(crate) fn let_go_as_found(threads: impl IntoIterator<Item = Held>) {
    for thread in threads {
        let mask = thread.mask;
        let registers = match is_spurious_end(&thread) {
            true => interrupted_call(&thread),
            // What the kernel would make again, it does.
            false => thread.found,
        };
        // One that has ended meanwhile needs nothing.
        let _ = thread.release(&registers, mask);
    }
}

/// True for a call that ended with EINTR only because its thread was stopped (signal(7),
/// "Interruption of system calls by stop signals"): no signal waits for the thread.
fn is_spurious_end(thread: &Held) -> bool {
    let ended_so = [
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_io_getevents,
        libc::SYS_read,
    ];
    let (number, result) = (thread.found.orig_rax as i64, thread.found.rax as i64);
    result == -i64::from(libc::EINTR)
        && ended_so.contains(&number)
        && crate::process_facts::waiting_signals(thread.tid()) & !thread.mask == 0
}

/// A thread inside of a restartable sequence goes on where the kernel would let it go on
/// (rseq(2)): the kernel will not do so any more, since the area is taken back.
pub(crate) fn leave_restartable(
    memory: &ProcessMemory,
    thread: &Held,
    registers: &mut libc::user_regs_struct,
) -> Result<(), Refusal> {
    const SEQUENCE_AT: u64 = 8;
    let [area, ..] = thread.rseq();
    if area == 0 {
        return Ok(());
    }
    let descriptor = memory.read_word(area + SEQUENCE_AT).map_err(Refusal::Memory)?;
    if descriptor == 0 {
        return Ok(());
    }
    let word = |index: u64| memory.read_word(descriptor + 8 * index).map_err(Refusal::Memory);
    // Version and flags, start, bytes, where an interrupted one goes on.
    let (start, bytes, abort) = (word(1)?, word(2)?, word(3)?);
    if registers.rip.wrapping_sub(start) < bytes {
        registers.rip = abort;
    }
    Ok(())
}
