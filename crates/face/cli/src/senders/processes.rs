//! Meetings of processes without a descriptor: births, ends, signals, the token of those that share memory.

use std::collections::{HashMap, VecDeque};

use events::Event;
use trace_store::{LaneInfo, NO_PARENT};

use super::{Arrow, Meeting, Place};
use crate::dump::ticket;
use crate::lane_events::WholeEvent;

const SIGCHLD: u16 = 17;
/// So many signals that were sent are looked at for one that arrived.
const KILLS_TRIED_MAX: usize = 4096;

/// A signal that was sent.
#[derive(Debug, Clone, Copy)]
struct Kill {
    at: Place,
    /// A process, or, where it is not positive, a group; `None`: a thread of which the log does not say whose.
    pid: Option<i32>,
    signal: i32,
}

/// A signal that arrived, or of which somebody died.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    at: Place,
    signal: i32,
    /// `None`: of a death, of which the log does not tell.
    sender: Option<i32>,
}

#[derive(Debug)]
struct Process {
    pid: i32,
    parent: u32,
    lane: u32,
    events: u64,
}

#[derive(Debug, Default)]
pub struct Processes {
    list: Vec<Process>,
    kills: Vec<Kill>,
    arrivals: Vec<Arrival>,
    /// Processes whose end somebody learnt of, by pid.
    ends: Vec<(Meeting, Place, i32)>,
    births: Vec<(Place, usize)>,
    /// ExecutionToken and ticket.
    tickets: Vec<(u64, u64, Place)>,
    /// Who woke waiters last, by process and address: where, and which thread.
    wakes: HashMap<(usize, u64), (Place, u16)>,
    woken: Vec<(Place, Place)>,
}

impl Processes {
    pub fn of(lanes: &[LaneInfo]) -> Processes {
        let process = |info: &LaneInfo| Process {
            pid: info.pid,
            parent: info.parent,
            lane: info.lane,
            events: info.events,
        };
        Processes { list: lanes.iter().map(process).collect(), ..Processes::default() }
    }

    pub fn note_birth(&mut self, at: Place, child: usize) {
        self.births.push((at, child));
    }

    pub fn note_wait(&mut self, at: Place, pid: i32) {
        self.ends.push((Meeting::Wait, at, pid));
    }

    pub fn note_kill(&mut self, at: Place, pid: Option<i32>, signal: i32) {
        if signal != 0 {
            self.kills.push(Kill { at, pid, signal });
        }
    }

    pub fn note_death(&mut self, at: Place, signal: i32) {
        self.arrivals.push(Arrival { at, signal, sender: None });
    }

    pub fn note_signal(&mut self, at: Place, whole: &WholeEvent) {
        let event = whole.event();
        // siginfo_t: si_code is at 8, the union, whose first is si_pid, at 16.
        let half = |place: usize| {
            let word = event.body_word(place / 8).unwrap_or(0);
            (word >> (8 * (place % 8))) as i32
        };
        let (code, pid) = (half(8), half(16));
        const USER: i32 = 0;
        const QUEUE: i32 = -1;
        const THREAD: i32 = -6;
        match code {
            1..=3 if whole.code == SIGCHLD => self.ends.push((Meeting::Signal, at, pid)),
            USER | QUEUE | THREAD => {
                self.arrivals.push(Arrival { at, signal: i32::from(whole.code), sender: Some(pid) });
            }
            _ => {}
        }
    }

    pub fn note_token(&mut self, at: Place, whole: &WholeEvent) {
        if let Some([token, number]) = ticket(whole) {
            self.tickets.push((token, number, at));
        }
    }

    pub fn note_futex(&mut self, at: Place, thread: u16, event: &Event<'_>) {
        const COMMAND_MASK: u64 = 0x7f;
        let (address, command) = (event.arg(0), event.arg(1) & COMMAND_MASK);
        let result = event.result();
        match command {
            // FUTEX_WAIT, FUTEX_WAIT_BITSET
            0 | 9 if result == 0 => {
                let wake = self.wakes.get(&(at.process, address));
                if let Some((from, _)) = wake.filter(|(_, waker)| *waker != thread) {
                    self.woken.push((*from, at));
                }
            }
            // FUTEX_WAKE, FUTEX_WAKE_OP, FUTEX_WAKE_BITSET
            1 | 5 | 10 if result > 0 => {
                self.wakes.insert((at.process, address), (at, thread));
            }
            _ => {}
        }
    }

