//! The memory that an instruction is about to touch, from its code and the thread's registers.

use std::collections::HashMap;

use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register,
};

use crate::AgentThread;

/// Longest instruction, in bytes.
pub const INSTRUCTION_BYTES_MAX: usize = 15;
/// Most bytes that one instruction is taken to touch: what is longer (xsave) is not shared data.
const BYTES_MAX: u64 = 64;

/// A piece of memory that an instruction touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryAccess {
    pub address: u64,
    pub bytes: u64,
    pub writes: bool,
    /// It reads and writes as one: `lock` is in front of it, or it is an exchange.
    pub is_atomic: bool,
}

/// What is known of one instruction.
pub struct Step {
    pub accesses: Vec<MemoryAccess>,
    pub is_syscall: bool,
}

/// Decodes instructions, each once as long as its bytes are the same.
pub struct Accesses {
    known: HashMap<u64, ([u8; INSTRUCTION_BYTES_MAX], Instruction)>,
    factory: InstructionInfoFactory,
}

impl Default for Accesses {
    fn default() -> Accesses {
        Accesses { known: HashMap::new(), factory: InstructionInfoFactory::new() }
    }
}

impl Accesses {
    /// What the thread is about to do with `code`, the bytes at its instruction. Pushes, calls and
    /// returns, which touch the thread's own stack, are left out.
    pub fn of(&mut self, thread: &AgentThread, code: [u8; INSTRUCTION_BYTES_MAX]) -> Step {
        const RIP: usize = 16;
        let at = thread.registers[RIP];
        let instruction = match self.known.get(&at) {
            Some((bytes, instruction)) if *bytes == code => *instruction,
            _ => {
                let instruction = Decoder::with_ip(64, &code, at, DecoderOptions::NONE).decode();
                self.known.insert(at, (code, instruction));
                instruction
            }
        };
        let is_syscall = instruction.code() == Code::Syscall;
        let is_exchange = instruction.mnemonic() == Mnemonic::Xchg;
        let is_atomic = instruction.has_lock_prefix() || is_exchange;
        let mut accesses = Vec::new();
        // A hint or an address alone touches nothing.
        if !instruction.is_stack_instruction() {
            for memory in self.factory.info(&instruction).used_memory() {
                let (reads, writes) = match memory.access() {
                    OpAccess::Read | OpAccess::CondRead => (true, false),
                    OpAccess::Write | OpAccess::CondWrite => (false, true),
                    OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                    OpAccess::None | OpAccess::NoMemAccess => (false, false),
                };
                let value = |register: Register, _: usize, _: usize| value(thread, register);
                let Some(address) = memory.virtual_address(0, value).filter(|_| reads || writes) else {
                    continue;
                };
                let bytes = (memory.memory_size().size() as u64).clamp(1, BYTES_MAX);
                accesses.push(MemoryAccess { address, bytes, writes, is_atomic });
            }
        }
        Step { accesses, is_syscall }
    }
}

/// A register's value as addresses use it.
fn value(thread: &AgentThread, register: Register) -> Option<u64> {
    let order = [
        Register::RAX,
        Register::RBX,
        Register::RCX,
        Register::RDX,
        Register::RSI,
        Register::RDI,
        Register::RBP,
        Register::RSP,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    match register {
        Register::FS => Some(thread.fs_base),
        Register::GS => None,
        Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
        _ => {
            let whole = thread.registers[order.iter().position(|each| *each == register.full_register())?];
            Some(if register.is_gpr32() { whole & 0xffff_ffff } else { whole })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(rip: u64) -> AgentThread {
        let mut registers = [0; 18];
        (registers[0], registers[1], registers[16]) = (0x1000, 0x20, rip);
        AgentThread { index: 0, tid: 1, fs_base: 0x7000, registers }
    }

    fn look(bytes: &[u8]) -> Step {
        let mut code = [0x90; INSTRUCTION_BYTES_MAX];
        code[..bytes.len()].copy_from_slice(bytes);
        Accesses::default().of(&thread(0x5000), code)
    }

    #[test]
    fn an_instruction_touches_what_its_registers_say() {
        let access = |address, bytes, writes, is_atomic| MemoryAccess { address, bytes, writes, is_atomic };
        // add %ebx, 8(%rax); lock of it; mov %fs:0x10, %rax; mov 3(%rip), %al; xchg %ebx, (%rax)
        let cases: [(&[u8], MemoryAccess); 5] = [
            (&[0x01, 0x58, 0x08], access(0x1008, 4, true, false)),
            (&[0xf0, 0x01, 0x58, 0x08], access(0x1008, 4, true, true)),
            (&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x10, 0, 0, 0], access(0x7010, 8, false, false)),
            (&[0x8a, 0x05, 3, 0, 0, 0], access(0x5009, 1, false, false)),
            (&[0x87, 0x18], access(0x1000, 4, true, true)),
        ];
        for (bytes, expected) in cases {
            let step = look(bytes);
            assert_eq!(step.accesses, [expected], "{bytes:x?}");
            assert!(!step.is_syscall);
        }
        // lea, push, syscall
        assert!(look(&[0x48, 0x8d, 0x00]).accesses.is_empty());
        assert!(look(&[0x50]).accesses.is_empty());
        assert!(look(&[0x0f, 0x05]).is_syscall);
    }
}
