//! Instructions of the program's that the runtime makes, and that fault as they do in the processor.

use crate::debugger::agent_state;
use crate::ground::frame::RealFrame;
use crate::ground::notices;
use crate::ground::registers::{Registers, TRAP_FLAG};
use crate::preemption::left_handlers::leave_handler;
use crate::preemption::preempt;
use crate::state::block::thread;
use crate::state::signal_numbers::SIGSEGV;

/// An instruction of the program's that is made by us faults, as it does where the processor may not make
/// it (general protection). The registers are as before it.
#[cold]
pub fn protection_fault(registers: &Registers) -> ! {
    let thread = &mut *thread();
    (thread.fault_registers, thread.fault_signal) = (*registers, SIGSEGV);
    note_protection_fault();
    notices::fault_is_at_hand()
}

/// The same of one that trapped, whatever trap stands for it.
pub fn protection_fault_of_trap(context: &mut RealFrame) {
    let mut registers = context.registers();
    if thread().preemption.stepping || agent_state::is_stepping() {
        registers.flags &= !TRAP_FLAG;
    }
    preempt::abandon();
    note_protection_fault();
    leave_handler(context, registers, SIGSEGV);
}

/// What a handler is told of it.
fn note_protection_fault() {
    const PROTECTION_FAULT: u64 = 13;
    const SI_KERNEL: u64 = 0x80;
    let thread = &mut *thread();
    thread.fault_info = [0; 16];
    (thread.fault_info[0], thread.fault_info[1]) = (u64::from(SIGSEGV), SI_KERNEL);
    thread.signals.last_fault = [0, PROTECTION_FAULT, thread.signals.last_fault[2]];
}
