//! Processes that share memory with others, and going back in them.
//!
//! The others of a group are in a session once, and go with one process of the lane that is
//! debugged, the lead, which nobody looks at. All that are looked at are copies, which go without
//! the others and take in what those wrote to shared memory, see `lane_protocol::Imports`.
//!
//! Where that cannot be (a process that is in its parent's memory, or makes others in its own;
//! memory for copies that is missing) the others go with one of the copies, and share the token with
//! that. Another copy that comes to where they are met would find what the first one left. So it
//! begins in a session of its own, with others of its own, where history does.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use lane_protocol::NONE;
use replayer::{Prepared, prepare};

use crate::checkpoints::Checkpoints;
use crate::error::{TimelineError, no_past};
use crate::limits::AskPatience;
use crate::position::{Position, position_of};
use crate::process::Process;
use crate::session::Session;
use crate::timeline::Timeline;

impl Timeline {
    /// A movement of the timeline, which begins again where copies cannot go without the others.
    pub(crate) fn with_others_if_needed<T>(
        &mut self,
        mut movement: impl FnMut(&mut Timeline) -> Result<T, TimelineError>,
    ) -> Result<T, TimelineError> {
        match movement(self) {
            Err(TimelineError::Alone) => {
                self.go_with_others();
                movement(self)
            }
            result => result,
        }
    }

    /// From now on the others go with the process that is looked at.
    pub(crate) fn go_with_others(&mut self) {
        if let Some(session) = &self.session {
            session.abandon();
        }
        self.lead = None;
        self.checkpoints = Checkpoints::none_since(self.beginning());
    }

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

/// A session, and its first processes.
pub(crate) struct Opened {
    pub session: Rc<Session>,
    pub here: Process,
    pub checkpoints: Checkpoints,
    pub lead: Option<Process>,
}

/// Starts to replay; the process that is debugged stands at its first instruction. Of a trace with
/// several processes it may come to share memory with others: then it is the lead replica.
pub(crate) fn open_session(prepared: Prepared, patience: AskPatience) -> Result<Opened, TimelineError> {
    let has_others = prepared.trace.lanes().len() > 1;
    prepared.memory.imports().wants.store(u32::from(has_others), Ordering::Release);
    let session = Rc::new(Session::start(prepared)?);
    let first = Process::first(&session, patience)?;
    let beginning = position_of(&first.stop);
    let Some(copy) = first.copy_if_possible()? else {
        session.let_no_copy_go_alone();
        return Ok(Opened {
            session,
            here: first,
            checkpoints: Checkpoints::none_since(beginning),
            lead: None,
        });
    };
    if !has_others {
        let checkpoints = Checkpoints::new(beginning, first);
        return Ok(Opened { session, here: copy, checkpoints, lead: None });
    }
    first.send_out()?;
    let here = copy.copy()?;
    let checkpoints = Checkpoints::new(beginning, copy);
    Ok(Opened { session, here, checkpoints, lead: Some(first) })
}
