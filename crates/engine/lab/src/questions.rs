//! What threads of the lab ask, and how they are answered.

use fabric::SocketId;
use lane_protocol::{LAB_NEVER, LAB_WORDS, lab_answer};

/// How a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub kind: u32,
    pub result: i64,
    pub until_ns: u64,
}

impl Answer {
    /// A result of a call.
    pub fn result(result: i64) -> Answer {
        Answer { kind: lab_answer::RESULT, result, until_ns: LAB_NEVER }
    }

    /// An error number.
    pub fn error(errno: i32) -> Answer {
        Answer::result(-i64::from(errno))
    }

    /// True if the thread, which waits, is to look whether it still has to.
    pub fn is_look(&self) -> bool {
        self.kind == lab_answer::LOOK
    }

    /// One that says something else.
    pub fn kind(kind: u32) -> Answer {
        Answer { kind, result: 0, until_ns: LAB_NEVER }
    }
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Something in its node, or of one socket alone, or the time.
    Change {
        until_ns: u64,
        of: Option<SocketId>,
    },
    /// An end, a stop or a start of a child.
    Children,
    Sleep {
        until_ns: u64,
    },
    Futex {
        until_ns: u64,
    },
    /// What the lab's own programs wait for.
    Orders,
}

impl Wait {
    pub fn until_ns(self) -> u64 {
        match self {
            Wait::Change { until_ns, .. } | Wait::Sleep { until_ns } | Wait::Futex { until_ns } => until_ns,
            Wait::Children | Wait::Orders => LAB_NEVER,
        }
    }
}

/// A question.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    pub slot: u32,
    pub kind: u32,
    pub words: [u64; LAB_WORDS],
}

/// What comes of a question.
pub enum Outcome {
    /// The thread goes on.
    Answer(Answer),
    /// The thread has its answer, and goes on as if it had not asked.
    Runs,
    /// The thread waits.
    Wait(Wait),
    /// Nobody waits for an answer.
    Said,
    /// Nobody does, and this thread runs now, which has asked something or will.
    Run(u32),
}
