//! Says which process runs on without coming to what its log has next: replay may have missed a
//! pause, and in a loop that waits for another thread it would go on for ever.
//!
//! Deliberately absent: any remedy. A probe in a hot loop makes it slower than it was, and nobody
//! can tell that from one that comes too late.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use injector::{Segment, SessionMemory, cpu_time};

use crate::describe::expected;

/// Processor time between two events that is told, and as a multiple of what the recording took.
const WITHOUT_EVENT: Duration = Duration::from_secs(10);
const OF_RECORDING: u32 = 4;
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where a process is in its log, in bytes, and since when, in its processor time.
#[derive(Default)]
struct Place {
    bytes: u64,
    since: Duration,
    told: bool,
}

impl Place {
    /// How long the process has been there, if that is longer than it may and was not told yet.
    fn look(&mut self, bytes: u64, waits: bool, time: Duration, time_max: Duration) -> Option<Duration> {
        if self.bytes != bytes || waits {
            *self = Place { bytes, since: time, told: false };
        }
        let spent = time.saturating_sub(self.since);
        let tells = !self.told && spent >= time_max;
        self.told |= tells;
        tells.then_some(spent)
    }
}

/// What is known of the processes so far.
pub(crate) struct Watchdog {
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

    /// What is to be told of a process.
    pub fn look(
        &mut self,
        memory: &SessionMemory,
        segment: Segment,
        pid: i32,
        recorded_pid: i32,
    ) -> Option<String> {
        let lane = memory.lane(segment);
        let time = cpu_time(pid)?;
        let (bytes, words) = lane.next_words();
        // It waits for another one, or its log is over.
        let waits = memory.waits_for_another(segment) || lane.ring().filled_bytes() == 0;
        let time_max = self.took.map_or(WITHOUT_EVENT, |took| WITHOUT_EVENT.max(took * OF_RECORDING));
        let spent = self.places.entry(segment).or_default().look(bytes, waits, time, time_max)?;
        let took = self.took.map_or(String::new(), |took| {
            format!(" (all of the recording took {:.1} s)", took.as_secs_f64())
        });
        Some(format!(
            "process {recorded_pid} has run for {} s without coming to what its log has next, {}{took}: it may have \
             missed it, and go on for ever; `retrovane record --check 100` finds the place where it left the recorded way",
            spent.as_secs(),
            expected(words[0], &words[1..]),
        ))
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
        assert_eq!(place.look(64, false, seconds(50), seconds(10)), None);
        assert_eq!(place.look(64, false, seconds(59), seconds(10)), None);
        assert_eq!(place.look(64, false, seconds(60), seconds(10)), Some(seconds(10)));
        assert_eq!(place.look(64, false, seconds(90), seconds(10)), None);
        assert_eq!(place.look(128, false, seconds(91), seconds(10)), None);
        assert_eq!(place.look(128, false, seconds(101), seconds(10)), Some(seconds(10)));
    }

    #[test]
    fn who_waits_stays_as_long_as_it_likes() {
        let seconds = Duration::from_secs;
        let mut place = Place::default();
        for second in 0..100 {
            assert_eq!(place.look(64, true, seconds(second), seconds(10)), None);
        }
        assert_eq!(place.look(64, false, seconds(108), seconds(10)), None);
    }
}
