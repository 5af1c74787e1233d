//! What a process does: whether it records or replays, and whether the debugger's agent has it.

use super::Process;

const REPLAYS: u8 = 1;
const HAS_AGENT: u8 = 2;
const LEFT_ITS_LOG: u8 = 4;

/// What a process does. Zero, as its block is at first, is to record.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Record = 0,
    Replay = REPLAYS,
    /// It records, and the debugger's agent has it.
    Watched = HAS_AGENT,
    /// It replays for the debugger's agent.
    Inspected = REPLAYS | HAS_AGENT,
    /// It has left its log and goes on by itself, for the agent. See `branch`.
    Branch = HAS_AGENT | LEFT_ITS_LOG,
}

impl Mode {
    /// A birth, or a way back: from here on it replays, or records. A branch does not come back.
    pub fn set_replay(&mut self, replays: bool) {
        *self = match (*self, replays) {
            (Mode::Record | Mode::Replay, false) => Mode::Record,
            (Mode::Record | Mode::Replay, true) => Mode::Replay,
            (Mode::Watched | Mode::Inspected, false) => Mode::Watched,
            (Mode::Watched | Mode::Inspected, true) => Mode::Inspected,
            (Mode::Branch, _) => Mode::Branch,
        }
    }

    /// The debugger's agent takes it, or lets go of it. A branch is nothing without.
    pub fn set_agent(&mut self, has_agent: bool) {
        *self = match (*self, has_agent) {
            (Mode::Record | Mode::Watched, false) => Mode::Record,
            (Mode::Record | Mode::Watched, true) => Mode::Watched,
            (Mode::Replay | Mode::Inspected, false) => Mode::Replay,
            (Mode::Replay | Mode::Inspected, true) => Mode::Inspected,
            (Mode::Branch, _) => Mode::Branch,
        }
    }
}

impl Process {
    /// Its calls are answered from the log.
    #[inline]
    pub fn replays(&self) -> bool {
        self.mode as u8 & REPLAYS != 0
    }

    /// The debugger's agent has it.
    #[inline]
    pub fn has_agent(&self) -> bool {
        self.mode as u8 & HAS_AGENT != 0
    }

    /// It has left its log and goes on by itself.
    #[inline]
    pub fn is_branch(&self) -> bool {
        self.mode as u8 & LEFT_ITS_LOG != 0
    }
}
