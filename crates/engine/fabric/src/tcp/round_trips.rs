//! How long a round trip takes, and how long to wait for an acknowledgement (RFC 6298, with the floor of tcp(7)).

use serde::{Deserialize, Serialize};

use super::MILLISECOND;

const RTO_FIRST_NS: u64 = 1000 * MILLISECOND;
const RTO_MIN_NS: u64 = 200 * MILLISECOND;
const RTO_MAX_NS: u64 = 120_000 * MILLISECOND;

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    pub smoothed_ns: Option<u64>,
    pub variation_ns: u64,
    /// `u64::MAX` before the first one.
    pub shortest_ns: u64,
    pub rto_ns: u64,
}

impl RoundTrips {
    pub fn new() -> RoundTrips {
        RoundTrips { smoothed_ns: None, variation_ns: 0, shortest_ns: u64::MAX, rto_ns: RTO_FIRST_NS }
    }

    /// One has ended.
    pub fn note(&mut self, trip_ns: u64) {
        self.shortest_ns = self.shortest_ns.min(trip_ns);
        let smoothed = match self.smoothed_ns {
            None => {
                self.variation_ns = trip_ns / 2;
                trip_ns
            }
            Some(smoothed) => {
                self.variation_ns = (3 * self.variation_ns + smoothed.abs_diff(trip_ns)) / 4;
                (7 * smoothed + trip_ns) / 8
            }
        };
        self.smoothed_ns = Some(smoothed);
        self.rto_ns = (smoothed + (4 * self.variation_ns).max(RTO_MIN_NS)).min(RTO_MAX_NS);
    }

    /// Nothing came in time: the next wait is twice as long.
    pub fn back_off(&mut self) {
        self.rto_ns = (self.rto_ns * 2).min(RTO_MAX_NS);
    }

    /// How long to wait before a tail is probed (RFC 8985, section 7.2); a lone segment's acknowledgement may be
    /// delayed.
    pub fn probe_ns(&self, is_alone: bool) -> u64 {
        let delayed_ns = if is_alone { RTO_MIN_NS } else { 2 * MILLISECOND };
        self.smoothed_ns.map_or(RTO_FIRST_NS, |smoothed| 2 * smoothed + delayed_ns).min(self.rto_ns)
    }
}
