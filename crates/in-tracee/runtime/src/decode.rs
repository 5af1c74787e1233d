//! Disassembly of single instructions of the program.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::memory;

/// Bytes of a jump.
pub const JUMP_BYTES: u64 = 5;
/// Most instructions that a jump touches.
pub const PIECES: usize = JUMP_BYTES as usize;

/// The instructions that a jump at an address touches, to be executed elsewhere.
#[derive(Clone, Copy)]
pub struct Cover {
    pub count: usize,
    pub pieces: [Piece; PIECES],
    /// Bytes of all of them.
    pub bytes: u64,
    pub code: [u8; 32],
}

/// One of them.
#[derive(Clone, Copy)]
pub struct Piece {
    /// Where it begins, from the address on.
    pub offset: u64,
    pub bytes: u64,
    pub form: Form,
}

/// How an instruction is made to do elsewhere what it did.
#[derive(Clone, Copy)]
pub enum Form {
    /// Copied; the place of a displacement relative to the instruction pointer, if any.
    Copied(Option<usize>),
    Jump(u64),
    /// The condition of the opcode, and where to.
    Conditional(u8, u64),
    /// loop, jrcxz: they know short distances only.
    Counting(u64),
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

/// True if a jump can take the place of the instruction at the address alone.
pub fn is_replaceable(address: u64) -> bool {
    // A jump that is there already may be ours, in place of a call.
    cover(address).is_some_and(|cover| cover.count == 1 && !matches!(cover.pieces[0].form, Form::Jump(_)))
}

/// Decodes what a jump at the address would touch; `None` if some of it cannot be
/// executed elsewhere.
pub fn cover(address: u64) -> Option<Cover> {
    let nothing = Piece { offset: 0, bytes: 0, form: Form::Copied(None) };
    let mut cover = Cover { count: 0, pieces: [nothing; PIECES], bytes: 0, code: [0; 32] };
    while cover.bytes < JUMP_BYTES {
        let at = address.checked_add(cover.bytes)?;
        let (code, instruction, displacement) = decode(at)?;
        let bytes = instruction.len() as u64;
        let start = cover.bytes as usize;
        cover.code[start..start + bytes as usize].copy_from_slice(&code[..bytes as usize]);
        let form = form(&code, &instruction, displacement)?;
        cover.pieces[cover.count] = Piece { offset: cover.bytes, bytes, form };
        cover.count += 1;
        cover.bytes += bytes;
    }
    Some(cover)
}

fn form(code: &[u8; 16], instruction: &Instruction, displacement: Option<usize>) -> Option<Form> {
    let near = |instruction: &Instruction| {
        matches!(instruction.op0_kind(), OpKind::NearBranch64).then(|| instruction.near_branch64())
    };
    match instruction.flow_control() {
        FlowControl::Next if instruction.is_string_instruction() => None,
        FlowControl::Next | FlowControl::IndirectBranch => copied(instruction, displacement),
        // Far returns, and those of interrupts, are not worth the trouble.
        FlowControl::Return if matches!(instruction.mnemonic(), Mnemonic::Ret) => Some(Form::Copied(None)),
        FlowControl::UnconditionalBranch => near(instruction).map(Form::Jump),
        FlowControl::ConditionalBranch
            if instruction.is_loop() || instruction.is_loopcc() || instruction.is_jcx_short() =>
        {
            near(instruction).map(Form::Counting)
        }
        FlowControl::ConditionalBranch if instruction.is_jcc_short_or_near() => {
            // The opcode's last byte comes before a distance of one byte, or of four.
            let distance_bytes = if instruction.is_jcc_short() { 1 } else { 4 };
            let condition = code[instruction.len() - 1 - distance_bytes] & 15;
            near(instruction).map(|target| Form::Conditional(condition, target))
        }
        _ => None,
    }
}

fn copied(instruction: &Instruction, displacement: Option<usize>) -> Option<Form> {
    let relative = (0..instruction.op_count()).any(|operand| {
        instruction.op_kind(operand) == OpKind::Memory && instruction.memory_base() == Register::RIP
    });
    if relative && displacement.is_none() {
        return None;
    }
    Some(Form::Copied(displacement.filter(|_| relative)))
}
