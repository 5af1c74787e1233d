//! The switches between threads that a recording shows, as places at which they can be forced again.

use std::collections::HashMap;

use events::{Kind, TICKET};
use lane_protocol::{ForcedPlace, ForcedSwitch};
use replayer::Frame;
use syscall_model::row;
use trace_store::TraceReader;

use crate::exit::CommandError;
use crate::lane_events::{LaneEvents, WholeEvent};
use crate::stack_at::Past;

/// Words of a pause (docs/TRACE_FORMAT.md).
const RIP: usize = 15;
/// With several processes: the last calls of each thread are places, too, so many.
const CALLS_OF_EACH: u64 = 48;

/// A place at which one thread released the token to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub lane: u32,
    pub thread: u32,
    pub place: ForcedPlace,
    /// Of the instruction, in the run at hand.
    pub address: u64,
    /// Which call of the thread; for instructions the search counts.
    pub call: u64,
}

impl Candidate {
    /// The switch at this execution of the place.
    pub fn at(self, ordinal: u64) -> ForcedSwitch {
        let Candidate { lane, thread, place, address, call } = self;
        let ordinal = if place == ForcedPlace::Call { call } else { ordinal };
        ForcedSwitch { lane, thread, place: place as u32, address, ordinal }
    }

    /// The stack of the thread that was stopped there, behind so many events: that of its pause is among them.
    /// Empty where it is not told.
    pub fn stack(self, past: &mut Past, stopped: u64) -> Result<Vec<Frame>, CommandError> {
        match self.place {
            ForcedPlace::Call => past.at_event(stopped),
            _ => Ok(past.of_thread_at(stopped, self.thread)?.unwrap_or_default()),
        }
    }
}

/// A switch that was made.
#[derive(Debug, Clone, Copy)]
pub struct Made {
    pub place: Candidate,
    /// Events of its process where its thread stands.
    pub stopped: u64,
    /// Who went on: lane, and events behind the switch; `None`: it is not told.
    pub next: Option<(u32, u64)>,
    /// With several processes: the token's ticket that was given.
    ticket: Option<Ticket>,
}

/// Number of a token, and how often it had come to another process.
type Ticket = (u64, u64);

/// What a recording says of its threads.
#[derive(Debug, Default)]
pub struct Switches {
    /// The program's first instruction, to tell how far another run is moved.
    pub entry: u64,
    /// Where its own file is mapped.
    own: Vec<(u64, u64)>,
    pub images: usize,
    /// How often another thread held the token, or a handler came between.
    pub count: usize,
    /// The places in the order of the recording, each once.
    pub candidates: Vec<Candidate>,
    pub all: Vec<Made>,
    /// Where each ticket was taken: lane, and events of it behind that.
    taken: HashMap<Ticket, (u32, u64)>,
}

/// One process on the way through its events.
#[derive(Debug, Default)]
struct Reading {
    lane: u32,
    thread: u32,
    /// The pause at hand, at which the token may have been given.
    paused: Option<Candidate>,
    ticket: Option<Ticket>,
    /// A thread before the event at hand, its calls so far.
    calls: Vec<u64>,
    counts_calls: bool,
}

impl Switches {
    /// Reads them from all processes.
    pub fn of(trace: &TraceReader) -> Result<Switches, CommandError> {
        let mut switches = Switches::default();
        let is_alone = trace.lanes().len() == 1;
        let mut all_calls = Vec::new();
        for info in trace.lanes() {
            let is_child = info.parent != trace_store::NO_PARENT;
            let mut reading = Reading { lane: info.lane, counts_calls: is_child, ..Reading::default() };
            let mut events = LaneEvents::open(trace, info.lane)?;
            let mut whole = WholeEvent::default();
            while events.read(&mut whole)? {
                switches.note(&mut reading, &whole);
            }
            let calls = reading.calls.iter().zip(0..).flat_map(|(&count, thread)| {
                let first = count.saturating_sub(CALLS_OF_EACH);
                (first + 1..=count).map(move |call| (thread, call))
            });
            let lane = info.lane;
            all_calls.extend(calls.map(|(thread, call)| call_of(lane, thread, call)));
        }
        // Processes that meet in a file have no token that says when.
        if !is_alone {
            let recorded = std::mem::take(&mut switches.candidates);
            all_calls.sort_by_key(|place| place.call);
            switches.candidates = all_calls;
            switches.candidates.retain(|place| !recorded.contains(place));
            switches.candidates.extend(recorded);
            switches.count = switches.count.max(1);
        }
        switches.tell_who_went_on();
        Ok(switches)
    }

    fn note(&mut self, reading: &mut Reading, whole: &WholeEvent) {
        match whole.kind {
            Kind::Birth => self.note_birth(whole),
            Kind::Token => self.note_token(reading, whole),
            Kind::Preemption => {
                let address = whole.event().body_word(RIP).unwrap_or(0);
                let (lane, thread) = (reading.lane, reading.thread);
                let place = ForcedPlace::Instruction;
                reading.paused = Some(Candidate { lane, thread, place, address, call: 0 });
            }
            // A handler came between two instructions.
            Kind::Signal => {
                if let Some(place) = reading.paused.take() {
                    let next = Some((reading.lane, whole.index + 1));
                    self.add_made(Made { place, stopped: whole.index, next, ticket: None });
                }
            }
            Kind::Edit => {
                // Who was stopped there had read, and writes now.
                let is_it = |place: &&Candidate| {
                    (place.lane, place.thread) == (reading.lane, reading.thread)
                        && place.place == ForcedPlace::Instruction
                };
                if let Some(&last) = self.candidates.iter().rev().find(is_it) {
                    self.add(Candidate { place: ForcedPlace::InInstruction, ..last });
                }
            }
            Kind::Syscall => self.note_call(reading, whole),
            _ => {}
        }
    }

