//! How the congestion window grows: CUBIC (RFC 9438), and where its first doubling ends: HyStart, by the length of
//! trains of acknowledgements and by delay (Ha and Rhee, 2011; RFC 9406). Windows are counted in packets.
//!
//! Numbers are those of Linux: beta 717/1024, C 0.4, at most one packet more for two acknowledged.

use serde::{Deserialize, Serialize};

use super::MILLISECOND;

const BETA: [u64; 2] = [717, 1024];
/// Packets that are acknowledged for one more, where the window grows as Reno's would with this beta: 15/8 of a window.
const RENO: [u64; 2] = [15, 8];
/// A window that stays as it is has its place on the curve looked up so often: Linux's growth depends on it where
/// round trips are short.
const LOOKS_EVERY_NS: u64 = 31 * MILLISECOND;
const SECOND: u64 = 1000 * MILLISECOND;
/// HyStart begins with this window.
const LOW_WINDOW: u64 = 16;
/// Acknowledgements of one train come so close to each other.
const TRAIN_GAP_NS: u64 = 2 * MILLISECOND;
const SAMPLES: u32 = 8;
/// By how much a round trip is longer than the shortest when a queue has begun.
const LONGER_NS: [u64; 2] = [4 * MILLISECOND, 16 * MILLISECOND];

/// One connection's window, as a function of time since its last reduction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cubic {
    /// The window before the last reduction.
    last_max: u64,
    epoch_ns: Option<u64>,
    origin: u64,
    /// When the window is `origin` again, after the epoch's beginning.
    plateau_ns: u64,
    acknowledged: u64,
    reno_window: u64,
    credit: u64,
    /// The window, the time and the result when the curve was looked at last.
    last: (u64, u64, u64),
    shortest_ns: Option<u64>,
    round: Round,
    /// A queue was found: no more doubling.
    found: bool,
}

/// A round trip of the first doubling.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Round {
    ends_at: u64,
    began_ns: u64,
    train_ns: u64,
    shortest_ns: Option<u64>,
    samples: u32,
}

/// The integer part of the third root.
fn third_root(value: u128) -> u64 {
    let (mut low, mut high) = (0u64, 1 << 42);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if u128::from(middle).pow(3) <= value { low = middle } else { high = middle }
    }
    low
}

impl Cubic {
    /// The window is reduced; gives what it becomes.
    pub fn reduced(&mut self, window: u64) -> u64 {
        self.epoch_ns = None;
        // Who finds less room than before leaves some to others.
        let gives_way = window < self.last_max;
        self.last_max = if gives_way { window * (BETA[0] + BETA[1]) / (2 * BETA[1]) } else { window };
        (window * BETA[0] / BETA[1]).max(2)
    }

    /// Nothing was acknowledged in time: all is learnt anew.
    pub fn forget(&mut self) {
        *self = Cubic::default();
    }

    /// Nothing was sent for so long: time stood for the window.
    pub fn was_idle(&mut self, idle_ns: u64) {
        self.epoch_ns = self.epoch_ns.map(|epoch| epoch + idle_ns);
    }

    /// So many packets were acknowledged in congestion avoidance; gives by how many the window grows.
    pub fn growth(&mut self, now_ns: u64, window: u64, packets: u64) -> u64 {
        let every = self.every(now_ns, window, packets);
        let mut growth = 0;
        if self.credit >= every {
            self.credit = 0;
            growth = 1;
        }
        self.credit += packets;
        growth += self.credit / every;
        self.credit %= every;
        growth
    }

    /// Packets that are acknowledged before the window grows by one.
    fn every(&mut self, now_ns: u64, window: u64, packets: u64) -> u64 {
        self.acknowledged += packets;
        let (last_window, last_ns, every) = self.last;
        if last_window == window && now_ns - last_ns <= LOOKS_EVERY_NS {
            return every;
        }
        let every = self.every_now(now_ns, window, packets);
        self.last = (window, now_ns, every);
        every
    }

    fn every_now(&mut self, now_ns: u64, window: u64, packets: u64) -> u64 {
        // C packets for each cubic second, and its inverse.
        const C: [u128; 2] = [4, 10];
        let epoch_ns = match self.epoch_ns {
            Some(epoch_ns) => epoch_ns,
            None => {
                self.epoch_ns = Some(now_ns);
                (self.acknowledged, self.reno_window) = (packets, window);
                self.origin = self.last_max.max(window);
                let below = u128::from(self.origin - window);
                self.plateau_ns = third_root(below * C[1] / C[0] * u128::from(SECOND).pow(3));
                now_ns
            }
        };
        let at_ns = now_ns - epoch_ns + self.shortest_ns.unwrap_or(0);
        // In microseconds, and no more than makes any difference.
        let from_plateau = u128::from((at_ns.abs_diff(self.plateau_ns) / 1000).min(1_000_000_000));
        let offset = (from_plateau.pow(3) * C[0] / C[1] / 1_000_000_000_000_000_000) as u64;
        let target =
            if at_ns < self.plateau_ns { self.origin.saturating_sub(offset) } else { self.origin + offset };
        let mut every = if target > window { window / (target - window) } else { 100 * window };
        if self.last_max == 0 {
            every = every.min(20);
        }
        let round = window * RENO[0] / RENO[1];
        while self.acknowledged > round {
            self.acknowledged -= round;
            self.reno_window += 1;
        }
        if self.reno_window > window {
            every = every.min(window / (self.reno_window - window));
        }
        every.max(2)
    }

    /// A round trip has ended; true if the doubling ends with it.
    pub fn note_trip(
        &mut self,
        now_ns: u64,
        trip_ns: u64,
        window: u64,
        ends: [u64; 2],
        doubles: bool,
    ) -> bool {
        // What was measured right after a loss tells of the queue before it.
        if self.epoch_ns.is_some_and(|epoch_ns| now_ns < epoch_ns + SECOND) {
            return false;
        }
        let shortest_ns = self.shortest_ns.map_or(trip_ns, |known| known.min(trip_ns));
        self.shortest_ns = Some(shortest_ns);
        if self.found || !doubles {
            return false;
        }
        let ([unacknowledged, next], round) = (ends, &mut self.round);
        if unacknowledged > round.ends_at {
            *round =
                Round { ends_at: next, began_ns: now_ns, train_ns: now_ns, shortest_ns: None, samples: 0 };
        }
        if window < LOW_WINDOW {
            return false;
        }
        if now_ns - round.train_ns <= TRAIN_GAP_NS {
            round.train_ns = now_ns;
            // Half of a round trip, and what the sender may have waited to send more at once.
            self.found |= now_ns - round.began_ns > (shortest_ns + MILLISECOND) / 2;
        }
        let in_round = round.shortest_ns.map_or(trip_ns, |known| known.min(trip_ns));
        round.shortest_ns = Some(in_round);
        if round.samples < SAMPLES {
            round.samples += 1;
        } else {
            self.found |= in_round > shortest_ns + (shortest_ns / 8).clamp(LONGER_NS[0], LONGER_NS[1]);
        }
        self.found
    }
}
