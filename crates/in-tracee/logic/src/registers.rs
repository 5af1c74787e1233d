//! The program's registers, in the order of the log and in that of debuggers.
//!
//! Invariant: the layout is that of the runtime's entry code, which pushes them.

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

/// The registers in this order.
macro_rules! words_of {
    ($registers:expr, $($register:ident)*) => { [$($registers.$register),*] };
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
        words_of!(self, r15 r14 r13 r12 rbp rbx r11 r9 r8 r10 rdx rsi rdi rcx rax rip flags rsp)
    }

    #[inline]
    pub fn from_words(words: [u64; REGISTER_WORDS]) -> Registers {
        let [r15, r14, r13, r12, rbp, rbx, r11, r9, r8, r10, rdx, rsi, rdi, rcx, rax, rip, flags, rsp] =
            words;
        Registers { r15, r14, r13, r12, rbp, rbx, r11, r9, r8, r10, rdx, rsi, rdi, rcx, rax, rip, flags, rsp }
    }

    /// The trap flag is set: by the program, where none of the runtime's steps is on its way.
    #[inline]
    pub fn steps_itself(&self) -> bool {
        self.flags & TRAP_FLAG != 0
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
