//! The program's registers as the entry code keeps them, and how the runtime is left with them.
//!
//! Invariant: the layout is that of the entry code's pushes; its macros for taking them back
//! stand here, beside it.

use linux_abi::general as nr;

/// Takes the registers that calls preserve from the stack.
macro_rules! pop_preserved {
    () => {
        "pop r15\npop r14\npop r13\npop r12\npop rbp\npop rbx"
    };
}

/// The rest of [`Registers`], behind r11.
macro_rules! pop_volatile {
    () => {
        "pop r9\npop r8\npop r10\npop rdx\npop rsi\npop rdi\npop rcx\npop rax"
    };
}

use crate::ground::kernel;
pub(crate) use pop_preserved;
pub(crate) use pop_volatile;

pub use runtime_logic::registers::{REGISTER_WORDS, Registers, SET_FLAGS, TRAP_FLAG};

/// What the entry code does when the runtime is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Leave {
    /// Behind a system call: rcx and r11 as the kernel leaves them.
    Call = 0,
    /// Every register as in [`Registers`].
    Exactly = 1,
    /// Not yet: the entry code makes the call, and goes on with `direct_calls::on_made`.
    Make = 2,
}

/// The running thread's base of thread-local memory.
pub fn fs_base() -> u64 {
    const ARCH_GET_FS: u64 = 0x1003;
    let mut base = 0u64;
    kernel::call(nr::__NR_arch_prctl, [ARCH_GET_FS, &raw mut base as u64, 0, 0, 0, 0]);
    base
}
