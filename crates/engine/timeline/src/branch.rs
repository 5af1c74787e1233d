//! A branch: a copy of the present process that goes on by itself, to be thrown away.
//!
//! The position does not move meanwhile: what is shown is the branch, and then again
//! the recording. Deliberately absent: going back inside of a branch.

use lane_protocol::{AgentStop, agent_stop, agent_verb};

use crate::error::TimelineError;
use crate::limits::{AskPatience, Limits, wait_unless};
use crate::position::Stops;
use crate::process::Process;
use crate::reason::{Going, Reason, reason_of};
use crate::timeline::Timeline;

/// What a branch says while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard<'a> {
    /// Bytes for the standard output or error.
    Output(&'a [u8]),
    /// It was refused the system call of this number.
    Refused(u16),
}

/// The flags that can be set: carry, parity, adjust, zero, sign, direction, overflow.
const STATUS_FLAGS: u64 = 0xcd5;
/// Most bytes of one output that are shown.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

impl Timeline {
    /// What is shown.
    pub(crate) fn shown(&self) -> &Process {
        self.branch.as_ref().filter(|_| self.shows_branch).unwrap_or(&self.here)
    }

    /// Branches off at the present position. A branch that there was is thrown away.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn branch_off(&mut self) -> Result<(), TimelineError> {
        self.leave_branch();
        let was_live = self.is_live();
        self.look_back(&|| false)?;
        if let Some(live) = &mut self.live {
            live.branched_at_present = was_live;
        }
        self.branch = Some(self.here.branch()?);
        self.shows_branch = true;
        Ok(())
    }

    /// Shows the branch, if there is one, or the recording.
    pub fn show_branch(&mut self, shows: bool) {
        self.shows_branch = shows && self.branch.is_some();
    }

    /// True if a branch is what is shown.
    pub fn shows_branch(&self) -> bool {
        self.shows_branch
    }

    pub fn has_branch(&self) -> bool {
        self.branch.is_some()
    }

    /// Throws the branch away.
    pub fn leave_branch(&mut self) {
        self.branch = None;
        self.shows_branch = false;
        if self.live.as_mut().is_some_and(|live| std::mem::take(&mut live.branched_at_present)) {
            self.go_to_present();
        }
    }

    /// True if the branch's running thread has the registers that it began with.
    pub fn branch_stands_at_beginning(&self) -> bool {
        self.branch.as_ref().is_some_and(|branch| {
            let now = branch.stop.threads[0].registers;
            // Of the flags those that a program sees: others are the kernel's (RF).
            let is_like = |stop: &AgentStop| {
                let then = stop.threads[0].registers;
                then[..17] == now[..17] && (then[17] ^ now[17]) & STATUS_FLAGS == 0
            };
            // Before a call the present stands at it, and the end of its past behind it.
            let live = self.live.as_ref().filter(|live| live.branched_at_present);
            is_like(&self.here.stop) || live.and(self.present()).is_some_and(is_like)
        })
    }

    /// Reads the branch's memory, shown or not.
    pub fn read_branch(&self, address: u64, bytes: &mut [u8]) -> usize {
        self.branch.as_ref().map_or(0, |branch| branch.read(address, bytes))
    }

    /// Writes the branch's memory; how many bytes were written.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn write_branch(&mut self, address: u64, bytes: &[u8]) -> Result<usize, TimelineError> {
        self.branch.as_mut().map_or(Ok(0), |branch| branch.write(address, bytes))
    }

    /// Sets the general registers of the branch's running thread, in the order of
    /// [`AgentThread`](crate::AgentThread).
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn set_branch_registers(&mut self, registers: &[u64; 18]) -> Result<(), TimelineError> {
        self.branch.as_mut().map_or(Ok(()), |branch| branch.set_registers(registers))
    }

    /// Lets the branch go on. One that has ended is thrown away.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn forward_branch(
        &mut self,
        going: Going,
        stops: &Stops,
        give_up: &dyn Fn() -> bool,
        hear: &dyn Fn(Heard),
    ) -> Result<Reason, TimelineError> {
        let Some(branch) = &mut self.branch else { return Ok(Reason::Left(None)) };
        let reason = match forward(branch, going, stops, &|| wait_unless(give_up()), hear) {
            Ok(reason) => reason,
            // It may do to itself whatever it wants.
            Err(TimelineError::Died(_)) => Reason::Left(None),
            Err(error) => return Err(error),
        };
        if matches!(reason, Reason::Left(_)) {
            self.leave_branch();
        }
        Ok(reason)
    }
}

fn forward(
    branch: &mut Process,
    going: Going,
    stops: &Stops,
    patience: AskPatience,
    hear: &dyn Fn(Heard),
) -> Result<Reason, TimelineError> {
    let (verb, limits, stops) = match going {
        Going::On => (agent_verb::RUN, Limits::FIRST_HIT, stops.clone()),
        Going::Step(_) => {
            let no_breakpoints = Stops { watches: stops.watches.clone(), ..Stops::default() };
            (agent_verb::STEP, Limits { steps_max: 1, ..Limits::FIRST_HIT }, no_breakpoints)
        }
    };
    branch.command(verb, &stops, limits, patience)?;
    loop {
        match branch.stop.kind {
            agent_stop::OUTPUT => {
                let mut bytes = vec![0; branch.stop.output_bytes.min(OUTPUT_BYTES_MAX) as usize];
                let count = branch.read(branch.stop.output, &mut bytes);
                hear(Heard::Output(&bytes[..count]));
            }
            agent_stop::REFUSED => hear(Heard::Refused(branch.stop.code as u16)),
            _ => return Ok(reason_of(&branch.stop)),
        }
        branch.go_on(verb, patience)?;
    }
}
