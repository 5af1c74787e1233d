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

pub const TRAP_FLAG: u64 = 0x100;

/// The program's general registers, as the entry code lays them out on the
/// runtime's stack.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Registers {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r9: u64,
    pub r8: u64,
    pub r10: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rcx: u64,
    pub rax: u64,
    /// Where the program goes on.
    pub rip: u64,
    pub flags: u64,
    pub rsp: u64,
}

/// Words of [`Registers`].
pub const REGISTER_WORDS: usize = 18;
const _: () = assert!(size_of::<Registers>() == 8 * REGISTER_WORDS);

/// Places of registers in [`Registers`], in words.
macro_rules! places_of {
    ($($register:ident)*) => { [$(core::mem::offset_of!(Registers, $register) / 8),*] };
}

/// The order in which debuggers have them.
const NUMBERED: [usize; REGISTER_WORDS] =
    places_of!(rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip flags);
/// The flags that a debugger can set: carry, parity, adjust, zero, sign, direction, overflow.
pub const SET_FLAGS: u64 = 0xcd5;

impl Registers {
    /// In the order of the log.
    #[inline]
    pub fn words(self) -> [u64; REGISTER_WORDS] {
        // SAFETY: they are so many words.
        unsafe { core::mem::transmute(self) }
    }

    #[inline]
    pub fn from_words(words: [u64; REGISTER_WORDS]) -> Registers {
        // SAFETY: they are so many words, and any will do.
        unsafe { core::mem::transmute(words) }
    }

    /// In the order in which debuggers have them: rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15, rip,
    /// flags.
    pub fn numbered(self) -> [u64; REGISTER_WORDS] {
        let words = self.words();
        NUMBERED.map(|place| words[place])
    }

    /// Takes what a debugger has set; of the flags those that it can set.
    pub fn set_numbered(&mut self, numbered: &[u64; REGISTER_WORDS]) {
        let (mut words, flags) = (self.words(), self.flags);
        for (place, word) in NUMBERED.into_iter().zip(numbered) {
            words[place] = *word;
        }
        *self = Registers::from_words(words);
        self.flags = flags & !SET_FLAGS | self.flags & SET_FLAGS;
    }

    /// The six arguments of a system call.
    #[inline]
    pub fn args(&self) -> [u64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }
}

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
