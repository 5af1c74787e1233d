//! What arrives: put in order, told to the sender as what has arrived behind holes (RFC 2018, 2883), acknowledged at
//! once or later, and how much more there is room for.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::{MILLISECOND, SEGMENT_BYTES_MAX};
use crate::segment::Segment;

/// Bytes that arrive before any was read, at first, and at most: half of net.ipv4.tcp_rmem.
const WINDOW_FIRST: usize = 65_536;
pub const WINDOW_MAX: usize = 16 << 20;
/// How long an acknowledgement waits for an answer that it can go with (TCP_ATO_MIN).
const PATIENCE_NS: u64 = 40 * MILLISECOND;
/// Segments that are acknowledged at once where a stream begins, or goes on after something was missing.
const AT_ONCE: u32 = 16;
/// Blocks that are remembered, and that fit beside time stamps.
const BLOCKS: usize = 4;
const BLOCKS_TOLD: usize = 3;

/// What arrives at one end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Incoming {
    /// In order, and not read.
    pub ready: VecDeque<u8>,
    pub expected: u64,
    pub ended: bool,
    ends_at: Option<u64>,
    behind_holes: BTreeMap<u64, Vec<u8>>,
    /// The number behind the last urgent byte; 0: there was none.
    urgent_end: u64,
    /// What is there of these, the latest first; and what came twice.
    blocks: Vec<(u64, u64)>,
    twice: Option<(u64, u64)>,
    /// What was acknowledged last, and the stamp that is sent back.
    acknowledged: u64,
    pub stamp: u32,
    window: usize,
    told_edge: u64,
    /// The acknowledgement that is owed: when it is sent.
    pub owed_ns: Option<u64>,
    at_once: u32,
    /// The program answers: acknowledgements go with its answers.
    is_conversation: bool,
    /// Ends of what the other end had to send, since the last acknowledgement.
    pushed: u32,
    last_ns: u64,
    began: bool,
    /// Bytes that the program read in a round trip, since when, and the most.
    read: u64,
    read_from_ns: u64,
    read_most: u64,
}

impl Incoming {
    pub fn new() -> Incoming {
        Incoming {
            ready: VecDeque::new(),
            expected: 0,
            ended: false,
            ends_at: None,
            behind_holes: BTreeMap::new(),
            urgent_end: 0,
            blocks: Vec::new(),
            twice: None,
            acknowledged: 0,
            stamp: 0,
            window: WINDOW_FIRST,
            told_edge: 0,
            owed_ns: None,
            at_once: AT_ONCE,
            is_conversation: false,
            pushed: 0,
            last_ns: 0,
            began: false,
            read: 0,
            read_from_ns: 0,
            read_most: (10 * SEGMENT_BYTES_MAX) as u64,
        }
    }

    /// Nothing is gained by beginning with a small window: the way has no limits.
    pub fn open_wide(&mut self) {
        self.window = self.window.max(WINDOW_MAX);
    }

    /// Where it has room to: never less than was told.
    fn edge(&self) -> u64 {
        let room = self.window.saturating_sub(self.ready.len());
        let room = if room < SEGMENT_BYTES_MAX { 0 } else { room };
        self.told_edge.max(self.expected + room as u64)
    }

    /// What any segment says of it; what was owed is paid.
    pub fn tell(&mut self, segment: &mut Segment) {
        self.told_edge = self.edge();
        segment.acknowledged = self.expected;
        segment.window = self.told_edge.saturating_sub(self.expected);
        segment.selected = self.twice.take().into_iter().chain(self.blocks.iter().copied()).collect();
        segment.selected.truncate(BLOCKS_TOLD);
        segment.echo = self.stamp;
        (self.acknowledged, self.owed_ns, self.pushed) = (self.expected, None, 0);
        self.at_once = self.at_once.saturating_sub(1);
    }

    /// The program sends something: it is an answer, if something came just before.
    pub fn note_answer(&mut self, now_ns: u64) {
        self.is_conversation |= self.began && now_ns < self.last_ns + PATIENCE_NS;
    }

    /// The acknowledgement that was owed is due: no answer came.
    pub fn note_silence(&mut self) {
        self.is_conversation = false;
    }

    /// Where in `ready` the last urgent byte is.
    pub fn urgent_at(&self) -> Option<usize> {
        let end = self.expected - u64::from(self.ended);
        let at = self.urgent_end.checked_sub(1)?.checked_sub(end - self.ready.len() as u64)?;
        usize::try_from(at).ok().filter(|&at| at < self.ready.len())
    }

