//! The order in which the events of several lanes are shown.
//!
//! Lanes are independent logs without a common clock. Three things are known of
//! their order: a process begins after the call that made it, a wait that reports
//! its end comes after that end, and outputs are numbered. One lane is followed
//! as long as nothing is known to come before its next event.

use std::collections::HashMap;

use events::Kind;
use trace_store::{NO_PARENT, TraceReader};

use super::waits::waited_for;
use crate::exit::CommandError;
use crate::lane_events::{LaneEvents, WholeEvent};

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The next event of the lane at this position in the trace's list.
    Event(usize),
    /// The log of this lane ends here.
    End(usize),
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing has been shown yet that made it.
    Unborn,
    Alive,
    Ended,
}

struct Lane {
    state: State,
    events: Option<LaneEvents>,
    next: WholeEvent,
    /// `next` holds the next event.
    is_loaded: bool,
    /// The thread of the event shown last, counted from 0.
    thread: u16,
    /// The event shown last tells how the process ended.
    tells_end: bool,
}

/// What has to come before an event.
enum Obstacle {
    /// All of the lane at this position.
    End(usize),
    /// Outputs with lower numbers.
    Output(u64),
}

/// Goes through the events of several lanes.
pub struct Merge<'t> {
    trace: &'t TraceReader,
    lanes: Vec<Lane>,
    /// Positions of lanes that are alive, in the order in which they came to be.
    alive: Vec<usize>,
    /// Positions of lanes to be shown one by one, the next one last; `None`: merged.
    queue: Option<Vec<usize>>,
    positions: HashMap<u32, usize>,
    current: usize,
    next_output: u64,
    /// The event at this position was handed out.
    shown: Option<usize>,
}

