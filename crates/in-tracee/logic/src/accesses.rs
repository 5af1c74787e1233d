//! Instructions that touch memory which threads may share, as chaos looks for places at which to
//! preempt a thread.
//!
//! A plain instruction that reads, changes and writes memory is atomic only where one thread runs at a
//! time: on several processors another one may write between its load and its store. [`Change`] is
//! such an instruction in two parts.
//!
//! Deliberately absent: thread-local memory, the stack, and what vector instructions do.

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::Memory;
use crate::decode::{self, value_of};
use crate::registers::Registers;

/// What an instruction does to memory that others may see.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Nothing,
    Call,
    Load,
    Store,
    /// Load and store, not in one.
    Change,
    /// Load and store in one.
    Atomic,
    /// No place at which a thread can be preempted by a breakpoint.
    NoPlace,
}

/// What the instruction at the address does, and where the next one is.
pub fn look(memory: &impl Memory, address: u64) -> Option<(Access, u64)> {
    let (code, instruction, _) = decode::decode(memory, address)?;
    Some((access_of(&code, &instruction), instruction.next_ip()))
}

/// Calls `each` with the places from `start` to `end` at which chaos may preempt a thread, and with how likely
/// each is to be drawn; `left` is how many instructions may yet be looked at. False: none of them may be taken,
/// as instructions of the floating-point unit are among them. Where the last of these was is lost with each
/// trap on processors of AMD, and a program can look at it.
pub fn each_place(
    memory: &impl Memory,
    start: u64,
    end: u64,
    left: &mut usize,
    each: &mut dyn FnMut(u64, u8),
) -> bool {
    let (mut address, mut is_behind_load) = (start, false);
    while address < end && *left != 0 {
        *left -= 1;
        let Some((code, instruction, _)) = decode::decode(memory, address) else { return true };
        if decode::uses_float_unit(memory, address) {
            return false;
        }
        let (access, next) = (access_of(&code, &instruction), instruction.next_ip());
        let weight = match access {
            Access::NoPlace => 0,
            Access::Nothing => u8::from(is_behind_load),
            Access::Call | Access::Load | Access::Atomic => 1,
            Access::Store => 2,
            Access::Change => 3,
        };
        if weight != 0 {
            each(address, weight);
        }
        is_behind_load = matches!(access, Access::Load | Access::Atomic | Access::Store);
        address = next;
    }
    true
}

fn access_of(code: &[u8; 16], instruction: &Instruction) -> Access {
    let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    if code[0] == 0xcc || decode::shows_flags(code) || instruction.is_string_instruction() && repeats {
        return Access::NoPlace;
    }
    match instruction.flow_control() {
        FlowControl::Next => {}
        FlowControl::Call | FlowControl::IndirectCall if instruction.mnemonic() != Mnemonic::Syscall => {
            return Access::Call;
        }
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => return Access::Nothing,
        _ => return Access::NoPlace,
    }
    match instruction.mnemonic() {
        Mnemonic::Rdtsc | Mnemonic::Rdtscp | Mnemonic::Cpuid | Mnemonic::Syscall | Mnemonic::Pause => {
            Access::NoPlace
        }
        Mnemonic::Lea | Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::Push | Mnemonic::Pop => Access::Nothing,
        _ => shared_access(instruction),
    }
}

fn shared_access(instruction: &Instruction) -> Access {
    let Some(operand) = decode::memory_operand(instruction) else { return Access::Nothing };
    let is_local = matches!(instruction.memory_base(), Register::RSP | Register::RBP)
        || matches!(instruction.memory_segment(), Register::FS | Register::GS);
    if is_local {
        return Access::Nothing;
    }
    match instruction.mnemonic() {
        _ if operand != 0 => Access::Load,
        Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt => Access::Load,
        _ if instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg => Access::Atomic,
        mnemonic if operation_of(mnemonic).is_some() => Access::Change,
        _ => Access::Store,
    }
}

/// The memory that the instruction at hand touches, unless it is its thread's own.
pub fn shared_address(memory: &impl Memory, registers: &Registers) -> Option<u64> {
    /// What the thread's innermost functions have of its stack, and what is below.
    const STACK_BYTES: u64 = 64 << 10;
    const BELOW: u64 = 4096;
    let (_, instruction, _) = decode::decode(memory, registers.rip)?;
    let address = decode::named_memory(&instruction, registers)?;
    let is_own = address.wrapping_sub(registers.rsp.wrapping_sub(BELOW)) < STACK_BYTES;
    (!is_own).then_some(address)
}

