//! What the supervisor and a live process tell each other: commands, checkpoints.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// What is done where a process would die of a signal. Kept in [`crate::Session::on_crash`].
pub mod crash_policy {
    /// It dies.
    pub const DIE: u32 = 0;
    /// It stands still, and can be sent back.
    pub const HOLD: u32 = 1;
    /// The supervisor saves what it has of the past; then it dies.
    pub const SAVE: u32 = 2;
    /// It goes back to its last checkpoint and on in a changed environment.
    pub const ROLLBACK: u32 = 3;
}

/// How checkpoints are made. Kept in [`crate::Session::checkpoint_way`].
pub mod checkpoint_way {
    /// Whichever costs less.
    pub const AUTO: u32 = 0;
    /// Each by a fork.
    pub const FORK: u32 = 1;
    /// Later ones by saving the pages written since, if that is possible.
    pub const PAGES: u32 = 2;
}

/// How a process goes on that goes back instead of dying. Kept in
/// [`crate::Session::recover_ways`].
pub mod recover_way {
    /// No other way.
    pub const NONE: u32 = 0;
    /// As before.
    pub const SAME: u32 = 1;
    /// Without what it read last.
    pub const DROP: u32 = 2;
    /// Without anything that it read since.
    pub const DROP_ALL: u32 = 3;
    /// With other allocations: this, and what is different of [`super::environment`].
    pub const ENVIRONMENT: u32 = 0x100;
}

/// What is different of a program's allocations. Kept in [`Checkpoint::environment`].
pub mod environment {
    /// Each is longer than was asked for.
    pub const PADDED: u32 = 1;
    /// They are filled with zeros.
    pub const ZEROED: u32 = 2;
    /// What is freed is kept for some time.
    pub const KEPT: u32 = 4;
    pub const ALL: u32 = PADDED | ZEROED | KEPT;
}

/// Functions whose beginnings one change can replace.
pub const ENTRIES_MAX: usize = 8;
/// Bytes of a function's beginning that are known, at most.
pub const ENTRY_BYTES_MAX: usize = 24;
/// Bytes of code that a change adds, at most.
pub const CHANGE_CODE_BYTES_MAX: u64 = 4096;

/// The beginning of a function, and the jump in its place.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Entry {
    pub address: u64,
    /// How many bytes of `was` have to be there.
    pub bytes: u64,
    pub was: [u8; ENTRY_BYTES_MAX],
    /// The first five.
    pub jump: [u8; 8],
}

/// How the supervisor wants a process's code to be changed, in a file of the session's; the
/// code follows.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct CodeChange {
    /// Where new memory is mapped, and how long it is; code first.
    pub place: u64,
    pub place_bytes: u64,
    pub code_bytes: u64,
    pub count: u64,
    pub entries: [Entry; ENTRIES_MAX],
}

const _: () = assert!(size_of::<CodeChange>() == 32 + ENTRIES_MAX * 48);

/// Bytes of a change in its file, with its code. Another may follow, for other memory: the
/// first whose memory is free is made.
pub const CHANGE_BYTES: u64 = size_of::<CodeChange>() as u64 + CHANGE_CODE_BYTES_MAX;

/// Why a process's code was not changed.
pub mod unchanged {
    /// The memory for it is in use.
    pub const NO_MEMORY: u32 = 1;
    /// Other code stands there.
    pub const OTHER_CODE: u32 = 2;
    /// A thread is about to execute what would be replaced.
    pub const IN_USE: u32 = 3;
}

/// Ways that are tried at one checkpoint.
pub const RECOVER_WAYS_MAX: usize = 5;

/// What a rollback does with regular files. Kept in [`crate::Session::files`].
pub mod files_policy {
    /// Their content stays.
    pub const KEEP: u32 = 0;
    /// What was changed since is put back.
    pub const SNAPSHOT: u32 = 1;
}

/// What processes do that share memory. Kept in [`crate::Session::sharing_policy`].
pub mod sharing_policy {
    /// They take checkpoints and go back together.
    pub const TOGETHER: u32 = 0;
    /// Each is alone, and what it shares stays as it is.
    pub const KEEP: u32 = 1;
}

