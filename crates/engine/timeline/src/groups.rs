//! Processes that share memory with others, and going back in them.
//!
//! The others of a group are in a session once: they go on with one of the copies of the
//! process that is debugged, and take turns with that. Another copy that comes to where they
//! are met would find what the first one left. So it begins in a session of its own, with
//! others of its own.
//!
//! Deliberately absent: copies of a whole group. The way to a position in a group begins where
//! history does.

use std::rc::Rc;

use lane_protocol::NONE;
use replayer::prepare;

use crate::error::TimelineError;
use crate::live::no_past;
use crate::position::Position;
use crate::process::{AskPatience, Process};
use crate::session::Session;
use crate::timeline::{Timeline, position_of};

impl Timeline {
    /// A process before the target, or there, that can go on up to an event, and where it is.
    pub(crate) fn start_before(
        &mut self,
        target: Position,
        until_event: u64,
        patience: AskPatience,
    ) -> Result<(Position, Process), TimelineError> {
        let serves = self.session.as_ref().is_some_and(|session| session.serves(until_event));
        if serves && self.checkpoints.before(target).is_some() {
            self.approach(target);
            return self.checkpoints.copy_before(target);
        }
        let options = self.options.as_ref().ok_or_else(no_past)?;
        let session = Rc::new(Session::start(prepare(&options.again(), true)?)?);
        for other in self.session.iter().chain(self.here.session()) {
            session.show_after(other);
        }
        let first = Process::first(&session, patience)?;
        Ok((position_of(&first.stop), first))
    }

    /// The present process is about to go on up to an event: replaces it if the others of its
    /// group went on with another one.
    pub(crate) fn see_to_others(
        &mut self,
        until_event: u64,
        patience: AskPatience,
    ) -> Result<(), TimelineError> {
        if self.here.can_run_to(until_event) {
            return Ok(());
        }
        let stop = self.here.stop.clone();
        if stop.steps_known == 0 {
            self.here = self.counted(NONE, patience)?;
            self.legs.clear();
            return Ok(());
        }
        self.here = self.process_for(position_of(&stop), NONE, patience)?;
        // Why it stands there is what it was.
        (self.here.stop.kind, self.here.stop.last_hit) = (stop.kind, stop.last_hit);
        Ok(())
    }
}
