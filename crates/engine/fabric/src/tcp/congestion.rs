//! How many packets may be on their way: the window, and its reductions in proportion to what arrives (PRR, RFC 6937).
//! A reduction is taken back if what was sent again had arrived before (RFC 3522, 3708).

use serde::{Deserialize, Serialize};

use super::cubic::Cubic;

/// The first window, in packets (RFC 6928).
pub const WINDOW_FIRST: u64 = 10;

/// What the window does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It grows.
    Open,
    /// Something was lost, and is sent again: it is reduced.
    Recovery,
    /// Nothing came in time: it begins anew.
    Loss,
}

/// What it was before a reduction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Undo {
    window: u64,
    threshold: u64,
    /// The stamp of the first segment that was sent again.
    stamp: Option<u32>,
    /// Segments that were sent again, of which the other end has not said that it had them.
    resent: u64,
    was_resent: bool,
}

/// One connection's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Congestion {
    pub window: u64,
    pub threshold: u64,
    pub phase: Phase,
    /// The phase ends when this is acknowledged.
    until: u64,
    reduced_from: u64,
    delivered: u64,
    sent: u64,
    undo: Option<Undo>,
    /// Whether the timeout may have been for nothing, so that what arrives shows it.
    is_doubtful: bool,
    cubic: Cubic,
    /// Whether the window held something back, and the most that was out, in the round trip that ends there.
    limits: bool,
    most_out: u64,
    used_until: u64,
}

/// What an acknowledgement means for the window.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub now_ns: u64,
    pub advanced: bool,
    pub delivered: u64,
    pub lost: u64,
    pub in_flight: u64,
}

impl Congestion {
    pub fn new() -> Congestion {
        Congestion {
            window: WINDOW_FIRST,
            threshold: u64::MAX,
            phase: Phase::Open,
            until: 0,
            reduced_from: 0,
            delivered: 0,
            sent: 0,
            undo: None,
            is_doubtful: false,
            cubic: Cubic::default(),
            limits: false,
            most_out: 0,
            used_until: 0,
        }
    }

    fn remember(&mut self) {
        let (window, threshold) = (self.window, self.threshold);
        self.undo = Some(Undo { window, threshold, stamp: None, resent: 0, was_resent: false });
    }

    fn reduce(&mut self, next: u64) {
        self.until = next;
        (self.reduced_from, self.delivered, self.sent) = (self.window, 0, 0);
        self.threshold = self.cubic.reduced(self.window);
    }

    /// Something was lost.
    pub fn recover(&mut self, next: u64) {
        if self.phase == Phase::Recovery {
            return;
        }
        self.remember();
        self.reduce(next);
        self.phase = Phase::Recovery;
    }

    /// A probe of the tail repaired a loss.
    pub fn give_way(&mut self) {
        if self.phase == Phase::Open {
            self.threshold = self.cubic.reduced(self.window);
            self.window = self.threshold;
        }
    }

    /// Nothing was acknowledged in time, for the first time or again; `in_flight` are taken to be under way still.
    pub fn time_out(&mut self, unacknowledged: u64, next: u64, in_flight: u64, tries: u32) {
        let is_first = self.phase == Phase::Loss && tries == 0;
        if self.phase == Phase::Open || self.until <= unacknowledged || is_first {
            self.remember();
            self.threshold = self.cubic.reduced(self.window);
        }
        self.cubic.forget();
        (self.window, self.phase, self.until) = (in_flight + 1, Phase::Loss, next);
        self.is_doubtful = true;
    }

    /// Packets were sent again.
    pub fn note_resent(&mut self, packets: u64, stamp: u32) {
        self.sent += packets;
        if let Some(undo) = &mut self.undo {
            undo.stamp.get_or_insert(stamp);
            undo.resent += packets;
            undo.was_resent = true;
        }
    }

    /// Packets were sent for the first time.
    pub fn note_sent(&mut self, packets: u64) {
        self.sent += packets;
    }

    /// The other end had what was sent again.
    pub fn note_duplicate(&mut self, packets: u64) {
        if let Some(undo) = &mut self.undo {
            undo.resent = undo.resent.saturating_sub(packets);
        }
    }

