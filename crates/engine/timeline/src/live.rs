//! The timeline of a live program: its present, and its past.
//!
//! At the present the live process itself is what is looked at and moved on. It stands
//! still otherwise. Its past is a replay of what has been logged so far, opened when
//! somebody looks back; forward it ends at the very instruction at which the live process
//! stands, and there the present is again. What the live process does from there on makes
//! that replay one of a past that is too short: the next time it is made longer
//! ([`crate::past`]).
//!
//! Invariant: no movement in the past goes beyond the present.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use lane_protocol::{AgentStop, NONE, agent_stop, command};
use recorder::debuggee::Debuggee;
use replayer::ExitReport;

use crate::checkpoints::Checkpoints;
use crate::error::{TimelineError, no_past};
use crate::limits::{Limits, wait_unless};
use crate::past::Saved;
use crate::position::{Position, Stops, position_of};
use crate::process::Process;
use crate::reason::{Going, Reason};
use crate::timeline::{Leg, Timeline};

/// A live program.
pub(crate) struct Live {
    pub debuggee: Rc<Debuggee>,
    /// The live process, while the past is looked at.
    waiting: Option<Process>,
    /// What was not counted on the way to where the live process stands.
    legs: Vec<Leg>,
    /// The same for checkpoints, by their numbers.
    checkpoint_legs: BTreeMap<u64, Vec<Leg>>,
    /// Where the past ends: the present. `None`: it has not been looked for.
    pub present: Option<End>,
    /// There is a branch that began at the present.
    pub branched_at_present: bool,
    /// What the past is replayed from; it may be one of an earlier present.
    pub saved: Option<Saved>,
}

/// Where a past ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// At this instruction.
    At(Position),
    /// At the log's own end, with so many events; and so many instructions behind the last, if
    /// they have been counted.
    Log { event: u64, steps: Option<u64> },
}

impl End {
    /// The position, if it is known without counting.
    fn position(self) -> Option<Position> {
        match self {
            End::At(position) => Some(position),
            End::Log { event, steps } => steps.map(|steps| Position { event, steps }),
        }
    }

    /// True if it lies behind all positions with so many events.
    fn is_behind(self, so_many: u64) -> bool {
        match self {
            End::At(Position { event, .. }) | End::Log { event, .. } => event > so_many,
        }
    }
}

impl Timeline {
    /// The timeline of a live program, which stands at its first instruction, or will. The past of one that ran already
    /// begins with a checkpoint here.
    ///
    /// # Errors
    /// [`TimelineError::Ended`] if it ended before, [`TimelineError::Order`] if there can be no checkpoint.
    pub fn of_live(debuggee: Debuggee) -> Result<Timeline, TimelineError> {
        let debuggee = Rc::new(debuggee);
        let here = Process::live(&debuggee)?;
        let ran_already = debuggee.ran_already();
        let mut timeline = Timeline {
            here,
            legs: Vec::new(),
            checkpoints: Checkpoints::default(),
            keyframes: None,
            branch: None,
            shows_branch: false,
            checkpoint_every: Some(Duration::from_millis(250)),
            changed_by: None,
            options: None,
            session: None,
            lead: None,
            live: Some(Live {
                debuggee,
                waiting: None,
                legs: Vec::new(),
                checkpoint_legs: BTreeMap::new(),
                present: None,
                branched_at_present: false,
                saved: None,
            }),
        };
        // Nothing can be replayed from before.
        if ran_already {
            timeline.take_checkpoint()?;
        }
        Ok(timeline)
    }

    /// The live program whose timeline this is.
    pub fn debuggee(&self) -> Option<&Debuggee> {
        self.live.as_ref().map(|live| &*live.debuggee)
    }

