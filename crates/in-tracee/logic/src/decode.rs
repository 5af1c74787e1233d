//! Disassembly of single instructions of the program.
//!
//! Deliberately absent: what patched code held before; the caller's memory shows the program's own bytes
//! where they count.

use iced_x86::{
    Code, ConstantOffsets, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

use crate::Memory;
use crate::registers::{Registers, TRAP_FLAG};

/// Bytes of the jump that replaces instructions.
pub const JUMP_BYTES: usize = 5;

/// Condition of loopne; then loope, loop and jrcxz.
pub const LOOPNE: u8 = 16;

/// Instructions in a row that a jump may replace: they go on from a copy.
#[derive(Clone, Copy, Default)]
pub struct Run {
    pub instructions: [Moved; JUMP_BYTES],
    pub count: usize,
    pub bytes: u64,
}

/// One instruction of a run.
#[derive(Clone, Copy, Default)]
pub struct Moved {
    /// Where it is in the run.
    pub offset: u8,
    pub bytes: u8,
    pub code: [u8; 16],
    /// Place of a displacement relative to the instruction pointer, if any.
    pub displacement: Option<u8>,
    /// Target of a direct jump, and its condition if it has one: that of jcc, or from
    /// [`LOOPNE`] on, those that look at rcx.
    pub jump: Option<(u64, Option<u8>)>,
    /// The jump is a call.
    pub is_call: bool,
    /// Jumps to where a register or memory says, as a return does.
    pub is_indirect: bool,
}

impl Run {
    pub const NONE: Run = Run {
        instructions: [Moved {
            offset: 0,
            bytes: 0,
            code: [0; 16],
            displacement: None,
            jump: None,
            is_call: false,
            is_indirect: false,
        }; JUMP_BYTES],
        count: 0,
        bytes: 0,
    };
}

/// Reads the code at the address and decodes one instruction.
pub fn decode(memory: &impl Memory, address: u64) -> Option<([u8; 16], Instruction, ConstantOffsets)> {
    let mut code = [0u8; 16];
    if !read_code(memory, address, &mut code) {
        return None;
    }
    let mut decoder = Decoder::with_ip(64, &code, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    decoder.decode_out(&mut instruction);
    if instruction.is_invalid() {
        return None;
    }
    Some((code, instruction, decoder.get_constant_offsets(&instruction)))
}

/// Fills the buffer as far as memory goes; false if there is nothing on the first page.
fn read_code(memory: &impl Memory, address: u64, code: &mut [u8; 16]) -> bool {
    let (first, next) = code.split_at_mut((4096 - address % 4096).min(16) as usize);
    if !memory.read_into(address, first) {
        return false;
    }
    // Nothing may be mapped behind the page.
    if !next.is_empty() && !memory.read_into(address.wrapping_add(first.len() as u64), next) {
        next.fill(0);
    }
    true
}

/// True for the instructions of the floating-point unit: their opcode is one of 0xd8 to 0xdf, behind their prefixes
/// (Intel SDM volume 2, 2.1). Where the last of these was is lost with each trap on processors of AMD.
pub fn uses_float_unit(memory: &impl Memory, address: u64) -> bool {
    let mut code = [0u8; 16];
    read_code(memory, address, &mut code);
    let is_prefix = |byte: &&u8| matches!(**byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    code.iter().find(|byte| !is_prefix(byte)).is_some_and(|opcode| (0xd8..=0xdf).contains(opcode))
}

/// The address behind the instruction at this one.
pub fn behind(memory: &impl Memory, address: u64) -> Option<u64> {
    let (_, instruction, _) = decode(memory, address)?;
    Some(instruction.next_ip())
}

/// Where bytes that look like a direct jump lead to; `address`: theirs.
pub fn jump_target(bytes: &[u8], address: u64) -> Option<u64> {
    let far = |at: usize| {
        let offset = i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
        Some((at as u64 + 4).wrapping_add(offset as u64))
    };
    let offset = match *bytes {
        [0xeb | 0x70..=0x7f | 0xe0..=0xe3, offset, ..] => 2u64.wrapping_add(offset as i8 as u64),
        [0xe9, ..] => far(1)?,
        [0x0f, 0x80..=0x8f, ..] => far(2)?,
        _ => return None,
    };
    Some(address.wrapping_add(offset))
}

/// Instructions that are looked at ahead of the program: those of a small loop.
const AHEAD: usize = 40;
/// Ways among them, where jumps part them.
const WAYS: usize = 8;

/// Hands over the addresses of memory that the instructions from here on name, once round
/// the loop if it is in one: a jump back is taken to be taken, one ahead both ways.
pub fn each_operand_ahead(memory: &impl Memory, registers: &Registers, hand_over: &mut dyn FnMut(u64)) {
    let mut seen = [0; AHEAD];
    let mut count = 0;
    let mut ways = [registers.rip; WAYS];
    let mut open = 1;
    while open != 0 {
        open -= 1;
        let mut address = ways[open];
        while count < AHEAD && !seen[..count].contains(&address) {
            let Some((_, instruction, _)) = decode(memory, address) else { break };
            seen[count] = address;
            count += 1;
            if let Some(named) = named_memory(&instruction, registers) {
                hand_over(named);
            }
            address = instruction.next_ip();
            let target = instruction.near_branch_target();
            match instruction.flow_control() {
                FlowControl::UnconditionalBranch => address = target,
                FlowControl::ConditionalBranch if target < address => address = target,
                FlowControl::ConditionalBranch if open < WAYS => {
                    ways[open] = target;
                    open += 1;
                }
                FlowControl::Return | FlowControl::IndirectBranch => break,
                _ => {}
            }
        }
    }
}

/// Which of an instruction's operands is memory.
pub fn memory_operand(instruction: &Instruction) -> Option<u32> {
    (0..instruction.op_count()).find(|&index| instruction.op_kind(index) == OpKind::Memory)
}

/// The memory that an instruction names.
pub fn named_memory(instruction: &Instruction, registers: &Registers) -> Option<u64> {
    instruction
        .virtual_address(memory_operand(instruction)?, 0, |register, _, _| value_of(register, registers))
}

/// What a register of an operand's address holds.
pub fn value_of(register: Register, registers: &Registers) -> Option<u64> {
    Some(match register {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        // Flat segments begin at 0.
        Register::CS | Register::DS | Register::SS | Register::ES => 0,
        _ => return None,
    })
}

/// Length of the instruction at the address if it is a repeated string
/// instruction, which can be interrupted half-way.
pub fn repeated_bytes(memory: &impl Memory, address: u64) -> Option<u64> {
    let (_, instruction, _) = decode(memory, address)?;
    is_repeated(&instruction).then_some(instruction.len() as u64)
}

fn is_repeated(instruction: &Instruction) -> bool {
    let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    repeats && instruction.is_string_instruction()
}

/// The instructions at the address that a jump would cover; `None` if one of them
/// cannot go on from a copy: it asks the kernel, or calls.
pub fn run(memory: &impl Memory, address: u64) -> Option<Run> {
    run_of(memory, address, JUMP_BYTES, |address, offset| movable(memory, address, offset))
}

/// The same for so many bytes; the last may be a direct call.
pub fn run_with_calls(memory: &impl Memory, address: u64, bytes: usize) -> Option<Run> {
    run_of(memory, address, bytes, |address, offset| {
        movable(memory, address, offset).or_else(|| call(memory, address, offset))
    })
}

fn run_of(
    memory: &impl Memory,
    address: u64,
    bytes_min: usize,
    moved: impl Fn(u64, u8) -> Option<Moved>,
) -> Option<Run> {
    let mut run = Run::default();
    while (run.bytes as usize) < bytes_min {
        let moved = moved(address + run.bytes, run.bytes as u8)?;
        run.bytes += u64::from(moved.bytes);
        run.instructions[run.count] = moved;
        run.count += 1;
        // Behind a jump that is always taken nothing belongs to the run.
        let ends = moved.is_indirect || matches!(moved.jump, Some((_, None)));
        if ends && (run.bytes as usize) < bytes_min {
            // What only fills the space up to the next function nobody needs.
            if !is_padding(memory, address + run.bytes, address + bytes_min as u64) {
                return None;
            }
            run.bytes = bytes_min as u64;
        }
    }
    Some(run)
}

/// True if a jump there covers part of a constant of four bytes or more, or where a jump of the
/// program leads to, or a long instruction that does nothing: HotSpot has numbers in those.
pub fn covers_constant(memory: &impl Memory, address: u64) -> bool {
    let (mut at, end) = (address, address + JUMP_BYTES as u64);
    while at < end {
        let Some((_, instruction, offsets)) = decode(memory, at) else { return false };
        let is_condition = instruction.flow_control() == FlowControl::ConditionalBranch;
        let is_long = offsets.has_immediate() && offsets.immediate_size() >= 4;
        let is_covered = is_long && !is_condition && at + (offsets.immediate_offset() as u64) < end;
        if is_covered || instruction.mnemonic() == Mnemonic::Nop && instruction.len() >= 4 {
            return true;
        }
        at = instruction.next_ip();
    }
    false
}

/// True if there are only nops, or traps that stand for them.
fn is_padding(memory: &impl Memory, mut start: u64, end: u64) -> bool {
    while start < end {
        let Some((code, instruction, _)) = decode(memory, start) else { return false };
        if instruction.mnemonic() != Mnemonic::Nop && code[0] != 0xcc {
            return false;
        }
        start = instruction.next_ip();
    }
    true
}

/// A direct call.
fn call(memory: &impl Memory, address: u64, offset: u8) -> Option<Moved> {
    let (code, instruction, _) = decode(memory, address)?;
    let is_call = instruction.code() == Code::Call_rel32_64 && code[0] == 0xe8;
    is_call.then(|| Moved {
        offset,
        bytes: instruction.len() as u8,
        code,
        displacement: None,
        jump: Some((instruction.near_branch_target(), None)),
        is_call: true,
        is_indirect: false,
    })
}

/// The instruction at the address, if it can go on from a copy.
pub fn movable(memory: &impl Memory, address: u64, offset: u8) -> Option<Moved> {
    let (code, instruction, offsets) = decode(memory, address)?;
    let mut moved = Moved {
        offset,
        bytes: instruction.len() as u8,
        code,
        displacement: None,
        jump: None,
        is_call: false,
        is_indirect: matches!(instruction.code(), Code::Jmp_rm64 | Code::Retnq | Code::Retnq_imm16),
    };
    match instruction.flow_control() {
        FlowControl::Next => {}
        FlowControl::IndirectBranch | FlowControl::Return if moved.is_indirect => {}
        FlowControl::ConditionalBranch if instruction.is_jcc_short_or_near() => {
            // 7x, or 0f 8x.
            let condition = if code[0] == 0x0f { code[1] } else { code[0] } & 15;
            let plain = matches!((code[0], instruction.len()), (0x70..=0x7f, 2) | (0x0f, 6));
            moved.jump = plain.then_some((instruction.near_branch_target(), Some(condition)));
            return plain.then_some(moved);
        }
        FlowControl::ConditionalBranch if matches!(code[0], 0xe0..=0xe3) => {
            moved.jump = Some((instruction.near_branch_target(), Some(LOOPNE | code[0] & 3)));
            return Some(moved);
        }
        FlowControl::UnconditionalBranch
            if matches!(instruction.code(), Code::Jmp_rel8_64 | Code::Jmp_rel32_64)
                && matches!(code[0], 0xeb | 0xe9) =>
        {
            moved.jump = Some((instruction.near_branch_target(), None));
            return Some(moved);
        }
        _ => return None,
    }
    // The environment of the floating-point unit says where its last instruction was.
    let shows_place = matches!(instruction.mnemonic(), Mnemonic::Fnstenv | Mnemonic::Fnsave);
    if is_repeated(&instruction) || shows_flags(&code) || shows_place {
        return None;
    }
    let names = |base: Register| memory_operand(&instruction).is_some() && instruction.memory_base() == base;
    if names(Register::EIP) {
        return None;
    }
    if names(Register::RIP) {
        let is_whole = offsets.has_displacement() && offsets.displacement_size() == 4;
        moved.displacement = Some(is_whole.then(|| offsets.displacement_offset() as u8)?);
    }
    Some(moved)
}

/// The flags that computing sets: carry, parity, adjust, zero, sign, overflow.
pub const ARITHMETIC_FLAGS: u64 = 0x8d5;

/// True if the program sets all flags that computing sets, before it looks at one of them or
/// goes a way that is not known, without a fault in between that would show them: what it comes
/// with is then of no account. The program gets to see faults if it has a handler for them.
pub fn sets_flags_first(memory: &impl Memory, address: u64, faults_are_seen: bool) -> bool {
    use iced_x86::RflagsBits;
    const ARITHMETIC: u32 =
        RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;
    const LOOKED_AT: usize = 12;
    let mut at = address;
    for _ in 0..LOOKED_AT {
        let Some((_, instruction, _)) = decode(memory, at) else { return false };
        if matches!(instruction.code(), Code::Jmp_rel8_64 | Code::Jmp_rel32_64) {
            at = instruction.near_branch_target();
            continue;
        }
        let is_on_stack = matches!(instruction.memory_base(), Register::RSP | Register::RBP);
        let touches_memory = !is_on_stack && memory_operand(&instruction).is_some();
        let divides = matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv);
        let may_fault =
            divides || touches_memory && !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
        if instruction.rflags_read() & ARITHMETIC != 0
            || instruction.flow_control() != FlowControl::Next
            || may_fault && faults_are_seen
            || instruction.is_stack_instruction()
        {
            return false;
        }
        if sets_all_flags(&instruction) {
            return true;
        }
        at = instruction.next_ip();
    }
    false
}

/// These set all of them, whatever they compute with; processors clear AF where the manual
/// calls it undefined.
fn sets_all_flags(instruction: &Instruction) -> bool {
    use Mnemonic::{Add, And, Cmp, Comisd, Comiss, Neg, Or, Sub, Test, Ucomisd, Ucomiss, Xor};
    matches!(
        instruction.mnemonic(),
        Add | And | Cmp | Comisd | Comiss | Neg | Or | Sub | Test | Ucomisd | Ucomiss | Xor
    )
}

/// pushf would push our trap flag, and popf end it; int3 is the program's own.
pub fn shows_flags(code: &[u8]) -> bool {
    matches!(code, [0x9c | 0x9d | 0xcf | 0xcc, ..] | [0x66 | 0x48, 0x9c | 0x9d | 0xcf, ..])
}

/// popf: the flags behind it are those that the program has set.
pub fn pops_flags(code: &[u8]) -> bool {
    matches!(code, [0x9d, ..] | [0x66 | 0x48, 0x9d, ..])
}

/// If the instruction, which was stepped, is pushf, it pushed our trap flag.
pub fn hide_trap_flag(memory: &impl Memory, from: u64, stack: u64) {
    let (mut code, mut flags) = ([0u8; 2], [0u8; 2]);
    if memory.read_into(from, &mut code)
        && matches!(code, [0x9c, _] | [0x66 | 0x48, 0x9c])
        && memory.read_into(stack, &mut flags)
    {
        memory.write_from(stack, &(u16::from_le_bytes(flags) & !(TRAP_FLAG as u16)).to_le_bytes());
    }
}
