//! Going back over what a client has seen: a loop in which it steps backwards and never stops.
//!
//! A client that goes back by a line steps back instruction by instruction. At each it decides by
//! the place and the frame whether to go on. Once all that it comes to has been seen before it
//! will go on through the rest of the loop, too: so it is led at once to where that began, and
//! steps on from there.
//!
//! The rest of the loop is found by its edges, where nothing is while it goes round: what its code
//! leads to and has not been seen, and what leads into it. Calls on the way run through.
//!
//! Deliberately absent: any step over an event, a breakpoint or a change of what is watched; these
//! the client comes to itself. And what the stack pointer does by itself: the same place with
//! another one is another state.

use std::collections::{BTreeSet, HashSet};

use lane_protocol::{AgentStop, BREAKPOINTS_MAX, agent_stop};

use crate::backward::Found;
use crate::error::TimelineError;
use crate::limits::{AskPatience, Limits, wait_unless};
use crate::position::{Position, Stops, position_of};
use crate::process::Process;
use crate::timeline::Timeline;
use crate::ways::{Kind, ways};

pub(crate) const RSP: usize = 7;
pub(crate) const RIP: usize = 16;

/// Longest function whose edges are looked for.
pub(crate) const FUNCTION_BYTES_MAX: u64 = 0x4_0000;

/// What a client has seen while it stepped back.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Addresses of instructions, each with the stack pointer there.
    states: HashSet<(u64, u64)>,
    /// Where the functions are, from start to end, in whose lines it steps.
    functions: Vec<(u64, u64)>,
}

impl Seen {
    pub fn of(functions: Vec<(u64, u64)>) -> Seen {
        Seen { states: HashSet::new(), functions }
    }

    /// Where the program stands is seen; true if it was before.
    pub fn note(&mut self, stop: &AgentStop) -> bool {
        !self.states.insert(state_of(stop))
    }

    /// The functions.
    #[must_use]
    pub fn functions(&self) -> &[(u64, u64)] {
        &self.functions
    }

    pub fn count(&self) -> usize {
        self.states.len()
    }

    fn has(&self, process: &Process) -> bool {
        self.states.contains(&state_of(&process.stop))
    }

    fn places(&self) -> BTreeSet<u64> {
        self.states.iter().map(|&(place, _)| place).collect()
    }
}

fn state_of(stop: &AgentStop) -> (u64, u64) {
    let registers = &stop.threads[0].registers;
    (registers[RIP], registers[RSP])
}

impl Timeline {
    /// Goes back to where the part of the present interval begins in which a thread does only
    /// what was seen. The number of instructions; 0: there is no such part, and nothing changes.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn back_over(
        &mut self,
        thread: u32,
        seen: &Seen,
        stops: &Stops,
        give_up: &dyn Fn() -> bool,
    ) -> Result<u64, TimelineError> {
        if self.is_live() || self.is_at_end() || thread != self.here.stop.thread {
            return Ok(0);
        }
        let now = self.position(give_up)?;
        let Some(edges) = self.edges(seen) else { return Ok(0) };
        let patience = || wait_unless(give_up());
        let place = self.with_others_if_needed(|own| {
            let from = own.last_edge(now, &stops.with(&edges), &patience)?;
            own.first_seen(from, now, seen, &patience)
        })?;
        let Some(process) = place else { return Ok(0) };
        let steps = now.steps - process.stop.steps;
        self.put_here(process);
        self.legs.clear();
        Ok(steps)
    }

    /// Where what was seen can be left, and come to. `None`: nobody knows.
    fn edges(&self, seen: &Seen) -> Option<BTreeSet<u64>> {
        let places = seen.places();
        let (mut edges, mut are_known) = (BTreeSet::new(), false);
        for &(start, end) in &seen.functions {
            if places.range(start..end.max(start)).next().is_none() {
                continue;
            }
            let bytes = end.checked_sub(start).filter(|&bytes| bytes <= FUNCTION_BYTES_MAX)?;
            let mut code = vec![0; bytes as usize];
            if self.read(start, &mut code) < code.len() {
                return None;
            }
            for one in ways(&code, start)? {
                if places.contains(&one.at) {
                    edges.extend(one.inside().filter(|to| !places.contains(to)));
                } else if one.kind == Kind::OpenJump
                    || one.next.into_iter().chain(one.target).any(|to| places.contains(&to))
                {
                    edges.insert(one.at);
                }
            }
            are_known = true;
        }
        (are_known && places.len() <= BREAKPOINTS_MAX).then_some(edges)
    }

    /// The last edge, or stop, in the interval of `now` and before it; else where that begins.
    fn last_edge(
        &mut self,
        now: Position,
        stops: &Stops,
        patience: AskPatience,
    ) -> Result<Option<Position>, TimelineError> {
        let begin = Position { steps: 0, ..now };
        let mut starts = self.checkpoints();
        starts.retain(|&start| start > begin && start < now);
        starts.insert(0, begin);
        let mut bound = now;
        while let Some(start) = starts.pop() {
            match self.last_of_many(start, Some(bound), now.event, stops, patience)? {
                Some(Found::At(position)) => return Ok(Some(position)),
                Some(Found::After { position, .. }) => {
                    return Ok(Some(Position { steps: position.steps - 1, ..position }));
                }
                Some(_) => return Ok(Some(now)),
                None => bound = start,
            }
        }
        Ok(None)
    }

    /// A process at the first state behind `from` that was seen; if that is `None`, from the
    /// beginning of the interval on.
    fn first_seen(
        &mut self,
        from: Option<Position>,
        now: Position,
        seen: &Seen,
        patience: AskPatience,
    ) -> Result<Option<Process>, TimelineError> {
        /// States with another stack pointer, as of deeper calls, that are passed.
        const PASSED_MAX: usize = 2000;
        let begin = Position { steps: 0, ..now };
        let mut process = self.process_at(from.unwrap_or(begin), patience)?;
        if from.is_none() && seen.has(&process) {
            return Ok((position_of(&process.stop) < now).then_some(process));
        }
        let stops = Stops { breakpoints: seen.places().into_iter().collect(), ..Stops::default() };
        for _ in 0..PASSED_MAX {
            let steps_max = now.steps.saturating_sub(process.stop.steps);
            if steps_max == 0 {
                break;
            }
            let limits = Limits { steps_max, until_event: now.event + 1, ..Limits::FIRST_HIT };
            process.step(&stops, limits, patience)?;
            match process.stop.kind {
                agent_stop::INTERRUPTED => return Err(TimelineError::Interrupted),
                agent_stop::BREAKPOINT if position_of(&process.stop) >= now => break,
                agent_stop::BREAKPOINT if seen.has(&process) => return Ok(Some(process)),
                agent_stop::BREAKPOINT => {}
                _ => break,
            }
        }
        Ok(None)
    }
}
