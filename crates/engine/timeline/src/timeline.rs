//! The present position, and going forward from it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use injector::Mapping;
use lane_protocol::{AgentStop, agent_stop, agent_verb};
use replayer::{Prepared, ReplayOptions, prepare};
use trace_store::TraceReader;

use crate::checkpoints::Checkpoints;
use crate::error::TimelineError;
use crate::groups::{Opened, open_session};
use crate::keyframes::Keyframes;
use crate::limits::{AskPatience, Limits, Patience, wait_unless};
use crate::live::Live;
use crate::position::{Position, Stops, boundaries, position_of};
use crate::process::Process;
use crate::reason::{Going, Reason, reason_of};
use crate::session::Session;
use crate::way::rare_part_behind;

/// How long the program runs before a checkpoint is kept.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(250);

/// What was done since the last event where instructions were not counted.
#[derive(Debug, Clone)]
pub(crate) enum Leg {
    /// `from_event`: a breakpoint where the event leads to is the first hit.
    Run {
        stops: Rc<Stops>,
        hits: u64,
        from_event: bool,
    },
    Steps(u64),
    /// To the first time that the registers are these, by a breakpoint there with these
    /// programs.
    Until([u64; 18], BTreeMap<u64, Vec<u8>>),
}

/// A recording that can be moved about in.
pub struct Timeline {
    pub(crate) here: Process,
    pub(crate) legs: Vec<Leg>,
    pub(crate) checkpoints: Checkpoints,
    /// Those of the recording; `None`: they are not used.
    pub(crate) keyframes: Option<Keyframes>,
    /// A copy that goes on by itself, in place of the present process.
    pub(crate) branch: Option<Process>,
    /// It is what is looked at.
    pub(crate) shows_branch: bool,
    /// How long the program runs before a checkpoint is kept; `None`: none is.
    pub checkpoint_every: Option<Duration>,
    /// The event behind the present position, where that was gone to because the event
    /// changed a watched place.
    pub(crate) changed_by: Option<u64>,
    /// What is replayed. `None`: the past of a live program, which has not been looked at.
    pub(crate) options: Option<ReplayOptions>,
    /// The same: where copies are made.
    pub(crate) session: Option<Rc<Session>>,
    /// The process of the session that goes with the others of its group: its copies, which all
    /// other processes here are, go without them.
    pub(crate) lead: Option<Process>,
    /// A live program, whose past this is.
    pub(crate) live: Option<Live>,
}

impl Timeline {
    /// Opens a recording, at the first instruction of the process that is asked for.
    ///
    /// # Errors
    /// [`TimelineError`] if the trace cannot be used, or the machine lacks something.
    pub fn open(options: &ReplayOptions, give_up: &dyn Fn() -> bool) -> Result<Timeline, TimelineError> {
        let prepared: Prepared = prepare(options, true)?;
        let patience = || if give_up() { Patience::Enough } else { Patience::Wait };
        let Opened { session, here, checkpoints, lead } = open_session(prepared, &patience)?;
        Ok(Timeline {
            here,
            legs: Vec::new(),
            checkpoints,
            keyframes: None,
            branch: None,
            shows_branch: false,
            checkpoint_every: Some(CHECKPOINT_EVERY),
            changed_by: None,
            options: Some(options.again()),
            session: Some(session),
            lead,
            live: None,
        })
    }

    /// Where and how the process stands.
    pub fn stop(&self) -> &AgentStop {
        &self.shown().stop
    }