/// How the program changes files. Kept in [`Change::kind`].
pub mod change_kind {
    /// `bytes` of the file that is open at `fd` are about to change, from `offset` on.
    pub const RANGE: u32 = 1;
    /// The file at `path` is about to be cut behind `offset`.
    pub const CUT: u32 = 2;
    /// `path` is about to go.
    pub const UNLINK: u32 = 3;
    /// `path` is about to become `other_path`; `bytes`: the flags of renameat2(2).
    pub const RENAME: u32 = 4;
    /// `path` was made.
    pub const MADE: u32 = 5;
    /// The file that is open at `fd` was made.
    pub const MADE_OPEN: u32 = 6;
}

/// Bytes of a path that a change names, at most.
pub const CHANGE_PATH_BYTES: usize = 4096;

/// A path that the program gave, relative to the directory that is open at `dir`.
#[repr(C)]
pub struct ChangePath {
    pub dir: AtomicI32,
    pub bytes: AtomicU32,
    pub words: [AtomicU64; CHANGE_PATH_BYTES / 8],
}

/// Arguments of [`crate::request::CHANGE`].
#[repr(C)]
pub struct Change {
    /// See [`change_kind`].
    pub kind: AtomicU32,
    pub fd: AtomicI32,
    pub offset: AtomicU64,
    pub bytes: AtomicU64,
    pub path: ChangePath,
    pub other_path: ChangePath,
}

/// Descriptors of which [`Missing`] can tell.
pub const MISSING_MAX: usize = 8192;

/// Descriptors of a checkpoint that were closed since, and that no way back opens again.
#[repr(C)]
pub struct Missing {
    /// The checkpoint, plus one; 0: nobody has looked.
    pub checkpoint: AtomicU64,
    /// A bit for each.
    pub words: [AtomicU64; MISSING_MAX / 64],
    /// The checkpoint of the last way back, plus one.
    pub locks_of: AtomicU64,
    /// Descriptors with locks that it could not give back, as somebody else has them by now.
    pub locks: [AtomicU64; MISSING_MAX / 64],
}

/// What the supervisor asks of a live process.
pub mod command {
    /// Nothing, or done.
    pub const NONE: u32 = 0;
    /// Take a checkpoint: the answer is its id.
    pub const CHECKPOINT: u32 = 1;
    /// Forget the checkpoint `argument`.
    pub const DISCARD: u32 = 2;
    /// Go back to the checkpoint `argument`, and on from there.
    pub const ROLLBACK: u32 = 3;
    /// Go back to the checkpoint `argument`, do the same again, and go on.
    pub const REPLAY: u32 = 4;
    /// Let the process go on without the session.
    pub const DETACH: u32 = 5;
    /// Only say whether a rollback to `argument` could be done.
    pub const TRY: u32 = 6;
    /// Somebody fills the command in.
    pub const CLAIMED: u32 = 7;
    /// Take part in what [`crate::Together`] says.
    pub const FOLLOW: u32 = 8;
    /// Protect what was forked. Others may command as soon as the agent knows.
    pub const PROTECT: u32 = 9;
}

/// How far the process is with a command. Kept in [`Command::phase`].
pub mod command_phase {
    /// It has not begun.
    pub const NONE: u32 = 0;
    /// The agent waits for the token.
    pub const TOKEN: u32 = 1;
    /// Threads are brought to a stand.
    pub const PARKING: u32 = 2;
    /// The rest.
    pub const WORK: u32 = 3;
    /// The agent waits until it can call the others in that share memory.
    pub const LEADING: u32 = 4;
}

