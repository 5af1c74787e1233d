//! One end of a stream: what is sent, what is acknowledged, what is sent again (RFC 9293, 6298,
//! 5681, 6582).
//!
//! Deliberately absent: selective acknowledgements, time stamps, window scaling as bits (windows are plain
//! numbers), delayed acknowledgements, CUBIC: congestion is Reno's.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::packet::Segment;

/// Bytes of data in a segment, as on Ethernet.
pub const SEGMENT_BYTES_MAX: usize = 1448;
/// Bytes of data in a segment where nothing depends on how many there are, as kernels hand them to network cards
/// (segmentation offload): as many whole ones as a packet of IPv4 has room for.
pub const SEGMENT_BYTES_OFFLOADED: usize = 45 * SEGMENT_BYTES_MAX;
/// Bytes that wait to be sent or acknowledged.
pub const SEND_BYTES_MAX: usize = 2_500_000;
/// Bytes that have arrived and were not read.
pub const RECEIVE_BYTES_MAX: usize = 2_500_000;
const MILLISECOND: u64 = 1_000_000;
const RTO_FIRST_NS: u64 = 1000 * MILLISECOND;
const RTO_MIN_NS: u64 = 200 * MILLISECOND;
const RTO_MAX_NS: u64 = 120_000 * MILLISECOND;
/// Tries of a SYN, and of data (tcp_syn_retries, tcp_retries2 of tcp(7)).
const SYN_TRIES: u32 = 6;
const TRIES: u32 = 15;
/// By how much a round trip is longer than the shortest when a queue has begun (HyStart, RFC 9406).
const LONGER_NS: [u64; 2] = [4 * MILLISECOND, 16 * MILLISECOND];

/// Where a connection stands, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    SynSent,
    SynReceived,
    Established,
    /// Both directions have ended.
    Closed,
    /// The other end sent a RST.
    Reset,
    /// The other end did not answer.
    TimedOut,
}

/// What was measured of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    pub rto_ns: u64,
    pub trip_ns: u64,
    pub variation_ns: u64,
    pub threshold_bytes: u64,
    pub congestion_bytes: u64,
    pub in_flight_bytes: u64,
    /// Of what was sent last, and of all.
    pub tries: u32,
    pub resent: u64,
}

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    pub state: State,
    /// Bytes from `unacknowledged` on.
    send: VecDeque<u8>,
    unacknowledged: u64,
    next: u64,
    /// Bytes of data in a segment, at most.
    pub segment_bytes: usize,
    /// The highest number that was ever sent.
    sent_max: u64,
    /// The program sends nothing more.
    pub send_ends: bool,
    own_fin_at: Option<u64>,
    fin_acknowledged: bool,
    pub receive: VecDeque<u8>,
    expected: u64,
    out_of_order: BTreeMap<u64, Vec<u8>>,
    fin_at: Option<u64>,
    /// The other end sends nothing more, and all of it is here.
    pub receive_ended: bool,
    peer_window: u64,
    told_window: u64,
    congestion_window: u64,
    threshold: u64,
    duplicates: u32,
    recovers_to: Option<u64>,
    rto_ns: u64,
    smoothed_ns: Option<u64>,
    variation_ns: u64,
    shortest_ns: u64,
    timed: Option<(u64, u64)>,
    tries: u32,
    pub resent: u64,
    /// When what was sent is sent again.
    pub deadline_ns: Option<u64>,
}

/// A part of a queue of bytes.
pub(crate) fn copied(queue: &VecDeque<u8>, start: usize, bytes: usize) -> Vec<u8> {
    let (first, second) = queue.as_slices();
    let end = start + bytes;
    let mut all = Vec::with_capacity(bytes);
    all.extend_from_slice(&first[start.min(first.len())..end.min(first.len())]);
    let in_second = |at: usize| at.saturating_sub(first.len());
    all.extend_from_slice(&second[in_second(start)..in_second(end)]);
    all
}