    /// Reads the program's memory: as many bytes as are there. Returns how many.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        self.shown().read(address, bytes)
    }

    /// What was recorded; `None` where a live program's past has not been looked at.
    pub fn trace(&self) -> Option<Arc<TraceReader>> {
        let is_open = self.live.as_ref().is_none_or(|live| live.present.is_some());
        self.session.as_deref().filter(|_| is_open).map(Session::trace)
    }

    /// What the program has mapped in the process that stands at the present position.
    ///
    /// # Errors
    /// What reading proc_pid_maps(5) fails with.
    pub fn mappings(&self) -> std::io::Result<Vec<Mapping>> {
        let mut maps = injector::read_maps(self.pid())?;
        maps.retain(|mapping| !mapping.is_of_runtime());
        Ok(maps)
    }

    /// Process id of the process that stands at the present position.
    pub fn pid(&self) -> i32 {
        self.shown().pid
    }

    /// The process id that the process had when it was recorded.
    pub fn recorded_pid(&self) -> i32 {
        self.session.as_ref().map_or(1, |session| session.recorded_pid())
    }

    /// The first and the last event of those that changed a watched place here: behind the
    /// present position, if that was gone back to, or before it.
    pub fn changed_by(&self) -> Option<(u64, u64)> {
        let stop = &self.here.stop;
        if let Some(event) = self.changed_by {
            return Some((stop.event, event.saturating_sub(1)));
        }
        let is_after = stop.kind == agent_stop::WATCHPOINT && stop.last_hit.steps == 0;
        let [.., before, now] = boundaries(stop)[..] else { return None };
        (is_after && now.event == stop.event).then_some((before.event, now.event.saturating_sub(1)))
    }

    /// The lane that is debugged.
    pub fn lane(&self) -> u32 {
        self.session.as_ref().map_or(0, |session| session.lane)
    }

    /// What the process said where history ends.
    pub fn said(&self) -> String {
        self.here.said()
    }

    pub fn beginning(&self) -> Position {
        self.checkpoints.beginning()
    }

    /// Positions of the checkpoints.
    pub fn checkpoints(&self) -> Vec<Position> {
        self.checkpoints.positions()
    }

    pub fn is_at_end(&self) -> bool {
        self.here.stop.kind == agent_stop::END
    }

    /// The present position, if it is known without counting.
    pub fn known_position(&self) -> Option<Position> {
        let stop = &self.here.stop;
        (stop.steps_known != 0 || self.is_at_end()).then(|| position_of(stop))
    }

    /// The present position. Counts the instructions since the last event, if nobody
    /// has.
    ///
    /// # Errors
    /// [`TimelineError`], [`TimelineError::Interrupted`] among them.
    pub fn position(&mut self, give_up: &dyn Fn() -> bool) -> Result<Position, TimelineError> {
        if let Some(position) = self.known_position() {
            return Ok(position);
        }
        if self.is_live() {
            return self.present_position(give_up);
        }
        if self.here.stop.steps_known == 0 && !self.is_at_end() {
            let patience = || if give_up() { Patience::Enough } else { Patience::Wait };
            self.with_others_if_needed(|own| own.count(&patience))?;
        }
        Ok(position_of(&self.here.stop))
    }

    /// Goes forward.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn forward(
        &mut self,
        going: Going,
        stops: &Stops,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Reason, TimelineError> {
        let stops = Rc::new(stops.clone());
        if self.live.is_some() {
            return self.forward_to_present(going, &stops, give_up);
        }
        if self.is_at_end() {
            return Ok(self.reason());
        }
        self.forward_by_itself(going, &stops, Limits::FIRST_HIT, give_up)
    }

    /// Goes forward to where this many events are consumed, whatever instructions are on the way.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn forward_to_event(
        &mut self,
        event: u64,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Reason, TimelineError> {
        let limits = Limits { until_event: event, ..Limits::FIRST_HIT };
        self.advance(false, &Rc::new(Stops::default()), limits, &|| wait_unless(give_up()))?;
        Ok(self.reason())
    }

    /// Forward, as far as `limits` say.
    pub(crate) fn forward_by_itself(
        &mut self,
        going: Going,
        stops: &Rc<Stops>,
        limits: Limits,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Reason, TimelineError> {
        match going {
            Going::Step(thread) if thread == self.here.stop.thread => {
                let limits = Limits { steps_max: 1, ..limits };
                let no_breakpoints = Stops { watches: stops.watches.clone(), ..Stops::default() };
                self.advance(true, &Rc::new(no_breakpoints), limits, &|| wait_unless(give_up()))?;
            }
            Going::Step(thread) => {
                let limits = Limits { until_thread: u64::from(thread), ..limits };
                self.advance(false, stops, limits, &|| wait_unless(give_up()))?;
            }
            Going::On => self.run_on(stops, limits, give_up)?,
        }
        Ok(self.reason())
    }

    /// Runs on, and keeps checkpoints on the way.
    fn run_on(
        &mut self,
        stops: &Rc<Stops>,
        limits: Limits,
        give_up: &dyn Fn() -> bool,
    ) -> Result<(), TimelineError> {
        loop {
            let since = Instant::now();
            // A live program keeps its own.
            let every = self.checkpoint_every.filter(|_| !self.is_live());
            let patience = || match (give_up(), every.is_some_and(|every| since.elapsed() > every)) {
                (true, _) => Patience::Enough,
                (false, true) => Patience::NextEvent,
                (false, false) => Patience::Wait,
            };
            self.advance(false, stops, limits, &patience)?;
            let by_us = self.here.stop.kind == agent_stop::INTERRUPTED && !give_up();
            if !by_us {
                return Ok(());
            }
            self.keep_checkpoint()?;
            self.write_keyframe_if_due();
        }
    }

    /// Keeps a copy of the present process, if it can be copied and its position is
    /// known.
    pub(crate) fn keep_checkpoint(&mut self) -> Result<(), TimelineError> {
        let position = position_of(&self.here.stop);
        if self.here.stop.steps_known != 0
            && !self.checkpoints.has(position)
            && self.here.is_of(self.session.as_ref())
            && let Some(copy) = self.here.copy_if_possible()?
        {
            self.checkpoints.keep(position, copy);
        }
        Ok(())
    }

    /// One command to the present process, with an account of what was not counted.
    pub(crate) fn advance(
        &mut self,
        counting: bool,
        stops: &Rc<Stops>,
        limits: Limits,
        patience: AskPatience,
    ) -> Result<(), TimelineError> {
        self.changed_by = None;
        let before = self.here.stop.event;
        let counted = (self.here.stop.steps_known != 0).then_some(self.here.stop.steps);
        self.with_others_if_needed(|own| own.command(counting, stops, limits, patience))?;
        let stop = &self.here.stop;
        if stop.event != before || stop.steps_known != 0 {
            self.legs.clear();
        }
        if stop.steps_known == 0 {
            if let Some(steps) = counted.filter(|&steps| steps > 0 && stop.event == before) {
                self.legs = vec![Leg::Steps(steps)];
            }
            let hits = if stop.event == before { stop.hits } else { stop.last_hit.ordinal };
            self.legs.push(match stop.kind {
                agent_stop::INTERRUPTED => Leg::Until(stop.threads[0].registers, BTreeMap::new()),
                // Whether a condition held where the event leads to is not known here.
                agent_stop::BREAKPOINT if !stops.programs.is_empty() => {
                    Leg::Until(stop.threads[0].registers, stops.programs.clone())
                }
                _ if counting => Leg::Steps(stop.command_steps),
                _ => Leg::Run { stops: Rc::clone(stops), hits, from_event: stop.event != before },
            });
        }
        Ok(())
    }

    /// The present process does it, or it stands where it did.
    fn command(
        &mut self,
        counting: bool,
        stops: &Stops,
        limits: Limits,
        patience: AskPatience,
    ) -> Result<(), TimelineError> {
        self.see_to_others(limits.until_event, patience)?;
        let verb = if counting { agent_verb::STEP } else { agent_verb::RUN };
        let before = self.here.stop.clone();
        let done = self.here.command(verb, stops, limits, patience);
        if matches!(done, Err(TimelineError::Alone)) {
            self.here.stop = before;
        }
        done
    }

    pub(crate) fn reason(&self) -> Reason {
        reason_of(&self.here.stop)
    }

    /// Replaces the present process by one at the same position whose instructions
    /// are counted.
    pub(crate) fn count(&mut self, patience: AskPatience) -> Result<(), TimelineError> {
        self.here = self.counted(self.here.stop.event, patience)?;
        self.legs.clear();
        Ok(())
    }

    /// A process at the present position, whose instructions are counted, and which can go on
    /// up to an event.
    pub(crate) fn counted(
        &mut self,
        until_event: u64,
        patience: AskPatience,
    ) -> Result<Process, TimelineError> {
        let event = self.here.stop.event;
        let mut process = self.process_for(Position { event, steps: 0 }, until_event, patience)?;
        for leg in self.legs.clone() {
            match leg {
                Leg::Run { stops, hits, from_event } => {
                    let hits_max = hits - u64::from(from_event && process.stands_at(&stops));
                    // What leads back from here begins at what is kept on the way.
                    self.step_to_hit(&mut process, &stops, hits_max, rare_part_behind, patience)?;
                }
                Leg::Steps(steps) => {
                    let limits = Limits { steps_max: steps, ..Limits::ALL_HITS };
                    process.step(&Stops::default(), limits, patience)?;
                }
                Leg::Until(registers, programs) => {
                    let stops = Stops { breakpoints: vec![registers[16]], programs, ..Stops::default() };
                    while process.stop.threads[0].registers != registers && process.stop.event == event {
                        process.step(&stops, Limits::FIRST_HIT, patience)?;
                        if process.stop.kind != agent_stop::BREAKPOINT {
                            break;
                        }
                    }
                }
            }
            if process.stop.kind == agent_stop::INTERRUPTED {
                return Err(TimelineError::Interrupted);
            }
        }
        let position = Position { event, steps: process.stop.steps };
        if process.stop.threads[0].registers != self.here.stop.threads[0].registers {
            return Err(TimelineError::NoSuchPosition(position));
        }
        process.stop.kind = self.here.stop.kind;
        process.stop.last_hit = self.here.stop.last_hit;
        Ok(process)
    }

    /// Goes to a position.
    ///
    /// # Errors
    /// [`TimelineError::NoSuchPosition`] if the recording has none such; others.
    pub fn seek(&mut self, target: Position, give_up: &dyn Fn() -> bool) -> Result<(), TimelineError> {
        if self.live.is_some() && self.seek_present(target, give_up)? {
            return Ok(());
        }
        let patience = || wait_unless(give_up());
        let process = self.with_others_if_needed(|own| own.process_at(target, &patience))?;
        self.put_here(process);
        Ok(())
    }

    /// Goes to where history ends.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn seek_end(&mut self, give_up: &dyn Fn() -> bool) -> Result<Reason, TimelineError> {
        if self.live.is_some() {
            self.go_to_present();
            return Ok(Reason::Present);
        }
        self.go_near_end()?;
        loop {
            match self.forward(Going::On, &Stops::default(), give_up)? {
                Reason::Image => {}
                reason => {
                    self.write_last_keyframe();
                    return Ok(reason);
                }
            }
        }
    }
}
