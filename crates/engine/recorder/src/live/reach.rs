//! Which checkpoints stay: few of long ago, and none from which the log does not reach to the present.

use std::sync::atomic::Ordering;

use injector::Segment;
use lane_protocol::{checkpoint_origin, command};

use super::Work;
use crate::listing::{Shown, checkpoints};

impl Work {
    /// Discards checkpoints by time until few enough are left: dense near the present,
    /// sparse long ago.
    pub(super) fn thin(&self, segment: Segment) {
        let is_timed = |at: &Shown| at.origin == checkpoint_origin::TIME;
        let timed = || checkpoints(self.session.memory.lane(segment)).into_iter().filter(is_timed).count();
        while timed() > self.options.keep.max(1) && self.discard_densest(segment) {}
    }

    /// Checkpoints from which the log does not reach to the present any more.
    pub(super) fn drop_unreachable(&self) {
        for segment in self.lanes() {
            let lane = self.session.memory.lane(segment);
            let id = lane.ids().0;
            for at in checkpoints(lane) {
                let is_lost = self.session.sink.with_history(|history| history.has_lost(id, at.position));
                if is_lost == Some(true) && lane.goes_again().load(Ordering::Acquire) == 0 {
                    let _ = self.order(segment, command::DISCARD, u64::from(at.id));
                }
            }
        }
    }
}
