//! Runs a program's code from a cache of copies that count instructions.
//!
//! A debugger's position is an event and the number of instructions since: this finds
//! and reaches such positions near native speed, without hardware counters. Units of
//! code are copied on the way (see `unit`), linked to each other, and entered through
//! gates (see `gates`). Copies do to registers, flags, memory and vector state what the
//! program's own instructions do, instruction by instruction: the counter is in memory,
//! and what a copy needs of registers it keeps and gives back.
//!
//! Invariants: where a unit is entered, it is known how many instructions were executed
//! and not counted; every cycle of copies counts. A fault in a copy is one of the
//! program, at a known instruction, with exact registers.
//!
//! Deliberately absent: system calls, knowledge of the runtime, and allocation (but
//! for the disassembler's tables). The host, the runtime in a replay or a test, makes
//! calls and performs what is its own.
#![no_std]

mod assembler;
mod comparison;
mod engine;
mod gates;
mod instruction;
mod memory;
mod relocation;
mod tables;
mod unit;
mod watches;

pub use engine::{BREAKPOINTS_MAX, Engine, WATCHES_MAX, interrupt, on_fault};
pub use memory::{ALIGNMENT, MEMORY_BYTES, VECTORS};

/// The program's registers, but for vectors.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// In the processor's order: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
    pub general: [u64; 16],
    pub rip: u64,
    pub flags: u64,
}

/// What the engine asks of whoever runs it.
pub trait Host {
    /// Reads the program's code at the address, without what the host itself has put
    /// there. Returns how many bytes could be read.
    fn code(&mut self, address: u64, into: &mut [u8]) -> usize;

    /// True if the code at the address does not change before [`Engine::flush`].
    fn is_stable(&mut self, address: u64) -> bool;
}

/// Until when to run.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// Instructions; a repeated string instruction is one.
    pub limit: u64,
    /// Passes a breakpoint at the first instruction.
    pub passes_breakpoint: bool,
    /// Passes a store of the first instruction to what is watched.
    pub passes_store: bool,
    /// Notes the last store to what is watched, and goes on, instead of stopping before
    /// the first.
    pub notes_stores: bool,
    /// Base of the program's fs segment, for stores relative to it.
    pub fs_base: u64,
}

/// Why the program was stopped. Its state is the one before the instruction at `rip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// So many instructions were run.
    Limit,
    /// A breakpoint.
    Breakpoint,
    /// A system call.
    Call,
    /// An instruction that the host performs: one whose result comes from outside, or
    /// that traps.
    Instruction,
    /// What is no code.
    Unreadable,
    /// An instruction that is about to store to this range, which touches what is
    /// watched; its length is `u64::MAX` if the range is not known.
    Store { start: u64, bytes: u64 },
    /// The instruction faulted, and [`on_fault`] was called.
    Fault,
    /// [`interrupt`] was called.
    Interrupted,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub stop: Stop,
    /// Instructions that were run.
    pub executed: u64,
    /// Stores to what is watched that were noted.
    pub stores: u64,
    /// Instructions that had been run before the last of them.
    pub last_store: Option<u64>,
}