/// One outstanding command to a lane's process.
#[repr(C)]
pub struct Command {
    /// See [`command`]; a futex word. The process answers, then stores NONE.
    pub kind: AtomicU32,
    /// The result: not negative, or a negated errno.
    pub answer: AtomicI32,
    pub argument: AtomicU64,
    /// See [`command_phase`].
    pub phase: AtomicU32,
    /// Threads that have not come to a stand yet.
    pub missing: AtomicU32,
    /// Not 0: somebody waits for it. Threads that compute are preempted for it at once, and not only
    /// when their slice of the token is over. It may be set while the command is under way.
    pub urgent: AtomicU32,
}

/// Checkpoints that a process can have at a time.
pub const CHECKPOINTS_MAX: usize = 256;

/// What stands in a lane's `idle_base` besides the id of a process.
pub mod idle_base {
    /// No base is idle.
    pub const NONE: i32 = 0;
    /// The base that was idle ends.
    pub const GONE: i32 = -1;
}

/// State of a [`Checkpoint`].
pub mod checkpoint_state {
    pub const FREE: u32 = 0;
    pub const TAKEN: u32 = 1;
}

/// Who asked for a checkpoint. Kept in [`Checkpoint::origin`].
pub mod checkpoint_origin {
    /// The program, by a call.
    pub const PROGRAM: u32 = 0;
    /// Nobody: the time was due.
    pub const TIME: u32 = 1;
    /// Somebody from outside.
    pub const USER: u32 = 2;
    /// The supervisor: the log is kept from there on.
    pub const WINDOW: u32 = 3;
    /// Another process that it shares memory with, of which one was taken.
    pub const TOGETHER: u32 = 4;
}

/// How the writing of a checkpoint's image ended. Kept in [`Checkpoint::image_result`].
pub mod image_result {
    /// It has not.
    pub const NONE: u32 = 0;
    pub const WRITTEN: u32 = 1;
    /// The writer could not be made, or ended before its time.
    pub const FAILED: u32 = 2;
    /// There are more mappings than one event can list.
    pub const TOO_MANY_MAPS: u32 = 3;
    /// Its mappings could not be listed.
    pub const UNKNOWN_MAPS: u32 = 4;
    /// It had memory that other processes have, or can have.
    pub const SHARES_MEMORY: u32 = 5;
}

/// A checkpoint of a live process.
#[repr(C)]
pub struct Checkpoint {
    /// See [`checkpoint_state`]; a futex word of its shadow.
    pub state: AtomicU32,
    pub id: AtomicU32,
    /// The process that holds the descriptors; the memory too, if it is the base.
    pub shadow: AtomicI32,
    /// The process that holds the memory, but for what an increment has saved.
    pub base: AtomicI32,
    /// How often the program was rolled back to it.
    pub rollbacks: AtomicU32,
    /// How often the process went back to it instead of dying.
    pub recoveries: AtomicU32,
    /// Position in the log, in bytes.
    pub position: AtomicU64,
    /// Events before it.
    pub events: AtomicU64,
    /// Processes that the program had made before.
    pub forks: AtomicU32,
    /// What was different then, of [`environment`].
    pub environment: AtomicU32,
    /// CLOCK_MONOTONIC.
    pub taken_ns: AtomicU64,
    /// How long the program stood for it.
    pub cost_ns: AtomicU64,
    /// Who the process was: user and group, real, effective and saved, and how often it had changed
    /// what else makes up its rights.
    pub user: [AtomicU32; 7],
    /// Not zero once the shadow has made its lists.
    pub ready: AtomicU32,
    /// Who asked for it, a [`checkpoint_origin`].
    pub origin: AtomicU32,
    /// Which of the checkpoints that processes took together; 0: it is of this one alone.
    pub together: AtomicU32,
    /// How many processes took it with this one.
    pub others: AtomicU32,
    /// How many processes had come to share memory before.
    pub sharers: AtomicU32,
    /// The token's tickets then.
    pub tickets: AtomicU64,
    /// Bytes that an increment has saved.
    pub saved_bytes: AtomicU64,
    /// Asks the shadow to write an image of the state, as the beginning of a log, into the
    /// ring of this segment; plus one. 0: nothing is asked.
    pub image_segment: AtomicU32,
    /// How that ended, an [`image_result`].
    pub image_result: AtomicU32,
}