    /// True at the present of a live program.
    pub fn is_live(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.waiting.is_none())
    }

    /// Opens the past of a live program, if it is at the present; the same position is
    /// then looked at in the past.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn look_back(&mut self, give_up: &dyn Fn() -> bool) -> Result<(), TimelineError> {
        if !self.is_live() {
            return Ok(());
        }
        self.open_past(give_up)?;
        let patience = || wait_unless(give_up());
        let process = match self.live.as_ref().and_then(|live| live.present) {
            Some(End::At(position)) => self.process_at(position, &patience)?,
            Some(End::Log { .. }) => self.process_at_log_end(&patience)?,
            None => return Err(no_past()),
        };
        self.put_here(process);
        Ok(())
    }

    /// Looks at another process of the past. The live process waits meanwhile.
    pub(crate) fn put_here(&mut self, process: Process) {
        self.changed_by = None;
        let before = std::mem::replace(&mut self.here, process);
        let legs = std::mem::take(&mut self.legs);
        if let Some(live) = &mut self.live
            && live.waiting.is_none()
        {
            live.waiting = Some(before);
            live.legs = legs;
        }
    }

    /// A movement in the past, from the present too; one that fails leaves the position
    /// what it was.
    pub(crate) fn look_back_for<T>(
        &mut self,
        give_up: &dyn Fn() -> bool,
        movement: impl FnOnce(&mut Timeline) -> Result<T, TimelineError>,
    ) -> Result<T, TimelineError> {
        let was_live = self.is_live();
        self.look_back(give_up)?;
        let result = movement(self);
        if was_live && result.is_err() {
            self.go_to_present();
        }
        result
    }

    /// The position of the present.
    pub(crate) fn present_position(&mut self, give_up: &dyn Fn() -> bool) -> Result<Position, TimelineError> {
        self.open_past(give_up)?;
        let event = match self.live.as_ref().and_then(|live| live.present) {
            Some(End::At(position)) => return Ok(position),
            Some(End::Log { event, steps: Some(steps) }) => return Ok(Position { event, steps }),
            Some(End::Log { event, steps: None }) => event,
            None => return Err(no_past()),
        };
        let position = match self.last_of(event, NONE, &|| wait_unless(give_up())) {
            Ok(process) => position_of(&process.stop),
            // The last event leads nowhere but to the end.
            Err(TimelineError::NoSuchPosition(_)) => Position { event, steps: 0 },
            Err(error) => return Err(error),
        };
        if let Some(live) = &mut self.live {
            live.present = Some(End::Log { event, steps: Some(position.steps) });
        }
        Ok(position)
    }

    /// The end of the past, stepped back to, is the present itself if nothing is left of
    /// the way: then one more step back is wanted.
    pub(crate) fn is_still_present(&self) -> bool {
        const RIP: usize = 16;
        let waiting = self.live.as_ref().and_then(|live| live.waiting.as_ref());
        waiting.is_some_and(|waiting| {
            waiting.stop.threads[0].registers[RIP] == self.here.stop.threads[0].registers[RIP]
        })
    }

    /// Where and how the live process stands.
    pub fn present(&self) -> Option<&AgentStop> {
        let live = self.live.as_ref()?;
        Some(live.waiting.as_ref().map_or(&self.here.stop, |waiting| &waiting.stop))
    }

    /// Goes to the present of a live program.
    pub fn go_to_present(&mut self) {
        self.leave_branch();
        let Some(live) = &mut self.live else { return };
        if let Some(process) = live.waiting.take() {
            self.here = process;
            self.legs = std::mem::take(&mut live.legs);
        }
    }

    /// `seek` in a live program's timeline: true if the target is the present.
    pub(crate) fn seek_present(
        &mut self,
        target: Position,
        give_up: &dyn Fn() -> bool,
    ) -> Result<bool, TimelineError> {
        self.open_past(give_up)?;
        if self.live.as_ref().and_then(|live| live.present).is_some_and(|end| end.is_behind(target.event)) {
            return Ok(false);
        }
        let present = self.present_position(give_up)?;
        if target > present {
            return Err(TimelineError::NoSuchPosition(target));
        }
        let is_present = target == present;
        if is_present {
            self.go_to_present();
        }
        Ok(is_present)
    }

    /// Forward in the past of a live program, up to the present; or in the present.
    pub(crate) fn forward_to_present(
        &mut self,
        going: Going,
        stops: &Rc<Stops>,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Reason, TimelineError> {
        if self.is_live() {
            return self.forward_live(going, stops, give_up);
        }
        if self.is_at_end() {
            self.go_to_present();
            return Ok(Reason::Present);
        }
        let end = self.live.as_ref().and_then(|live| live.present);
        let reason = match end {
            Some(End::At(end)) => self.forward_until(going, stops, end, give_up)?,
            Some(End::Log { .. }) | None => {
                self.forward_by_itself(going, stops, Limits::FIRST_HIT, give_up)?
            }
        };
        let present = end.and_then(End::position);
        let arrived = self.is_at_end() || present.is_some_and(|end| self.known_position() == Some(end));
        if arrived {
            self.go_to_present();
            let is_stop = matches!(
                reason,
                Reason::Breakpoint | Reason::Watch(_) | Reason::Call(_) | Reason::Handler(_)
            );
            let is_step = reason == Reason::Stepped && matches!(going, Going::Step(_));
            return Ok(if is_stop || is_step { reason } else { Reason::Present });
        }
        Ok(reason)
    }

    /// Forward, but not beyond a position.
    fn forward_until(
        &mut self,
        going: Going,
        stops: &Rc<Stops>,
        end: Position,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Reason, TimelineError> {
        if self.here.stop.event < end.event {
            let limits = Limits { until_event: end.event, ..Limits::FIRST_HIT };
            let reason = self.forward_by_itself(going, stops, limits, give_up)?;
            // An edit, as a pause, is no instruction: a step goes on behind it.
            let is_unfinished = going == Going::On || self.here.stop.command_steps == 0;
            if !is_unfinished || self.here.stop.kind != agent_stop::REACHED {
                return Ok(reason);
            }
        }
        let here = self.position(give_up)?;
        let left = end.steps.saturating_sub(here.steps);
        if left == 0 || here.event > end.event {
            return Ok(Reason::Present);
        }
        let is_step = going != Going::On;
        if !is_step
            && self.here.stands_at(stops)
            && here.steps == 0
            && self.here.stop.kind == agent_stop::REACHED
        {
            let stop = &self.here.stop;
            return Ok(if stops.catches(stop.call) {
                Reason::Call(stop.call.saturating_sub(1))
            } else if stops.catches_signal(stop.signal) {
                Reason::Handler(stop.signal)
            } else {
                Reason::Breakpoint
            });
        }
        match going {
            Going::Step(thread) if thread != self.here.stop.thread => Ok(Reason::Present),
            Going::Step(_) => self.forward_by_itself(going, stops, Limits::FIRST_HIT, give_up),
            Going::On => {
                let limits = Limits { steps_max: left, ..Limits::FIRST_HIT };
                self.advance(true, stops, limits, &|| wait_unless(give_up()))?;
                Ok(self.reason())
            }
        }
    }

    /// The live program goes on.
    fn forward_live(
        &mut self,
        going: Going,
        stops: &Rc<Stops>,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Reason, TimelineError> {
        self.leave_past();
        match self.forward_by_itself(going, stops, Limits::FIRST_HIT, give_up) {
            // It went back by itself, to where other breakpoints were planted.
            Ok(Reason::WentBack) => {
                self.forget_past();
                Ok(Reason::WentBack)
            }
            Err(TimelineError::Ended) => Ok(self.wait_for_end()),
            // Its first instruction has been seen.
            Ok(Reason::Stepped) if self.here.stop.kind == agent_stop::BEGIN => Ok(Reason::Image),
            result => result,
        }
    }

    fn wait_for_end(&self) -> Reason {
        let Some(live) = &self.live else { return Reason::Stepped };
        // Of one that is not the first its parent learns how it ended; here that was told before.
        match self.here.stop.kind {
            agent_stop::LEAVING if !live.debuggee.is_first() => return Reason::Exited(self.here.stop.code),
            agent_stop::FAULTED if !live.debuggee.is_first() => return Reason::Killed(self.here.stop.code),
            _ => {}
        }
        loop {
            match live.debuggee.end() {
                Some(ExitReport::Exited(code)) => return Reason::Exited(code),
                Some(ExitReport::Killed(signal)) => return Reason::Killed(signal),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Orders the live process to do something where it stands, one of
    /// `lane_protocol::command`. The answer.
    fn order(&mut self, order: u32, argument: u64) -> Result<u64, TimelineError> {
        self.go_to_present();
        let answer = self.here.order(order, argument)?;
        let debuggee = self.debuggee();
        answer.map_err(|errno| {
            let text = debuggee.map(|debuggee| debuggee.explain(errno, argument));
            TimelineError::Order(text.unwrap_or_default())
        })
    }

    /// Lets the live program go on without us.
    pub fn detach(mut self) {
        self.go_to_present();
        if let Some(live) = &self.live {
            live.debuggee.detach();
            self.here.release();
        }
    }

    /// Takes a checkpoint of the live program, at the present: its number.
    ///
    /// # Errors
    /// [`TimelineError::Order`] says why there is none.
    pub fn take_checkpoint(&mut self) -> Result<u64, TimelineError> {
        let number = self.order(command::CHECKPOINT, 0)?;
        if let Some(live) = &mut self.live {
            live.checkpoint_legs.insert(number, self.legs.clone());
        }
        Ok(number)
    }

    /// Forgets a checkpoint of the live program.
    ///
    /// # Errors
    /// [`TimelineError::Order`]
    pub fn discard_checkpoint(&mut self, number: u64) -> Result<(), TimelineError> {
        self.order(command::DISCARD, number).map(|_| ())
    }

    /// Takes the live program back to a checkpoint: it stands there, and goes on live. What
    /// came after is dropped.
    ///
    /// # Errors
    /// [`TimelineError::Order`]; it stands where it stood then.
    pub fn roll_back(&mut self, number: u64) -> Result<(), TimelineError> {
        self.order(command::ROLLBACK, number)?;
        let legs = self.live.as_ref().and_then(|live| live.checkpoint_legs.get(&number));
        self.legs = legs.cloned().unwrap_or_default();
        self.forget_past();
        Ok(())
    }
}
