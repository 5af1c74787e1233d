//! The encoding of the events that a lane's log holds.
//!
//! An event is a header of 8 bytes, a body, and blobs; its length is a multiple
//! of 8 and at most [`EVENT_BYTES_MAX`]. All numbers are little-endian. What is
//! longer than one event goes on in [`Kind::Data`] events, announced by
//! [`MORE`]; an event together with its data events is *whole* or not there.
//!
//! The runtime writes these words straight into its ring; everything outside
//! reads them with [`Event::parse`], which trusts nothing. Deliberately absent:
//! files, chunks and compression (the trace store's), and what a call means
//! (the system-call model's).
#![no_std]
#![forbid(unsafe_code)]

mod decode;
mod header;
pub mod real;

pub use decode::{
    BIRTH_FIXED_BYTES, BirthBody, Blob, Blobs, DecodeError, Event, InstructionBody, MAP_RECORD_BYTES,
    MapRecord,
};

pub use header::Header;

/// Longest event, in bytes, header included.
pub const EVENT_BYTES_MAX: usize = 128 * 1024;
/// Length of a header, in bytes.
pub const HEADER_BYTES: usize = 8;
/// Length of a blob's own header, in bytes.
pub const BLOB_HEADER_BYTES: usize = 16;

/// What an event is: the first byte of its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A system call: code is its number; body: result, arguments.
    Syscall = 1,
    /// More blobs of the event before it.
    Data = 2,
    /// A signal given to a handler: code is its number; body: 128 bytes of siginfo.
    Signal = 3,
    /// A synchronous fault: code is the signal; body: instruction address, 128 bytes of siginfo.
    Fault = 4,
    /// An instruction with a result from outside: code is an [`Instruction`].
    Instruction = 5,
    /// Memory that the runtime mapped for rewritten sites; body: address, length.
    Trampoline = 6,
    /// A new image (execve); body: see [`BirthBody`].
    Birth = 7,
    /// The process ended by itself; body: its exit code.
    Exit = 8,
    /// A checksum of the writable memory; body: the sum, events so far.
    Checksum = 9,
    /// Recording stopped here and the program went on; code is a stop reason, blob: a text.
    Stop = 10,
    /// The program was stopped at this very state between two calls; body: 18
    /// registers (r15 r14 r13 r12 rbp rbx r11 r9 r8 r10 rdx rsi rdi rcx rax rip flags
    /// rsp), a sum of the vector registers, a sum of memory; blobs: vector registers,
    /// ranges, words.
    Preemption = 11,
    /// The events that follow are of another thread; code is its number. Body, where
    /// another process of the lane held the token before: which token, ticket.
    Token = 12,
    /// What a call that has not ended yet changed in memory before the thread slept,
    /// or what the kernel does to robust futexes at the end that follows; blobs.
    Store = 13,
    /// The program went back instead of dying, and its code is another from here on; code
    /// says how, body: address and length of memory that is mapped for it, blobs.
    Change = 14,
    /// What the debugger changed in a live program where it stood; body, with
    /// [`SETS_REGISTERS`]: 18 registers as of a preemption; blobs: vector registers, memory.
    Edit = 15,
}

impl Kind {
    /// The kind with this number.
    pub const fn from_byte(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Syscall,
            2 => Kind::Data,
            3 => Kind::Signal,
            4 => Kind::Fault,
            5 => Kind::Instruction,
            6 => Kind::Trampoline,
            7 => Kind::Birth,
            8 => Kind::Exit,
            9 => Kind::Checksum,
            10 => Kind::Stop,
            11 => Kind::Preemption,
            12 => Kind::Token,
            13 => Kind::Store,
            14 => Kind::Change,
            15 => Kind::Edit,
            _ => return None,
        })
    }
}

/// Code of a birth event: the process ran already, and its memory, threads and signal
/// actions follow.
pub const BOARDED: u16 = 1;
/// The same where the log's beginning is a checkpoint of the process, whose threads have
/// [`Tag::ResumeState`]s.
pub const WINDOW: u16 = 2;
/// Words of a [`Tag::ResumeState`]: a [`resume_state`], 1 if the event before was the thread's, and
/// what a frame says of its last fault (error code, trap number, cr2).
pub const RESUME_STATE_WORDS: usize = 5;
/// How a thread goes on at the beginning of a window.
pub mod resume_state {
    /// In the program's code.
    pub const RUNS: u64 = 0;
    /// There too, behind a preemption at which it released the token.
    pub const PREEMPTED: u64 = 1;
    /// It was made, and its first event is to come.
    pub const BEGINS: u64 = 2;
}
/// Words of a [`Tag::ThreadState`]: base of thread-local memory, signal mask, alternate
/// stack (address, flags, bytes), address for its end, list of robust futexes (address,
/// bytes), registers (as in a preemption).
pub const BOARDED_THREAD_WORDS: usize = 8 + 18;

