//! What a replay is to do with streams that are real: the words of a [`crate::Tag::Real`].
//!
//! Invariant: the replayer adds them to events on their way to a process; a trace has none.

/// Words of an operation: which one, the stream's number (for notes), and what it needs. A text may follow.
pub const OP_WORDS: usize = 8;
/// Numbers of the descriptors that stand for the program's begin here.
pub const FD_FIRST: u64 = 256;

pub const OPEN: u64 = 1;
pub const CONNECT: u64 = 2;
pub const CALL: u64 = 3;
pub const WRITE: u64 = 4;
pub const READ: u64 = 5;
pub const COPY: u64 = 6;
pub const CLOSE: u64 = 7;
pub const ON_PATHS: u64 = 8;
/// Moves a descriptor over what the call moved the program's.
pub const SKIP: u64 = 9;
/// The lane has done all that it does.
pub const DONE: u64 = 10;
/// Waits for a lane that has: the program waited for its process.
pub const AWAIT: u64 = 11;
/// Sends what the program sent to one who shows it, behind a head of [`SHOWN_HEAD_WORDS`], and waits for a byte.
pub const SHOW: u64 = 12;
/// Lane, event, bytes that follow.
pub const SHOWN_HEAD_WORDS: usize = 3;

/// Instead of an argument: the address of the first text.
pub const FIRST_PATH: u64 = u64::MAX - 0x1000;
/// The same of the second one.
pub const SECOND_PATH: u64 = FIRST_PATH - 1;

/// [`Note::what`]: a byte was another one. Smaller values are errors of the kernel.
pub const DIFFERS: u64 = 1 << 16;
/// The same: there was more where the recorded stream had ended.
pub const GOES_ON: u64 = DIFFERS + 1;

/// What a process has to say of a real stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    pub stream: u64,
    pub what: u64,
    /// In what the call read.
    pub offset: u64,
    pub lane: u64,
    pub event: u64,
}

impl Note {
    /// As they lie in the file of notes.
    pub const fn to_words(self) -> [u64; 5] {
        [self.stream, self.what, self.offset, self.lane, self.event]
    }

    /// The other way.
    pub const fn from_words([stream, what, offset, lane, event]: [u64; 5]) -> Note {
        Note { stream, what, offset, lane, event }
    }
}
