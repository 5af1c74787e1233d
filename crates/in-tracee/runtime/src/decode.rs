//! Disassembly of single instructions of the program.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

use crate::memory;

/// An instruction that a jump may replace.
pub struct Replaceable {
    pub bytes: u64,
    pub code: [u8; 16],
    /// Place of a displacement relative to the instruction pointer, if any.
    pub displacement: Option<usize>,
}

/// Decodes the instruction at the address; `None` unless a jump of five bytes can
/// take its place: long enough, no branch, nothing that asks the kernel.
pub fn replaceable(address: u64) -> Option<Replaceable> {
    let mut code = [0u8; 16];
    let first = (4096 - address % 4096).min(16);
    if !memory::copy(code.as_mut_ptr() as u64, address, first) {
        return None;
    }
    memory::copy(code.as_mut_ptr() as u64 + first, address + first, 16 - first);
    let mut decoder = Decoder::with_ip(64, &code, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    decoder.decode_out(&mut instruction);
    if instruction.is_invalid() || instruction.len() < 5 || instruction.flow_control() != FlowControl::Next {
        return None;
    }
    let offsets = decoder.get_constant_offsets(&instruction);
    let mut relative = false;
    for operand in 0..instruction.op_count() {
        if instruction.op_kind(operand) == OpKind::Memory && instruction.memory_base() == Register::RIP {
            relative = true;
        }
    }
    if relative && (!offsets.has_displacement() || offsets.displacement_size() != 4) {
        return None;
    }
    let displacement = relative.then(|| offsets.displacement_offset());
    Some(Replaceable { bytes: instruction.len() as u64, code, displacement })
}
