//! Disassembly of single instructions of the program, in its memory as it is.

pub use crate::ground::registers::Registers;
use runtime_logic::decode;
pub use runtime_logic::decode::{
    ARITHMETIC_FLAGS, JUMP_BYTES, LOOPNE, Moved, Run, jump_target, pops_flags, shows_flags, value_of,
};

use crate::ground::memory::Program;

/// The functions of [`runtime_logic::decode`] that read the program's code.
macro_rules! of_program {
    ($($name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {
        $(pub fn $name($($argument: $kind),*) $(-> $result)? {
            decode::$name(&Program, $($argument),*)
        })*
    };
}

of_program! {
    uses_float_unit(address: u64) -> bool;
    behind(address: u64) -> Option<u64>;
    each_operand_ahead(registers: &Registers, hand_over: &mut dyn FnMut(u64));
    repeated_bytes(address: u64) -> Option<u64>;
    run(address: u64) -> Option<Run>;
    run_with_calls(address: u64, bytes: usize) -> Option<Run>;
    covers_constant(address: u64) -> bool;
    movable(address: u64, offset: u8) -> Option<Moved>;
    sets_flags_first(address: u64, faults_are_seen: bool) -> bool;
    hide_trap_flag(from: u64, stack: u64);
}
