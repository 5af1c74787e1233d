//! What the injector tells the runtime of a running process that it boards: where
//! each of its threads stands. Written into memory of that process while it stands.

use core::sync::atomic::AtomicU32;

use crate::layout::{RECORDS_BYTES, RECORDS_START, TEXT_START, THREADS_MAX};
use crate::session::{CodeMap, MemoryRange};

/// Where the table is in the process.
pub const BOARDING_START: u64 = RECORDS_START;
/// Where the first thread of a boarded process begins in the runtime: r12 is the
/// segment, r13 the descriptor of the session's memory.
pub const BOARD_FIRST: u64 = TEXT_START + 32;
/// Where the other threads begin: r12 points to their entry in the table.
pub const BOARD_OTHER: u64 = TEXT_START + 48;
/// Where code that replaces the vDSO enters the runtime, as a trampoline does. Recorded
/// memory holds this address.
pub const BOARD_CALL: u64 = TEXT_START + 64;

/// Most executable maps, and most ranges of memory, that a boarding names.
pub const BOARDING_MAPS: usize = 512;

/// What the table says first of all.
#[repr(C)]
pub struct Boarding {
    /// A futex word: 0, then [`boarding_state::PREPARED`], then [`boarding_state::OPEN`].
    pub state: AtomicU32,
    /// Threads that have come into the runtime; a futex word.
    pub arrived: AtomicU32,
    /// Threads in the table. The first is the process's first.
    pub count: u32,
    pub code_count: u32,
    pub range_count: u32,
    pub advised_count: u32,
    pub shared_count: u32,
    pub _reserved: u32,
    /// Where the program's break began.
    pub break_start: u64,
    /// Where the process's root has no /proc: a descriptor of it, plus one; else 0.
    pub proc_dir: u64,
    /// Executable maps of kept files.
    pub code: [CodeMap; BOARDING_MAPS],
    /// Memory to log whole, because its file is not kept.
    pub ranges: [MemoryRange; BOARDING_MAPS],
    /// Memory that children do not get.
    pub advised: [Advised; ADVISED_MAX],
    /// Mappings of memory that the process shares, or could share.
    pub shared: [SharedMapping; BOARDING_MAPS],
}

/// A mapping of a file, or of memory without one, of which the process has a shared mapping that
/// can be written. It is private itself, or cannot be written, where another one can.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedMapping {
    pub start: u64,
    pub end: u64,
    /// Bytes that the file has behind where the mapping begins in it.
    pub there: u64,
    /// 1: other processes can find this memory, and share it then; 0: only children can.
    pub can_be_found: u64,
}

/// Ranges of memory with such advice that are followed.
pub const ADVISED_MAX: usize = 256;

/// Memory of which the program said by madvise(2) what fork does with it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Advised {
    pub start: u64,
    pub end: u64,
    /// MADV_DONTFORK or MADV_WIPEONFORK.
    pub advice: u64,
}

/// State of the boarding.
pub mod boarding_state {
    /// Each thread has its block.
    pub const PREPARED: u32 = 1;
    /// The log has begun: the threads may go on.
    pub const OPEN: u32 = 2;
}

/// A thread of the table. The runtime's entry code knows the first two fields.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Boarder {
    /// The runtime's.
    pub block: u64,
    /// The runtime's.
    pub stack_top: u64,
    /// How the program goes on: r15 r14 r13 r12 rbp rbx r11 r9 r8 r10 rdx rsi rdi rcx
    /// rax rip flags rsp.
    pub registers: [u64; 18],
    pub mask: u64,
    /// Head and length of the head; 0: none.
    pub robust_list: [u64; 2],
    /// Address, length and signature of the area for restartable sequences.
    pub rseq: [u64; 3],
    /// Where the kernel writes a zero at the thread's end.
    pub clear_tid: u64,
}

/// Bytes of a table for so many threads.
pub const fn boarding_bytes(threads: usize) -> u64 {
    (size_of::<Boarding>() + threads * size_of::<Boarder>()) as u64
}

/// Address of the entry with this index.
pub const fn boarder_address(index: usize) -> u64 {
    BOARDING_START + boarding_bytes(index)
}

const _: () = assert!(boarding_bytes(THREADS_MAX) <= RECORDS_BYTES);
const _: () = assert!(size_of::<Boarding>().is_multiple_of(8));
