//! Which thread computes without a call, and which were preempted as they did; see `slices`.

use std::collections::BTreeSet;
use std::time::Duration;

/// How long the engine waits before it looks whether the thread that runs is still there.
const LOOK: Duration = Duration::from_millis(5);
/// How often one thread is looked at then.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The thread that runs and has not asked for a while.
#[derive(Debug)]
pub struct Watched {
    pub slot: u32,
    pub pid: i32,
    /// As the supervisor sees it.
    pub tid: i32,
    /// Its processor time from which it is counted.
    pub from_ns: u64,
}

/// Who is watched, and who was preempted.
#[derive(Debug, Default)]
pub struct Preemption {
    pub watched: Option<Watched>,
    pub before: BTreeSet<u32>,
    /// When a thread was for the first time.
    pub first_ns: Option<u64>,
}

impl Preemption {
    /// A thread is granted.
    pub fn begin_slice(&mut self) {
        self.watched = None;
    }

    /// How long the engine waits before it looks at a thread that runs.
    pub fn look(&self, slot: u32) -> Duration {
        if self.before.contains(&slot) { LOOK_AGAIN } else { LOOK }
    }

    /// The thread is gone.
    pub fn forget(&mut self, slot: u32) {
        self.before.remove(&slot);
    }
}
