//! A live program under the debugger: stops before a call, at its end and at its death,
//! and what the debugger orders while the program stands.
//!
//! The agent (`crate::debugger::agent`) stops, steps and watches a live program as it does one
//! that is replayed: who stands still holds the token, so nobody else of the lane runs.
//! An order that forks or goes back is obeyed on the runtime's own stack, with the
//! program's vectors in the processor, and the program then stands where it stood; in a
//! checkpoint it is about to execute that instruction, as behind a fault.

use core::sync::atomic::{AtomicU32, Ordering};

use lane_protocol::{agent_interrupt, agent_stop, agent_verb, checkpoint_origin, command};
use linux_abi::{errno, general as nr};

use crate::checkpoint::area::area;
use crate::checkpoint::restore::{agent, rollback};
use crate::checkpoint::take::checkpoint;
use crate::debugger::agent_state::{mailbox, state};
use crate::debugger::edits::{self, Made};
use crate::debugger::live_stops::{own, stop_is_wanted};
use crate::ground::assembly::rv_agent_stop;
use crate::ground::kernel::{self, error};
use crate::ground::registers::Registers;
use crate::signals;
use crate::state::block::{Thread, process, thread};
use crate::state::live::is_debugged;
use crate::state::signal_state::ResumeState;

const NOBODY: u32 = u32::MAX;

/// Index of the thread that stood at the checkpoint at hand: it stands first again.
static STANDS_FIRST: AtomicU32 = AtomicU32::new(NOBODY);

/// The calling thread, which holds the token, stands still with these registers.
fn stand(registers: &Registers, kind: u32, code: i32) -> ! {
    own().code = Some(code);
    state().stop_in_stub = Some(kind);
    // SAFETY: the registers are the program's, complete; the handler of the trap stops there.
    unsafe { rv_agent_stop(registers) }
}

// --- stops ---

/// A call is about to be made, with the token: stands if the debugger wants that, or if
/// the program will not come back.
pub fn stop_before_call(registers: &Registers, args: &[u64; 6]) {
    let place = registers.rcx.wrapping_sub(2);
    let number = u64::from(registers.rax as u32);
    let (kind, code) = if mailbox().interrupt.load(Ordering::Relaxed) != 0 {
        (agent_stop::INTERRUPTED, 0)
    } else if own().told_end_at == place && own().goes_on_from == place {
        own().told_end_at = 0;
        return;
    } else if ends_process(number) {
        (agent_stop::LEAVING, args[0] as i32)
    } else if signals::kills_itself(number, args) {
        let signal = if number == u64::from(nr::__NR_tgkill) { args[2] } else { args[1] };
        (agent_stop::FAULTED, signal as i32)
    } else {
        return;
    };
    if kind != agent_stop::INTERRUPTED {
        (own().told_end_at, own().dies_of_fault) = (place, false);
    }
    own().is_at_log_end = true;
    let mut registers = *registers;
    registers.rip = place;
    stand(&registers, kind, code)
}

fn ends_process(number: u64) -> bool {
    number == u64::from(nr::__NR_exit_group) || number == u64::from(nr::__NR_exit) && process().threads <= 1
}

/// The program is about to die of a fault: stands there once.
pub fn stop_at_fault(registers: &Registers, signal: u32) {
    if !is_debugged() {
        return;
    }
    if own().told_end_at == registers.rip && own().goes_on_from == registers.rip {
        return;
    }
    (own().told_end_at, own().dies_of_fault) = (registers.rip, true);
    own().is_at_log_end = true;
    stand(registers, agent_stop::FAULTED, signal as i32)
}

/// A preemption was logged, and nothing since: the debugger may have wanted it.
pub fn note_preemption() {
    if stop_is_wanted() {
        own().is_at_log_end = true;
        edits::note_preemption();
    }
}

// --- orders ---

/// Does what was ordered; the thread then stands where it stood, or somewhere else.
pub fn obey_debugger() -> ! {
    let thread = &mut *thread();
    thread.resume_state = ResumeState::Fault;
    if state().command.verb != agent_verb::ORDER {
        obey_edit(thread);
    }
    let (kind, argument) = (state().command.order as u32, state().command.argument);
    let was_at_log_end = own().is_at_log_end;
    let answer = match kind {
        command::CHECKPOINT => {
            STANDS_FIRST.store(thread.index as u32, Ordering::SeqCst);
            let taken = checkpoint::take(checkpoint_origin::USER);
            STANDS_FIRST.store(NOBODY, Ordering::SeqCst);
            taken
        }
        command::DISCARD => checkpoint::discard(argument),
        command::TRY => rollback::could_go_back(argument),
        // Does not return if it can be done.
        command::ROLLBACK => agent::ask(kind, argument),
        _ => error(errno::EINVAL),
    };
    own().is_at_log_end = was_at_log_end;
    stand(&thread.fault_registers, agent_stop::ORDERED, answer as i32)
}

/// Changes what the debugger wants to be changed, where the program stands.
fn obey_edit(thread: &mut Thread) -> ! {
    let made = edits::obey(&mut thread.fault_registers);
    match made {
        Ok(Made::Edit) => {
            own().is_at_log_end = false;
            if own().dies_of_fault || state().command.verb == agent_verb::SET {
                // What it was told is about to happen may not happen any more.
                own().told_end_at = 0;
            }
        }
        Ok(Made::Place) => own().is_at_log_end = true,
        Ok(Made::Nothing) | Err(_) => {}
    }
    let answer = made.map_or_else(|number| -(number as i32), |_| 0);
    stand(&thread.fault_registers, agent_stop::ORDERED, answer)
}

// --- behind a way back ---

/// The program was rolled back: it stands before it does anything.
pub fn note_way_back() {
    if is_debugged() {
        area().stands.store(1, Ordering::SeqCst);
        mailbox().interrupt.store(agent_interrupt::ANYWHERE, Ordering::SeqCst);
    }
}

/// A thread is about to acquire the token: the one that stood at the checkpoint comes first.
pub fn let_first_come(index: usize) {
    while area().stands.load(Ordering::SeqCst) != 0 {
        let first = STANDS_FIRST.load(Ordering::SeqCst);
        if first == NOBODY || first == index as u32 {
            return;
        }
        kernel::futex_wait_ns(&area().stands, 1, 1_000_000);
    }
}

/// The first thread that comes here, with the token, stands.
pub fn stand_if_first(block: &Thread) {
    if !is_debugged() || area().stands.swap(0, Ordering::SeqCst) == 0 {
        return;
    }
    // What the debugger has kept stands as it stood then, at the end of its log or before that.
    let was_kept_by_debugger = STANDS_FIRST.swap(NOBODY, Ordering::SeqCst) != NOBODY;
    own().is_at_log_end &= was_kept_by_debugger;
    let registers = match block.resume_state {
        ResumeState::Fault => block.fault_registers,
        // SAFETY: the entry code laid them out, or the preemption; nothing has run over them.
        _ => unsafe { *(block.registers_at as *const Registers) },
    };
    let mut registers = registers;
    match block.resume_state {
        ResumeState::Call => {
            registers.rip = registers.rcx.wrapping_sub(2);
            own().is_at_log_end = true;
        }
        ResumeState::Preemption => {
            registers.rip = crate::code::sites::translate(registers.rip);
            // The preemption is the last event.
            (state().steps, state().steps_known) = (0, true);
        }
        ResumeState::Fault | ResumeState::Beginning | ResumeState::Boarded => {}
    }
    stand(&registers, agent_stop::ROLLED_BACK, 0)
}