impl<'t> Merge<'t> {
    /// Goes through all lanes of a trace.
    pub fn new(trace: &'t TraceReader) -> Merge<'t> {
        let lane = |_| Lane {
            state: State::Unborn,
            events: None,
            next: WholeEvent::default(),
            is_loaded: false,
            thread: 0,
            tells_end: false,
        };
        Merge {
            trace,
            lanes: trace.lanes().iter().map(lane).collect(),
            alive: Vec::new(),
            queue: None,
            positions: trace
                .lanes()
                .iter()
                .enumerate()
                .map(|(position, info)| (info.lane, position))
                .collect(),
            current: usize::MAX,
            next_output: 0,
            shown: None,
        }
    }

    /// Goes through some lanes, one after the other.
    pub fn one_by_one(trace: &'t TraceReader, positions: impl Iterator<Item = usize>) -> Merge<'t> {
        let mut queue: Vec<usize> = positions.collect();
        queue.reverse();
        Merge { queue: Some(queue), ..Merge::new(trace) }
    }

    /// The event of the last [`Step::Event`].
    pub fn event(&self, position: usize) -> &WholeEvent {
        &self.lanes[position].next
    }

    /// True if the last event of this lane says how the process ended.
    pub fn tells_end(&self, position: usize) -> bool {
        self.lanes[position].tells_end
    }

    /// The thread that made the last event of this lane, counted from 0.
    pub fn thread(&self, position: usize) -> u16 {
        self.lanes[position].thread
    }

    /// Goes on to the next event.
    pub fn next(&mut self) -> Result<Step, CommandError> {
        if let Some(position) = self.shown.take() {
            self.lanes[position].is_loaded = false;
        }
        let Some(position) = self.choose()? else { return Ok(Step::Done) };
        self.current = position;
        if !self.lanes[position].is_loaded {
            self.lanes[position].state = State::Ended;
            self.lanes[position].events = None;
            self.alive.retain(|&alive| alive != position);
            return Ok(Step::End(position));
        }
        self.note(position);
        self.shown = Some(position);
        Ok(Step::Event(position))
    }

    /// What an event that is shown means for the others.
    fn note(&mut self, position: usize) {
        let lane = &mut self.lanes[position];
        let event = &lane.next;
        if event.kind == Kind::Token {
            lane.thread = event.code;
        }
        lane.tells_end = event.event().ends_lane();
        let (child, output) = (event.child_lane(), event.output());
        if let Some((_, order)) = output {
            self.next_output = self.next_output.max(order.saturating_add(1));
        }
        if let Some(&child) = child.and_then(|child| self.positions.get(&child)) {
            self.revive(child);
        }
    }

    fn revive(&mut self, position: usize) {
        if self.lanes[position].state == State::Unborn && self.queue.is_none() {
            self.lanes[position].state = State::Alive;
            self.alive.push(position);
        }
    }

    /// The lane whose next event, or end, comes next.
    fn choose(&mut self) -> Result<Option<usize>, CommandError> {
        if let Some(queue) = &mut self.queue {
            if self.lanes.get(self.current).is_none_or(|lane| lane.state == State::Ended) {
                match queue.pop() {
                    Some(position) => self.current = position,
                    None => return Ok(None),
                }
            }
            self.load(self.current)?;
            return Ok(Some(self.current));
        }
        let Some(mut candidate) = self.first_candidate() else { return Ok(None) };
        let mut visited = Vec::new();
        loop {
            self.load(candidate)?;
            let Some(obstacle) = self.obstacle(candidate) else { return Ok(Some(candidate)) };
            let (wanted, order) = match obstacle {
                Obstacle::End(other) => (Some(other), u64::MAX),
                Obstacle::Output(order) => (None, order),
            };
            visited.push((order, candidate));
            let is_new = |position: &usize| !visited.iter().any(|(_, known)| known == position);
            let other = wanted.filter(is_new).or_else(|| self.alive.iter().copied().find(is_new));
            match other {
                Some(other) => {
                    self.revive(other);
                    candidate = other;
                }
                // Everything waits for something that the trace does not hold:
                // the lowest output goes first.
                None => return Ok(visited.into_iter().min().map(|(_, position)| position)),
            }
        }
    }

    /// The current lane if it lives, else the lane that made it, else any.
    fn first_candidate(&mut self) -> Option<usize> {
        let is_alive = |lanes: &[Lane], position: usize| {
            lanes.get(position).is_some_and(|lane| lane.state == State::Alive)
        };
        if is_alive(&self.lanes, self.current) {
            return Some(self.current);
        }
        let parent = self.trace.lanes().get(self.current).filter(|info| info.parent != NO_PARENT);
        let parent = parent.and_then(|info| self.positions.get(&info.parent)).copied();
        if let Some(parent) = parent.filter(|&parent| is_alive(&self.lanes, parent)) {
            return Some(parent);
        }
        if self.alive.is_empty() {
            // The first of all, or one whose maker is missing.
            let unborn = self.lanes.iter().position(|lane| lane.state == State::Unborn)?;
            self.revive(unborn);
        }
        self.alive.first().copied()
    }

    fn load(&mut self, position: usize) -> Result<(), CommandError> {
        let lane = &mut self.lanes[position];
        if lane.is_loaded || lane.state == State::Ended {
            return Ok(());
        }
        let events = match &mut lane.events {
            Some(events) => events,
            None => lane.events.insert(LaneEvents::open(self.trace, self.trace.lanes()[position].lane)?),
        };
        lane.is_loaded = events.read(&mut lane.next)?;
        Ok(())
    }

    fn obstacle(&self, position: usize) -> Option<Obstacle> {
        let lane = &self.lanes[position];
        if !lane.is_loaded || lane.next.kind != Kind::Syscall || lane.next.is_filtered() {
            return None;
        }
        if let Some((_, order)) = lane.next.output()
            && order > self.next_output
        {
            return Some(Obstacle::Output(order));
        }
        let pid = waited_for(&lane.next)?;
        let own = self.trace.lanes()[position].lane;
        let mut children =
            self.trace.lanes().iter().enumerate().filter(|(_, info)| info.parent == own && info.pid == pid);
        children
            .find(|&(child, _)| self.lanes[child].state != State::Ended)
            .map(|(child, _)| Obstacle::End(child))
    }
}
