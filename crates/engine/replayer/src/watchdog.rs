//! Says which process runs on without coming to what its log has next: replay may have missed a
//! preemption, and in a loop that waits for another thread it would go on for ever.
//!
//! One that is only late is told: a probe in a hot loop makes it slower than it was, and nobody can tell
//! that from one that comes too late. One that takes many times as long as all of the recording did
//! counts as lost, so that every replay ends.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use injector::{Segment, SessionMemory, cpu_time};

use crate::describe::expected;
use crate::unlogged_end::LOG_TOO_SHORT;

/// Processor time between two events that is told, and as a multiple of what the recording took.
const LATE: Duration = Duration::from_secs(10);
const OF_RECORDING: u32 = 4;
/// Processor time between two events after which a process counts as lost, beside a multiple of what the
/// recording took, and what a debugger's stops take.
const LOST: Duration = Duration::from_secs(20);
pub const OF_RECORDING_MAX: u32 = 20;
/// What a stop of the debugger's takes at most: a step, a breakpoint with its programs, a watched word.
const HELD_UP: Duration = Duration::from_micros(200);
/// What a recording is taken to have taken that does not say so.
const TOOK_UNTOLD: Duration = Duration::from_secs(5);
/// Processor time behind a log that is over.
const BEHIND_LOG: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where a process is in its log, in bytes, and since when, in its processor time.
#[derive(Default)]
struct Place {
    bytes: u64,
    since: Duration,
    /// How often it had been held up then.
    held_up: u64,
    told: bool,
}

impl Place {
    /// How long the process has been there.
    fn look(&mut self, bytes: u64, waits: bool, time: Duration, held_up: u64) -> Duration {
        if self.bytes != bytes || waits {
            *self = Place { bytes, since: time, held_up, told: false };
        }
        time.saturating_sub(self.since)
    }

    /// True once, when it was there for longer than it may.
    fn tells(&mut self, spent: Duration, time_max: Duration) -> bool {
        let tells = !self.told && spent >= time_max;
        self.told |= tells;
        tells
    }
}

/// A process that is on its way.
pub struct Way<'a> {
    pub memory: &'a SessionMemory,
    pub segment: Segment,
    pub pid: i32,
    /// No more of its log will come, and its end should have.
    pub log_is_over: bool,
    /// No more of its log will come, as the trace is cut.
    pub log_is_cut: bool,
}

/// What is to be said of a process.
pub enum Finding {
    /// It may have missed something.
    Late(String),
    /// It will not come to what its log has next.
    Lost(String),
}

/// What is known of the processes so far.
pub struct Watchdog {
    looked: Instant,
    /// What the recording took.
    took: Option<Duration>,
    places: HashMap<Segment, Place>,
}

impl Watchdog {
    pub fn new(took: Option<Duration>) -> Watchdog {
        Watchdog { looked: Instant::now(), took, places: HashMap::new() }
    }

    /// True now and then, when it is time to look at all processes.
    pub fn is_due(&mut self) -> bool {
        let due = self.looked.elapsed() >= LOOK_EVERY;
        if due {
            self.looked = Instant::now();
        }
        due
    }

    /// What processes did so far does not count.
    pub fn forget(&mut self) {
        self.places.clear();
    }

    /// What is to be said of a process, which may take up to so many times what the recording took, and longer where
    /// a debugger holds it up.
    pub fn look(&mut self, way: &Way<'_>, of_recording_max: u32) -> Option<Finding> {
        let lane = way.memory.lane(way.segment);
        let time = cpu_time(way.pid)?;
        let (bytes, words) = lane.next_words();
        let is_empty = lane.ring().filled_bytes() == 0;
        let waits =
            way.memory.waits_for_another(way.segment) || is_empty && !way.log_is_over && !way.log_is_cut;
        let place = self.places.entry(way.segment).or_default();
        let held_up = lane.held_up().load(Ordering::Relaxed);
        let spent = place.look(bytes, waits, time, held_up);
        let stops = HELD_UP * u32::try_from(held_up.saturating_sub(place.held_up)).unwrap_or(u32::MAX);
        if is_empty {
            let time_max = if way.log_is_over { BEHIND_LOG } else { LOST + stops };
            return (spent >= time_max).then(|| Finding::Lost(LOG_TOO_SHORT.to_owned()));
        }
        let seconds = spent.as_secs();
        let next = expected(words[0], &words[1..]);
        let took = self.took.unwrap_or(TOOK_UNTOLD);
        if spent >= LOST + took * of_recording_max + stops {
            return Some(Finding::Lost(format!(
                "it has run for {seconds} s without coming to what its log has next, {next}"
            )));
        }
        let late = self.took.map_or(LATE, |took| LATE.max(took * OF_RECORDING));
        place.tells(spent, late).then(|| {
            let took = self.took.map_or(String::new(), |took| {
                format!(" (all of the recording took {:.1} s)", took.as_secs_f64())
            });
            Finding::Late(format!(
                "has run for {seconds} s without coming to what its log has next, {next}{took}: it may have missed it"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stays_for_long_is_told_once() {
        let seconds = Duration::from_secs;
        let mut place = Place::default();
        // The first look comes where the process is already.
        let mut tells = |bytes, second| {
            let spent = place.look(bytes, false, seconds(second), 0);
            place.tells(spent, seconds(10)).then_some(spent)
        };
        assert_eq!(tells(64, 50), None);
        assert_eq!(tells(64, 59), None);
        assert_eq!(tells(64, 60), Some(seconds(10)));
        assert_eq!(tells(64, 90), None);
        assert_eq!(tells(128, 91), None);
        assert_eq!(tells(128, 101), Some(seconds(10)));
    }

    #[test]
    fn who_waits_stays_as_long_as_it_likes() {
        let seconds = Duration::from_secs;
        let mut place = Place::default();
        for second in 0..100 {
            assert_eq!(place.look(64, true, seconds(second), 0), Duration::ZERO);
        }
        assert_eq!(place.look(64, false, seconds(108), 0), seconds(9));
    }
}
