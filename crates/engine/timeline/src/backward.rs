//! Going back: by an instruction of a thread, or to the last hit before the present.

use lane_protocol::{Hit, NONE, agent_stop};

use crate::crowds::Hits;
use crate::error::TimelineError;
use crate::limits::{AskPatience, Limits, wait_unless};
use crate::position::{Position, Stops, boundaries, position_of};
use crate::process::Process;
use crate::reason::Reason;
use crate::timeline::Timeline;
use crate::way::part_behind;

/// Index of the instruction pointer.
const RIP: usize = 16;

/// The last hit of a part of the timeline.
pub(crate) enum Found {
    /// At this very position, before the instruction.
    At(Position),
    /// The hit of this number from there on; of a watched place, or [`NONE`].
    /// `counts_first`: a breakpoint at that place is the first.
    Counted { from: Position, counts_first: bool, ordinal: u64, watch: u64 },
    /// An image begins by this event: the place is the last one before it.
    Image { event: u64 },
    /// By the event itself.
    ByEvent { event: u64, watch: u64 },
    /// After so many instructions: a watched place.
    After { position: Position, watch: u64 },
}

impl Timeline {
    /// Goes back by one instruction of the thread of this index.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn step_back(&mut self, thread: u32, give_up: &dyn Fn() -> bool) -> Result<Reason, TimelineError> {
        self.look_back_for(give_up, |own| {
            own.with_others_if_needed(|own| own.step_back_in_past(thread, give_up))
        })
    }

    fn step_back_in_past(
        &mut self,
        thread: u32,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Reason, TimelineError> {
        let position = self.position(give_up)?;
        let patience = || wait_unless(give_up());
        let at_end = self.is_at_end();
        if !at_end && thread == self.here.stop.thread && position.steps > 0 {
            self.seek(Position { steps: position.steps - 1, ..position }, give_up)?;
            return Ok(Reason::Stepped);
        }
        let history = boundaries(&self.here.stop);
        // The present interval counts only where its end is the present.
        let past = if at_end { &history[..] } else { &history[..history.len().saturating_sub(1)] };
        let Some(begin) = past.iter().rposition(|boundary| boundary.thread == u64::from(thread)) else {
            self.seek(self.beginning(), give_up)?;
            return Ok(Reason::Begin);
        };
        let next = history.get(begin + 1).map_or(NONE, |next| next.event);
        self.go_to_last_of(history[begin].event, next, &patience)?;
        let here = position_of(&self.here.stop);
        if at_end && self.is_still_present() && here.steps > 0 {
            self.seek(Position { steps: here.steps - 1, ..here }, give_up)?;
        }
        Ok(Reason::Stepped)
    }

    /// To the last instruction between two boundaries.
    fn go_to_last_of(&mut self, event: u64, next: u64, patience: AskPatience) -> Result<(), TimelineError> {
        let process = self.last_of(event, next, patience)?;
        self.put_here(process);
        self.legs.clear();
        Ok(())
    }

    /// A process at the last instruction between two boundaries.
    pub(crate) fn last_of(
        &mut self,
        event: u64,
        next: u64,
        patience: AskPatience,
    ) -> Result<Process, TimelineError> {
        let mut process = self.process_for(Position { event, steps: 0 }, next, patience)?;
        let mut last = 0;
        let mut ended = false;
        loop {
            let limits = Limits { steps_max: part_behind(last), until_event: next, ..Limits::ALL_HITS };
            process.step(&Stops::default(), limits, patience)?;
            match process.stop.kind {
                agent_stop::STEPPED if process.stop.event == event => {
                    last = process.stop.steps;
                    self.keep(&process)?;
                }
                agent_stop::INTERRUPTED => return Err(TimelineError::Interrupted),
                // The end is not a boundary: what leads to it is not counted.
                agent_stop::END => {
                    last += process.stop.command_steps;
                    ended = true;
                    break;
                }
                _ => {
                    // An edit is none.
                    last += process.stop.command_steps.saturating_sub(1);
                    break;
                }
            }
        }
        drop(process);
        match self.process_at(Position { event, steps: last }, patience) {
            // The log ended at a pause, and that is the end itself.
            Err(TimelineError::NoSuchPosition(_)) if ended && last > 0 => {
                self.process_at(Position { event, steps: last - 1 }, patience)
            }
            there => there,
        }
    }

    /// Goes back to the last hit before the present position, or to the beginning.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn back_to_hit(
        &mut self,
        stops: &Stops,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Reason, TimelineError> {
        self.look_back_for(give_up, |own| {
            own.with_others_if_needed(|own| own.back_to_hit_in_past(stops, give_up))
        })
    }

    fn back_to_hit_in_past(
        &mut self,
        stops: &Stops,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Reason, TimelineError> {
        let end = self.position(give_up)?;
        let patience = || wait_unless(give_up());
        let mut at_end = self.is_at_end();
        let mut bound = end;
        let end_event = end.event;
        let mut windows = self.checkpoints();
        windows.extend(self.keyframes());
        windows.sort_unstable();
        windows.dedup();
        while let Some(begin) = windows.pop() {
            if begin >= bound && !(at_end && begin == bound) {
                continue;
            }
            // Where no stop is wanted there may be a way back into another image.
            if (!stops.is_empty() || self.here.stop.images > 1)
                && let Some(found) =
                    self.last_of_many(begin, (!at_end).then_some(bound), end_event, stops, &patience)?
            {
                return self.go_to(found, stops, give_up);
            }
            bound = begin;
            at_end = false;
        }
        self.seek(self.beginning(), give_up)?;
        Ok(Reason::Begin)
    }

    /// The last hit from `begin` on, before `bound`; `None`: to the end of history. `hits_max` of
    /// them are too many.
    pub(crate) fn last_hit(
        &mut self,
        begin: Position,
        bound: Option<Position>,
        stops: &Stops,
        hits_max: u64,
        patience: AskPatience,
    ) -> Result<Hits, TimelineError> {
        let until_event = bound.map_or(NONE, |bound| bound.event);
        let mut process = self.process_for(begin, until_event, patience)?;
        let mut found = process.stands_at(stops).then_some(Found::At(begin));
        // Where it was let go: what stands there is passed, and is not counted.
        let mut from = begin;
        while process.stop.event < until_event && process.stop.kind != agent_stop::END {
            let limits = Limits { until_event, hits_max, ..Limits::ALL_HITS };
            self.run_keeping(&mut process, stops, limits, patience)?;
            if process.stop.hits >= hits_max {
                return Ok(Hits::Crowd { event: process.stop.event });
            }
            found = if process.stop.kind == agent_stop::IMAGE {
                // What was before is of another image: there its own breakpoints are wanted.
                Some(Found::Image { event: process.stop.event })
            } else {
                of_hit(&process.stop.last_hit, from).or(found)
            };
            if process.stop.kind == agent_stop::INTERRUPTED {
                from = position_of(&process.stop);
                if process.stands_at(stops) {
                    found = Some(Found::At(from));
                }
            }
        }
        let Some(bound) = bound else { return Ok(Hits::Last(found)) };
        if bound.steps > process.stop.steps {
            if process.stands_at(stops) {
                found = Some(Found::At(position_of(&process.stop)));
            }
            let steps_max = bound.steps - process.stop.steps;
            process.step(stops, Limits { steps_max, hits_max, ..Limits::ALL_HITS }, patience)?;
            if process.stop.kind == agent_stop::INTERRUPTED {
                return Err(TimelineError::Interrupted);
            }
            if process.stop.hits >= hits_max {
                return Ok(Hits::Crowd { event: process.stop.event });
            }
            found = of_hit(&process.stop.last_hit, from).or(found);
        }
        Ok(Hits::Last(found))
    }

    /// To the last instruction before the boundary of an event.
    fn go_before_event(&mut self, event: u64, give_up: &dyn Fn() -> bool) -> Result<(), TimelineError> {
        let patience = || wait_unless(give_up());
        let process = self.process_at(Position { event, steps: 0 }, &patience)?;
        if let [.., before, now] = boundaries(&process.stop)[..] {
            return self.go_to_last_of(before.event, now.event, &patience);
        }
        self.put_here(process);
        Ok(())
    }

    fn go_to(
        &mut self,
        found: Found,
        stops: &Stops,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Reason, TimelineError> {
        let patience = || wait_unless(give_up());
        match found {
            Found::At(position) => {
                self.seek(position, give_up)?;
                let stop = &self.here.stop;
                let is_breakpoint = stops.breakpoints.contains(&stop.threads[0].registers[RIP]);
                Ok(match stop.signal {
                    _ if is_breakpoint => Reason::Breakpoint,
                    _ if stops.catches(stop.call) => Reason::Call(stop.call.saturating_sub(1)),
                    signal => Reason::Handler(signal),
                })
            }
            Found::After { position, watch } => {
                self.seek(Position { steps: position.steps - 1, ..position }, give_up)?;
                Ok(Reason::Watch(watch as usize))
            }
            Found::ByEvent { event, watch } => {
                self.go_before_event(event, give_up)?;
                self.changed_by = Some(event);
                Ok(Reason::Watch(watch as usize))
            }
            Found::Image { event } => {
                self.go_before_event(event, give_up)?;
                Ok(Reason::Image)
            }
            Found::Counted { from, counts_first, ordinal, watch } => {
                let mut process = self.process_at(from, &patience)?;
                let counted = counts_first && process.stands_at(stops);
                let rest = ordinal - u64::from(counted);
                self.step_to_hit(&mut process, stops, rest, part_behind, &patience)?;
                let position = position_of(&process.stop);
                drop(process);
                let at = match (watch, position) {
                    (NONE, _) => Found::At(position),
                    (_, Position { event, steps: 0 }) => Found::ByEvent { event, watch },
                    _ => Found::After { position, watch },
                };
                self.go_to(at, stops, give_up)
            }
        }
    }
}

/// A hit as a place to go to.
fn of_hit(hit: &Hit, begin: Position) -> Option<Found> {
    let Hit { event, ordinal, steps, watch } = *hit;
    match (event, steps, watch) {
        (NONE, _, _) => None,
        (_, 0, watch) if watch != NONE => Some(Found::ByEvent { event, watch }),
        // What stood at the beginning was passed, and is not counted.
        (_, NONE, _) if event == begin.event => {
            Some(Found::Counted { from: begin, counts_first: false, ordinal, watch })
        }
        (_, NONE, _) => {
            let from = Position { event, steps: 0 };
            Some(Found::Counted { from, counts_first: true, ordinal, watch })
        }
        (_, _, NONE) => Some(Found::At(Position { event, steps })),
        (_, _, _) => Some(Found::After { position: Position { event, steps }, watch }),
    }
}
