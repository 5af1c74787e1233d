//! What one end sends: first what was lost, then what is new, as far as windows allow it.

use super::{End, SEGMENT_BYTES_MAX, State, Timer, copied};
use crate::segment::Segment;

impl End {
    /// What can be sent now.
    pub fn sendable(&mut self, now_ns: u64) -> Vec<Segment> {
        let mut segments = Vec::new();
        if self.state != State::Established {
            return segments;
        }
        let was_empty = self.outstanding.is_empty();
        if was_empty && self.sent_ns > 0 {
            self.congestion.was_idle(now_ns - self.sent_ns, self.round_trips.rto_ns);
        }
        self.send_again(now_ns, &mut segments);
        let is_again = !segments.is_empty();
        self.send_new(now_ns, &mut segments);
        if !segments.is_empty() {
            self.sent_ns = now_ns;
            self.incoming.note_answer(now_ns);
        }
        let probes = matches!(self.timer, Some((_, Timer::Probe)) | None);
        if !segments.is_empty() && (was_empty || is_again || probes) || self.is_shut_out() {
            self.arm(now_ns, None);
        }
        segments
    }

    fn send_again(&mut self, now_ns: u64, segments: &mut Vec<Segment>) {
        while self.outstanding.in_flight() < self.congestion.window {
            let room = (self.congestion.window - self.outstanding.in_flight()) * SEGMENT_BYTES_MAX as u64;
            let bytes_max = room.min(self.segment_bytes as u64);
            let Some(piece) = self.outstanding.resend_lost(now_ns, bytes_max) else { return };
            segments.push(self.again(now_ns, piece));
        }
    }

    pub(super) fn again(&mut self, now_ns: u64, (begin, end): (u64, u64)) -> Segment {
        let packets = (end - begin).div_ceil(SEGMENT_BYTES_MAX as u64);
        self.congestion.note_resent(packets, Self::stamp(now_ns));
        self.resent += 1;
        self.segment(now_ns, begin, end)
    }

    fn send_new(&mut self, now_ns: u64, segments: &mut Vec<Segment>) {
        while let Some(end) = self.next_end() {
            segments.push(self.send_to(now_ns, end));
        }
        let data_end = self.unacknowledged + self.send.len() as u64;
        let ends = [self.unacknowledged, self.next];
        let is_limited = self.next < data_end && self.outstanding.in_flight() >= self.congestion.window;
        self.congestion.note_use(is_limited, self.outstanding.packets(), ends);
    }

    /// Sends what was never sent, up to there.
    pub(super) fn send_to(&mut self, now_ns: u64, end: u64) -> Segment {
        let begin = self.next;
        self.outstanding.sent(now_ns, begin, end);
        self.congestion.note_sent((end - begin).div_ceil(SEGMENT_BYTES_MAX as u64));
        if end - begin < SEGMENT_BYTES_MAX as u64 {
            self.small_end = end;
        }
        self.next = end;
        self.segment(now_ns, begin, end)
    }

    /// Where the next segment ends, if one can be sent.
    fn next_end(&mut self) -> Option<u64> {
        let (next, full) = (self.next, SEGMENT_BYTES_MAX as u64);
        if self.own_fin_at.is_some_and(|at| next > at) {
            return None;
        }
        let data_end = self.unacknowledged + self.send.len() as u64;
        let left = data_end - next;
        if left == 0 {
            // The end needs no room in windows.
            self.own_fin_at = self.send_ends.then_some(data_end);
            return self.own_fin_at.map(|at| at + 1);
        }
        let free = self.congestion.window.saturating_sub(self.outstanding.in_flight()) * full;
        let mut bytes = left.min(self.segment_bytes as u64).min(free);
        let room = self.peer_edge.saturating_sub(next);
        if bytes > room {
            // What is cut by the other end's window is whole segments, or waits.
            bytes = room / full * full;
        }
        if (self.corked || self.more) && bytes == left && !self.send_ends {
            bytes = bytes / full * full;
        }
        let waits = bytes < full && bytes == left && !self.no_delay && !self.send_ends;
        if bytes == 0 || waits && self.small_end > self.unacknowledged {
            return None;
        }
        if bytes == left && self.send_ends {
            self.own_fin_at = Some(data_end);
            return Some(data_end + 1);
        }
        Some(next + bytes)
    }

    /// What was held for more was held for long enough.
    pub(super) fn send_held(&mut self, now_ns: u64) -> Vec<Segment> {
        let data_end = self.unacknowledged + self.send.len() as u64;
        let end = data_end.min(self.next + SEGMENT_BYTES_MAX as u64).min(self.peer_edge);
        let segment = self.send_to(now_ns, end);
        self.sent_ns = now_ns;
        self.arm(now_ns, None);
        vec![segment]
    }

    /// There is something to send, nothing is on its way, and the other end has no room, or more is waited for.
    pub(super) fn is_shut_out(&self) -> bool {
        let data_end = self.unacknowledged + self.send.len() as u64;
        self.outstanding.is_empty() && self.next < data_end && self.timer.is_none()
    }

    fn segment(&mut self, now_ns: u64, begin: u64, end: u64) -> Segment {
        let fin = self.own_fin_at.is_some_and(|at| end > at);
        let start = (begin - self.unacknowledged) as usize;
        let data = copied(&self.send, start, (end - begin) as usize - usize::from(fin));
        Segment { data, fin, ..self.header(now_ns, begin) }
    }
}
