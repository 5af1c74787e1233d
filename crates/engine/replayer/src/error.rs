//! Why a trace could not be replayed.

use injector::InjectError;
use trace_store::StoreError;

/// Why a replay did not begin, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine lacks something.
    #[error(transparent)]
    Inject(#[from] InjectError),
    /// Recording was cut before it began.
    #[error("the trace holds no process: the recording was cut before the program began")]
    Empty,
    /// `--pid` names nobody.
    #[error("the trace holds no process {pid}: `retrovane info` lists those that it holds")]
    NoSuchProcess { pid: i32 },
    /// The log of a lane is no sequence of events, though its checksums are right.
    #[error(
        "the log of lane {lane} holds something that is no event ({source}), though its checksums are right: record again, or take another copy of the trace"
    )]
    BadEvents {
        lane: u32,
        #[source]
        source: events::DecodeError,
    },
    /// There is no place for the files that stand for shared memory.
    #[error(
        "no temporary directory can be made in /dev/shm or TMPDIR, which replay of shared memory needs: {0}"
    )]
    Objects(#[source] std::io::Error),
    /// Code of somebody else is not run without it.
    #[error(
        "this trace came in a pack, or a sandbox was asked for, and there is none for its code here: {0}; if you trust who made it, or run this where it can do no harm: --sandbox never"
    )]
    Sandbox(#[source] injector::ConfinementError),
    /// A thread of the replayer panicked.
    #[error("a part of retrovane failed (see above): this is a fault of retrovane")]
    Panicked,
}
