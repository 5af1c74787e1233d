//! The way to a position: from the checkpoint before it, and what is kept on the way for the
//! next time.

use std::time::{Duration, Instant};

use lane_protocol::agent_stop;

use crate::error::TimelineError;
use crate::limits::{AskPatience, Limits, Patience};
use crate::position::{Position, Stops, position_of};
use crate::process::Process;
use crate::timeline::Timeline;

/// How many instructions are counted before a checkpoint is kept, at least: about as long as
/// a copy takes.
pub(crate) const CHECKPOINT_STEPS: u64 = 2_000_000;

/// Where it is not known how far the way is: how many instructions are counted before the next
/// checkpoint is kept, behind so many.
pub(crate) fn part_behind(steps: u64) -> u64 {
    (steps / 16).max(CHECKPOINT_STEPS)
}

/// The same where only the end of the way is of interest, and others are to be kept too.
pub(crate) fn rare_part_behind(steps: u64) -> u64 {
    (steps / 4).max(8 * CHECKPOINT_STEPS)
}

impl Timeline {
    /// A process at the position.
    pub(crate) fn process_at(
        &mut self,
        target: Position,
        patience: AskPatience,
    ) -> Result<Process, TimelineError> {
        self.process_for(target, target.event, patience)
    }

    /// The same for one that can go on up to an event.
    pub(crate) fn process_for(
        &mut self,
        target: Position,
        until_event: u64,
        patience: AskPatience,
    ) -> Result<Process, TimelineError> {
        let (from, mut process) = self.start_before(target, until_event, patience)?;
        if from.event < target.event {
            let began = Instant::now();
            self.run_to_event(&mut process, target.event, patience)?;
            if began.elapsed() > Duration::from_millis(3) {
                self.keep(&process)?;
            }
        }
        while process.stop.steps < target.steps {
            let before = process.stop.steps;
            let part = next_part(target.steps - before);
            let limits = Limits { steps_max: part, until_event: target.event + 1, ..Limits::ALL_HITS };
            process.step(&Stops::default(), limits, patience)?;
            if process.stop.kind == agent_stop::INTERRUPTED {
                return Err(TimelineError::Interrupted);
            }
            let left = target.steps.saturating_sub(before + part);
            let is_behind = process.stop.event == target.event + 1 && process.stop.steps == 0;
            if is_behind && process.stop.call == 0 && process.stop.command_steps == part && left == 0 {
                // The event is no instruction's: it came exactly there, as a pause does.
                return Ok(process);
            }
            if process.stop.kind == agent_stop::END || process.stop.event != target.event {
                return Err(process.missed(target));
            }
            if process.stop.steps < target.steps {
                self.keep(&process)?;
            }
        }
        Ok(process)
    }

    /// Runs to the first boundary with so many events consumed.
    fn run_to_event(
        &mut self,
        process: &mut Process,
        event: u64,
        patience: AskPatience,
    ) -> Result<(), TimelineError> {
        let limits = Limits { until_event: event, ..Limits::ALL_HITS };
        while process.stop.event < event {
            self.run_keeping(process, &Stops::default(), limits, patience)?;
            match process.stop.kind {
                agent_stop::REACHED | agent_stop::IMAGE | agent_stop::INTERRUPTED => {}
                _ => return Err(process.missed(Position { event, steps: 0 })),
            }
        }
        Ok(())
    }

    /// Lets a process run that is on its way somewhere. Now and then it is interrupted, and a
    /// copy of it kept.
    pub(crate) fn run_keeping(
        &mut self,
        process: &mut Process,
        stops: &Stops,
        limits: Limits,
        patience: AskPatience,
    ) -> Result<(), TimelineError> {
        let since = Instant::now();
        let every = self.checkpoint_every;
        let is_long = || every.is_some_and(|every| since.elapsed() > every);
        let for_now = || match patience() {
            Patience::Wait if is_long() => Patience::NextEvent,
            patience => patience,
        };
        process.run(stops, limits, &for_now)?;
        if process.stop.kind != agent_stop::INTERRUPTED {
            return Ok(());
        }
        if patience() == Patience::Enough {
            return Err(TimelineError::Interrupted);
        }
        if process.stop.steps_known != 0 { self.keep(process) } else { Ok(()) }
    }

    /// Counts instructions up to the hit of this number from here on; what stands here is none.
    /// Copies are kept on the way.
    pub(crate) fn step_to_hit(
        &mut self,
        process: &mut Process,
        stops: &Stops,
        hits: u64,
        part_behind: fn(u64) -> u64,
        patience: AskPatience,
    ) -> Result<(), TimelineError> {
        let Stops { breakpoints, programs, .. } = stops.clone();
        let in_code = Stops { breakpoints, programs, ..Stops::default() };
        let mut left = hits;
        while left > 0 {
            let steps_max = part_behind(process.stop.steps);
            process.step(stops, Limits { hits_max: left, steps_max, ..Limits::FIRST_HIT }, patience)?;
            match process.stop.kind {
                agent_stop::INTERRUPTED => return Err(TimelineError::Interrupted),
                agent_stop::STEPPED => {}
                _ => break,
            }
            self.keep(process)?;
            // What stands there is passed by the next command, and not counted.
            left -= process.stop.hits + u64::from(process.stands_at(&in_code));
        }
        Ok(())
    }

    /// Keeps a copy of a process whose position is known.
    pub(crate) fn keep(&mut self, process: &Process) -> Result<(), TimelineError> {
        let position = position_of(&process.stop);
        if !self.checkpoints.has(position)
            && process.is_of(self.session.as_ref())
            && let Some(copy) = process.copy_if_possible()?
        {
            self.checkpoints.keep(position, copy);
        }
        Ok(())
    }
}

/// How many of so many instructions are counted before a checkpoint is kept: the
/// nearer the target, the denser they are, for the next steps back from there.
fn next_part(left: u64) -> u64 {
    const DISTANCES: [u64; 6] = [32, 128, 512, 2048, 16_384, 262_144];
    let most = (left / 8).max(CHECKPOINT_STEPS);
    let beyond = DISTANCES.into_iter().rev().find(|distance| left > *distance);
    beyond.map_or(left, |distance| (left - distance).min(most))
}
