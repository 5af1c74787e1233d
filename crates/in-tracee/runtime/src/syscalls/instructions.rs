//! Instructions whose results come from outside: they trap, or lead here by a
//! jump, and are recorded and replayed.

use events::{Instruction, Kind};
use lane_protocol::site_kind;

use crate::code::processor_words::processor_words;
use crate::code::{clocks, sites, vector_saves};
use crate::debugger::agent;
use crate::ground::frame::RealFrame;
use crate::ground::memory;
use crate::ground::registers::Registers;
use crate::lab;
use crate::preemption::{preempt, preemption_point};
use crate::scheduler::{contention, fairness, token};
use crate::state::block::{process, session, thread};
use crate::state::{deliverable, in_lab, report, signal_state};
use crate::syscalls::{protection_faults, spins};

const SIGILL: u32 = 4;
const SIGSEGV: u32 = 11;

/// Called from the trampoline of a rewritten site; `rip` is the site.
pub unsafe extern "C" fn on_instruction(registers: *mut Registers) {
    // SAFETY: the entry code passes the registers that it pushed.
    let registers = unsafe { &mut *registers };
    let found = sites::find(registers.rip).and_then(|site| Some((instruction_of(site.kind)?, site)));
    let Some((instruction, site)) = found else {
        report::fail("a trampoline belongs to no site");
    };
    if instruction == Instruction::Xsavec && !vector_saves::save(site.instruction(), registers) {
        // It traps there.
        return;
    }
    if may_not(instruction) {
        protection_faults::protection_fault(registers);
    }
    // The trampoline comes here where a branch is taken.
    let behind = site.branch().map_or_else(|| site.behind(), |branch| branch.target);
    let yielded = if instruction == Instruction::Spin {
        registers.rip = behind;
        spins::pass(site.address, registers)
    } else {
        let yields = process().shares_token && !process().replays();
        let yielded = yields && yield_alternately(instruction, registers);
        execute(instruction, site.instruction(), registers);
        yielded
    };
    // Another thread may have rewritten what follows meanwhile.
    registers.rip = if yielded { sites::translate(behind) } else { behind };
    // A spin says where signals come, any other instruction is such a place itself: one that reads
    // the time in a loop is seldom found elsewhere.
    if yielded || instruction != Instruction::Spin && !process().is_branch() {
        spins::deliver(registers);
    }
    if process().replays() {
        preemption_point::arm_if_next();
        agent::leaving(registers);
    } else if process().is_branch() {
        agent::leaving(registers);
    } else {
        // Behind all that frames show of the flags.
        preempt::step_aside(registers);
        if deliverable::has_deliverable() {
            // It came while we were here: the program may compute from here on.
            preempt::signal_waits();
        }
    }
}

/// Recording: before the instruction others may hold the token, as before a call. Not where
/// checkpoints could be taken: a thread goes on from calls and preemptions only.
fn yield_alternately(instruction: Instruction, registers: &Registers) -> bool {
    if session().live != 0 || !matches!(instruction, Instruction::Rdtsc | Instruction::Rdtscp) {
        return false;
    }
    thread().resume_state = signal_state::ResumeState::Preemption;
    thread().registers_at = &raw const *registers as u64;
    if in_lab::is_on() {
        return lab::clocks::yield_before_read();
    }
    fairness::get_on();
    if token::is_wanted() {
        token::yield_if_wanted();
        return thread().preemption.aside == 0;
    }
    contention::before_time_read()
}

/// The first bytes of the instruction that trapped. None of ours is a page fault, nor SIGBUS, so
/// that what is read here is there: a second fault of this kind, in a handler, kills the process.
fn code_at(signal: u32, context: &RealFrame) -> Option<[u8; 16]> {
    const PROTECTION_FAULT: u64 = 13;
    /// Some processors fault behind a jump to no possible address.
    const ADDRESS_BITS: u32 = 47;
    let [_, trap, _] = context.fault_words([0; 3]);
    let possible = signal == SIGILL || signal == SIGSEGV && trap == PROTECTION_FAULT;
    if !possible || context.rip >> ADDRESS_BITS != 0 {
        return None;
    }
    let mut code = [0u8; 16];
    // The instruction may stand at the end of a page: not a byte more than it has.
    for (index, before) in [&[][..], &[0x0f], &[0x0f, 0x01]].into_iter().enumerate() {
        let place = code.as_mut_ptr() as u64 + index as u64;
        if code.starts_with(before) && !memory::copy(place, context.rip + index as u64, 1) {
            return None;
        }
    }
    Some(code)
}

/// The program does not want to read the counter: see [`clocks::set_permission`].
fn may_not(instruction: Instruction) -> bool {
    matches!(instruction, Instruction::Rdtsc | Instruction::Rdtscp) && thread().time_forbidden
}