    /// A segment arrives.
    pub fn take_in(&mut self, now_ns: u64, segment: &Segment) {
        let begin = segment.sequence;
        self.urgent_end = self.urgent_end.max(segment.urgent);
        if begin <= self.acknowledged {
            self.stamp = segment.stamp;
        }
        if segment.length() == 0 {
            // What asks whether there is room again is before what was acknowledged.
            if begin < self.acknowledged {
                self.owed_ns = Some(now_ns);
            }
            return;
        }
        let end = begin + segment.data.len() as u64;
        if segment.fin {
            self.ends_at = Some(end);
        }
        let is_old = begin + segment.length() <= self.expected;
        let in_order = begin <= self.expected && !is_old;
        let is_gap = !self.behind_holes.is_empty();
        if is_old {
            self.twice = Some((begin, begin + segment.length()));
        } else if in_order {
            self.append(begin, &segment.data);
        } else if end <= self.edge() && !segment.data.is_empty() {
            self.keep(begin, end, &segment.data);
        }
        self.close_holes();
        let is_last = self.ends_at == Some(self.expected) && !self.ended;
        if is_last {
            self.ended = true;
            self.expected += 1;
        }
        if is_old || !in_order {
            self.at_once = AT_ONCE;
        }
        self.owe(now_ns, segment.data.len(), is_old || !in_order || is_gap || is_last);
    }

    /// When what has come is acknowledged.
    fn owe(&mut self, now_ns: u64, bytes: usize, is_odd: bool) {
        let is_pause = now_ns > self.last_ns + 5 * PATIENCE_NS;
        if self.began && is_pause && !self.is_conversation {
            self.at_once = self.at_once.max(2);
        }
        (self.began, self.last_ns) = (true, now_ns);
        self.pushed += u32::from(bytes < SEGMENT_BYTES_MAX);
        let is_much = self.expected - self.acknowledged > SEGMENT_BYTES_MAX as u64;
        let now = is_odd || is_much || self.at_once > 0 && !self.is_conversation;
        let due_ns = if now { now_ns } else { now_ns + PATIENCE_NS };
        self.owed_ns = Some(self.owed_ns.map_or(due_ns, |owed| owed.min(due_ns)));
    }

    fn append(&mut self, begin: u64, data: &[u8]) {
        let known = (self.expected - begin) as usize;
        let Some(fresh) = data.get(known..) else { return };
        let room = (self.edge() - self.expected) as usize;
        let taken = &fresh[..fresh.len().min(room)];
        self.ready.extend(taken);
        self.expected += taken.len() as u64;
    }

    fn keep(&mut self, begin: u64, end: u64, data: &[u8]) {
        let known = self.behind_holes.range(..=begin).next_back();
        if known.is_some_and(|(at, known)| at + known.len() as u64 >= end) {
            self.twice = Some((begin, end));
            return;
        }
        self.behind_holes.insert(begin, data.to_vec());
        let mut block = (begin, end);
        self.blocks.retain(|&(from, to)| {
            let touches = from <= block.1 && block.0 <= to;
            if touches {
                block = (block.0.min(from), block.1.max(to));
            }
            !touches
        });
        self.blocks.insert(0, block);
        self.blocks.truncate(BLOCKS);
    }

    fn close_holes(&mut self) {
        while let Some((&at, _)) = self.behind_holes.first_key_value() {
            if at > self.expected {
                break;
            }
            let Some((at, data)) = self.behind_holes.pop_first() else { break };
            self.append(at, &data);
        }
        self.blocks.retain(|&(_, to)| to > self.expected);
    }

    /// The program has taken bytes; true if the other end is to be told at once.
    pub fn note_read(&mut self, now_ns: u64, bytes: usize, trip_ns: u64) -> bool {
        self.read += bytes as u64;
        if now_ns >= self.read_from_ns + trip_ns {
            if self.read > self.read_most {
                // It may come twice as fast in the next round trip, and that is known one later (dynamic right-sizing).
                let grew = 2 * self.read * (self.read - self.read_most) / self.read_most;
                let window = 2 * self.read + 2 * grew;
                self.window = self.window.max(usize::try_from(window).unwrap_or(WINDOW_MAX).min(WINDOW_MAX));
                self.read_most = self.read;
            }
            (self.read, self.read_from_ns) = (0, now_ns);
        }
        let told = self.told_edge.saturating_sub(self.expected);
        let opens = self.edge() - self.expected >= 2 * told.max(SEGMENT_BYTES_MAX as u64);
        let is_read = self.ready.is_empty() && (self.pushed > 1 || self.pushed == 1 && !self.is_conversation);
        opens || is_read
    }
}
