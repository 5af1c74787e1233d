//! Which thread computes without a call, and which were preempted as they did; see `slices`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long the engine waits before it looks whether the thread that runs is still there.
const LOOK: Duration = Duration::from_millis(5);
/// How often one thread is looked at then.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How much processor time a thread gets that was preempted before, in nanoseconds.
pub const AGAIN_NS: u64 = 3_000_000;
/// How much one gets before it is looked at whether it computes in a circle, and four times as much after each look in
/// vain: one takes up to 0.1 s, and is no longer worth it than that.
const CIRCLE_NS: u64 = 20_000_000;
const FUTILE_MAX: u32 = 3;
/// After so many one that was seen to compute in a circle computes something else by now.
const FUTILE_IN_CIRCLES: u32 = 2;

/// The thread that runs and has not asked for a while.
#[derive(Debug)]
pub struct Watched {
    pub slot: u32,
    pub pid: i32,
    /// As the supervisor sees it.
    pub tid: i32,
    /// Its processor time from which it is counted.
    pub from_ns: u64,
    /// At how much from then it was looked at last.
    pub looked_ns: u64,
    /// It has computed for as long as is left until its process's limit (RLIMIT_CPU), which is so much.
    pub uses_up: Option<u64>,
}

/// How far time goes on where others can go on, and eight times as far with each time, up to 20 years.
const LEAP_NS: u64 = 10_000_000;
const LEAPS_MAX: u32 = 12;

/// Who is watched, and who was preempted.
#[derive(Debug, Default)]
pub struct Preemption {
    pub watched: Option<Watched>,
    pub before: BTreeSet<u32>,
    /// Who was seen to compute in a circle.
    pub circling: BTreeSet<u32>,
    /// How often others were looked at for that, in vain: most threads that compute get somewhere.
    pub futile: BTreeMap<u32, u32>,
    /// When a thread was for the first time.
    pub first_ns: Option<u64>,
    /// How often time went on though others could go on, since nobody could.
    leaps: u32,
}

impl Preemption {
    /// A thread is granted.
    pub fn begin_slice(&mut self) {
        self.watched = None;
    }

    /// How long the engine waits before it looks at a thread that runs.
    pub fn look(&self, slot: u32) -> Duration {
        if self.before.contains(&slot) || self.circling.contains(&slot) { LOOK_AGAIN } else { LOOK }
    }

    /// The thread computes in a circle.
    pub fn note_circle(&mut self, slot: u32) {
        self.circling.insert(slot);
        self.futile.remove(&slot);
    }

    /// How much processor time a thread gets before it is looked at whether it computes in a circle.
    pub fn circle_ns(&self, slot: u32) -> u64 {
        let futile = self.futile.get(&slot).copied().unwrap_or(0);
        if self.circling.contains(&slot) && futile < FUTILE_IN_CIRCLES {
            return AGAIN_NS;
        }
        CIRCLE_NS << (2 * futile.min(FUTILE_MAX))
    }

    /// How far time goes on at most because a thread computes: where others can go on, a little at first. They may be
    /// about to wait for a time that comes before the one that is known.
    pub fn leap_ns(&mut self, is_alone: bool) -> u64 {
        if is_alone {
            self.leaps = 0;
            return u64::MAX;
        }
        self.leaps += 1;
        LEAP_NS << (3 * (self.leaps - 1).min(LEAPS_MAX))
    }

    /// The thread is gone.
    pub fn forget(&mut self, slot: u32) {
        self.before.remove(&slot);
        self.circling.remove(&slot);
        self.futile.remove(&slot);
    }
}
