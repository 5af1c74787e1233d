//! What an acknowledgement means for what was sent.

use super::congestion::{Phase, Progress};
use super::outstanding::News;
use super::{End, MILLISECOND, REORDERED_MAX, SEGMENT_BYTES_MAX, State};
use crate::segment::Segment;

impl End {
    /// What an acknowledgement means.
    pub(super) fn acknowledge(&mut self, now_ns: u64, segment: &Segment) {
        let ack = segment.acknowledged;
        if ack > self.next || self.state != State::Established {
            return;
        }
        self.peer_edge = self.peer_edge.max(ack + segment.window);
        let (mut news, shortest_ns) = (News::default(), self.round_trips.shortest_ns);
        let advanced = ack > self.unacknowledged;
        if advanced {
            self.outstanding.acknowledge(now_ns, ack, shortest_ns, &mut news);
            let of_data = (ack - self.unacknowledged).min(self.send.len() as u64);
            self.send.drain(..of_data as usize);
            self.fin_acknowledged |= self.own_fin_at.is_some_and(|fin| ack > fin);
            (self.unacknowledged, self.tries) = (ack, 0);
        }
        let twice = self.told_twice(segment);
        for &block in segment.selected.iter().skip(usize::from(twice.is_some())) {
            self.outstanding.select(now_ns, block, shortest_ns, &mut news);
        }
        self.measure(now_ns, segment, &news, advanced);
        self.reorders |= news.reordered;
        if let Some((begin, end)) = twice {
            self.congestion.note_duplicate((end - begin).div_ceil(SEGMENT_BYTES_MAX as u64));
            self.patience_steps = (self.patience_steps + 1).min(255);
        }
        self.end_probe(ack, twice.is_some(), advanced || news.delivered > 0);
        if (advanced || twice.is_some() || news.delivered > 0)
            && self.congestion.take_back(segment.echo, advanced, news.original_end)
        {
            self.outstanding.lose_nothing();
        }
        self.congestion.leave(ack);
        let progress = self.look_for_lost(now_ns, &news, advanced);
        self.congestion.proceed(&progress);
    }

    /// What the other end has got twice, if it says so (RFC 2883).
    fn told_twice(&self, segment: &Segment) -> Option<(u64, u64)> {
        let &first = segment.selected.first()?;
        let is_inside = |outer: &(u64, u64)| outer.0 <= first.0 && first.1 <= outer.1;
        let is_twice = first.1 <= segment.acknowledged || segment.selected.get(1).is_some_and(is_inside);
        is_twice.then_some(first)
    }

    /// Looks what is lost, and says when to look again.
    pub(super) fn look_for_lost(&mut self, now_ns: u64, news: &News, advanced: bool) -> Progress {
        let is_calm = self.congestion.phase == Phase::Open && self.outstanding.arrived() < REORDERED_MAX;
        let shortest_ns = self.round_trips.shortest_ns;
        let patience_ns = match self.reorders || is_calm {
            true => (shortest_ns / 4).saturating_mul(self.patience_steps),
            false => 0,
        };
        let patience_ns = patience_ns.min(self.round_trips.smoothed_ns.unwrap_or(0));
        let (lost, again, wait_ns) = self.outstanding.find_lost(now_ns, patience_ns);
        if lost > 0 && (self.congestion.phase == Phase::Open || again) {
            self.congestion.recover(self.next);
        }
        if advanced || news.delivered > 0 || lost > 0 {
            self.timer = None;
            self.arm(now_ns, wait_ns);
        }
        let (delivered, in_flight) = (news.delivered, self.outstanding.in_flight());
        Progress { now_ns, advanced, delivered, lost, in_flight }
    }

    /// The probe of the tail has been answered.
    fn end_probe(&mut self, ack: u64, came_twice: bool, is_news: bool) {
        let Some((end, was_again)) = self.probed else { return };
        if ack < end {
            return;
        }
        if was_again && !came_twice && ack > end {
            self.congestion.give_way();
        }
        // An acknowledgement of nothing new: what was probed and the probe have both arrived.
        if !was_again || came_twice || ack > end || !is_news {
            self.probed = None;
        }
    }

    /// A round trip has ended, where what was acknowledged was sent once (Karn), or by its stamp.
    fn measure(&mut self, now_ns: u64, segment: &Segment, news: &News, advanced: bool) {
        let by_stamp = || {
            let elapsed = Self::stamp(now_ns).saturating_sub(segment.echo);
            (advanced && segment.echo != 0).then(|| u64::from(elapsed.max(1)) * MILLISECOND)
        };
        let exact = news.first_sent_ns.map(|sent_ns| now_ns - sent_ns);
        if let Some(trip_ns) = exact.or_else(by_stamp) {
            self.round_trips.note(trip_ns);
        }
        if let Some(sent_ns) = news.last_sent_ns {
            self.congestion.note_trip(now_ns, now_ns - sent_ns, [self.unacknowledged, self.next]);
        }
    }
}
