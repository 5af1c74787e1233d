//! The mailbox between the debugger and the agent inside a replaying process.
//!
//! The debugger writes a command and increments `asked`; the process, which stands
//! still, acts, and increments `stopped` when it stands still again. While it
//! stands still its memory is read from outside.

use core::sync::atomic::{AtomicI32, AtomicU32};

use crate::bytecode::PROGRAM_BYTES_MAX;

/// Most breakpoints of a process.
pub const BREAKPOINTS_MAX: usize = 256;
/// Most watched places of a process; some of them the processor watches.
pub const WATCHES_MAX: usize = 32;
/// Threads of which the registers are told.
pub const AGENT_THREADS_MAX: usize = 128;
/// Boundaries that are remembered.
pub const BOUNDARIES_MAX: usize = 64;
/// Words that hold a bit for each system call.
pub const CALL_WORDS: usize = 8;
/// Parts of the vector state that are told of.
pub const VECTOR_PARTS: usize = 8;
/// In place of an event, a thread, a count: there is none.
pub const NONE: u64 = u64::MAX;

/// The signal by which threads are asked for something: SIGSTKFLT, which the kernel never sends. Not
/// one that a trap has: while such a signal waits, the kernel drops the trap's.
pub const ASKING: u32 = 16;

/// That a process is to stand still soon.
pub mod agent_interrupt {
    /// At its next event.
    pub const AT_EVENT: u32 = 1;
    /// Wherever it is.
    pub const ANYWHERE: u32 = 2;
}

/// What the process is to do.
pub mod agent_verb {
    /// Go on at full speed.
    pub const RUN: u32 = 1;
    /// Go on instruction by instruction, counting.
    pub const STEP: u32 = 2;
    /// Make a copy of the process, which stands still too.
    pub const COPY: u32 = 3;
    /// Make a copy that goes on by itself from here: a branch. `pid` is what it takes
    /// itself for; `breakpoints` are pairs of start and end of memory that it shares
    /// and that becomes its own.
    pub const BRANCH: u32 = 4;
    /// Set the registers of the thread that ran. In a branch; in a live program, where
    /// it is logged.
    pub const SET: u32 = 5;
    /// A live program: do what `order`, one of [`crate::command`], says, with `argument`.
    pub const ORDER: u32 = 6;
    /// A live program: go on, and obey no more.
    pub const RELEASE: u32 = 7;
    /// A live program: `order` bytes, which are in [`super::Agent::programs`], go to
    /// `argument`. It is logged.
    pub const WRITE: u32 = 8;
    /// A live program: log the place where it stands, at which registers will be set.
    pub const MARK: u32 = 9;
    /// Stand in such a way that an image can be made of the process from outside, until
    /// the next command; [`super::Agent::standing`] says how. Nothing else changes.
    pub const STAND: u32 = 10;
}

/// Why the process stands still.
pub mod agent_stop {
    /// The first instruction of its log.
    pub const BEGIN: u32 = 1;
    /// The event, or the thread, was reached that the command names.
    pub const REACHED: u32 = 2;
    pub const BREAKPOINT: u32 = 3;
    pub const WATCHPOINT: u32 = 4;
    /// As many steps as the command names.
    pub const STEPPED: u32 = 5;
    pub const INTERRUPTED: u32 = 6;
    /// A copy was made, or `code` is an error.
    pub const COPIED: u32 = 7;
    /// The first instruction of a new image.
    pub const IMAGE: u32 = 8;
    /// The log says no more: `report` is one of `report_kind`.
    pub const END: u32 = 9;
    /// A branch is about to die of the signal `code`.
    pub const FAULTED: u32 = 10;
    /// A branch ends, with the exit code `code`; no command leads on from there.
    pub const EXITED: u32 = 11;
    /// A branch waits for what can never come.
    pub const STUCK: u32 = 12;
    /// A branch writes `output_bytes` at `output`. Any command lets it go on with the
    /// one before.
    pub const OUTPUT: u32 = 13;
    /// A branch was refused the system call of the number `code`. The same.
    pub const REFUSED: u32 = 14;
    /// Behind a system call that the command names: `call`.
    pub const CALL: u32 = 15;
    /// The memory for records is full.
    pub const RECORDED: u32 = 16;
    /// Code was mapped.
    pub const CODE: u32 = 17;
    /// A live program did what it was ordered, where it stood: `code` is the answer.
    pub const ORDERED: u32 = 18;
    /// A live program went back to a checkpoint, and stands there.
    pub const ROLLED_BACK: u32 = 19;
    /// A live program is about to end, with the exit code `code`.
    pub const LEAVING: u32 = 20;
    /// Where the handler of a signal begins that the command names: `signal`.
    pub const SIGNAL: u32 = 21;
}

/// What a watched place is watched for.
pub mod watch_kind {
    pub const WRITE: u32 = 1;
    pub const READ: u32 = 2;
    pub const ACCESS: u32 = 3;
}

/// A watched place: 1, 2, 4 or 8 bytes at a multiple of that.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Watch {
    pub address: u64,
    pub bytes: u32,
    /// See [`watch_kind`].
    pub kind: u32,
}

