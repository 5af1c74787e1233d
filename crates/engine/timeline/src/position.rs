//! Where on the timeline, and where to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use lane_protocol::{AgentStop, BOUNDARIES_MAX, Boundary, CALL_WORDS, Watch, agent_stop};

/// A position: events consumed, and instructions executed since then. Written
/// `events+steps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub event: u64,
    pub steps: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.event, self.steps)
    }
}

impl FromStr for Position {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Position, Self::Err> {
        let (event, steps) = text.trim().split_once('+').unwrap_or((text.trim(), "0"));
        Ok(Position { event: event.parse()?, steps: steps.parse()? })
    }
}

/// Where a movement ends, besides where it has to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stops {
    pub breakpoints: Vec<u64>,
    /// What breakpoints do instead of stopping, by their addresses: blocks of programs
    /// (`lane_protocol::bytecode::breakpoint_kind`).
    pub programs: BTreeMap<u64, Vec<u8>>,
    pub watches: Vec<Watch>,
    /// Bits of the system calls behind which to stop, by their numbers.
    pub calls: [u64; CALL_WORDS],
    /// Bits of the signals at whose handlers' beginnings to stop, that of signal 1 being the lowest.
    pub signals: u64,
}

impl Stops {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        *self == Stops::default()
    }

    /// The same, and these places whatever breakpoints there would do.
    pub(crate) fn with(&self, places: &BTreeSet<u64>) -> Stops {
        let mut stops = self.clone();
        stops.breakpoints.retain(|address| !places.contains(address));
        stops.breakpoints.extend(places);
        stops.programs.retain(|address, _| !places.contains(address));
        stops
    }

    /// True if `call`, as `AgentStop` has it, is one to stop at.
    pub fn catches(&self, call: u64) -> bool {
        let number = call.wrapping_sub(1);
        self.calls.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    /// True if the beginning of this signal's handler is to be stopped at; 0 is none.
    pub fn catches_signal(&self, signal: u64) -> bool {
        (1..=64).contains(&signal) && self.signals >> (signal - 1) & 1 != 0
    }
}

/// Where a process stands.
pub(crate) fn position_of(stop: &AgentStop) -> Position {
    let steps = if stop.kind == agent_stop::END { 0 } else { stop.steps };
    Position { event: stop.event, steps }
}

/// The boundaries that are remembered, the oldest first.
pub(crate) fn boundaries(stop: &AgentStop) -> Vec<Boundary> {
    let count = stop.boundary_count.min(BOUNDARIES_MAX as u64);
    let numbers = stop.boundary_count - count..stop.boundary_count;
    numbers.map(|number| stop.boundaries[number as usize % BOUNDARIES_MAX]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_are_written() {
        for (text, event, steps) in [("12+7", 12, 7), ("12", 12, 0), (" 0+0 ", 0, 0)] {
            assert_eq!(text.parse(), Ok(Position { event, steps }));
        }
        assert_eq!(Position { event: 12, steps: 7 }.to_string(), "12+7");
        assert!("12+".parse::<Position>().is_err());
        assert!("-1".parse::<Position>().is_err());
        assert!(Position { event: 3, steps: 9 } < Position { event: 4, steps: 0 });
    }
}