/// Words of a [`Tag::SharedMap`]: end, protection, a [`shared_map`]'s flags, place in the file,
/// device, inode, bytes of the file's that are there behind that place.
pub const SHARED_MAP_WORDS: usize = 7;
/// Flags of a shared mapping at a birth.
pub mod shared_map {
    /// It has its own copies of pages that it wrote.
    pub const PRIVATE: u64 = 1;
    /// Its content stands ahead of this: from here on it is protected as it was.
    pub const FILLED: u64 = 2;
}

/// Flags of a system call: how many arguments are logged.
pub const ARG_COUNT_MASK: u8 = 0b111;
/// Data events follow that belong to this event (Syscall, Birth, Data).
pub const MORE: u8 = 1 << 3;
/// A signal event follows that belongs to the end of this call.
pub const SIGNAL_FOLLOWS: u8 = 1 << 4;
/// The memory that the kernel wrote was found by page-write detection.
pub const DETECTED: u8 = 1 << 5;
/// The runtime answered the call itself because it cannot be recorded.
pub const REFUSED: u8 = 1 << 6;
/// A seccomp filter of the program's own held the call back. Its result then is what the
/// filter says, or [`ENDS_THREAD`], or where a signal follows the call's number.
pub const FILTERED: u8 = REFUSED | DETECTED;
/// Result of a call that is held back: the thread ends instead.
pub const ENDS_THREAD: i64 = i64::MIN;
/// The call gave 0, which is not logged, and wrote the words behind the arguments to where
/// the last of them points; there are no blobs. (Most calls that ask for the time.)
pub const IN_PLACE: u8 = 1 << 7;

/// Flag of a signal event: delivered before the call that the program was about
/// to make, rather than after the one it made. Of an edit: made there.
pub const BEFORE_CALL: u8 = 1;
/// Flag of a signal event: another follows at the same boundary, whose handler
/// runs first.
pub const STACKED: u8 = 2;
/// Flag of an edit: it has registers.
pub const SETS_REGISTERS: u8 = 2;
/// Flag of a token event: another process of the lane held the token before.
pub const TICKET: u8 = 1;
/// Places of words in the body of a [`Kind::Preemption`], and of registers in that of a [`Kind::Edit`].
pub mod preemption_word {
    pub const RIP: usize = 15;
    pub const FLAGS: usize = 16;
    pub const VECTOR_SUM: usize = 18;
    pub const MEMORY_SUM: usize = 19;
}
/// Flag of a preemption event: another thread holds the token next.
pub const YIELDS: u8 = 1;
/// Flag of a change event: what memory shows that is shared, after somebody died there of whom no
/// log tells where.
pub const SHARED: u8 = 1;
/// Code of such an event where nobody died: what mappings show that others wrote to files by calls.
pub const FOREIGN: u16 = 1;
/// Flag of a fault event: no handler, the process dies of it.
pub const FATAL: u8 = 1;

/// What a blob's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Tag {
    /// Replay writes the bytes to the blob's address.
    Memory = 0,
    /// Text that the call read (a path), for people.
    Text = 1,
    /// The first bytes of what the program sent: shown by `dump`, compared in replay.
    Sent = 2,
    /// A file mapping's content: file id (u64), offset in the file (u64), device and
    /// inode (u64 each) of the recorded file.
    FileRef = 3,
    /// The call wrote to the recorded standard output or error: class (u32),
    /// zero (u32), order among all such writes of the trace (u64).
    Output = 4,
    /// The call made a process: lane of the child (u32), zero (u32).
    Child = 5,
    /// Bytes that the log holds already: slot in the block cache (u32), length (u32).
    Cached = 6,
    /// Like `Memory`, and the bytes enter the block cache's slot given in the
    /// upper half of the tag's word.
    MemoryToCache = 7,
    /// The legacy save area of the vector registers at a preemption; of an edit, the whole
    /// area of XSAVE.
    Vectors = 8,
    /// A file that is mapped has a new size: device, inode, size in bytes (u64 each).
    FileSize = 9,
    /// Memory that identifies a pause: [`SummedRange`]s. Without it all writable
    /// memory does.
    Ranges = 10,
    /// Words that were changing at a preemption, to tell rounds of a loop apart: address
    /// and value (u64 each).
    Words = 11,
    /// The call made a thread: its number in the process (u64).
    Thread = 12,
    /// At the birth of a process that ran already: what it does with signals 1 to 64,
    /// four words each (handler, flags, restorer, mask).
    Actions = 13,
    /// There: a thread, as [`BOARDED_THREAD_WORDS`] words; the blob's address is its
    /// number. A blob of its vector registers follows.
    ThreadState = 14,
    /// At a birth that is a checkpoint: how a thread goes on, as [`RESUME_STATE_WORDS`] words;
    /// the blob's address is its number.
    ResumeState = 15,
    /// At the birth of a process that ran already: a mapping of memory that it shares, as
    /// [`SHARED_MAP_WORDS`] words; the blob's address is its beginning. Its content follows, then
    /// the same blob again.
    SharedMap = 16,
    /// So many bytes (u64) from the blob's address on are zero, where memory is mapped.
    Zeros = 17,
    /// Of a call on mappings that failed: a part that it had done before, from the blob's address on:
    /// bytes, where it was moved to or 0 (u64 each). Replay does it.
    Part = 18,
    /// The call read a part of a kept file to the blob's address: file id, offset in the file, bytes
    /// (u64 each).
    FilePart = 19,
    /// Never in a trace: what replay does with a real stream, as [`real`] has it.
    Real = 20,
}

