//! What the engine has to know of an instruction of the program.

use iced_x86::{
    Code, ConstantOffsets, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register,
};

use crate::assembler::Operand;

/// Bytes of the longest instruction.
pub const LONGEST: usize = 15;
/// Bytes that are read at a time.
const WINDOW: usize = 256;

/// Bytes that one instruction stores at most, of those that are looked up in line.
pub const STORE_BYTES_MAX: u32 = 64;

/// What becomes of an instruction in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The same bytes.
    Copy,
    /// The same, with an operand relative to the instruction pointer.
    Relative,
    Jump(u64),
    Branch {
        target: u64,
        condition: u8,
    },
    /// `loop`, `jrcxz` and their kin: the opcode, and whether ecx is meant.
    CountedBranch {
        target: u64,
        opcode: u8,
        short_counter: bool,
    },
    Call(u64),
    IndirectJump,
    IndirectCall,
    /// Bytes that are dropped from the stack.
    Return(u16),
    /// The host makes the call.
    LeaveForCall,
    /// The host performs it.
    LeaveForHost,
    /// It may store to what is watched, and only its registers can tell.
    LeaveForWatch,
}

impl Action {
    /// True if what follows is not what runs next, or not only.
    pub fn ends_segment(self) -> bool {
        !matches!(self, Action::Copy | Action::Relative)
    }
}

/// One instruction of the program.
#[derive(Clone, Copy)]
pub struct Decoded {
    pub instruction: Instruction,
    pub code: [u8; LONGEST],
    pub action: Action,
    /// Where the displacement is, of a relative operand.
    pub displacement_at: u8,
}

impl Decoded {
    pub fn new() -> Self {
        Decoded {
            instruction: Instruction::default(),
            code: [0; LONGEST],
            action: Action::LeaveForHost,
            displacement_at: 0,
        }
    }

    pub fn rip(&self) -> u64 {
        self.instruction.ip()
    }

    pub fn behind(&self) -> u64 {
        self.instruction.next_ip()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.code[..self.instruction.len()]
    }

    /// True if it sets all arithmetic flags without looking at them and cannot fault:
    /// in front of it the flags are free.
    pub fn sets_all_flags(&self) -> bool {
        let instruction = &self.instruction;
        let sets = matches!(
            instruction.mnemonic(),
            Mnemonic::Add
                | Mnemonic::Sub
                | Mnemonic::Cmp
                | Mnemonic::Test
                | Mnemonic::And
                | Mnemonic::Or
                | Mnemonic::Xor
                | Mnemonic::Neg
        );
        sets && (0..instruction.op_count()).all(|operand| instruction.op_kind(operand) != OpKind::Memory)
    }

    /// Number of a register that the instruction overwrites without reading it, if
    /// it may serve as the base of the relative operand.
    pub fn free_destination(&self) -> Option<u8> {
        let loads = matches!(
            self.instruction.mnemonic(),
            Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd
        );
        let register = self.instruction.op0_register();
        let is_wide = register.is_gpr64() || register.is_gpr32();
        let number = number_of(register)?;
        let is_simple = number < 8 && number != crate::memory::RSP && number != crate::memory::RBP;
        (loads && is_wide && is_simple).then_some(number)
    }
}

/// Reads instructions one after the other.
pub struct Reader {
    window: [u8; WINDOW],
    start: u64,
    bytes: usize,
}

impl Reader {
    pub fn new() -> Self {
        Reader { window: [0; WINDOW], start: 0, bytes: 0 }
    }

    /// The instruction at the address; `None` if it cannot be read.
    pub fn read(
        &mut self,
        address: u64,
        fetch: &mut dyn FnMut(u64, &mut [u8]) -> usize,
        decoded: &mut Decoded,
    ) -> Option<()> {
        let offset = address.wrapping_sub(self.start);
        if offset >= self.bytes as u64 || self.bytes - (offset as usize) < LONGEST {
            self.start = address;
            self.bytes = fetch(address, &mut self.window).min(WINDOW);
        }
        let code = &self.window[address.wrapping_sub(self.start) as usize..self.bytes];
        if code.is_empty() {
            return None;
        }
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        decoder.decode_out(&mut decoded.instruction);
        let instruction = &decoded.instruction;
        if instruction.is_invalid() {
            // Cut by the end of what is mapped: running it faults.
            decoded.action = Action::LeaveForHost;
            return (code.len() >= LONGEST).then_some(());
        }
        decoded.code[..instruction.len()].copy_from_slice(&code[..instruction.len()]);
        decoded.action = classify(instruction, decoded.bytes());
        if decoded.action == Action::Copy && instruction.is_ip_rel_memory_operand() {
            decoded.action = Action::Relative;
            let offsets: ConstantOffsets = decoder.get_constant_offsets(instruction);
            decoded.displacement_at = offsets.displacement_offset() as u8;
        }
        Some(())
    }
}

