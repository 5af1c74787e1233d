//! A lab takes checkpoints, stands at one, and goes on from there.

use crate::checkpoints::{GoOn, Taken};
use crate::clock_log::reread;
use crate::engine::{CHANCE, Engine};
use crate::spec::{Action, Event};
use crate::stop::StopReason;

impl Engine {
    /// The lab's time has come to a checkpoint.
    pub fn take_checkpoint(&mut self, is_timed: bool) {
        self.checkpoints.count += 1;
        let number = self.checkpoints.count;
        self.clock_log.flush();
        let taken = Taken { number, at_ns: self.now_ns, is_timed, been: self.log.so_far(self.now_ns) };
        self.checkpoints.keep(&taken);
        if self.checkpoints.halt.as_ref().is_some_and(|halt| halt.number == number) {
            self.stand(taken.clone());
        }
        if let Some(notice) = &mut self.checkpoints.notice {
            notice(&taken);
        }
    }

    /// All stand until the lab is to go on, or to end.
    fn stand(&mut self, taken: Taken) {
        let Some(mut halt) = self.checkpoints.halt.take() else { return };
        // Who does not listen does not answer, either.
        let _ = halt.stands.send(taken);
        let (changes, discarded) = match halt.goes_on.recv() {
            Ok(GoOn::Live { changes, discarded }) => (changes, discarded),
            Ok(GoOn::Further { number, events }) => {
                halt.number = number;
                self.checkpoints.halt = Some(halt);
                self.spec.events = events;
                self.keep_spec();
                // A log that cannot be read ends too early, which is noticed.
                if let Some(Ok(clock)) = self.checkpoints.clock.as_deref().map(reread) {
                    self.clock_log.go_on_with(clock);
                }
                return;
            }
            Err(_) => return self.stop.stop(StopReason::Recording),
        };
        discarded.into_iter().for_each(|number| self.checkpoints.discard(number));
        self.go_live();
        let (now_ns, done) = (self.now_ns, self.nodes.events_done());
        if let Some(events) = changes.events {
            self.spec.events.truncate(done);
            self.spec.events.extend(events.into_iter().filter(|event| event.at_ns > now_ns));
        }
        if let Some(seed) = changes.seed {
            let event = Event { at_ns: now_ns, action: Action::Seed { seed }, is_wish: true };
            self.spec.events.insert(done, event);
        }
        self.keep_spec();
        self.log.show_from_here();
    }
}

impl Engine {
    /// What chance draws by from here on.
    pub fn reseed(&mut self, seed: u64) {
        self.fabric.reseed(seed);
        self.random = fabric::Random::new(seed ^ CHANCE);
    }
}