    pub fn arrows(mut self, found: &mut Vec<Arrow>) {
        let certain = |meeting, from, to| Arrow { meeting, from: Some(from), to, is_certain: true };
        for (at, child) in &self.births {
            found.push(certain(Meeting::Birth, *at, Place { process: *child, event: 0 }));
        }
        for (meeting, at, pid) in &self.ends {
            let from = self.last_of(*pid, at.process);
            found.push(Arrow { meeting: *meeting, from, to: *at, is_certain: from.is_some() });
        }
        found.extend(
            self.woken
                .iter()
                .map(|(from, to)| Arrow { is_certain: false, ..certain(Meeting::Futex, *from, *to) }),
        );
        self.token(found);
        self.signals(found);
    }

    /// The last event of a process, by its pid: of a child of who asks, if it has one.
    fn last_of(&self, pid: i32, asks: usize) -> Option<Place> {
        let own = self.list[asks].lane;
        let mut named = self.list.iter().enumerate().filter(|(_, process)| process.pid == pid);
        let first = named.clone().next();
        let child = named.find(|(_, process)| process.parent != NO_PARENT && process.parent == own);
        let (position, process) = child.or(first)?;
        Some(Place { process: position, event: process.events.saturating_sub(1) })
    }

    /// Who had the token before: its last event until then.
    fn token(&mut self, found: &mut Vec<Arrow>) {
        let mut next_of: HashMap<usize, Vec<u64>> = HashMap::new();
        for (_, _, at) in &self.tickets {
            next_of.entry(at.process).or_default().push(at.event);
        }
        next_of.values_mut().for_each(|events| events.sort_unstable());
        self.tickets.sort_unstable();
        for pair in self.tickets.windows(2) {
            let [(token, ticket, before), (next_token, next, at)] = [pair[0], pair[1]];
            if token != next_token || ticket.wrapping_add(1) != next || before.process == at.process {
                continue;
            }
            let own = next_of.get(&before.process).map_or(&[] as &[u64], Vec::as_slice);
            let later = own.get(own.partition_point(|event| *event <= before.event));
            let end = later.copied().unwrap_or(self.list[before.process].events);
            let from = Place { process: before.process, event: end.saturating_sub(1) };
            found.push(Arrow { meeting: Meeting::Memory, from: Some(from), to: at, is_certain: true });
        }
    }

    /// Who sent each signal.
    fn signals(&mut self, found: &mut Vec<Arrow>) {
        let mut waiting: HashMap<i32, VecDeque<Kill>> = HashMap::new();
        for kill in &self.kills {
            waiting.entry(kill.signal).or_default().push_back(*kill);
        }
        for arrival in &self.arrivals {
            let own = self.list[arrival.at.process].pid;
            let queue = waiting.entry(arrival.signal).or_default();
            let of_sender = |kill: &Kill| match arrival.sender {
                Some(pid) => self.list[kill.at.process].pid == pid,
                None => true,
            };
            let reaches = |kill: &Kill| kill.pid.is_none_or(|pid| pid <= 0 || pid == own);
            let fits = |kill: &Kill| of_sender(kill) && reaches(kill);
            let place = queue.iter().take(KILLS_TRIED_MAX).position(fits);
            let from = place.map(|place| queue[place]);
            let is_certain = from.is_some_and(|kill| arrival.sender.is_some() || kill.pid == Some(own));
            // One that was sent to a group arrives more than once.
            if let (Some(place), Some(Kill { pid: Some(1..), .. })) = (place, from) {
                queue.remove(place);
            }
            let from = from.map(|kill| kill.at);
            found.push(Arrow { meeting: Meeting::Signal, from, to: arrival.at, is_certain });
        }
    }
}
