//! Places to which the functions return in which a recording switched.
//!
//! A thread that was stopped deep in a loop, or in a library, is stopped as well where that function
//! returns to its caller: a place that is executed once a call, where the loop's comes by thousands of times.
//! A thread that was stopped where it entered a function of a library is stopped as well at the call: behind it,
//! the function may have taken a lock.

use std::time::{Duration, Instant};

use lane_protocol::ForcedPlace;
use trace_store::TraceReader;

use super::pasts::Pasts;
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
    let (mut pasts, begun) = (Pasts::new(trace, settings), Instant::now());
    let mut all: Vec<Candidate> = Vec::new();
    let mut left = STACKS;
    for &place in recorded.candidates.iter().rev() {
        add(&mut all, place);
        let of_it = recorded.all.iter().rev().find(|made| made.place == place);
        let Some(made) = of_it.filter(|_| left != 0 && begun.elapsed() < SEARCH_MAX) else {
            continue;
        };
        left -= 1;
        // Where its stack is not to be had, there is the place itself.
        let past = pasts.of(place.lane)?;
        let Ok(frames) = place.stack(past, made.stopped) else { continue };
        let returns = frames.iter().skip(1).map(|frame| frame.address);
        let in_library = place.place == ForcedPlace::Instruction && !recorded.is_own(place.address);
        for (depth, address) in returns.filter(|&address| recorded.is_own(address)).take(DEPTH).enumerate() {
            let at = |address| Candidate { place: ForcedPlace::Instruction, address, call: 0, ..place };
            if let Some(call) = call_before(past, address).filter(|_| in_library && depth == 0) {
                add(&mut all, at(call));
            }
            add(&mut all, at(address));
        }
    }
    Ok(all)
}

/// The call that returns to this address: `call rel32`, or `call [rip + displacement]` (Intel SDM, CALL).
fn call_before(past: &Past, address: u64) -> Option<u64> {
    let mut before = [0; 6];
    let start = address.checked_sub(before.len() as u64)?;
    if past.timeline.read(start, &mut before) != before.len() {
        return None;
    }
    match before {
        [0xff, 0x15, ..] => Some(start),
        [_, 0xe8, ..] => Some(start + 1),
        _ => None,
    }
}

fn add(all: &mut Vec<Candidate>, place: Candidate) {
    if !all.contains(&place) {
        all.push(place);
    }
}
