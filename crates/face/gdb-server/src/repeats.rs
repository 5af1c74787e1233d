//! Clients in loops: one that goes by a line stops again and again at places that it has seen.
//!
//! Forward, gdb lets a range run, and where that calls a function it lets that return, each time
//! anew; after some rounds the range runs on through the call. Backward it steps instruction by
//! instruction. That all it sees repeats is enough to know what it will do only if it counts
//! nothing and compares no memory: a client with our commands says so of a movement
//! (`monitor repeats`), of others each step is made.

use std::collections::BTreeMap;

use timeline::{Passed, Reason, Seen, TimelineError};

use crate::packet::pair;
use crate::registers::{RIP, RSP};
use crate::resume::Movement;
use crate::server::Server;

/// Rounds through a function that a range calls before it is let run through.
const ROUNDS: u32 = 32;
/// Steps back to what was seen before, one behind the other, that are enough; and so many times
/// the places that were seen.
const KNOWN: usize = 32;
const KNOWN_TIMES: usize = 2;
/// What a way over seen places is at least worth, in instructions.
const WORTH: u64 = 2000;

/// What is known of the client's loop.
#[derive(Default)]
pub(crate) struct Repeats {
    /// The range that runs, and what it called last.
    called: Option<(Movement, Passed)>,
    rounds: u32,
    /// What was seen going back; `None`: each step is to be made.
    seen: Option<Seen>,
    /// Steps to what was seen before, and how many times as many are wanted.
    known: usize,
    times: usize,
}

impl Repeats {
    /// A packet that is none of a loop's begins something else.
    pub fn look_at(&mut self, packet: &str) {
        let goes_on = ["g", "p", "m", "Z", "z", "H", "vCont", "c", "s", "bs", "bc"];
        if !goes_on.iter().any(|start| packet.starts_with(start)) {
            self.called = None;
            self.rounds = 0;
        }
    }

    fn is_due(&self) -> Option<&Seen> {
        let seen = self.seen.as_ref()?;
        let wanted = KNOWN.max(KNOWN_TIMES * seen.count()).saturating_mul(self.times);
        (self.known >= wanted).then_some(seen)
    }
}

impl Server<'_> {
    /// `monitor repeats RANGE...`: until `monitor repeats told` the client only goes on by what it
    /// sees; these are the functions where.
    pub(crate) fn choose_repeats(&mut self, ranges: &[&str]) -> String {
        let ranges: Option<Vec<_>> = ranges.iter().map(|range| pair(range)).collect();
        self.repeats.seen = ranges.filter(|ranges| !ranges.is_empty()).map(Seen::of);
        (self.repeats.known, self.repeats.times) = (0, 1);
        String::new()
    }

    /// Goes back over what the client has seen, if it does nothing else any more.
    pub(crate) fn goes_back_over(&mut self, thread: u32) -> Result<bool, TimelineError> {
        let Some(seen) = self.repeats.is_due().cloned() else { return Ok(false) };
        let (connection, stops) = (self.connection, self.wanted_stops());
        let steps = self.timeline.back_over(thread, &seen, &stops, &|| connection.wants_stop())?;
        self.repeats.known = 0;
        self.repeats.times = if steps < WORTH { self.repeats.times.saturating_mul(2) } else { 1 };
        Ok(steps > 0)
    }

    /// Going back, the client has come somewhere.
    pub(crate) fn note_seen(&mut self) {
        let Repeats { seen: Some(seen), known, .. } = &mut self.repeats else { return };
        *known = if seen.note(self.timeline.stop()) { *known + 1 } else { 0 };
    }

    /// The function that the range may run through.
    pub(crate) fn passed_by(&self, range: Movement) -> Option<Passed> {
        let (before, passed) = self.repeats.called?;
        (before == range && self.repeats.rounds >= ROUNDS).then_some(passed)
    }

    /// A movement forward has come to its end.
    pub(crate) fn note_round(&mut self, movement: Movement, reason: Reason) {
        match movement {
            Movement::On if reason == Reason::Breakpoint => return,
            Movement::Range(_, start, end) if reason == Reason::Stepped => {
                let registers = &self.timeline.stop().threads[0].registers;
                let passed = Passed { entry: registers[RIP], stack: registers[RSP] };
                let is_call = self.word(passed.stack).is_some_and(|back| (start..=end).contains(&back));
                if is_call {
                    let is_again = self.repeats.called == Some((movement, passed));
                    self.repeats.rounds = if is_again { self.repeats.rounds + 1 } else { 0 };
                    self.repeats.called = Some((movement, passed));
                    return;
                }
            }
            _ => {}
        }
        self.repeats.called = None;
    }

    /// The bytes of all places that are watched for writes, by the place.
    pub(crate) fn watched_bytes(&self) -> BTreeMap<usize, [u8; 8]> {
        let watches = self.inserted.stops().watches;
        let writes = watches.iter().enumerate().filter(|(_, watch)| watch.kind != timeline::watch_kind::READ);
        let bytes = writes.map(|(index, watch)| {
            let mut bytes = [0; 8];
            let count = self.timeline.read(watch.address, &mut bytes[..watch.bytes.min(8) as usize]);
            bytes[count..].fill(0);
            (index, bytes)
        });
        bytes.collect()
    }
}
