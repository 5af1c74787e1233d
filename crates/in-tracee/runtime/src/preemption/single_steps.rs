//! The runtime's single steps through the program's code, on the way to a preemption and over a breakpoint: the trap flag
//! is set for one instruction, and is not seen by it. What a program's pushf pushes comes back with its popf, long after.
//!
//! Deliberately absent: the debugger's steps (`debugger::agent`), and the program's own.

use crate::ground::decode;
use crate::ground::frame::RealFrame;
use crate::ground::memory;
use crate::ground::registers::{Registers, TRAP_FLAG};
use crate::state::block::thread;

/// Most bytes of an instruction that pushes or pops the flags.
const FLAGS_BYTES: u64 = 2;

/// The handler's frame leads into the program for one instruction.
pub fn begin(context: &mut RealFrame) {
    thread().preemption.stepped_from = context.rip;
    context.flags |= TRAP_FLAG;
}

/// The same of registers with which a boundary is left.
pub fn begin_with(registers: &mut Registers) {
    thread().preemption.stepped_from = registers.rip;
    registers.flags |= TRAP_FLAG;
}

/// The step has ended: the flag is where the program has set it itself.
pub fn end(context: &mut RealFrame) {
    let from = core::mem::take(&mut thread().preemption.stepped_from);
    let mut code = [0; FLAGS_BYTES as usize];
    // It may have ended elsewhere: in a handler.
    let is_behind = (1..=FLAGS_BYTES).contains(&context.rip.wrapping_sub(from));
    if is_behind && memory::copy(code.as_mut_ptr() as u64, from, FLAGS_BYTES) {
        if decode::pops_flags(&code) {
            return;
        }
        decode::hide_trap_flag(from, context.rsp);
    }
    context.flags &= !TRAP_FLAG;
}
