//! Clients in loops: one that goes by a line stops again and again at places that it has seen.
//!
//! Forward, gdb lets a range run, and where that calls a function it lets that return, each time
//! anew; after some rounds the range runs on through the call. Backward it steps instruction by
//! instruction. That all it sees repeats is enough to know what it will do only if it counts
//! nothing and compares no memory: a client with our commands says so of a movement
//! (`monitor repeats`), of others each step is made. So it is with the ends of a function that calls
//! itself.

use std::collections::{BTreeMap, BTreeSet};

use timeline::{Calls, Passed, Reason, Seen, Standing, Stops, TimelineError, if_stack_is_at};

use crate::packet::{number, pair};
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
    /// The breakpoints with which the client began to step back.
    begun_with: Option<BTreeSet<u64>>,
    /// The client goes over calls.
    over: bool,
    /// Breakpoints that are nothing to it.
    ignored: BTreeSet<u64>,
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
    /// `monitor repeats [over] [-PLACE...] RANGE...`: until `monitor repeats told` the client only goes on
    /// by what it sees; these are the functions where. `over`: calls are nothing to it, and neither are
    /// breakpoints at these places.
    pub(crate) fn choose_repeats(&mut self, words: &[&str]) -> String {
        let (options, ranges): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| !word.contains(','));
        self.repeats.over = options.contains(&"over");
        let ignored = options.iter().filter_map(|word| number(word.strip_prefix('-')?));
        self.repeats.ignored = ignored.collect();
        let ranges: Option<Vec<_>> = ranges.iter().map(|range| pair(range)).collect();
        self.repeats.seen = ranges.filter(|ranges| !ranges.is_empty()).map(Seen::of);
        (self.repeats.known, self.repeats.times) = (0, 1);
        self.repeats.begun_with = None;
        String::new()
    }

    /// What a movement back stops at. A client that has stepped back to the end of a function lets it
    /// go back to its beginning, by a breakpoint there: those of deeper calls are nothing to it, and a
    /// function that calls itself has many.
    pub(crate) fn stops_back(&mut self) -> Stops {
        let mut stops = self.wanted_stops();
        if self.repeats.seen.is_none() {
            return stops;
        }
        stops.breakpoints.retain(|place| !self.repeats.ignored.contains(place));
        let now: BTreeSet<u64> = stops.breakpoints.iter().copied().collect();
        let begun_with = self.repeats.begun_with.get_or_insert_with(|| now.clone());
        let mut new = now.difference(begun_with);
        if let (Some(&entry), None) = (new.next(), new.next())
            && !stops.programs.contains_key(&entry)
            && self.timeline.is_at_return()
        {
            stops.programs.insert(entry, if_stack_is_at(self.timeline.standing().stack));
        }
        stops
    }

    /// A step back has led here: where that is into a call that the client goes over, to the call.
    pub(crate) fn goes_over_call(&mut self, before: Standing) -> Result<Option<Reason>, TimelineError> {
        let Some(functions) = self.repeats.seen.as_ref().map(|seen| seen.functions().to_vec()) else {
            return Ok(None);
        };
        let (connection, mut stops) = (self.connection, self.wanted_stops());
        stops.breakpoints.retain(|place| !self.repeats.ignored.contains(place));
        let calls = if self.repeats.over { Calls::All } else { Calls::Left };
        self.timeline.back_over_call(before, &functions, calls, &stops, &|| connection.wants_stop())
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
