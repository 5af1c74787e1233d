//! Why the timeline could not be moved on.

use replayer::ReplayError;

use crate::position::Position;

/// Why a movement failed. The position is what it was before.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A process of the replay is gone.
    #[error("the replaying process ended: {0}")]
    Died(String),
    /// The log cannot be read on, or does not lead on.
    #[error("the replay cannot go on: {0}")]
    Feed(String),
    #[error("the process cannot be copied (error {0})")]
    Copy(i32),
    /// The live program has ended.
    #[error("the program has ended")]
    Ended,
    #[error("the past cannot be looked at: {0}")]
    Past(String),
    /// What a live program was ordered to do cannot be done.
    #[error("{0}")]
    Order(String),
    /// Of the process no keyframe can be made, or one cannot be used.
    #[error("{0}")]
    NoKeyframe(String),
    #[error(transparent)]
    Store(trace_store::StoreError),
    /// A copy goes without the others of its group, and cannot any more.
    #[error("the process cannot go on without those that share memory with it")]
    Alone,
    #[error("interrupted")]
    Interrupted,
    #[error("position {0} is not in the recording")]
    NoSuchPosition(Position),
    #[error("position {0} is not come to again: {1}")]
    Lost(Position, String),
    #[error("more than {0} breakpoints or watched places at once")]
    TooMany(usize),
    #[error("the conditions and expressions of all breakpoints are longer than {0} bytes")]
    TooLong(usize),
    #[error("the program's memory cannot be read: {0}")]
    Memory(#[from] std::io::Error),
}

/// A live program's past was asked for that nobody has opened.
pub(crate) fn no_past() -> TimelineError {
    TimelineError::Past("it has not been opened".to_owned())
}