impl End {
    fn new(state: State) -> End {
        End {
            state,
            send: VecDeque::new(),
            unacknowledged: 0,
            next: 0,
            segment_bytes: SEGMENT_BYTES_MAX,
            sent_max: 0,
            send_ends: false,
            own_fin_at: None,
            fin_acknowledged: false,
            receive: VecDeque::new(),
            expected: 0,
            out_of_order: BTreeMap::new(),
            fin_at: None,
            receive_ended: false,
            peer_window: 64 << 10,
            told_window: RECEIVE_BYTES_MAX as u64,
            congestion_window: 10 * SEGMENT_BYTES_MAX as u64,
            threshold: u64::MAX,
            duplicates: 0,
            recovers_to: None,
            rto_ns: RTO_FIRST_NS,
            smoothed_ns: None,
            variation_ns: 0,
            shortest_ns: u64::MAX,
            timed: None,
            tries: 0,
            resent: 0,
            deadline_ns: None,
        }
    }

    /// The end that connects, and its SYN.
    pub fn connect(now_ns: u64) -> (End, Segment) {
        let mut end = End::new(State::SynSent);
        let syn = end.syn(now_ns);
        (end, syn)
    }

    /// The end that a SYN came to, and its answer.
    pub fn accept(now_ns: u64, syn: &Segment) -> (End, Segment) {
        let mut end = End::new(State::SynReceived);
        end.expected = 1;
        end.peer_window = syn.window;
        let answer = end.syn(now_ns);
        (end, answer)
    }

    fn syn(&mut self, now_ns: u64) -> Segment {
        self.next = 1;
        self.sent_max = 1;
        self.tries += 1;
        self.timed.get_or_insert((1, now_ns));
        self.deadline_ns = Some(now_ns + self.rto_ns);
        Segment { syn: true, ..self.header(0) }
    }

    fn header(&mut self, sequence: u64) -> Segment {
        let room = RECEIVE_BYTES_MAX.saturating_sub(self.receive.len()) as u64;
        self.told_window = room;
        Segment {
            sequence,
            acknowledged: self.expected,
            ack: self.state != State::SynSent,
            window: room,
            ..Segment::default()
        }
    }

