//! What a live session was asked to do.

use std::path::PathBuf;
use std::time::Duration;

use injector::LiveSetup;
use lane_protocol::{
    RECOVER_WAYS_MAX, checkpoint_way, crash_policy, environment, files_policy, recover_way, sharing_policy,
};

use crate::debuggee::Debuggee;

/// What is done where a process would die of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum OnCrash {
    #[default]
    Die = crash_policy::DIE,
    Hold = crash_policy::HOLD,
    Save = crash_policy::SAVE,
    Rollback = crash_policy::ROLLBACK,
}

/// Signals that leave a core (signal(7)) and that only somebody sends: SIGQUIT, SIGABRT, SIGXCPU,
/// SIGXFSZ. The others come to the runtime anyway.
const CRASHES: u64 = 1 << 2 | 1 << 5 | 1 << 23 | 1 << 24;

/// How a process goes on that goes back instead of dying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recover {
    /// The first time as before, then with all that is different of allocations, then
    /// without what it read last, then without anything that it read since.
    #[default]
    Auto,
    Same,
    /// Allocations are longer.
    Pad,
    /// They are filled with zeros.
    Zero,
    /// What is freed is kept for some time.
    KeepFreed,
    Drop,
    DropAll,
}

impl Recover {
    fn ways(self) -> [u32; RECOVER_WAYS_MAX] {
        use recover_way::{DROP, DROP_ALL, ENVIRONMENT, NONE, SAME};
        let only = |way: u32| [way, NONE, NONE, NONE, NONE];
        match self {
            // What keeps all input comes before what loses some.
            Recover::Auto => [SAME, ENVIRONMENT | environment::ALL, DROP, DROP_ALL, NONE],
            Recover::Same => only(SAME),
            Recover::Pad => only(ENVIRONMENT | environment::PADDED),
            Recover::Zero => only(ENVIRONMENT | environment::ZEROED),
            Recover::KeepFreed => only(ENVIRONMENT | environment::KEPT),
            Recover::Drop => only(DROP),
            Recover::DropAll => only(DROP_ALL),
        }
    }
}

/// How checkpoints are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum CheckpointWay {
    /// Whichever costs less.
    #[default]
    Auto = checkpoint_way::AUTO,
    /// Each by a fork.
    Fork = checkpoint_way::FORK,
    /// Later ones by saving the pages written since, if that is possible.
    Pages = checkpoint_way::PAGES,
}

/// Serves a debugger, on a thread of its own.
pub type ServeDebugger = Box<dyn FnOnce(Debuggee) + Send + Sync>;

/// What a live session does by itself.
pub struct LiveOptions {
    /// Where commands come in.
    pub socket: PathBuf,
    /// Time between two checkpoints; `None`: only those that are asked for.
    pub checkpoint_every: Option<Duration>,
    /// Most checkpoints by time that a process keeps.
    pub keep: usize,
    /// Most bytes of memory for the log.
    pub log_max_bytes: Option<u64>,
    /// Most bytes of memory for checkpoints.
    pub memory_max_bytes: Option<u64>,
    pub checkpoint_way: CheckpointWay,
    /// A rollback restores regular files that were changed since; else they stay.
    pub snapshots_files: bool,
    /// Processes that share memory go back each alone; else together.
    pub keeps_shared_memory: bool,
    pub on_crash: OnCrash,
    /// How often a process goes back instead of dying.
    pub recoveries_max: u32,
    /// Signals that the past is saved at besides those of a crash, a bit each.
    pub saved_signals: u64,
    pub recover: Recover,
    /// A rollback kills the processes that were made since; else they go on.
    pub kills_children: bool,
    /// Where a crash is saved.
    pub crash_dir: PathBuf,
    /// Who debugs a process, which then stands at its first instruction.
    pub debugger: Option<ServeDebugger>,
    /// Which one, in the order in which they are made; 0: the first.
    pub debugged: u32,
}

impl LiveOptions {
    /// What processes have to know of it.
    pub(crate) fn setup(&self) -> LiveSetup {
        LiveSetup {
            on_crash: self.on_crash as u32,
            recoveries_max: self.recoveries_max,
            saved_signals: if self.on_crash == OnCrash::Save { CRASHES | self.saved_signals } else { 0 },
            recover_ways: self.recover.ways(),
            checkpoint_way: self.checkpoint_way as u32,
            sharing_policy: if self.keeps_shared_memory {
                sharing_policy::KEEP
            } else {
                sharing_policy::TOGETHER
            },
            files_policy: if self.snapshots_files { files_policy::SNAPSHOT } else { files_policy::KEEP },
        }
    }
}