    fn note_token(&mut self, reading: &mut Reading, whole: &WholeEvent) {
        let next = u32::from(whole.code);
        let body = |index| whole.event().body_word(index).unwrap_or(0);
        let ticket = (whole.flags & TICKET != 0).then(|| (body(0), body(1)));
        if let Some(ticket) = ticket {
            self.taken.insert(ticket, (reading.lane, whole.index + 1));
        }
        // The first ticket of a process says only that it has one.
        let comes_from_another = ticket.is_some() && reading.ticket.is_some();
        if next != reading.thread || comes_from_another {
            let call = reading.calls_of(reading.thread) + 1;
            let place = reading.paused.unwrap_or(call_of(reading.lane, reading.thread, call));
            let own = (reading.lane, whole.index + 1);
            let next = ticket.is_none().then_some(own);
            let given = reading.ticket.filter(|_| comes_from_another);
            self.add_made(Made { place, stopped: whole.index, next, ticket: given });
        }
        reading.ticket = ticket.or(reading.ticket);
        (reading.thread, reading.paused) = (next, None);
    }

    /// Who had the ticket behind the one that was given went on.
    fn tell_who_went_on(&mut self) {
        for made in &mut self.all {
            if let Some((token, ticket)) = made.ticket {
                made.next = self.taken.get(&(token, ticket + 1)).copied();
            }
        }
    }

    /// Places as they are where the program's entry is this; those outside of its own file, whose place is
    /// not known, are left out.
    pub fn moved_to(&self, entry: u64, places: &[Candidate]) -> Vec<Candidate> {
        let is_known = |place: &&Candidate| place.place == ForcedPlace::Call || self.is_own(place.address);
        let moved = |place: &Candidate| match place.place {
            ForcedPlace::Call => *place,
            _ => Candidate { address: place.address.wrapping_sub(self.entry).wrapping_add(entry), ..*place },
        };
        places.iter().filter(is_known).map(moved).collect()
    }

    /// True for an address in the program's own file.
    pub fn is_own(&self, address: u64) -> bool {
        self.own.iter().any(|(start, end)| (*start..*end).contains(&address))
    }

    fn add_made(&mut self, made: Made) {
        self.count += 1;
        self.add(made.place);
        self.all.push(made);
    }

    fn add(&mut self, place: Candidate) {
        if !self.candidates.contains(&place) {
            self.candidates.push(place);
        }
    }

    fn note_birth(&mut self, whole: &WholeEvent) {
        self.images += 1;
        let Some(birth) = whole.event().birth().filter(|_| self.images == 1) else { return };
        self.entry = birth.entry;
        let file = birth.maps().find(|map| (map.start..map.end).contains(&birth.entry)).map(|map| map.file);
        // The entry is the dynamic linker's where there is one: the program's own is mapped first.
        let first = birth.maps().find(|map| map.file != u32::MAX).map(|map| map.file);
        let own = first.or(file);
        self.own = birth.maps().filter(|map| Some(map.file) == own).map(|map| (map.start, map.end)).collect();
        if let Some((start, _)) = self.own.first() {
            self.entry = *start;
        }
    }

    /// Calls are counted from the first thread's or process's making on, as the runtime does.
    fn note_call(&mut self, reading: &mut Reading, whole: &WholeEvent) {
        let event = whole.event();
        let name = row(u64::from(whole.code)).map_or("", |row| row.name);
        let makes = matches!(name, "clone" | "clone3" | "fork");
        let is_own_begin = makes && event.result() == 0;
        if reading.counts_calls && !is_own_begin {
            let call = reading.count_call();
            let is_it = call_of(reading.lane, reading.thread, call);
            // Who was stopped before a call has its stack where that returns; before, it may yet be elsewhere.
            let returns = !matches!(name, "exit" | "exit_group" | "execve" | "execveat");
            if returns && let Some(made) = self.all.iter_mut().rev().find(|made| made.place == is_it) {
                made.stopped = whole.index + 1;
            }
        }
        reading.counts_calls |= makes && event.result() > 0;
        reading.paused = None;
    }
}

impl Reading {
    fn calls_of(&mut self, thread: u32) -> u64 {
        self.calls.get(thread as usize).copied().unwrap_or(0)
    }

    /// The running thread makes another call: which it is.
    fn count_call(&mut self) -> u64 {
        let index = self.thread as usize;
        if self.calls.len() <= index {
            self.calls.resize(index + 1, 0);
        }
        self.calls[index] += 1;
        self.calls[index]
    }
}

fn call_of(lane: u32, thread: u32, call: u64) -> Candidate {
    Candidate { lane, thread, place: ForcedPlace::Call, address: 0, call }
}
