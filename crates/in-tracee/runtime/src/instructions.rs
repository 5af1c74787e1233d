//! Instructions whose results come from outside: they trap, and are recorded and
//! replayed here.

use core::arch::x86_64::__cpuid_count;

use events::{Instruction, Kind};
use lane_protocol::site_kind;

use crate::block::process;
use crate::frame::RealFrame;
use crate::{clocks, memory, report, sites};

const SIGILL: u32 = 4;
const SIGSEGV: u32 = 11;

/// Emulates the instruction at which the program trapped, if it is one of ours.
pub fn emulate(signal: u32, context: &mut RealFrame) -> bool {
    let mut code = [0u8; 16];
    // The instruction may stand at the end of a page.
    let readable = memory::copy(code.as_mut_ptr() as u64, context.rip, 2);
    memory::copy(code.as_mut_ptr() as u64, context.rip, 3);
    if !readable {
        return false;
    }
    let instruction = match (signal, code) {
        (SIGSEGV, [0x0f, 0x31, ..]) => (Instruction::Rdtsc, 2),
        (SIGSEGV, [0x0f, 0x01, 0xf9, ..]) => (Instruction::Rdtscp, 3),
        (SIGSEGV, [0x0f, 0xa2, ..]) => (Instruction::Cpuid, 2),
        (SIGILL, [0x0f, 0x0b, ..]) => match sites::find(context.rip) {
            Some(site) if site.is_stopped() => {
                code[..site.bytes as usize].copy_from_slice(site.instruction());
                let instruction = match site.kind {
                    site_kind::RDTSC => Instruction::Rdtsc,
                    site_kind::RDTSCP => Instruction::Rdtscp,
                    site_kind::RDRAND => Instruction::Rdrand,
                    site_kind::RDSEED => Instruction::Rdseed,
                    _ => return false,
                };
                (instruction, u64::from(site.bytes))
            }
            _ => return false,
        },
        _ => return false,
    };
    let (instruction, bytes) = instruction;
    let inputs = [context.rax & 0xffff_ffff, context.rcx & 0xffff_ffff];
    let outputs = if process().replaying {
        replay(instruction, &inputs, context)
    } else {
        record(instruction, &inputs)
    };
    apply(instruction, &code[..bytes as usize], &outputs, context);
    context.rip += bytes;
    if process().replaying {
        crate::pause::arm_if_next();
    }
    true
}

/// Performs the instruction and logs its result.
fn record(instruction: Instruction, inputs: &[u64; 2]) -> [u64; 5] {
    let outputs = match instruction {
        Instruction::Rdtsc | Instruction::Rdtscp => {
            let (time, processor) = clocks::with_time_counter(|| {
                let mut processor = 0u32;
                // SAFETY: reading the counter has no effect on memory.
                let time = unsafe { core::arch::x86_64::__rdtscp(&mut processor) };
                (time, processor)
            });
            [time & 0xffff_ffff, 0, u64::from(processor), time >> 32, 0]
        }
        Instruction::Cpuid => {
            let leaf = clocks::with_cpuid(|| __cpuid_count(inputs[0] as u32, inputs[1] as u32));
            let mut words = [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx];
            hide(inputs, &mut words);
            [words[0], words[1], words[2], words[3], 0].map(u64::from)
        }
        Instruction::Rdrand | Instruction::Rdseed => [random(), 0, 0, 0, 1],
    };
    let log = &mut process().log;
    log.begin(Kind::Instruction, 0, instruction as u16);
    for &word in inputs.iter().chain(&outputs) {
        log.word(word);
    }
    log.end();
    outputs
}

/// Hides what could not be recorded (randomness, transactions) and what depends
/// on the processor that the thread happens to run on.
fn hide(inputs: &[u64; 2], words: &mut [u32; 4]) {
    const RDRAND: u32 = 1 << 30;
    const RDSEED: u32 = 1 << 18;
    const HLE_RTM: u32 = 1 << 4 | 1 << 11;
    match inputs {
        [1, _] => {
            words[1] &= 0x00ff_ffff;
            words[2] &= !RDRAND;
        }
        [7, 0] => words[1] &= !(RDSEED | HLE_RTM),
        [0xb | 0x1f, _] => words[3] = 0,
        _ => {}
    }
}

fn random() -> u64 {
    let mut value = 0u64;
    crate::kernel::call(
        linux_abi::general::__NR_getrandom,
        [&raw mut value as u64, 8, 0, 0, 0, 0],
    );
    value
}

fn replay(instruction: Instruction, inputs: &[u64; 2], context: &RealFrame) -> [u64; 5] {
    let registers = context.registers();
    let Some(word) = process().log.peek() else {
        report::note_registers(&registers);
        report::log_ended();
    };
    let log = &mut process().log;
    let is_cpuid = instruction == Instruction::Cpuid;
    let same = word as u8 == Kind::Instruction as u8
        && (word >> 16) as u16 == instruction as u16
        && word >> 32 == 64
        && (!is_cpuid || [log.body(0), log.body(1)] == *inputs);
    if !same {
        report::diverge(&registers, word, u64::MAX, &[instruction as u64, inputs[0], inputs[1]]);
    }
    let outputs = [log.body(2), log.body(3), log.body(4), log.body(5), log.body(6)];
    log.consume(word);
    log.events += 1;
    outputs
}

/// Puts the result into the program's registers.
fn apply(instruction: Instruction, code: &[u8], outputs: &[u64; 5], context: &mut RealFrame) {
    match instruction {
        Instruction::Rdtsc => {
            context.rax = outputs[0];
            context.rdx = outputs[3];
        }
        Instruction::Rdtscp => {
            context.rax = outputs[0];
            context.rdx = outputs[3];
            context.rcx = outputs[2];
        }
        Instruction::Cpuid => {
            context.rax = outputs[0];
            context.rbx = outputs[1];
            context.rcx = outputs[2];
            context.rdx = outputs[3];
        }
        Instruction::Rdrand | Instruction::Rdseed => apply_random(code, outputs[0], context),
    }
}

/// rdrand and rdseed: any general register in 16, 32 or 64 bits; carry says that
/// it succeeded.
fn apply_random(code: &[u8], value: u64, context: &mut RealFrame) {
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
        0 => &mut context.rax,
        1 => &mut context.rcx,
        2 => &mut context.rdx,
        3 => &mut context.rbx,
        4 => &mut context.rsp,
        5 => &mut context.rbp,
        6 => &mut context.rsi,
        7 => &mut context.rdi,
        8 => &mut context.r8,
        9 => &mut context.r9,
        10 => &mut context.r10,
        11 => &mut context.r11,
        12 => &mut context.r12,
        13 => &mut context.r13,
        14 => &mut context.r14,
        _ => &mut context.r15,
    };
    *register = if rex & 8 != 0 {
        value
    } else if short {
        *register & !0xffff | value & 0xffff
    } else {
        value & 0xffff_ffff
    };
    // Carry set; overflow, sign, zero, auxiliary and parity cleared.
    context.flags = context.flags & !0x8d5 | 1;
}

