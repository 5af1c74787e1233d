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

/// Reads the code at the address and decodes one instruction.
fn decode(address: u64) -> Option<([u8; 16], Instruction, Option<usize>)> {
    let mut code = [0u8; 16];
    let first = (4096 - address % 4096).min(16);
    if !memory::copy(code.as_mut_ptr() as u64, address, first) {
        return None;
    }
    memory::copy(code.as_mut_ptr() as u64 + first, address + first, 16 - first);
    let mut decoder = Decoder::with_ip(64, &code, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    decoder.decode_out(&mut instruction);
    if instruction.is_invalid() {
        return None;
    }
    let offsets = decoder.get_constant_offsets(&instruction);
    let displacement = (offsets.has_displacement() && offsets.displacement_size() == 4)
        .then(|| offsets.displacement_offset());
    Some((code, instruction, displacement))
}

/// Length of the instruction at the address if it is a repeated string
/// instruction, which can be interrupted half-way.
pub fn repeated_bytes(address: u64) -> Option<u64> {
    let (_, instruction, _) = decode(address)?;
    let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    (repeats && instruction.is_string_instruction()).then_some(instruction.len() as u64)
}

/// Decodes the instruction at the address; `None` unless a jump of five bytes can
/// take its place: long enough, no branch, nothing that asks the kernel.
pub fn replaceable(address: u64) -> Option<Replaceable> {
    let (code, instruction, displacement) = decode(address)?;
    if instruction.len() < 5
        || instruction.flow_control() != FlowControl::Next
        || instruction.is_string_instruction()
    {
        return None;
    }
    let relative = (0..instruction.op_count()).any(|operand| {
        instruction.op_kind(operand) == OpKind::Memory && instruction.memory_base() == Register::RIP
    });
    if relative && displacement.is_none() {
        return None;
    }
    let displacement = displacement.filter(|_| relative);
    Some(Replaceable { bytes: instruction.len() as u64, code, displacement })
}
