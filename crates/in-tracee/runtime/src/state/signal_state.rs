//! Signals of a thread and a process, and how threads stand; see `signals`.

use core::sync::atomic::AtomicU64;

use crate::ground::frame;

/// What a process does with signals.
#[repr(C)]
pub struct Actions {
    pub actions: [Action; 65],
    /// Actions that the program set or asked for; others are what execve left.
    pub known: u64,
}

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// A thread's signal state.
#[repr(C)]
pub struct Signals {
    /// The program's mask.
    pub mask: u64,
    pub stack: frame::SignalStack,
    pub count: usize,
    /// A call with a mask of its own is being made.
    pub masked_wait: bool,
    /// Such a call was interrupted: handlers begin with its mask, and the frame
    /// keeps the program's.
    pub wait_interrupted: bool,
    pub wait_mask: u64,
    /// What a frame says of the last fault: error code, trap number, cr2.
    pub last_fault: [u64; 3],
    pub queue: [WaitingSignal; QUEUE],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct WaitingSignal {
    pub signal: u32,
    /// Came while a call had replaced the mask: the mask is no obstacle.
    pub forced: bool,
    pub info: Info,
}

/// `siginfo_t`.
pub type Info = [u64; 16];

/// Most signals that wait at once: the kernel holds the rest.
pub const QUEUE: usize = 64;

/// What the process has seen of the session's unlogged deaths.
#[repr(C)]
#[derive(Default)]
pub struct DeathsSeen {
    pub deaths: u32,
}

/// What only the kernel and the processor have of a thread that waits for its token.
#[repr(C)]
pub struct KernelPart {
    /// Where its stack ends; 0: it does not wait.
    pub stack: AtomicU64,
    /// Base of its thread-local memory.
    pub fs_base: u64,
    pub mask: u64,
    /// In a copy: where it is to wait.
    pub to_stack: u64,
}

/// What a thread is about to do once it holds the token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum ResumeState {
    /// Nothing of the program was done yet.
    Beginning = 0,
    /// Make the call in its registers.
    Call = 1,
    /// Go on from a preemption that was logged.
    Preemption = 2,
    /// Execute the instruction at hand again: it faulted.
    Fault = 3,
    /// Go on where the thread stood when the session came to its process.
    Boarded = 4,
}

/// Signals that wait in the kernel.
#[repr(C)]
pub struct Pending {
    /// The thread that they wait for.
    pub thread: usize,
    pub count: usize,
    pub infos: [Info; PENDING_MAX],
}

pub const PENDING_MAX: usize = 32;
