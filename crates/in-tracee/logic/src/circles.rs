//! Programs that compute in a circle: whose registers, and all memory that they name on the way, come back to what they
//! were. Nothing changes from then on, however often they go round, so any round is as good as another.

use iced_x86::{Mnemonic, Register};

use crate::Memory;
use crate::decode::{self, memory_operand, value_of};
use crate::registers::Registers;
use crate::word_sums::add;

/// Most bytes that an instruction may name: a vector register's.
const BYTES_MAX: usize = 64;

/// The memory that one instruction names.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named {
    pub address: u64,
    /// 0: it names none.
    pub bytes: u64,
}

/// What the instruction at the program's place names, beside the stack's top; `None` where that is not all of the memory that
/// it may change, or not known: string instructions, those that gather, scatter and save states, and the segment gs.
pub fn named(memory: &impl Memory, registers: &Registers, fs_base: u64) -> Option<Named> {
    let (_, instruction, _) = decode::decode(memory, registers.rip)?;
    if instruction.is_string_instruction() || instruction.is_vsib() {
        return None;
    }
    let Some(operand) = memory_operand(&instruction) else { return Some(Named::default()) };
    let bytes = instruction.memory_size().size();
    if instruction.mnemonic() == Mnemonic::Lea || instruction.mnemonic() == Mnemonic::Nop {
        return Some(Named::default());
    }
    if bytes == 0 || bytes > BYTES_MAX {
        return None;
    }
    let value =
        |register| if register == Register::FS { Some(fs_base) } else { value_of(register, registers) };
    let address = instruction.virtual_address(operand, 0, |register, _, _| value(register))?;
    Some(Named { address, bytes: bytes as u64 })
}

/// Adds what was named to a sum; `None` where it cannot be read.
pub fn add_named(sum: u64, memory: &impl Memory, named: Named) -> Option<u64> {
    let mut bytes = [0; BYTES_MAX];
    let bytes = bytes.get_mut(..named.bytes as usize)?;
    if !memory.read_into(named.address, bytes) {
        return None;
    }
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    Some(words.fold(add(sum, named.address), add))
}
