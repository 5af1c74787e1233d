//! Going back to the last of very many hits: of a variable that a loop counts in, or of a line
//! in it.
//!
//! Each hit takes its time, but only the last one is wanted. So a part of the timeline in which
//! there are too many is not looked at to its end: the program goes through it without stops,
//! which is as fast as counting is, copies are kept on the way, and what lies between the last of
//! these and the end is looked at first.
//!
//! Deliberately absent: hits that are passed over where they count, as those of a breakpoint that
//! is ignored a number of times.

use lane_protocol::{NONE, agent_stop};

use crate::backward::Found;
use crate::error::TimelineError;
use crate::limits::{AskPatience, Limits};
use crate::position::{Position, Stops, position_of};
use crate::timeline::Timeline;
use crate::way::part_behind;

/// Hits in a part of the timeline that are too many: some milliseconds of them.
pub(crate) const CROWD: u64 = 2_000;

/// A part with fewer instructions than this has no crowd.
const PART_STEPS_MIN: u64 = 80_000;

/// What a part of the timeline has.
pub(crate) enum Hits {
    /// The last hit, if there is one.
    Last(Option<Found>),
    /// Too many: so many are after this event.
    Crowd { event: u64 },
}

impl Timeline {
    /// The last hit from `begin` on, before `bound`; `None`: to the end of history, which is
    /// behind the event `end`.
    pub(crate) fn last_of_many(
        &mut self,
        begin: Position,
        bound: Option<Position>,
        end: u64,
        stops: &Stops,
        patience: AskPatience,
    ) -> Result<Option<Found>, TimelineError> {
        let event = match self.last_hit(begin, bound, stops, CROWD, patience)? {
            Hits::Last(found) => return Ok(found),
            Hits::Crowd { event } => event,
        };
        let mut bound = bound;
        // What is behind the crowd, the last half first: there may be others.
        while let Some(behind) = self.boundary_from(event + 1, bound, end, patience)? {
            let last = bound.map_or(end, |bound| bound.event);
            let middle = self.boundary_from(behind.event.midpoint(last), bound, end, patience)?;
            let half = middle.map_or(behind, |middle| middle.max(behind));
            if let Some(found) = self.last_of_many(half, bound, end, stops, patience)? {
                return Ok(Some(found));
            }
            bound = Some(half);
        }
        let interval = begin.max(Position { event, steps: 0 });
        if let Some(found) = self.last_in_interval(interval, bound, None, stops, patience)? {
            return Ok(Some(found));
        }
        self.all_hits(begin, Some(interval), stops, patience)
    }

    /// The same without a limit.
    fn all_hits(
        &mut self,
        begin: Position,
        bound: Option<Position>,
        stops: &Stops,
        patience: AskPatience,
    ) -> Result<Option<Found>, TimelineError> {
        if bound.is_some_and(|bound| bound <= begin) {
            return Ok(None);
        }
        match self.last_hit(begin, bound, stops, NONE, patience)? {
            Hits::Last(found) => Ok(found),
            Hits::Crowd { .. } => Ok(None),
        }
    }

    /// The first boundary with so many events consumed, or more, if it is before `bound`.
    fn boundary_from(
        &mut self,
        event: u64,
        bound: Option<Position>,
        end: u64,
        patience: AskPatience,
    ) -> Result<Option<Position>, TimelineError> {
        let first = Position { event, steps: 0 };
        if event > end || bound.is_some_and(|bound| bound <= first) {
            return Ok(None);
        }
        let until_event = bound.map_or(NONE, |bound| bound.event);
        let there = match self.process_for(first, until_event, patience) {
            Ok(process) => position_of(&process.stop),
            // History ends before it.
            Err(TimelineError::NoSuchPosition(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(bound.is_none_or(|bound| there < bound).then_some(there))
    }

    /// The last hit between two boundaries, where there is a crowd: copies are kept after each
    /// `part` of so many instructions; `None`: it is not known how many there are.
    fn last_in_interval(
        &mut self,
        begin: Position,
        bound: Option<Position>,
        part: Option<u64>,
        stops: &Stops,
        patience: AskPatience,
    ) -> Result<Option<Found>, TimelineError> {
        let until_event = bound.map_or(NONE, |bound| bound.event);
        let mut process = self.process_for(begin, until_event, patience)?;
        let mut steps = begin.steps;
        loop {
            let steps_max = part.unwrap_or_else(|| part_behind(steps));
            let limits = Limits { steps_max, until_event: begin.event + 1, ..Limits::ALL_HITS };
            process.step(&Stops::default(), limits, patience)?;
            let there = position_of(&process.stop);
            steps += process.stop.command_steps;
            match process.stop.kind {
                agent_stop::INTERRUPTED => return Err(TimelineError::Interrupted),
                agent_stop::STEPPED if there.event == begin.event => {}
                _ => break,
            }
            if bound.is_some_and(|bound| bound <= there) {
                break;
            }
            self.keep(&process)?;
        }
        drop(process);
        let mut starts = self.checkpoints();
        starts.retain(|&start| start > begin && bound.is_none_or(|bound| start < bound));
        let mut bound = bound;
        while let Some(start) = starts.pop() {
            let part = Some(steps.saturating_sub(start.steps) / 32);
            let most = if part > Some(PART_STEPS_MIN / 32) { CROWD } else { NONE };
            let found = match self.last_hit(start, bound, stops, most, patience)? {
                Hits::Last(found) => found,
                Hits::Crowd { .. } => self.last_in_interval(start, bound, part, stops, patience)?,
            };
            if found.is_some() {
                return Ok(found);
            }
            bound = Some(start);
            steps = start.steps;
        }
        self.all_hits(begin, bound, stops, patience)
    }
}