    /// True until the connection is over.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::SynSent | State::SynReceived | State::Established)
    }

    /// Bytes that the program may give.
    pub fn room(&self) -> usize {
        match self.is_open() && !self.send_ends {
            true => SEND_BYTES_MAX.saturating_sub(self.send.len()),
            false => 0,
        }
    }

    /// What TCP_INFO tells.
    pub fn info(&self) -> Info {
        Info {
            rto_ns: self.rto_ns,
            trip_ns: self.smoothed_ns.unwrap_or(0),
            variation_ns: self.variation_ns,
            threshold_bytes: self.threshold,
            congestion_bytes: self.congestion_window,
            in_flight_bytes: self.sent_max.saturating_sub(self.unacknowledged),
            tries: self.tries,
            resent: self.resent,
        }
    }

    /// Bytes that the program gave and that nobody has acknowledged.
    pub fn unsent_bytes(&self) -> usize {
        self.send.len()
    }

    /// The program gives bytes; as many are taken as there is room for.
    pub fn give(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        self.send.extend(&bytes[..taken]);
        taken
    }

    /// The program takes bytes. A segment that says that there is room again, if the other end waits
    /// for that.
    pub fn take(&mut self, bytes: usize) -> Option<Segment> {
        self.receive.drain(..bytes.min(self.receive.len()));
        let room = RECEIVE_BYTES_MAX.saturating_sub(self.receive.len()) as u64;
        let opens = self.told_window < 2 * SEGMENT_BYTES_MAX as u64 && room >= RECEIVE_BYTES_MAX as u64 / 2;
        (opens && self.is_open()).then(|| self.header(self.next))
    }

    /// A RST for the other end.
    pub fn reset(&mut self) -> Segment {
        let segment = Segment { rst: true, ..self.header(self.next) };
        self.end_as(State::Reset);
        segment
    }

    fn end_as(&mut self, state: State) {
        self.state = state;
        self.deadline_ns = None;
    }

    /// What can be sent now.
    pub fn sendable(&mut self, now_ns: u64) -> Vec<Segment> {
        let mut segments = Vec::new();
        if !matches!(self.state, State::Established) {
            return segments;
        }
        let window = self.congestion_window.min(self.peer_window);
        let data_end = self.unacknowledged + self.send.len() as u64;
        while self.next < data_end {
            let in_flight = self.next - self.unacknowledged;
            let room = window.saturating_sub(in_flight);
            let bytes = (data_end - self.next).min(self.segment_bytes as u64).min(room);
            // A window of nothing is probed, one byte at a time.
            let is_probe = bytes == 0 && in_flight == 0;
            if bytes == 0 && !is_probe {
                break;
            }
            segments.push(self.data(self.next, bytes.max(1)));
            self.next += bytes.max(1);
        }
        if self.send_ends && self.next == data_end && !self.fin_acknowledged {
            self.own_fin_at = Some(data_end);
            segments.push(Segment { fin: true, ..self.header(data_end) });
            self.next += 1;
        }
        if !segments.is_empty() {
            if self.next > self.sent_max {
                self.timed.get_or_insert((self.next, now_ns));
                self.sent_max = self.next;
            }
            self.deadline_ns.get_or_insert(now_ns + self.rto_ns);
        }
        segments
    }

    fn data(&mut self, from: u64, bytes: u64) -> Segment {
        let start = (from - self.unacknowledged) as usize;
        let data = copied(&self.send, start, bytes as usize);
        Segment { data, ..self.header(from) }
    }

    /// The time has come at which nothing was acknowledged.
    pub fn expire(&mut self, now_ns: u64) -> Vec<Segment> {
        let tries_max = if self.state == State::Established { TRIES } else { SYN_TRIES };
        if self.tries > tries_max {
            self.end_as(State::TimedOut);
            return Vec::new();
        }
        self.rto_ns = (self.rto_ns * 2).min(RTO_MAX_NS);
        // What was sent twice is not timed (Karn).
        self.timed = None;
        self.resent += 1;
        if self.state != State::Established {
            let syn = self.syn(now_ns);
            self.timed = None;
            return vec![syn];
        }
        self.tries += 1;
        let in_flight = self.next - self.unacknowledged;
        self.threshold = (in_flight / 2).max(2 * SEGMENT_BYTES_MAX as u64);
        self.congestion_window = SEGMENT_BYTES_MAX as u64;
        self.recovers_to = None;
        self.duplicates = 0;
        self.next = self.unacknowledged;
        self.deadline_ns = None;
        self.sendable(now_ns)
    }

    /// A segment has arrived; what is sent because of it.
    pub fn arrive(&mut self, now_ns: u64, segment: &Segment) -> Vec<Segment> {
        if segment.rst {
            self.end_as(State::Reset);
            return Vec::new();
        }
        if segment.syn {
            if self.state == State::SynSent && segment.ack {
                self.expected = 1;
                self.state = State::Established;
                self.acknowledge(now_ns, segment);
                self.peer_window = segment.window;
                let mut answers = vec![self.header(self.next)];
                answers.extend(self.sendable(now_ns));
                return answers;
            }
            if self.state == State::SynReceived {
                self.next = 0;
                return vec![self.syn(now_ns)];
            }
            // Our last acknowledgement was lost.
            return vec![self.header(self.next)];
        }
        if self.state == State::SynReceived && segment.ack && segment.acknowledged >= 1 {
            self.state = State::Established;
        }
        let mut answers = Vec::new();
        if segment.ack {
            answers.extend(self.acknowledge(now_ns, segment));
        }
        let is_news = segment.length() > 0;
        self.take_in(segment);
        let sent = self.sendable(now_ns);
        if is_news && sent.is_empty() && answers.is_empty() {
            answers.push(self.header(self.next));
        }
        answers.extend(sent);
        if self.fin_acknowledged && self.receive_ended && self.is_open() {
            self.end_as(State::Closed);
        }
        answers
    }

    fn take_in(&mut self, segment: &Segment) {
        if segment.fin {
            self.fin_at = Some(segment.sequence + segment.data.len() as u64);
        }
        if segment.sequence == self.expected {
            // As nearly always.
            let room = RECEIVE_BYTES_MAX.saturating_sub(self.receive.len());
            let taken = &segment.data[..segment.data.len().min(room)];
            self.receive.extend(taken);
            self.expected += taken.len() as u64;
        } else if !segment.data.is_empty() {
            self.out_of_order.insert(segment.sequence, segment.data.clone());
        }
        while let Some((&at, _)) = self.out_of_order.first_key_value() {
            if at > self.expected {
                break;
            }
            let Some((at, data)) = self.out_of_order.pop_first() else { break };
            let known = (self.expected - at) as usize;
            if known < data.len() {
                let room = RECEIVE_BYTES_MAX.saturating_sub(self.receive.len());
                let fresh = &data[known..];
                let taken = &fresh[..fresh.len().min(room)];
                self.receive.extend(taken);
                self.expected += taken.len() as u64;
            }
        }
        if self.fin_at == Some(self.expected) && !self.receive_ended {
            self.receive_ended = true;
            self.expected += 1;
        }
    }

    /// What an acknowledgement means; what is sent again at once because of it.
    fn acknowledge(&mut self, now_ns: u64, segment: &Segment) -> Vec<Segment> {
        let (ack, segment_bytes) = (segment.acknowledged, SEGMENT_BYTES_MAX as u64);
        let window_opens = segment.window > self.peer_window;
        self.peer_window = segment.window;
        if ack <= self.unacknowledged || ack > self.sent_max {
            let is_duplicate = ack == self.unacknowledged
                && segment.length() == 0
                && self.sent_max > self.unacknowledged
                && !window_opens;
            return if is_duplicate { self.note_duplicate(ack) } else { Vec::new() };
        }
        self.measure(now_ns, ack);
        let newly = ack - self.unacknowledged;
        let of_data = (newly - u64::from(self.unacknowledged == 0)).min(self.send.len() as u64);
        self.send.drain(..of_data as usize);
        self.fin_acknowledged |= self.own_fin_at.is_some_and(|fin| ack > fin);
        self.unacknowledged = ack;
        self.next = self.next.max(ack);
        (self.tries, self.duplicates) = (0, 0);
        self.deadline_ns = (self.sent_max > ack).then_some(now_ns + self.rto_ns);
        match self.recovers_to {
            Some(end) if ack < end => {
                // A part: the next hole (RFC 6582).
                self.congestion_window = self.congestion_window.saturating_sub(newly).max(segment_bytes);
                return self.resend_first();
            }
            Some(_) => {
                self.recovers_to = None;
                self.congestion_window = self.threshold;
            }
            None if self.congestion_window < self.threshold => self.congestion_window += newly,
            None => self.congestion_window += (segment_bytes * segment_bytes / self.congestion_window).max(1),
        }
        Vec::new()
    }

    fn note_duplicate(&mut self, ack: u64) -> Vec<Segment> {
        const DUPLICATES: u32 = 3;
        self.duplicates += 1;
        let segment_bytes = SEGMENT_BYTES_MAX as u64;
        if self.recovers_to.is_some() {
            self.congestion_window += segment_bytes;
            return Vec::new();
        }
        if self.duplicates < DUPLICATES {
            return Vec::new();
        }
        let in_flight = self.sent_max - ack;
        self.threshold = (in_flight / 2).max(2 * segment_bytes);
        self.congestion_window = self.threshold + u64::from(DUPLICATES) * segment_bytes;
        self.recovers_to = Some(self.sent_max);
        self.timed = None;
        self.resend_first()
    }

    fn resend_first(&mut self) -> Vec<Segment> {
        self.resent += 1;
        let bytes = self.send.len().min(SEGMENT_BYTES_MAX) as u64;
        if bytes == 0 {
            let data_end = self.unacknowledged;
            return match self.send_ends {
                true => vec![Segment { fin: true, ..self.header(data_end) }],
                false => Vec::new(),
            };
        }
        vec![self.data(self.unacknowledged, bytes)]
    }

    /// A round trip has ended (RFC 6298).
    fn measure(&mut self, now_ns: u64, ack: u64) {
        let Some((_, began_ns)) = self.timed.take_if(|(number, _)| ack >= *number) else { return };
        let trip = now_ns - began_ns;
        self.shortest_ns = self.shortest_ns.min(trip);
        let longer_ns = (self.shortest_ns / 8).clamp(LONGER_NS[0], LONGER_NS[1]);
        if trip > self.shortest_ns + longer_ns && self.congestion_window < self.threshold {
            // A queue has begun: no more doubling.
            self.threshold = self.congestion_window;
        }
        match self.smoothed_ns {
            None => {
                self.smoothed_ns = Some(trip);
                self.variation_ns = trip / 2;
            }
            Some(smoothed) => {
                self.variation_ns = (3 * self.variation_ns + smoothed.abs_diff(trip)) / 4;
                self.smoothed_ns = Some((7 * smoothed + trip) / 8);
            }
        }
        let smoothed = self.smoothed_ns.unwrap_or(trip);
        self.rto_ns = (smoothed + (4 * self.variation_ns).max(RTO_MIN_NS)).clamp(RTO_MIN_NS, RTO_MAX_NS);
    }
}
