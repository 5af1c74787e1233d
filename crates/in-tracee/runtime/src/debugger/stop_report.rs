//! What the debugger is told of a process that stands still.

use core::sync::atomic::Ordering;

use lane_protocol::{AGENT_THREADS_MAX, AgentStop, AgentThread, agent_stop, report_kind};
use linux_abi::general as nr;

use crate::address_space::mapped_files;
use crate::code::sites;
use crate::debugger::agent_state::{self, Mode, mailbox, state};
use crate::debugger::{branch, breakpoints, caught_signals, copies, programs};
use crate::ground::frame::RealFrame;
use crate::ground::kernel;
use crate::ground::registers::{Registers, TRAP_FLAG, fs_base};
use crate::ground::vector_state::vector_state;
use crate::state::block::{known_threads, process, thread, thread_at, thread_status};
use crate::state::group_replay;

/// Tells where the program stands. `asked` equals `stopped` while a command is done.
pub fn publish(context: Option<&RealFrame>, kind: u32, report: u32, code: i32) {
    let own = &mut *state();
    let mailbox = &mut *mailbox();
    mailbox.interrupt.store(0, Ordering::Relaxed);
    let stop = &mut mailbox.stop;
    stop.kind = kind;
    stop.report = report;
    stop.code = code;
    stop.thread = thread().index as u32;
    stop.event = process().log.events;
    stop.steps = own.steps;
    stop.steps_known = u32::from(own.steps_known);
    stop.cannot_copy = u32::from(copies::would_share() || !process().replays() && !process().is_branch());
    stop.met_others = u64::from(process().met_others);
    stop.without_others = u64::from(process().in_group && group_replay::is_without_others());
    stop.shared_bytes = if stop.without_others == 0 { 0 } else { mapped_files::object_bytes() };
    stop.is_at_log_end = u64::from(crate::debugger::live_stops::is_at_log_end());
    stop.call = if own.steps_known && own.steps == 0 { own.call_here } else { 0 };
    (stop.signal, stop.signal_info) = caught_signals::told();
    stop.command_steps = own.command_steps;
    stop.hits = own.hits;
    stop.last_hit = own.last_hit;
    stop.recorded_bytes = programs::recorded_bytes();
    stop.log_position = process().log.consumed_bytes();
    stop.first_stack = own.first_stack;
    stop.images = own.images;
    (stop.vectors, stop.vector_bytes) = context.map_or((0, 0), RealFrame::vector_memory);
    stop.vector_parts = vector_state().parts.map(|(offset, _)| offset);
    stop.boundary_count = own.boundaries;
    stop.boundaries = own.last_boundaries;
    if process().replays() {
        copies::settle();
    }
    let registers = match context {
        Some(context) => Some(context.registers()),
        None => waiting_registers(&thread()),
    };
    publish_threads(stop, registers);
    mailbox.stopped.fetch_add(1, Ordering::Release);
    kernel::futex_wake(&mailbox.stopped);
}

fn publish_threads(stop: &mut AgentStop, running: Option<Registers>) {
    let own = &mut *thread();
    stop.threads[0] = entry_of(own, fs_base(), running.unwrap_or_default());
    let mut count = 1;
    for index in 0..known_threads() {
        let other = &mut *thread_at(index);
        if index == own.index
            || count == AGENT_THREADS_MAX
            || other.status != thread_status::LIVE
            || other.process != own.process
        {
            continue;
        }
        if let Some(registers) = waiting_registers(other) {
            let fs_base = if process().replays() { other.waiting.fs_base } else { other.fs_base };
            stop.threads[count] = entry_of(other, fs_base, registers);
            count += 1;
        }
    }
    stop.thread_count = count as u32;
}

pub fn waiting_registers(thread: &crate::state::block::Thread) -> Option<Registers> {
    // SAFETY: while it is not zero, the thread's runtime stack holds registers there.
    (thread.user_registers != 0).then(|| unsafe { *(thread.user_registers as *const Registers) })
}

fn entry_of(thread: &crate::state::block::Thread, fs_base: u64, registers: Registers) -> AgentThread {
    let flags = registers.flags & !TRAP_FLAG;
    let shown = Registers { rip: sites::original(registers.rip), flags, ..registers };
    AgentThread { index: thread.index as u32, tid: thread.tid, fs_base, registers: shown.numbered() }
}

/// Waits for a command, and notes it.
pub fn take_command() {
    wait_for_command();
    let own = &mut *state();
    own.command = mailbox().command;
    own.command.breakpoint_count = own.command.breakpoint_count.min(own.command.breakpoints.len() as u32);
    own.command.watch_count = own.command.watch_count.min(own.command.watches.len() as u32);
}

pub fn wait_for_command() {
    let mailbox = &mut *mailbox();
    let seen = mailbox.stopped.load(Ordering::Relaxed);
    loop {
        let asked = mailbox.asked.load(Ordering::Acquire);
        if asked == seen {
            return;
        }
        kernel::futex_wait(&mailbox.asked, asked, 1000);
        if kernel::call(nr::__NR_getppid, [0; 6]) == 1 {
            kernel::exit_group(255);
        }
    }
}

/// The log says no more, or something else than the program does: stands still for
/// good, if the process is debugged.
pub fn stand_at_end(report: u32, code: i32) {
    if !agent_state::is_debugging() || report == report_kind::NONE {
        return;
    }
    breakpoints::give_back_code();
    state().mode = Mode::Stopped;
    loop {
        publish(None, agent_stop::END, report, code);
        while branch::from_end() {}
    }
}
