//! Generated code that asks the processor for its features, where cpuid does not trap.
//!
//! A compiler that emits what the processor can do (Java's) asks by code that it has just
//! generated, of which no recipe knows. The answers hold the number of the processor, and the
//! program keeps them. So from the mapping of memory for such code to the next call that is
//! not about memory, the thread runs on the first processor that it may use: when it is
//! recorded, and when it is replayed.
//!
//! Deliberately absent: memory that becomes executable later, and threads that do not map it.

use linux_abi::general as nr;

use crate::block::thread;
use crate::{clocks, gathering, kernel};

/// Words of a set of processors: as many as the kernel knows of.
pub const WORDS: usize = 128;

/// Calls after which the thread is let go at the latest.
const CALLS_MAX: u32 = 64;

/// Where a thread may run.
#[repr(C)]
pub struct Processors {
    /// Calls that it may still make on one processor; 0: it is on none in particular.
    pub calls_left: u32,
    /// See `gathering`: the one that it is on, plus one; 0: on none in particular.
    pub place: u16,
    /// The program has set where it runs.
    pub are_set: bool,
    /// Bytes of the set.
    bytes: u32,
    set: [u64; WORDS],
}

impl Processors {
    pub const NONE: Processors =
        Processors { calls_left: 0, place: 0, are_set: false, bytes: 0, set: [0; WORDS] };

    /// A thread begins.
    pub fn forget(&mut self) {
        (self.calls_left, self.place, self.are_set) = (0, 0, false);
    }

    /// Where the program wants the thread to run.
    pub fn set(&self) -> &[u64] {
        &self.set[..self.bytes as usize / 8]
    }

    /// Where the calling thread may run at this time; false if the kernel does not say.
    pub fn fetch(&mut self) -> bool {
        self.fetch_of(0)
    }

    /// Where the thread with this id may.
    pub fn fetch_of(&mut self, tid: i32) -> bool {
        let room = size_of_val(&self.set) as u64;
        let set = self.set.as_mut_ptr() as u64;
        let bytes = kernel::call(nr::__NR_sched_getaffinity, [tid as u64, room, set, 0, 0, 0]);
        self.bytes = bytes.max(0) as u32;
        self.bytes != 0
    }
}

/// The program has mapped memory for code that it generates.
pub fn generated_code_mapped() {
    let processors = &mut thread().processors;
    if clocks::cpuid_traps() || processors.calls_left != 0 {
        return;
    }
    gathering::leave_own();
    if !processors.fetch() {
        return;
    }
    let set = processors.set();
    let Some(word) = set.iter().position(|&word| word != 0) else { return };
    let mut first = [0u64; WORDS];
    first[word] = 1 << set[word].trailing_zeros();
    if run_on(0, &first[..set.len()]) {
        processors.calls_left = CALLS_MAX;
    }
}

/// A call of the program begins on one processor.
#[cold]
pub fn before_call(number: u32) {
    let about_memory = matches!(
        number,
        nr::__NR_mmap
            | nr::__NR_munmap
            | nr::__NR_mprotect
            | nr::__NR_madvise
            | nr::__NR_brk
            | nr::__NR_clock_gettime
            | nr::__NR_rt_sigprocmask
            | nr::__NR_rt_sigreturn
    );
    let processors = &mut thread().processors;
    processors.calls_left = if about_memory { processors.calls_left - 1 } else { 0 };
    if processors.calls_left == 0 {
        run_on(0, processors.set());
    }
}

/// Lets a thread run on these processors only; 0: the calling one.
pub fn run_on(tid: i32, set: &[u64]) -> bool {
    let bytes = size_of_val(set) as u64;
    let arguments = [tid as u64, bytes, set.as_ptr() as u64, 0, 0, 0];
    !kernel::failed(kernel::call(nr::__NR_sched_setaffinity, arguments))
}
