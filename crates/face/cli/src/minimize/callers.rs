//! Places to which the functions return in which a recording switched.
//!
//! A thread that was stopped deep in a loop, or in a library, is stopped as well where that function
//! returns to its caller: a place that is executed once a call, where the loop's comes by thousands of times.

use std::time::{Duration, Instant};

use lane_protocol::ForcedPlace;
use trace_store::TraceReader;

use super::switches::{Candidate, Switches};
use crate::exit::CommandError;
use crate::settings::Settings;
use crate::stack_at::Past;

/// Of the recording's last switches, in how many stacks it is looked, for how long, and how deep.
const STACKS: usize = 32;
const SEARCH_MAX: Duration = Duration::from_secs(10);
const DEPTH: usize = 6;

/// The recorded places, the last first, each with its callers in the program's own file behind it.
pub fn with_callers(
    trace: &TraceReader,
    recorded: &Switches,
    settings: &Settings,
) -> Result<Vec<Candidate>, CommandError> {
    let pid = trace.lanes().first().map_or(0, |info| info.pid);
    let (mut past, begun) = (Past::open(trace, pid, settings)?, Instant::now());
    let mut all: Vec<Candidate> = Vec::new();
    let mut left = STACKS;
    for &place in recorded.candidates.iter().rev() {
        add(&mut all, place);
        let of_it = recorded.all.iter().rev().find(|(switched, ..)| *switched == place);
        let Some(&(_, stopped, _)) = of_it.filter(|_| left != 0 && begun.elapsed() < SEARCH_MAX) else {
            continue;
        };
        left -= 1;
        // Where its stack is not to be had, there is the place itself.
        let Ok(frames) = place.stack(&mut past, stopped) else { continue };
        let returns = frames.iter().skip(1).map(|frame| frame.address);
        for address in returns.filter(|&address| recorded.is_own(address)).take(DEPTH) {
            add(&mut all, Candidate { place: ForcedPlace::Instruction, address, call: 0, ..place });
        }
    }
    Ok(all)
}

fn add(all: &mut Vec<Candidate>, place: Candidate) {
    if !all.contains(&place) {
        all.push(place);
    }
}
