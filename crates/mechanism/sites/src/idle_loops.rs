//! Loops that wait for another thread and do not say so: each round does the same with the same memory,
//! but for counters, until what it loads is another value.
//!
//! Deliberately absent: loops that call; those whose end another part of the code jumps to.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register, UsedMemory,
};

use crate::image::Region;

/// Instructions that such a loop has at most.
const INSTRUCTIONS_MAX: usize = 16;
/// Places of the stack that it may write to.
const SLOTS_MAX: usize = 4;
/// `jcc rel8` and `jmp rel8`.
const BRANCH_BYTES: usize = 2;

/// Who ends a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Whoever changes what it loads.
    Others,
    /// It itself: each of its branches depends on what it counts, as in a delay up to a number in memory.
    Counting,
}

/// Where the branches are that close such loops, and who ends them.
pub(crate) fn ends(region: &Region<'_>) -> Vec<(u64, End)> {
    let mut factory = InstructionInfoFactory::new();
    let branches = region.bytes.windows(BRANCH_BYTES).enumerate().filter(|(_, two)| is_back(two));
    let places = branches.filter_map(|(at, two)| {
        let head = (at + BRANCH_BYTES).checked_add_signed(two[1] as i8 as isize)?;
        Some((region.address + at as u64, end_of(region, head, at, &mut factory)?))
    });
    places.collect()
}

/// True of a short branch some bytes back.
fn is_back(two: &[u8]) -> bool {
    matches!(two[0], 0x70..=0x7f | 0xeb) && (0xa0..0xfc).contains(&two[1])
}

/// Who ends the loop from `head` to the branch at `end`, if it does nothing but wait.
fn end_of(region: &Region<'_>, head: usize, end: usize, factory: &mut InstructionInfoFactory) -> Option<End> {
    let address = region.address + head as u64;
    let limit = region.address + end as u64;
    let mut decoder = Decoder::with_ip(64, &region.bytes[head..end], address, DecoderOptions::NONE);
    let mut round = Round::default();
    let mut instruction = Instruction::default();
    for _ in 0..INSTRUCTIONS_MAX {
        if !decoder.can_decode() {
            return if decoder.ip() == limit { round.end() } else { None };
        }
        decoder.decode_out(&mut instruction);
        let goes_on = match instruction.flow_control() {
            _ if instruction.is_invalid() => false,
            FlowControl::Next => round.add(&instruction, factory),
            FlowControl::ConditionalBranch => {
                let target = instruction.near_branch64();
                round.steps.push(Step { branches: true, ..Step::default() });
                // Inside it goes forwards.
                target > instruction.ip() || target >= address && target <= limit
            }
            _ => false,
        };
        if !goes_on {
            return None;
        }
    }
    if decoder.can_decode() { None } else { round.end() }
}

/// What is known of one round of a loop, from its beginning on.
#[derive(Default)]
struct Round {
    /// Sets of registers: written; read before they were written in the round.
    written: u32,
    exposed: u32,
    /// Words of the stack, as base and displacement: that were written, that were read before that, and
    /// that count.
    stored: Vec<(Register, u64)>,
    looked_at: Vec<(Register, u64)>,
    nops: u32,
    counted: Vec<(Register, u64)>,
    steps: Vec<Step>,
}

/// The registers that an instruction reads, and writes; of an address that it has.
#[derive(Clone, Copy, Default)]
struct Step {
    read: u32,
    written: u32,
    addressed: u32,
    /// It adds a constant.
    counts: bool,
    /// It reads memory; which word of the stack it reads or changes.
    loads: bool,
    stack: Option<(Register, u64)>,
    sets_flags: bool,
    /// It is a branch by the flags.
    branches: bool,
}

impl Round {
    /// What the next instruction does; false: no such loop does that.
    fn add(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) -> bool {
        // Several nops say that it waits: they are a site themselves.
        self.nops += u32::from(instruction.code() == Code::Nopd);
        if !is_simple(instruction) || self.nops > 1 {
            return false;
        }
        let info = factory.info(instruction);
        let (mut loads, mut stack) = (false, None);
        for memory in info.used_memory() {
            loads |= reads(memory.access());
            stack = stack.or_else(|| place_on_stack(memory));
            if !self.add_memory(instruction, memory) {
                return false;
            }
        }
        let is_zero = matches!(instruction.mnemonic(), Mnemonic::Xor | Mnemonic::Sub)
            && instruction.op1_kind() == OpKind::Register
            && instruction.op0_register() == instruction.op1_register();
        let (mut read, mut written) = (0, 0);
        for used in info.used_registers() {
            let Some(bit) = bit(used.register()) else { continue };
            read |= if reads(used.access()) && !is_zero { bit } else { 0 };
            written |= if writes(used.access()) { bit } else { 0 };
        }
        self.exposed |= read & !self.written;
        self.written |= written;
        self.steps.push(Step {
            read,
            written,
            addressed: addresses(instruction),
            counts: counts(instruction),
            loads,
            stack,
            sets_flags: instruction.rflags_modified() != 0,
            branches: false,
        });
        true
    }