/// Emulates the instruction at which the program trapped, if it is one of ours.
pub fn emulate(signal: u32, context: &mut RealFrame) -> bool {
    let Some(mut code) = code_at(signal, context) else { return false };
    let (instruction, bytes) = match (signal, code) {
        (SIGSEGV, [0x0f, 0x31, ..]) => (Instruction::Rdtsc, 2),
        (SIGSEGV, [0x0f, 0x01, 0xf9, ..]) => (Instruction::Rdtscp, 3),
        (SIGSEGV, [0x0f, 0xa2, ..]) => (Instruction::Cpuid, 2),
        (SIGILL, [0x0f, 0x0b, ..]) => match sites::find(context.rip) {
            Some(mut site) if site_kind::is_spin(site.kind) && site.is_stopped() => {
                spins::pass_by_trap(&mut site, context);
                if process().replays() {
                    preemption_point::arm_if_next();
                }
                agent::on_emulated(context);
                return true;
            }
            Some(site) if site.is_stopped() => {
                code[..site.bytes as usize].copy_from_slice(site.instruction());
                match instruction_of(site.kind) {
                    Some(instruction) => (instruction, usize::from(site.bytes)),
                    None => return false,
                }
            }
            _ => return false,
        },
        _ => return false,
    };
    if may_not(instruction) {
        protection_faults::protection_fault_of_trap(context);
        return true;
    }
    if instruction == Instruction::Xsavec && !vector_saves::save_of_trap(&code[..bytes], context) {
        // It faults as what it is.
        sites::give_back(context.rip);
        return true;
    }
    let mut registers = context.registers();
    execute(instruction, &code[..bytes], &mut registers);
    let address = registers.rip;
    registers.rip += bytes as u64;
    if process().replays() && sites::cover_again_at(address) {
        registers.rip = sites::translate(registers.rip);
    }
    context.set_registers(&registers);
    if spins::deliver_behind_trap(context) {
        return true;
    }
    if process().replays() {
        preemption_point::arm_if_next();
    }
    agent::on_emulated(context);
    true
}

fn instruction_of(kind: u8) -> Option<Instruction> {
    match kind {
        site_kind::RDTSC => Some(Instruction::Rdtsc),
        site_kind::RDTSCP => Some(Instruction::Rdtscp),
        site_kind::RDRAND => Some(Instruction::Rdrand),
        site_kind::RDSEED => Some(Instruction::Rdseed),
        site_kind::CPUID => Some(Instruction::Cpuid),
        site_kind::XSAVEC => Some(Instruction::Xsavec),
        site_kind::SPIN | site_kind::IDLE_LOOP => Some(Instruction::Spin),
        site_kind::RDPID => Some(Instruction::Rdpid),
        _ => None,
    }
}

/// Performs the instruction with these registers, but for the instruction pointer.
fn execute(instruction: Instruction, code: &[u8], registers: &mut Registers) {
    let inputs = [registers.rax & 0xffff_ffff, registers.rcx & 0xffff_ffff];
    let outputs =
        if is_replayed() { replay(instruction, &inputs, registers) } else { record(instruction, &inputs) };
    apply(instruction, code, &outputs, registers);
}

/// Performs the instruction and logs its result.
fn record(instruction: Instruction, inputs: &[u64; 2]) -> [u64; 5] {
    let outputs = match instruction {
        Instruction::Rdtsc | Instruction::Rdtscp | Instruction::Rdpid if in_lab::is_on() => {
            let time = lab::clocks::counter();
            [time & 0xffff_ffff, 0, 0, time >> 32, 0]
        }
        Instruction::Rdtsc | Instruction::Rdtscp | Instruction::Rdpid => {
            let (time, processor) = clocks::with_time_counter(|| {
                let mut processor = 0u32;
                // SAFETY: reading the counter has no effect on memory.
                let time = unsafe { core::arch::x86_64::__rdtscp(&mut processor) };
                (time, processor)
            });
            [time & 0xffff_ffff, 0, u64::from(processor), time >> 32, 0]
        }
        Instruction::Cpuid => {
            let words = processor_words(inputs);
            [words[0], words[1], words[2], words[3], 0].map(u64::from)
        }
        Instruction::Rdrand | Instruction::Rdseed if in_lab::is_on() => [lab::random(), 0, 0, 0, 1],
        Instruction::Rdrand | Instruction::Rdseed => [random(), 0, 0, 0, 1],
        Instruction::Xsavec | Instruction::Spin => [0; 5],
    };
    let log = &mut process().log;
    log.begin(Kind::Instruction, 0, instruction as u16);
    for &word in inputs.iter().chain(&outputs) {
        log.word(word);
    }
    log.end();
    outputs
}

