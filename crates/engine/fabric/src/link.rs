//! Links: how long a packet takes, and whether it arrives.

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// What is described of a link, for either direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkSpec {
    pub delay_ns: u64,
    /// Up to so much more, drawn for each packet; their order stays.
    pub jitter_ns: u64,
    /// 0: without limit.
    pub bits_per_second: u64,
    /// Probabilities.
    pub loss: f64,
    pub reorder: f64,
    pub duplicate: f64,
    /// Bytes that wait at the link's beginning at most, the packet that leaves among them; a packet for which there is no
    /// room is dropped. 0: no limit.
    pub queue_bytes: u64,
}

impl Default for LinkSpec {
    fn default() -> LinkSpec {
        LinkSpec {
            delay_ns: 0,
            jitter_ns: 0,
            bits_per_second: 0,
            loss: 0.0,
            reorder: 0.0,
            duplicate: 0.0,
            queue_bytes: 1_500_000,
        }
    }
}

impl LinkSpec {
    /// True where it makes no difference in how many packets bytes travel.
    pub fn is_unlimited(&self) -> bool {
        self.bits_per_second == 0
            && self.jitter_ns == 0
            && [self.loss, self.reorder, self.duplicate].iter().all(|&part| part == 0.0)
    }
}

/// One direction of a link between two hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    pub spec: LinkSpec,
    /// When what is queued has left.
    free_at_ns: u64,
    /// When the last packet arrives of those whose order stays.
    last_arrival_ns: u64,
}

impl Direction {
    /// A link that nothing is on.
    pub fn new(spec: LinkSpec) -> Direction {
        Direction { spec, free_at_ns: 0, last_arrival_ns: 0 }
    }

    /// When a packet arrives that is sent now: never, once or twice.
    pub fn arrivals(&mut self, now_ns: u64, bytes: usize, random: &mut Random) -> Vec<u64> {
        let spec = &self.spec;
        let begins = self.free_at_ns.max(now_ns);
        let serialised_ns = |bytes: u64| match spec.bits_per_second {
            0 => 0,
            rate => (u128::from(bytes) * 8_000_000_000 / u128::from(rate)) as u64,
        };
        let (queued_ns, takes_ns) = (begins - now_ns, serialised_ns(bytes as u64));
        let is_full = queued_ns != 0 && queued_ns + takes_ns > serialised_ns(spec.queue_bytes);
        if spec.queue_bytes != 0 && is_full {
            return Vec::new();
        }
        let leaves = begins + takes_ns;
        self.free_at_ns = leaves;
        // Lost on the way: it took its time at the beginning all the same.
        if random.happens(spec.loss) {
            return Vec::new();
        }
        let mut arrivals = Vec::with_capacity(1);
        let copies = if random.happens(spec.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let jitter_ns = if spec.jitter_ns == 0 { 0 } else { random.below(spec.jitter_ns + 1) };
            let mut arrives = leaves + spec.delay_ns + jitter_ns;
            if random.happens(spec.reorder) {
                // It overtakes those before it.
                arrives = leaves + spec.delay_ns / 2;
            } else {
                arrives = arrives.max(self.last_arrival_ns);
                self.last_arrival_ns = arrives;
            }
            arrivals.push(arrives);
        }
        arrivals
    }
}
