//! The processes that share memory: through which files, and what they do together, that is,
//! checkpoints of all of them and the way back of all of them. One leads, the others follow; one
//! such undertaking at a time.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// What is done. Kept in [`Together::task`].
pub mod together_task {
    /// A checkpoint of each.
    pub const CHECKPOINT: u32 = 1;
    /// Their checkpoints are forgotten.
    pub const DISCARD: u32 = 2;
    /// All go back, and on from there.
    pub const ROLLBACK: u32 = 3;
    /// All go back, do the same again, and go on.
    pub const REPLAY: u32 = 4;
    /// Each says whether it could go back.
    pub const TRY: u32 = 5;
}

/// How far it is. Kept in [`Together::step`].
pub mod together_step {
    /// Bits of the word that say which step it is; the others count undertakings.
    pub const BITS: u32 = 3;
    /// Each prepares itself; nothing has changed.
    pub const PREPARE: u32 = 0;
    /// All are ready: each does it.
    pub const DO: u32 = 1;
    /// One cannot: nothing is done.
    pub const LEAVE: u32 = 2;
    /// All have done it.
    pub const DONE: u32 = 3;
    /// Replay: all have come to the present.
    pub const PRESENT: u32 = 4;
}

/// Memory that several processes show.
#[repr(C)]
pub struct SharedObject {
    pub device: AtomicU64,
    pub inode: AtomicU64,
    /// The part of it that a checkpoint holds, in bytes.
    pub start: AtomicU64,
    pub end: AtomicU64,
}

/// Objects of which one checkpoint holds the content for all.
pub const SHARED_OBJECTS_MAX: usize = 64;

/// Processes that a leader notices the end of.
pub const FOLLOWERS_WATCHED: usize = 128;

/// The undertaking at hand.
#[repr(C)]
pub struct Together {
    /// The process that leads; 0: there is none.
    pub leader: AtomicI32,
    /// See [`together_task`].
    pub task: AtomicU32,
    /// Which of the checkpoints that were taken together.
    pub number: AtomicU32,
    /// The number of the next one is this plus one.
    pub last_number: AtomicU32,
    /// Processes that came to share memory so far, wherever.
    pub sharers: AtomicU32,
    /// Processes that follow.
    pub followers: AtomicU32,
    /// Their ids, as many as there is room for.
    pub follower_pids: [AtomicI32; FOLLOWERS_WATCHED],
    /// Grows while one of them waits for its threads to come to a stand.
    pub progress: AtomicU32,
    /// Those of them that are done with the step at hand; a futex word.
    pub ready: AtomicU32,
    /// Why one cannot, a negated errno; 0: all can.
    pub error: AtomicI32,
    /// See [`together_step`]; a futex word.
    pub step: AtomicU32,
    /// Who asked for the checkpoints, a [`crate::checkpoint_origin`].
    pub origin: AtomicU32,
    /// Replay: not zero if a process holds the ticket of the checkpoint.
    pub has_ticket: AtomicU32,
    /// Replay: processes that have come to the present.
    pub present: AtomicU32,
    /// Replay: the token's tickets in the present.
    pub tickets: AtomicU64,
    /// Objects that a shadow holds by now.
    pub object_count: AtomicU32,
    pub objects: [SharedObject; SHARED_OBJECTS_MAX],
}

/// Files with shared memory that a session knows.
pub const SHARED_FILES_MAX: usize = 1024;

/// State of a [`SharedFile`].
pub mod shared_state {
    pub const FREE: u32 = 0;
    /// Somebody fills it in.
    pub const CLAIMED: u32 = 1;
    pub const READY: u32 = 2;
}

/// A file, or a segment of System V, that was mapped shared and writable.
#[repr(C)]
pub struct SharedFile {
    /// See [`shared_state`].
    pub state: AtomicU32,
    /// The token of those who mapped it first.
    pub token: AtomicU32,
    pub device: AtomicU64,
    pub inode: AtomicU64,
}
