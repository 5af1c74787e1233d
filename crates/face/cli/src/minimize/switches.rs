//! The switches between threads that a recording shows, as places at which they can be forced again.

use events::Kind;
use lane_protocol::{ForcedPlace, ForcedSwitch};
use replayer::Frame;
use syscall_model::row;
use trace_store::TraceReader;

use crate::exit::CommandError;
use crate::lane_events::{LaneEvents, WholeEvent};
use crate::stack_at::Past;

/// Words of a pause (docs/TRACE_FORMAT.md).
const RIP: usize = 15;
/// clone(2): a thread of the same process.
const CLONE_THREAD: u64 = 0x1_0000;

/// A place at which one thread gave the turn to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
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
        let ordinal = if self.place == ForcedPlace::Call { self.call } else { ordinal };
        ForcedSwitch { thread: self.thread, place: self.place as u32, address: self.address, ordinal }
    }
}

impl Candidate {
    /// The stack of the thread that was stopped there: behind so many events, or at the pause behind them.
    pub fn stack(self, past: &mut Past, stopped: u64) -> Result<Vec<Frame>, CommandError> {
        match self.place {
            ForcedPlace::Call => past.at_event(stopped),
            // The event before it is the pause, which is found there.
            _ => past.at_instruction(stopped.saturating_sub(1), self.address),
        }
    }
}

/// What a recording says of its threads.
#[derive(Debug, Default)]
pub struct Switches {
    /// The program's first instruction, to tell how far another run is moved.
    pub entry: u64,
    /// Where its own file is mapped.
    own: Vec<(u64, u64)>,
    pub images: usize,
    /// How often another thread had the turn.
    pub count: usize,
    /// The places in the order of the recording, each once.
    pub candidates: Vec<Candidate>,
    /// Each switch with the numbers of events: where its thread stands, and behind the switch.
    pub all: Vec<(Candidate, u64, u64)>,
    /// A thread before the event at hand, its calls so far.
    calls: Vec<u64>,
    threads_have_begun: bool,
}

impl Switches {
    /// Reads them from the first process.
    pub fn of(trace: &TraceReader) -> Result<Switches, CommandError> {
        let mut switches = Switches::default();
        let Some(first) = trace.lanes().iter().find(|info| info.parent == trace_store::NO_PARENT) else {
            return Ok(switches);
        };
        let mut events = LaneEvents::open(trace, first.lane)?;
        let (mut whole, mut thread, mut given) = (WholeEvent::default(), 0, None);
        while events.read(&mut whole)? {
            match whole.kind {
                Kind::Birth => switches.note_birth(&whole),
                Kind::Turn => {
                    let next = u32::from(whole.code);
                    if next != thread {
                        switches.count += 1;
                        let place = given.take().unwrap_or(Candidate {
                            thread,
                            place: ForcedPlace::Call,
                            address: 0,
                            call: switches.calls_of(thread) + 1,
                        });
                        switches.add(place);
                        switches.all.push((place, whole.index, whole.index + 1));
                    }
                    (thread, given) = (next, None);
                }
                Kind::Pause => {
                    let address = whole.event().body_word(RIP).unwrap_or(0);
                    let place = ForcedPlace::Instruction;
                    given = Some(Candidate { thread, place, address, call: 0 });
                }
                Kind::Edit => {
                    // Who was stopped there had read, and writes now.
                    let last = switches
                        .candidates
                        .iter()
                        .rev()
                        .find(|place| place.thread == thread && place.place == ForcedPlace::Instruction);
                    if let Some(&last) = last {
                        switches.add(Candidate { place: ForcedPlace::InInstruction, ..last });
                    }
                }
                Kind::Syscall => switches.note_call(thread, &whole),
                _ => {}
            }
        }
        Ok(switches)
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

    fn calls_of(&mut self, thread: u32) -> u64 {
        let index = thread as usize;
        if self.calls.len() <= index {
            self.calls.resize(index + 1, 0);
        }
        self.calls[index]
    }

    /// Calls are counted from the first thread's making on, as the runtime does.
    fn note_call(&mut self, thread: u32, whole: &WholeEvent) {
        let event = whole.event();
        let name = row(u64::from(whole.code)).map_or("", |row| row.name);
        let makes = name == "clone3" || name == "clone" && event.arg(0) & CLONE_THREAD != 0;
        let is_own_begin = matches!(name, "clone" | "clone3") && event.result() == 0;
        if self.threads_have_begun && !is_own_begin {
            self.calls_of(thread);
            self.calls[thread as usize] += 1;
            let call = self.calls[thread as usize];
            let is_it = |place: &Candidate| {
                place.place == ForcedPlace::Call && place.thread == thread && place.call == call
            };
            // Who was stopped before a call has its stack where that returns; before, it may yet be elsewhere.
            let returns = !matches!(name, "exit" | "exit_group" | "execve" | "execveat");
            if returns
                && let Some((_, stopped, _)) = self.all.iter_mut().rev().find(|(place, ..)| is_it(place))
            {
                *stopped = whole.index + 1;
            }
        }
        self.threads_have_begun |= makes && event.result() > 0;
    }
}