impl Tag {
    /// The tag with this number.
    pub const fn from_word(word: u32) -> Option<Tag> {
        Some(match word {
            0 => Tag::Memory,
            1 => Tag::Text,
            2 => Tag::Sent,
            3 => Tag::FileRef,
            4 => Tag::Output,
            5 => Tag::Child,
            6 => Tag::Cached,
            7 => Tag::MemoryToCache,
            8 => Tag::Vectors,
            9 => Tag::FileSize,
            10 => Tag::Ranges,
            11 => Tag::Words,
            12 => Tag::Thread,
            13 => Tag::Actions,
            14 => Tag::ThreadState,
            15 => Tag::ResumeState,
            16 => Tag::SharedMap,
            17 => Tag::Zeros,
            18 => Tag::Part,
            19 => Tag::FilePart,
            20 => Tag::Real,
            _ => return None,
        })
    }
}

/// Pages in a row and a sum over their content: two words of a preemption's ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummedRange {
    /// Number of the first page: its address divided by 4096.
    pub first: u64,
    /// How many pages; at most [`SummedRange::PAGES_MAX`].
    pub pages: u64,
    /// Wrapping sum of the pages' sums.
    pub sum: u64,
}

impl SummedRange {
    const PAGES_BITS: u32 = 24;
    /// Most pages of one range.
    pub const PAGES_MAX: u64 = (1 << Self::PAGES_BITS) - 1;

    /// The words of the log. The number of the first page has to be of an address
    /// below 2^52.
    #[inline]
    pub const fn to_words(self) -> [u64; 2] {
        [self.first << Self::PAGES_BITS | self.pages, self.sum]
    }

    /// Reads the words of the log; every word is some range.
    #[inline]
    pub const fn from_words(words: [u64; 2]) -> SummedRange {
        SummedRange { first: words[0] >> Self::PAGES_BITS, pages: words[0] & Self::PAGES_MAX, sum: words[1] }
    }
}

/// Class of an output: which of the recorder's own descriptors the bytes went to.
pub const OUTPUT_STDOUT: u32 = 1;
/// See [`OUTPUT_STDOUT`].
pub const OUTPUT_STDERR: u32 = 2;

/// Instructions whose results come from outside of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Instruction {
    Rdtsc = 0,
    Rdtscp = 1,
    Cpuid = 2,
    Rdrand = 3,
    Rdseed = 4,
    /// No result: what it leaves out of the memory that it writes is made the same.
    Xsavec = 5,
    /// `pause`, or nops that stand for it, where the thread released the token. Its address, and
    /// how often threads of the process came to such a place since the event before.
    Spin = 6,
    Rdpid = 7,
}

impl Instruction {
    /// The instruction with this number.
    pub const fn from_code(code: u16) -> Option<Instruction> {
        Some(match code {
            0 => Instruction::Rdtsc,
            1 => Instruction::Rdtscp,
            2 => Instruction::Cpuid,
            3 => Instruction::Rdrand,
            4 => Instruction::Rdseed,
            5 => Instruction::Xsavec,
            6 => Instruction::Spin,
            7 => Instruction::Rdpid,
            _ => return None,
        })
    }
}

/// Why recording stopped while the program went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum StopReason {
    Thread = 1,
    SharedMemory = 2,
    DiskFull = 3,
    RecorderDied = 4,
    Unsupported = 5,
    TooManyProcesses = 6,
    /// By its parent, which it asked for that.
    Traced = 7,
}

impl StopReason {
    /// The reason with this number.
    pub const fn from_code(code: u16) -> Option<StopReason> {
        Some(match code {
            1 => StopReason::Thread,
            2 => StopReason::SharedMemory,
            3 => StopReason::DiskFull,
            4 => StopReason::RecorderDied,
            5 => StopReason::Unsupported,
            6 => StopReason::TooManyProcesses,
            7 => StopReason::Traced,
            _ => return None,
        })
    }
}

/// Rounds a length up to the alignment of events.
#[inline]
pub const fn padded(len_bytes: usize) -> usize {
    (len_bytes + 7) & !7
}
