//! Stops of a live program: where it stands, and what it was told there.

use core::sync::atomic::Ordering;

use crate::debugger::agent_state::{Mode, is_stepping, mailbox, state};
use crate::debugger::{displaced, edits, watchpoints};
use crate::ground::frame::RealFrame;
use crate::ground::owned::{Held, Owned};
use crate::ground::registers::TRAP_FLAG;
use crate::preemption::left_handlers;
use crate::signals;
use crate::state::block::{process, thread, thread_status};
use crate::state::live::is_debugged;

pub struct State {
    /// The program stands before a call, at a fault, or at a preemption that was logged for
    /// that: where a replay of its log would end.
    pub is_at_log_end: bool,
    /// Exit code, signal or answer of the stop at hand.
    pub code: Option<i32>,
    /// It was told where it stands that it will end there: the address, or 0.
    pub told_end_at: u64,
    /// It would end by a fault of the instruction there.
    pub dies_of_fault: bool,
    /// It goes on from there.
    pub goes_on_from: u64,
}

pub static STATE: Owned<State> = Owned::new(State {
    is_at_log_end: false,
    code: None,
    told_end_at: 0,
    dies_of_fault: false,
    goes_on_from: 0,
});

pub fn own() -> Held<State> {
    STATE.hold()
}

/// True where a replay of the log would end.
pub fn is_at_log_end() -> bool {
    is_debugged() && own().is_at_log_end
}

/// The code of the stop at hand.
pub fn code_of_stop() -> Option<i32> {
    own().code.take()
}

/// The program goes on from where it stands.
pub fn note_going_on(place: u64) {
    let own = &mut *own();
    own.is_at_log_end = false;
    own.goes_on_from = place;
    edits::note_going_on();
}

/// The debugger wants a thread to stand that is in the runtime: a call at hand is as
/// about to begin.
pub fn leave_call_for_debugger(context: &mut RealFrame) {
    let wanted = is_debugged() && mailbox().interrupt.load(Ordering::Relaxed) != 0;
    if wanted && thread().status != thread_status::AGENT {
        signals::on_asked_to_stop(context, true);
    }
}

/// Leaves the handler of the stop, to obey.
pub fn leave_for_order(context: &mut RealFrame) {
    let mut registers = context.registers();
    registers.flags &= !TRAP_FLAG;
    left_handlers::leave_handler(context, registers, ORDER_OF_DEBUGGER);
}

/// In place of a fault's signal: the debugger has ordered something.
pub const ORDER_OF_DEBUGGER: u32 = u32::MAX;

/// From here on nobody looks.
pub fn release() {
    process().mode.set_agent(false);
    watchpoints::forget();
    state().mode = Mode::Running;
}

/// True where a preemption would get into the debugger's way.
pub fn cannot_preempt_at(place: u64) -> bool {
    is_debugged() && (is_stepping() || displaced::is_in_stub(place))
}

/// True if the debugger wants the program to stand.
pub fn stop_is_wanted() -> bool {
    is_debugged() && mailbox().interrupt.load(Ordering::Relaxed) != 0
}