    fn add_memory(&mut self, instruction: &Instruction, memory: &UsedMemory) -> bool {
        let is_stack = place_on_stack(memory).is_some();
        let place = (memory.base(), memory.displacement());
        if !writes(memory.access()) {
            let ends_counting =
                instruction.mnemonic() == Mnemonic::Cmp && instruction.op1_kind() != OpKind::Register;
            if is_stack && !ends_counting && !self.stored.contains(&place) {
                self.looked_at.push(place);
            }
            return true;
        }
        if is_stack && adds_constant(instruction) {
            self.counted.push(place);
            return true;
        }
        // An attempt at a lock, or what code without optimisation keeps on its stack for a round.
        let attempts = matches!(instruction.mnemonic(), Mnemonic::Xchg | Mnemonic::Cmpxchg | Mnemonic::Bts);
        let keeps = is_stack && instruction.mnemonic() == Mnemonic::Mov;
        if keeps && !self.stored.contains(&place) {
            self.stored.push(place);
        }
        attempts || keeps && self.stored.len() <= SLOTS_MAX
    }

    /// The branch at the round's end leads back: who ends that, if the next one does the same.
    fn end(&self) -> Option<End> {
        let carried = self.written & self.exposed;
        let is_carried = |at: &(Register, u64)| is_among(&self.stored, at) || is_among(&self.counted, at);
        let waits = !self.looked_at.iter().any(is_carried)
            && !self.stored.iter().any(|at| is_among(&self.counted, at))
            && !self.goes_on_elsewhere(carried);
        self.decides(carried).filter(|_| waits)
    }

    /// Who decides the branches that depend on a load, if any does.
    fn decides(&self, carried: u32) -> Option<End> {
        let close = Step { branches: true, ..Step::default() };
        let (mut loaded, mut counted) = (0, carried);
        let (mut flags_are_loaded, mut flags_are_counted) = (false, false);
        let mut end = None;
        for step in self.steps.iter().chain([&close]) {
            if step.branches && flags_are_loaded {
                end = if flags_are_counted { end.or(Some(End::Counting)) } else { Some(End::Others) };
            }
            let takes_loaded = step.loads || step.read & loaded != 0;
            let counts = step.stack.is_some_and(|at| is_among(&self.counted, &at));
            let takes_counted = counts || step.read & counted != 0;
            loaded = if takes_loaded { loaded | step.written } else { loaded & !step.written };
            counted = if takes_counted { counted | step.written } else { counted & !step.written };
            if step.sets_flags {
                (flags_are_loaded, flags_are_counted) = (takes_loaded, takes_counted);
            }
        }
        end
    }

    /// True if what may differ from round to round, as counters do, is part of an address, or of what
    /// another round begins with.
    fn goes_on_elsewhere(&self, carried: u32) -> bool {
        let mut differs = carried;
        self.steps.iter().any(|step| {
            let is_new = step.read & differs != 0;
            let was = differs;
            differs = if is_new { differs | step.written } else { differs & !step.written };
            step.addressed & was != 0 || is_new && step.written & carried != 0 && !step.counts
        })
    }
}

/// Base and displacement of a word of the stack.
fn place_on_stack(memory: &UsedMemory) -> Option<(Register, u64)> {
    let is_stack = matches!(memory.base(), Register::RBP | Register::RSP) && memory.index() == Register::None;
    is_stack.then(|| (memory.base(), memory.displacement()))
}

fn is_among(places: &[(Register, u64)], at: &(Register, u64)) -> bool {
    places.iter().any(|place| place.0 == at.0 && place.1.abs_diff(at.1) < 8)
}

/// The general registers of an address.
fn addresses(instruction: &Instruction) -> u32 {
    let has_memory = (0..instruction.op_count()).any(|op| instruction.op_kind(op) == OpKind::Memory);
    let registers = [instruction.memory_base(), instruction.memory_index()];
    if has_memory && instruction.mnemonic() != Mnemonic::Lea {
        registers.into_iter().filter_map(bit).fold(0, |set, bit| set | bit)
    } else {
        0
    }
}

/// A general register's place in a set.
fn bit(register: Register) -> Option<u32> {
    let whole = register.full_register();
    whole.is_gpr64().then(|| 1 << whole.number())
}

fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// True of an instruction that adds a constant to a register.
fn counts(instruction: &Instruction) -> bool {
    let own = instruction.op0_register().full_register();
    match instruction.mnemonic() {
        Mnemonic::Lea => {
            instruction.memory_base().full_register() == own && instruction.memory_index() == Register::None
        }
        _ => instruction.op0_kind() == OpKind::Register && adds_constant(instruction),
    }
}

fn adds_constant(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Inc | Mnemonic::Dec => true,
        Mnemonic::Add | Mnemonic::Sub => !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory),
        _ => false,
    }
}

/// True of instructions that loops have that wait.
fn is_simple(instruction: &Instruction) -> bool {
    if instruction.has_rep_prefix() || instruction.has_repne_prefix() || instruction.code() == Code::Pause {
        return false;
    }
    matches!(
        instruction.mnemonic(),
        Mnemonic::Nop
            | Mnemonic::Mov
            | Mnemonic::Movzx
            | Mnemonic::Movsx
            | Mnemonic::Movsxd
            | Mnemonic::Lea
            | Mnemonic::Cmp
            | Mnemonic::Test
            | Mnemonic::Bt
            | Mnemonic::And
            | Mnemonic::Or
            | Mnemonic::Xor
            | Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::Inc
            | Mnemonic::Dec
            | Mnemonic::Neg
            | Mnemonic::Not
            | Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Cdqe
            | Mnemonic::Sete
            | Mnemonic::Setne
            | Mnemonic::Seta
            | Mnemonic::Setb
            | Mnemonic::Mfence
            | Mnemonic::Lfence
            | Mnemonic::Xchg
            | Mnemonic::Cmpxchg
            | Mnemonic::Bts
    )
}