#[derive(Clone, Copy)]
enum Operation {
    Add,
    Subtract,
    And,
    Or,
    Xor,
}

fn operation_of(mnemonic: Mnemonic) -> Option<Operation> {
    Some(match mnemonic {
        Mnemonic::Add | Mnemonic::Inc => Operation::Add,
        Mnemonic::Sub | Mnemonic::Dec => Operation::Subtract,
        Mnemonic::And => Operation::And,
        Mnemonic::Or => Operation::Or,
        Mnemonic::Xor => Operation::Xor,
        _ => return None,
    })
}

/// A plain instruction that has read memory, and has yet to write it.
#[derive(Clone, Copy)]
pub struct Change {
    pub address: u64,
    pub bytes: u64,
    /// What it will write.
    pub result: u64,
    /// What it leaves, behind it.
    flags: u64,
    next: u64,
}

const CARRY: u64 = 1;
const PARITY: u64 = 4;
const ADJUST: u64 = 0x10;
const ZERO: u64 = 0x40;
const SIGN: u64 = 0x80;
const OVERFLOW: u64 = 0x800;

impl Change {
    /// Begins the instruction at hand, if it is such a one: reads.
    pub fn begin(memory: &impl Memory, registers: &Registers) -> Option<Change> {
        let (_, instruction, _) = decode::decode(memory, registers.rip)?;
        if shared_access(&instruction) != Access::Change {
            return None;
        }
        let operation = operation_of(instruction.mnemonic())?;
        let bytes = instruction.memory_size().size() as u64;
        if !matches!(bytes, 1 | 2 | 4 | 8) {
            return None;
        }
        let steps_by_one = matches!(instruction.mnemonic(), Mnemonic::Inc | Mnemonic::Dec);
        let operand = match (steps_by_one, instruction.op1_kind()) {
            (true, _) => 1,
            (false, OpKind::Register) => register_value(instruction.op1_register(), registers)?,
            (false, _) => instruction.try_immediate(1).ok()?,
        };
        let address = decode::named_memory(&instruction, registers)?;
        let mut before = [0u8; 8];
        if !memory.read_into(address, &mut before[..bytes as usize]) {
            return None;
        }
        let (result, mut flags) = compute(operation, bytes, u64::from_le_bytes(before), operand);
        if steps_by_one {
            flags = flags & !CARRY | registers.flags & CARRY;
        }
        let flags = registers.flags & !decode::ARITHMETIC_FLAGS | flags;
        Some(Change { address, bytes, result, flags, next: instruction.next_ip() })
    }

    /// Ends it: writes, and leaves what it leaves in registers. False: it has to be begun again.
    pub fn end(&self, memory: &impl Memory, registers: &mut Registers) -> bool {
        let written = memory.write_from(self.address, &self.result.to_le_bytes()[..self.bytes as usize]);
        if written {
            (registers.rip, registers.flags) = (self.next, self.flags);
        }
        written
    }
}

/// What a register holds, or a part of one.
fn register_value(register: Register, registers: &Registers) -> Option<u64> {
    let whole = value_of(register.full_register(), registers)?;
    let is_second_byte = matches!(register, Register::AH | Register::BH | Register::CH | Register::DH);
    Some(if is_second_byte { whole >> 8 } else { whole })
}

/// The result and the flags of an operation of so many bytes (Intel SDM volume 1, 3.4.3.1).
fn compute(operation: Operation, bytes: u64, a: u64, b: u64) -> (u64, u64) {
    let mask = u64::MAX >> (64 - 8 * bytes);
    let sign = 1 << (8 * bytes - 1);
    let (a, b) = (a & mask, b & mask);
    let result = mask
        & match operation {
            Operation::Add => a.wrapping_add(b),
            Operation::Subtract => a.wrapping_sub(b),
            Operation::And => a & b,
            Operation::Or => a | b,
            Operation::Xor => a ^ b,
        };
    let (carries, overflows, adjusts) = match operation {
        Operation::Add => (result < a, (a ^ result) & (b ^ result) & sign != 0, (a ^ b ^ result) & 0x10 != 0),
        Operation::Subtract => (a < b, (a ^ b) & (a ^ result) & sign != 0, (a ^ b ^ result) & 0x10 != 0),
        Operation::And | Operation::Or | Operation::Xor => (false, false, false),
    };
    let is_even = (result as u8).count_ones().is_multiple_of(2);
    let flags = [
        (carries, CARRY),
        (is_even, PARITY),
        (adjusts, ADJUST),
        (result == 0, ZERO),
        (result & sign != 0, SIGN),
        (overflows, OVERFLOW),
    ];
    (result, flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum())
}
