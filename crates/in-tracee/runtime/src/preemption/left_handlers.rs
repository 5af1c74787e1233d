//! Leaving a handler: what remains to be done is not done in it.

use crate::ground::assembly;
use crate::ground::frame::RealFrame;
use crate::ground::registers::{Registers, TRAP_FLAG};
use crate::state::block::thread;

/// What remains to be done is not done in a handler, but by `entry::traps::on_fault`, without the program's steps:
/// `what` is a signal's number, or what stands in place of one.
pub fn leave_handler(context: &mut RealFrame, registers: Registers, what: u32) {
    let thread = &mut *thread();
    (thread.fault_registers, thread.fault_signal) = (registers, what);
    context.flags &= !TRAP_FLAG;
    context.rip = assembly::rv_entry_fault as *const () as u64;
}