fn classify(instruction: &Instruction, code: &[u8]) -> Action {
    let near = instruction.op0_kind() == OpKind::NearBranch64;
    let target = instruction.near_branch_target();
    match instruction.flow_control() {
        FlowControl::Next => match instruction.mnemonic() {
            Mnemonic::Rdtsc
            | Mnemonic::Rdtscp
            | Mnemonic::Cpuid
            | Mnemonic::Rdrand
            | Mnemonic::Rdseed
            | Mnemonic::Rdpid
            | Mnemonic::Rdpmc
            | Mnemonic::Hlt => Action::LeaveForHost,
            // The address size would change what the base register is.
            _ if instruction.memory_base() == Register::EIP => Action::LeaveForHost,
            _ => Action::Copy,
        },
        FlowControl::UnconditionalBranch if near => Action::Jump(target),
        FlowControl::ConditionalBranch if near && instruction.is_jcc_short_or_near() => {
            Action::Branch { target, condition: instruction.condition_code() as u8 }.with_condition(code)
        }
        FlowControl::ConditionalBranch if near => {
            let at = code.len() - 2;
            Action::CountedBranch { target, opcode: code[at], short_counter: code[..at].contains(&0x67) }
        }
        FlowControl::Call if near => Action::Call(target),
        FlowControl::Call if instruction.code() == Code::Syscall => Action::LeaveForCall,
        FlowControl::IndirectBranch if instruction.code() == Code::Jmp_rm64 => Action::IndirectJump,
        FlowControl::IndirectCall if instruction.code() == Code::Call_rm64 => Action::IndirectCall,
        FlowControl::Return if instruction.code() == Code::Retnq => Action::Return(0),
        FlowControl::Return if instruction.code() == Code::Retnq_imm16 => {
            Action::Return(instruction.immediate16())
        }
        _ => Action::LeaveForHost,
    }
}

impl Action {
    /// The condition as the processor numbers it, from the opcode.
    fn with_condition(self, code: &[u8]) -> Action {
        let Action::Branch { target, .. } = self else { return self };
        let opcode = if code.len() >= 6 { code[code.len() - 5] } else { code[code.len() - 2] };
        Action::Branch { target, condition: opcode & 15 }
    }
}

/// Number of a general register as the processor counts them.
pub fn number_of(register: Register) -> Option<u8> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number() as u8)
}

/// A register that the instruction has nothing to do with, of those that can be a
/// base without more ado.
pub fn free_register(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Option<u8> {
    let info = factory.info(instruction);
    let mut used = 0u32;
    for register in info.used_registers() {
        if let Some(number) = number_of(register.register()) {
            used |= 1 << number;
        }
    }
    [1u8, 2, 0, 6, 7, 3].into_iter().find(|number| used & 1 << number == 0)
}

/// What an instruction stores to.
#[derive(Clone, Copy, Debug)]
pub enum Stored {
    Nothing,
    /// One range of memory: its start, whether that is relative to fs, and its bytes.
    At {
        operand: Operand,
        relative_to_fs: bool,
        bytes: u32,
    },
    /// The same at a known address.
    Absolute {
        address: u64,
        bytes: u32,
    },
    /// A range that is found when it runs.
    Complex,
}

/// What the instruction stores to.
pub fn stored(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Stored {
    let info = factory.info(instruction);
    let writes = |access: OpAccess| {
        matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    };
    let mut stores = info.used_memory().iter().filter(|memory| writes(memory.access()));
    let Some(memory) = stores.next() else {
        let saves = instruction.is_save_restore_instruction();
        return if saves { Stored::Complex } else { Stored::Nothing };
    };
    let is_odd = stores.next().is_some()
        || instruction.is_string_instruction()
        || instruction.is_save_restore_instruction()
        || instruction.is_vsib()
        || matches!(
            instruction.mnemonic(),
            Mnemonic::Pop | Mnemonic::Enter | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
        );
    let bytes = memory.memory_size().size() as u32;
    if is_odd || bytes == 0 || bytes > STORE_BYTES_MAX {
        return Stored::Complex;
    }
    let relative_to_fs = memory.segment() == Register::FS;
    let is_absolute = memory.base() == Register::None && memory.index() == Register::None && !relative_to_fs;
    if is_absolute || memory.base() == Register::RIP {
        return Stored::Absolute { address: memory.displacement(), bytes };
    }
    let is_wide = |register: Register| register == Register::None || register.is_gpr64();
    let displacement = i32::try_from(memory.displacement() as i64);
    match displacement {
        Ok(displacement) if is_wide(memory.base()) && is_wide(memory.index()) => {
            let index = number_of(memory.index()).map(|index| (index, memory.scale().trailing_zeros() as u8));
            let operand = Operand { base: number_of(memory.base()), index, displacement };
            Stored::At { operand, relative_to_fs, bytes }
        }
        _ => Stored::Complex,
    }
}

/// The range of memory that an instruction stores to with these registers; `None` if
/// that is unknown, an empty one if it stores nothing.
pub fn stored_range(
    instruction: &Instruction,
    factory: &mut InstructionInfoFactory,
    general: &[u64; 16],
    flags: u64,
    fs_base: u64,
) -> Option<(u64, u64)> {
    const DIRECTION: u64 = 0x400;
    let unknown = instruction.is_save_restore_instruction()
        || instruction.is_vsib()
        || matches!(instruction.mnemonic(), Mnemonic::Enter | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc);
    if unknown {
        return None;
    }
    let info = factory.info(instruction);
    let mut range: Option<(u64, u64)> = None;
    for memory in info.used_memory() {
        if matches!(
            memory.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess
        ) {
            continue;
        }
        let mut start = memory.virtual_address(0, |register, _, _| {
            if register.is_segment_register() {
                return Some(if register == Register::FS { fs_base } else { 0 });
            }
            let value = general[usize::from(number_of(register)?)];
            Some(if register.is_gpr32() { value & 0xffff_ffff } else { value })
        })?;
        let mut bytes = memory.memory_size().size() as u64;
        if instruction.is_string_instruction() {
            // Of one round.
            bytes = instruction.memory_size().size() as u64;
            let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
            let count = if repeats { general[1] } else { 1 };
            let all = bytes.saturating_mul(count);
            if flags & DIRECTION != 0 {
                start = start.wrapping_add(bytes).wrapping_sub(all);
            }
            bytes = all;
        } else if bytes == 0 || range.is_some() {
            return None;
        }
        range = Some((start, bytes));
    }
    Some(range.unwrap_or((0, 0)))
}