fn random() -> u64 {
    let mut value = 0u64;
    crate::ground::kernel::call(linux_abi::general::__NR_getrandom, [&raw mut value as u64, 8, 0, 0, 0, 0]);
    value
}

/// True if the result comes from the log; the log may end right here.
fn is_replayed() -> bool {
    if crate::state::live::goes_again() && process().log.peek().is_none() {
        crate::checkpoint::restore::rollback::enter_present();
    }
    process().replays()
}

fn replay(instruction: Instruction, inputs: &[u64; 2], registers: &Registers) -> [u64; 5] {
    crate::address_space::code_changes::follow();
    let Some(mut word) = process().log.peek() else {
        report::note_registers(registers);
        report::log_ended();
    };
    let is_cpuid = instruction == Instruction::Cpuid;
    if word.is(Kind::Token) && !is_cpuid {
        thread().user_registers = &raw const *registers as u64;
        token::follow();
        word = process().log.peek().unwrap_or_else(|| report::log_ended());
    }
    let log = &mut process().log;
    let is_named = word.is(Kind::Instruction) && word.code() == instruction as u16;
    if instruction == Instruction::Xsavec && !is_named {
        return [0; 5];
    }
    if is_cpuid && !is_named {
        // Where cpuid does not trap, what was not replaced was not recorded.
        let words = processor_words(inputs);
        return [words[0], words[1], words[2], words[3], 0].map(u64::from);
    }
    let same = is_named && word.bytes() == 64 && (!is_cpuid || [log.body(0), log.body(1)] == *inputs);
    if !same {
        report::diverge(registers, word, u64::MAX, &[instruction as u64, inputs[0], inputs[1]]);
    }
    let outputs = [log.body(2), log.body(3), log.body(4), log.body(5), log.body(6)];
    log.consume(word);
    log.events += 1;
    outputs
}

/// Puts the result into the program's registers.
fn apply(instruction: Instruction, code: &[u8], outputs: &[u64; 5], registers: &mut Registers) {
    match instruction {
        Instruction::Rdtsc => {
            registers.rax = outputs[0];
            registers.rdx = outputs[3];
        }
        Instruction::Rdtscp => {
            registers.rax = outputs[0];
            registers.rdx = outputs[3];
            registers.rcx = outputs[2];
        }
        Instruction::Rdpid => *named_register(code, registers).0 = outputs[2],
        Instruction::Cpuid => {
            registers.rax = outputs[0];
            registers.rbx = outputs[1];
            registers.rcx = outputs[2];
            registers.rdx = outputs[3];
        }
        Instruction::Xsavec | Instruction::Spin => {}
        Instruction::Rdrand | Instruction::Rdseed => apply_random(code, outputs[0], registers),
    }
}

/// rdrand and rdseed: any general register in 16, 32 or 64 bits; carry says that
/// it succeeded.
fn apply_random(code: &[u8], value: u64, registers: &mut Registers) {
    let (register, bits) = named_register(code, registers);
    *register = match bits {
        64 => value,
        16 => *register & !0xffff | value & 0xffff,
        _ => value & 0xffff_ffff,
    };
    // Carry set; overflow, sign, zero, auxiliary and parity cleared.
    registers.flags = registers.flags & !0x8d5 | 1;
}

/// The register that the instruction names in its last byte, and how many of its bits its prefixes do.
fn named_register<'a>(code: &[u8], registers: &'a mut Registers) -> (&'a mut u64, u32) {
    let mut short = false;
    let mut rex = 0;
    let mut at = 0;
    while at < code.len() && code[at] != 0x0f {
        match code[at] {
            0x66 => short = true,
            0x40..=0x4f => rex = code[at],
            _ => {}
        }
        at += 1;
    }
    let modrm = code.get(at + 2).copied().unwrap_or(0);
    let number = (modrm & 7) | (rex & 1) << 3;
    let register = match number {
        0 => &mut registers.rax,
        1 => &mut registers.rcx,
        2 => &mut registers.rdx,
        3 => &mut registers.rbx,
        4 => &mut registers.rsp,
        5 => &mut registers.rbp,
        6 => &mut registers.rsi,
        7 => &mut registers.rdi,
        8 => &mut registers.r8,
        9 => &mut registers.r9,
        10 => &mut registers.r10,
        11 => &mut registers.r11,
        12 => &mut registers.r12,
        13 => &mut registers.r13,
        14 => &mut registers.r14,
        _ => &mut registers.r15,
    };
    let bits = match (rex & 8 != 0, short) {
        (true, _) => 64,
        (false, true) => 16,
        (false, false) => 32,
    };
    (register, bits)
}