/// A command to the agent.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentCommand {
    /// See [`agent_verb`].
    pub verb: u32,
    /// COPY, BRANCH: the segment of the copy's.
    pub segment: u32,
    /// Bits of the system calls behind which to stop, by their numbers.
    pub calls: [u64; CALL_WORDS],
    /// Bits of the signals at whose handlers' beginnings to stop, that of signal 1 being the lowest.
    pub signals: u64,
    /// BRANCH: the process id that was recorded.
    pub pid: i32,
    /// Not zero: stop at the boundary behind each mapping of code.
    pub stops_at_code: u32,
    /// ORDER: what, and with which argument. WRITE: how many bytes, and to where.
    pub order: u64,
    pub argument: u64,
    /// SET: see `AgentThread`.
    pub registers: [u64; 18],
    /// Stop at the first boundary with so many events consumed, or more.
    pub until_event: u64,
    /// Stop at the next boundary of this thread.
    pub until_thread: u64,
    /// STEP: most instructions.
    pub steps_max: u64,
    /// Which of the hits of breakpoints and watched places ends the command.
    pub hits_max: u64,
    pub breakpoint_count: u32,
    pub watch_count: u32,
    pub breakpoints: [u64; BREAKPOINTS_MAX],
    /// Where each breakpoint's block of programs begins in [`Agent::programs`], or
    /// [`crate::bytecode::NO_PROGRAMS`].
    pub programs: [u16; BREAKPOINTS_MAX],
    pub watches: [Watch; WATCHES_MAX],
}

/// Registers of a thread that stands still.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgentThread {
    pub index: u32,
    pub tid: i32,
    pub fs_base: u64,
    /// rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15, rip, flags.
    pub registers: [u64; 18],
}

/// A place where a thread went on after an event.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Boundary {
    pub event: u64,
    pub thread: u64,
}

/// A hit of a breakpoint or a watched place.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hit {
    /// Events consumed before it; [`NONE`]: there was no hit.
    pub event: u64,
    /// Hits between that event and this one, itself included; since the command began, if that
    /// was after the event.
    pub ordinal: u64,
    /// Instructions since the event; [`NONE`]: not known.
    pub steps: u64,
    /// [`NONE`] for a breakpoint; else which of the watched places.
    pub watch: u64,
}

/// Where and why a process stands still.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentStop {
    /// See [`agent_stop`].
    pub kind: u32,
    /// END: one of `report_kind`.
    pub report: u32,
    /// END: signal or exit code. COPIED: the copy's process, or an error.
    pub code: i32,
    /// Index of the thread that ran.
    pub thread: u32,
    /// Events consumed.
    pub event: u64,
    /// Instructions since then.
    pub steps: u64,
    /// Not zero if `steps` is known.
    pub steps_known: u32,
    /// Not zero: no copy can be made, because memory is shared or there are threads.
    pub cannot_copy: u32,
    /// Instructions of this command.
    pub command_steps: u64,
    /// Hits of this command.
    pub hits: u64,
    pub last_hit: Hit,
    /// Bytes of records, which lie at [`crate::RECORDS_START`] until the next command.
    pub recorded_bytes: u64,
    /// Bytes of the log consumed.
    pub log_position: u64,
    /// The stack pointer at the image's first instruction.
    pub first_stack: u64,
    /// Which image of the process it is, the first being 1.
    pub images: u64,
    /// Where the vector registers are in the process's memory (xsave), and how many
    /// bytes; 0: they are not known.
    pub vectors: u64,
    pub vector_bytes: u64,
    /// Where in them each part begins, by its number as xsave's; 0: there is no such part, or it is one
    /// of the first two, which have their fixed places.
    pub vector_parts: [u32; VECTOR_PARTS],
    /// Number of the system call that it stands behind, plus one; 0: it does not.
    pub call: u64,
    /// The signal whose handler begins here; 0: none.
    pub signal: u64,
    /// What the kernel says of that signal, or of the one that the program dies of here (siginfo_t);
    /// the first word is 0 where nothing is known.
    pub signal_info: [u64; 16],
    /// Not zero: other processes share the token with it, or did. They are there once in a
    /// session, so no other process of the session can come here.
    pub met_others: u64,
    /// Not zero: a copy that goes without the others with which it shares memory.
    pub without_others: u64,
    /// Bytes of the files that stand for its shared memory.
    pub shared_bytes: u64,
    /// Not zero: a live program that stands before a system call, or at a fault, which is
    /// where a replay of its log would end.
    pub is_at_log_end: u64,
    pub output: u64,
    pub output_bytes: u64,
    /// Boundaries so far; the last ones are in `boundaries`, at their number modulo
    /// its length.
    pub boundary_count: u64,
    pub boundaries: [Boundary; BOUNDARIES_MAX],
    pub thread_count: u32,
    pub _reserved: u32,
    /// The one that ran is the first.
    pub threads: [AgentThread; AGENT_THREADS_MAX],
}

/// The mailbox.
#[repr(C)]
pub struct Agent {
    /// Counts commands; a futex word.
    pub asked: AtomicU32,
    /// Counts stops; a futex word.
    pub stopped: AtomicU32,
    /// 0, or one of [`agent_interrupt`].
    pub interrupt: AtomicU32,
    /// The thread that runs.
    pub running_tid: AtomicI32,
    pub command: AgentCommand,
    pub stop: AgentStop,
    /// STAND: block of the thread that runs, and where its stack ends.
    pub standing: [u64; 2],
    /// Programs of breakpoints: see [`crate::bytecode::breakpoint_kind`].
    pub programs: [u8; PROGRAM_BYTES_MAX],
}
