//! What the agent in a process is told.

use std::collections::HashMap;

use lane_protocol::bytecode::{NO_PROGRAMS, PROGRAM_BYTES_MAX};
use lane_protocol::{AgentCommand, BREAKPOINTS_MAX, WATCHES_MAX, Watch, agent_verb};

use crate::error::TimelineError;
use crate::limits::Limits;
use crate::position::Stops;

/// A command, and the programs of its breakpoints.
pub fn command_of(
    verb: u32,
    stops: &Stops,
    limits: Limits,
) -> Result<(AgentCommand, Vec<u8>), TimelineError> {
    let mut command = AgentCommand {
        verb,
        segment: 0,
        pid: 0,
        registers: [0; 18],
        calls: stops.calls,
        signals: stops.signals,
        order: 0,
        argument: 0,
        until_event: limits.until_event,
        until_thread: limits.until_thread,
        steps_max: limits.steps_max,
        hits_max: limits.hits_max,
        breakpoint_count: stops.breakpoints.len() as u32,
        watch_count: stops.watches.len() as u32,
        stops_at_code: u32::from(limits.stops_at_code),
        breakpoints: [0; BREAKPOINTS_MAX],
        programs: [NO_PROGRAMS; BREAKPOINTS_MAX],
        watches: [Watch::default(); WATCHES_MAX],
    };
    let room = command.breakpoints.get_mut(..stops.breakpoints.len());
    room.ok_or(TimelineError::TooMany(BREAKPOINTS_MAX))?.copy_from_slice(&stops.breakpoints);
    let room = command.watches.get_mut(..stops.watches.len());
    room.ok_or(TimelineError::TooMany(WATCHES_MAX))?.copy_from_slice(&stops.watches);
    let (mut programs, mut places) = (Vec::new(), HashMap::new());
    for (address, start) in stops.breakpoints.iter().zip(&mut command.programs) {
        if let Some(block) = stops.programs.get(address) {
            // Where calls return to, all have the same. It fits: all are fewer bytes than that.
            *start = *places.entry(block).or_insert_with(|| {
                let place = programs.len() as u16;
                programs.extend_from_slice(block);
                place
            });
        }
        if programs.len() > PROGRAM_BYTES_MAX {
            return Err(TimelineError::TooLong(PROGRAM_BYTES_MAX));
        }
    }
    Ok((command, programs))
}

/// How many times slower than at full speed a command may make a process that computes, beside what its stops take.
pub(crate) fn slowed_by(verb: u32) -> u32 {
    // Instructions are counted as they are translated.
    const COUNTED: u32 = 10;
    if verb == agent_verb::STEP { COUNTED } else { 1 }
}