    /// Takes a reduction back, if it was for nothing; `echo` is the stamp of what has arrived.
    pub fn take_back(&mut self, echo: u32, advanced: bool, original_end: Option<u64>) -> bool {
        let shows_it = self.phase == Phase::Loss
            && self.is_doubtful
            && original_end.is_some_and(|end| end <= self.until);
        let Some(undo) = &self.undo else { return false };
        let was_there = undo.was_resent && undo.resent == 0;
        let came_before = advanced && echo != 0 && undo.stamp.is_some_and(|stamp| echo < stamp);
        if !(shows_it || was_there || came_before) {
            return false;
        }
        self.window = self.window.max(undo.window);
        self.threshold = self.threshold.max(undo.threshold);
        (self.undo, self.phase) = (None, Phase::Open);
        true
    }

    /// What could be sent was: whether the window held more back.
    pub fn note_use(&mut self, is_limited: bool, packets: u64, [unacknowledged, next]: [u64; 2]) {
        let is_more = !self.limits && packets > self.most_out;
        if unacknowledged >= self.used_until || is_limited || is_more {
            (self.limits, self.most_out, self.used_until) = (is_limited, packets, next);
        }
    }

    /// Nothing was sent for so long: what is known of the way is old (RFC 2861).
    pub fn was_idle(&mut self, idle_ns: u64, rto_ns: u64) {
        self.cubic.was_idle(idle_ns);
        let first = WINDOW_FIRST.min(self.window);
        self.threshold = match idle_ns > rto_ns && self.threshold != u64::MAX {
            true => self.threshold.max(self.window * 3 / 4),
            false => self.threshold,
        };
        let mut idle_ns = idle_ns;
        while idle_ns > rto_ns && self.window > first {
            self.window /= 2;
            idle_ns -= rto_ns;
        }
        self.window = self.window.max(first);
    }

    /// A round trip has ended.
    pub fn note_trip(&mut self, now_ns: u64, trip_ns: u64, ends: [u64; 2]) {
        let doubles = self.window < self.threshold;
        if self.cubic.note_trip(now_ns, trip_ns, self.window, ends, doubles) {
            self.threshold = self.threshold.min(self.window);
        }
    }

    /// All that was sent before the reduction is acknowledged.
    pub fn leave(&mut self, unacknowledged: u64) {
        if self.phase != Phase::Open && unacknowledged >= self.until {
            if self.phase == Phase::Recovery {
                self.window = self.threshold;
            }
            self.phase = Phase::Open;
        }
    }

    /// Something was acknowledged: the window grows or is reduced.
    pub fn proceed(&mut self, progress: &Progress) {
        match self.phase {
            Phase::Recovery => self.reduce_by_part(progress),
            Phase::Open | Phase::Loss if progress.advanced => self.grow(progress.now_ns, progress.delivered),
            Phase::Open | Phase::Loss => {}
        }
    }

    fn reduce_by_part(&mut self, progress: &Progress) {
        if progress.delivered == 0 && progress.lost == 0 && self.sent > 0 {
            return;
        }
        self.delivered += progress.delivered;
        let may_send = if progress.in_flight > self.threshold {
            (self.delivered * self.threshold).div_ceil(self.reduced_from.max(1)).saturating_sub(self.sent)
        } else {
            let behind = self.delivered.saturating_sub(self.sent).max(progress.delivered);
            let grows = u64::from(progress.advanced && progress.lost == 0);
            (behind + grows).min(self.threshold - progress.in_flight)
        };
        let at_least = u64::from(self.sent == 0);
        self.window = progress.in_flight + may_send.max(at_least);
    }

    fn grow(&mut self, now_ns: u64, packets: u64) {
        let mut packets = packets;
        let doubles = self.window < self.threshold;
        if !(self.limits || doubles && self.window < 2 * self.most_out) {
            return;
        }
        if doubles {
            let window = (self.window + packets).min(self.threshold);
            packets -= window - self.window;
            self.window = window;
        }
        if packets > 0 {
            self.window += self.cubic.growth(now_ns, self.window, packets);
        }
    }
}
