//! Which event sent what another received: over pipes, sockets and queues, by signals and waits, and
//! through memory that processes share.
//!
//! Everything is taken from the log, in one passage. What came from outside of the recording has no sender.
//!
//! Invariant: an arrow that is not certain says so; which of several equal messages of several senders came
//! first is not in the logs.
//!
//! Deliberately absent: a replay; descriptors of more than the first 16 messages of a sendmmsg(2), which the sender's
//! log does not hold.

mod calls;
mod descriptors;
mod ends;
mod matching;
mod processes;

use std::collections::HashMap;

use events::Kind;
use trace_store::{LaneEnd, TraceReader};

use crate::lane_events::WholeEvent;
use calls::Call;
use descriptors::Descriptors;
use ends::Ends;
use processes::Processes;

/// An event: the position of its process in the trace's list, and its index in that process's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub process: usize,
    pub event: u64,
}

/// What two events met by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Meeting {
    Pipe,
    Unix,
    Inet,
    Queue,
    Counter,
    Signal,
    Wait,
    Birth,
    Memory,
    Futex,
}

impl Meeting {
    pub const ALL: [Meeting; 10] = [
        Meeting::Pipe,
        Meeting::Unix,
        Meeting::Inet,
        Meeting::Queue,
        Meeting::Counter,
        Meeting::Signal,
        Meeting::Wait,
        Meeting::Birth,
        Meeting::Memory,
        Meeting::Futex,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Meeting::Pipe => "pipe",
            Meeting::Unix => "unix socket",
            Meeting::Inet => "inet socket",
            Meeting::Queue => "message queue",
            Meeting::Counter => "eventfd",
            Meeting::Signal => "signal",
            Meeting::Wait => "wait",
            Meeting::Birth => "birth",
            Meeting::Memory => "shared memory",
            Meeting::Futex => "futex",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrow {
    pub meeting: Meeting,
    /// `None`: something outside of the recording.
    pub from: Option<Place>,
    pub to: Place,
    /// No other event can be meant.
    pub is_certain: bool,
}

/// Gathers what events mean for others, in the order in which `dump` shows them.
pub struct Senders {
    known: HashMap<u16, Call>,
    positions: HashMap<u32, usize>,
    descriptors: Descriptors,
    ends: Ends,
    processes: Processes,
    threads: Vec<u16>,
}

impl Senders {
    pub fn new(trace: &TraceReader) -> Senders {
        let lanes = trace.lanes();
        Senders {
            known: calls::known(),
            positions: lanes.iter().enumerate().map(|(position, info)| (info.lane, position)).collect(),
            descriptors: Descriptors::default(),
            ends: Ends::default(),
            processes: Processes::of(lanes),
            threads: vec![0; lanes.len()],
        }
    }

    pub fn note(&mut self, position: usize, whole: &WholeEvent) {
        let at = Place { process: position, event: whole.index };
        match whole.kind {
            Kind::Syscall if whole.is_filtered() => {}
            Kind::Syscall => {
                let child = whole.child_lane().and_then(|lane| self.positions.get(&lane).copied());
                if let Some(child) = child {
                    self.note_birth(at, whole, child);
                }
                if let Some(call) = self.known.get(&whole.code).copied() {
                    self.note_call(call, at, whole);
                }
            }
            Kind::Birth => self.descriptors.executed(position),
            Kind::Signal => self.processes.note_signal(at, whole),
            Kind::Token => {
                self.threads[position] = whole.code;
                self.processes.note_token(at, whole);
            }
            Kind::Data
            | Kind::Fault
            | Kind::Instruction
            | Kind::Trampoline
            | Kind::Exit
            | Kind::Checksum
            | Kind::Stop
            | Kind::Preemption
            | Kind::Store
            | Kind::Change
            | Kind::Edit => {}
        }
    }

    fn note_birth(&mut self, at: Place, whole: &WholeEvent, child: usize) {
        const CLONE_FILES: u64 = 0x400;
        let is_clone = matches!(self.known.get(&whole.code), Some(Call::Clone));
        let shares = is_clone && whole.event().arg(0) & CLONE_FILES != 0;
        self.descriptors.born(at.process, child, shares);
        self.processes.note_birth(at, child);
    }

    /// A process ended of which no event tells how.
    pub fn note_end(&mut self, position: usize, events: u64, end: Option<LaneEnd>) {
        if let Some(LaneEnd::Killed(signal)) = end {
            self.processes.note_death(Place { process: position, event: events }, signal);
        }
    }

    /// All arrows, by where they lead.
    pub fn arrows(mut self) -> Vec<Arrow> {
        let mut found = matching::arrows(&mut self.ends);
        self.processes.arrows(&mut found);
        found.sort_by_key(|arrow| (arrow.to, arrow.from));
        found
    }
}
