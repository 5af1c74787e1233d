//! How a thread that stands goes on, in whichever mode the process is.

use crate::address_space::code_changes;
use crate::checkpoint::restore::debugging;
use crate::checkpoint::take::holding;
use crate::entry::preemptions;
use crate::ground::assembly::{rv_make, rv_resume};
use crate::ground::registers::{Leave, Registers};
use crate::preemption::preemption_point;
use crate::process::threads;
use crate::scheduler::kept_registers::note;
use crate::scheduler::token;
use crate::signals;
use crate::state::block::{process, thread};
use crate::state::signal_state::ResumeState;
use crate::syscalls::dispatch;

/// Goes on from where the calling thread stands, in whichever mode the process is.
pub fn resume() -> ! {
    let own = &mut *thread();
    if process().replays() {
        // The thread of the last event is the only one that stands behind a preemption to which no
        // token event belongs yet. Others may have got the token before they come here.
        let was_last = process().logged_thread == own.index as u32;
        if was_last && own.resume_state == ResumeState::Preemption
            || crate::checkpoint::area::takes_first_ticket(own.index)
        {
            token::follow_yield();
        } else {
            token::wait_to_run();
        }
    }
    if !process().replays() {
        // A replay, in which nobody releases the token, has led it here; it waits for the token now.
        note();
        debugging::let_first_come(own.index);
    }
    if own.resume_state == ResumeState::Beginning {
        // It acquires the token by itself.
        threads::begin_here();
    }
    if !process().replays() {
        match own.resume_state {
            ResumeState::Preemption => holding::take_at_preemption(),
            _ => holding::take(),
        }
        signals::set_real_mask(own.signals.mask);
        debugging::stand_if_first(own);
    }
    if own.resume_state == ResumeState::Boarded {
        go_on_boarded();
    }
    if own.resume_state == ResumeState::Fault {
        // SAFETY: the registers are the program's, complete.
        unsafe { rv_resume(&own.fault_registers) }
    }
    // SAFETY: the entry code laid them out, or the preemption; nothing has run over them.
    let mut registers = unsafe { *(own.registers_at as *const Registers) };
    if own.resume_state == ResumeState::Preemption {
        preemptions::go_on(registers);
    }
    // SAFETY: registers of a call of this thread.
    let leave = unsafe { dispatch::on_call(&mut registers) };
    // SAFETY: as above.
    unsafe {
        match leave {
            Leave::Make => rv_make(&mut registers),
            Leave::Call => registers.r11 = registers.flags,
            Leave::Exactly => {}
        }
        rv_resume(&registers)
    }
}

/// The registers are kept as they were: code may be rewritten under them, now or later.
fn go_on_boarded() -> ! {
    let mut registers = thread().fault_registers;
    registers.rip = crate::code::sites::translate(registers.rip);
    if process().replays() {
        code_changes::follow();
        preemption_point::arm_if_next();
    }
    crate::debugger::agent::leaving(&mut registers);
    // SAFETY: the registers are the program's, complete.
    unsafe { rv_resume(&registers) }
}
