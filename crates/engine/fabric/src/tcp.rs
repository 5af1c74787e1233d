//! One end of a stream: what is sent, what is acknowledged, what is sent again (RFC 9293), as Linux does it: windows by
//! CUBIC, what is lost by selective acknowledgements and their times (RACK), tails probed, acknowledgements delayed,
//! buffers that grow with what they carry. ADR 0107 has the list, and how it compares.
//!
//! Deliberately absent: segmentation by a pace, ECN, fast open; windows are plain numbers. Urgent data comes in its place
//! among the others, and is announced with them.

mod acknowledging;
mod congestion;
mod cubic;
mod incoming;
mod outstanding;
mod round_trips;
mod sending;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::segment::Segment;
use congestion::{Congestion, Phase};
use incoming::Incoming;
use outstanding::{News, Outstanding};
use round_trips::RoundTrips;

/// Bytes of data in a segment: what Ethernet has room for besides headers and time stamps.
pub const SEGMENT_BYTES_MAX: usize = 1448;
/// Bytes of data in a segment where nothing depends on how many there are, as kernels hand them to network cards
/// (segmentation offload): as many whole ones as a packet of IPv4 has room for.
pub const SEGMENT_BYTES_OFFLOADED: usize = 45 * SEGMENT_BYTES_MAX;
/// Bytes that wait to be sent or acknowledged, at first and at most (net.ipv4.tcp_wmem).
const SEND_BYTES_FIRST: usize = 87_040;
pub const SEND_BYTES_MAX: usize = 4 << 20;
/// Bytes that have arrived and were not read.
pub const RECEIVE_BYTES_MAX: usize = incoming::WINDOW_MAX;
const MILLISECOND: u64 = 1_000_000;
/// Tries of a SYN, and of data (tcp_syn_retries, tcp_retries2 of tcp(7)).
const SYN_TRIES: u32 = 6;
const TRIES: u32 = 15;
/// So many packets behind a hole, and it is no longer waited for what may have been overtaken.
const REORDERED_MAX: u64 = 3;

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

/// What is done when the time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Timer {
    /// Nothing was acknowledged.
    Timeout,
    /// The last of what was sent is sent again, to learn whether all has arrived.
    Probe,
    /// What may have been overtaken is lost.
    Overtaken,
    /// The other end is asked whether it has room.
    Window,
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
    segment_bytes: usize,
    /// TCP_NODELAY: small segments do not wait for each other.
    no_delay: bool,
    small_end: u64,
    /// TCP_CORK: what does not fill a segment waits for more, for as long as the timer of windows.
    corked: bool,
    /// MSG_MORE: the same of what was given last.
    more: bool,
    /// The number behind the last urgent byte that was given; 0: none was.
    urgent_end: u64,
    /// The program sends nothing more.
    pub send_ends: bool,
    own_fin_at: Option<u64>,
    fin_acknowledged: bool,
    incoming: Incoming,
    outstanding: Outstanding,
    congestion: Congestion,
    round_trips: RoundTrips,
    syn_sent_ns: Option<u64>,
    sent_ns: u64,
    /// What the other end has room for ends there.
    peer_edge: u64,
    tries: u32,
    pub resent: u64,
    timer: Option<(u64, Timer)>,
    /// The tail was probed: up to where, and whether by what had been sent before.
    probed: Option<(u64, bool)>,
    reorders: bool,
    patience_steps: u64,
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
            no_delay: false,
            small_end: 0,
            corked: false,
            more: false,
            urgent_end: 0,
            send_ends: false,
            own_fin_at: None,
            fin_acknowledged: false,
            incoming: Incoming::new(),
            outstanding: Outstanding::default(),
            congestion: Congestion::new(),
            round_trips: RoundTrips::new(),
            syn_sent_ns: None,
            sent_ns: 0,
            peer_edge: 0,
            tries: 0,
            resent: 0,
            timer: None,
            probed: None,
            reorders: false,
            patience_steps: 1,
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
        (end.incoming.expected, end.incoming.stamp) = (1, syn.stamp);
        end.peer_edge = 1 + syn.window;
        let answer = end.syn(now_ns);
        (end, answer)
    }

    fn syn(&mut self, now_ns: u64) -> Segment {
        self.next = 1;
        self.syn_sent_ns = (self.tries == 0).then_some(now_ns);
        self.tries += 1;
        self.timer = Some((now_ns + self.round_trips.rto_ns, Timer::Timeout));
        Segment { syn: true, ..self.header(now_ns, 0) }
    }

    fn header(&mut self, now_ns: u64, sequence: u64) -> Segment {
        let ack = self.state != State::SynSent;
        let urgent = if self.urgent_end > sequence { self.urgent_end } else { 0 };
        let mut segment = Segment { sequence, ack, urgent, stamp: Self::stamp(now_ns), ..Segment::default() };
        self.incoming.tell(&mut segment);
        segment
    }

    fn stamp(now_ns: u64) -> u32 {
        // Never 0: that is none.
        1 + (now_ns / MILLISECOND) as u32
    }

    /// How the way to the other end is: one without limits takes many packets at once. And TCP_NODELAY, and TCP_CORK.
    pub fn set_way(&mut self, is_unlimited: bool, [no_delay, corked]: [bool; 2]) {
        (self.no_delay, self.corked) = (no_delay, corked);
        self.segment_bytes = if is_unlimited { SEGMENT_BYTES_OFFLOADED } else { SEGMENT_BYTES_MAX };
        if is_unlimited {
            self.incoming.open_wide();
        }
    }

    /// True until the connection is over.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::SynSent | State::SynReceived | State::Established)
    }

    /// Bytes that have arrived and were not read.
    pub fn received(&self) -> &VecDeque<u8> {
        &self.incoming.ready
    }

    /// The other end sends nothing more, and all of it is here.
    pub fn receive_ended(&self) -> bool {
        self.incoming.ended
    }

    /// Bytes that the program may give: twice what may be on its way.
    pub fn room(&self) -> usize {
        let window = self.congestion.window as usize * SEGMENT_BYTES_MAX;
        let most = match self.segment_bytes {
            SEGMENT_BYTES_MAX => (2 * window).clamp(SEND_BYTES_FIRST, SEND_BYTES_MAX),
            _ => SEND_BYTES_MAX,
        };
        let has_room = self.is_open() && !self.send_ends;
        if has_room { most.saturating_sub(self.send.len()) } else { 0 }
    }

    /// What TCP_INFO tells.
    pub fn info(&self) -> Info {
        let bytes = |packets: u64| packets.saturating_mul(SEGMENT_BYTES_MAX as u64);
        Info {
            rto_ns: self.round_trips.rto_ns,
            trip_ns: self.round_trips.smoothed_ns.unwrap_or(0),
            variation_ns: self.round_trips.variation_ns,
            threshold_bytes: bytes(self.congestion.threshold),
            congestion_bytes: bytes(self.congestion.window),
            in_flight_bytes: self.next.saturating_sub(self.unacknowledged),
            tries: self.tries,
            resent: self.resent,
        }
    }

    /// Bytes that the program gave and that nobody has acknowledged.
    pub fn unsent_bytes(&self) -> usize {
        self.send.len()
    }

    /// When something is due by itself.
    pub fn deadline_ns(&self) -> Option<u64> {
        if !self.is_open() {
            return None;
        }
        self.timer.map(|(at_ns, _)| at_ns).into_iter().chain(self.incoming.owed_ns).min()
    }

    /// The program gives bytes; as many are taken as there is room for.
    pub fn give(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        self.send.extend(&bytes[..taken]);
        taken
    }

    /// What is given until the next call of this is to be held until more comes (MSG_MORE), as far as it fills no segment.
    pub fn set_more(&mut self, more: bool) {
        self.more = more;
    }

    /// The last of the bytes that were given is urgent.
    pub fn mark_urgent(&mut self) {
        self.urgent_end = self.unacknowledged + self.send.len() as u64;
    }

    /// Where among the bytes that were not read the last urgent one is.
    pub fn urgent_at(&self) -> Option<usize> {
        self.incoming.urgent_at()
    }

    /// All that was given is where it should be, and the other end knows that nothing more comes.
    pub fn has_delivered(&self) -> bool {
        self.fin_acknowledged || !self.is_open()
    }

    /// The program takes bytes. A segment, if the other end is to be told.
    pub fn take(&mut self, now_ns: u64, bytes: usize) -> Option<Segment> {
        let bytes = bytes.min(self.incoming.ready.len());
        self.incoming.ready.drain(..bytes);
        let trip_ns = self.round_trips.smoothed_ns.unwrap_or(MILLISECOND);
        let tells = bytes > 0 && self.incoming.note_read(now_ns, bytes, trip_ns);
        (tells && self.is_open()).then(|| self.header(now_ns, self.next))
    }

    /// A RST for the other end.
    pub fn reset(&mut self, now_ns: u64) -> Segment {
        let segment = Segment { rst: true, ..self.header(now_ns, self.next) };
        self.end_as(State::Reset);
        segment
    }

    fn end_as(&mut self, state: State) {
        self.state = state;
    }

    /// Says when something is due if nothing comes.
    fn arm(&mut self, now_ns: u64, overtaken_ns: Option<u64>) {
        let is_calm = self.congestion.phase == Phase::Open && self.outstanding.arrived() == 0;
        let probes = is_calm && self.probed.is_none() && self.round_trips.smoothed_ns.is_some();
        let rto_ns = self.round_trips.rto_ns;
        let (after_ns, timer) = match overtaken_ns {
            Some(wait_ns) => (wait_ns, Timer::Overtaken),
            None if !self.outstanding.is_empty() && probes => {
                (self.round_trips.probe_ns(self.outstanding.pieces() == 1), Timer::Probe)
            }
            None if !self.outstanding.is_empty() => (rto_ns, Timer::Timeout),
            None => (rto_ns, Timer::Window),
        };
        self.timer = None;
        if !self.outstanding.is_empty() || self.is_shut_out() {
            self.timer = Some((now_ns + after_ns, timer));
        }
    }

    /// The time has come.
    pub fn expire(&mut self, now_ns: u64) -> Vec<Segment> {
        let mut segments = Vec::new();
        if let Some((_, timer)) = self.timer.take_if(|(at_ns, _)| *at_ns <= now_ns) {
            segments = match timer {
                Timer::Timeout => self.time_out(now_ns),
                Timer::Probe => self.probe(now_ns),
                Timer::Overtaken => {
                    let progress =
                        self.look_for_lost(now_ns, &News { delivered: 1, ..News::default() }, false);
                    self.congestion.proceed(&progress);
                    self.sendable(now_ns)
                }
                Timer::Window if self.peer_edge > self.next => self.send_held(now_ns),
                Timer::Window => {
                    self.round_trips.back_off();
                    self.arm(now_ns, None);
                    vec![self.header(now_ns, self.unacknowledged - 1)]
                }
            };
        }
        if self.is_open() && self.incoming.owed_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.incoming.note_silence();
            segments.push(self.header(now_ns, self.next));
        }
        segments
    }

    fn time_out(&mut self, now_ns: u64) -> Vec<Segment> {
        let tries_max = if self.state == State::Established { TRIES } else { SYN_TRIES };
        if self.tries > tries_max {
            self.end_as(State::TimedOut);
            return Vec::new();
        }
        self.round_trips.back_off();
        if self.state != State::Established {
            self.resent += 1;
            return vec![self.syn(now_ns)];
        }
        self.outstanding.lose_all(now_ns);
        let in_flight = self.outstanding.in_flight();
        self.congestion.time_out(self.unacknowledged, self.next, in_flight, self.tries);
        (self.tries, self.probed) = (self.tries + 1, None);
        self.sendable(now_ns)
    }

    fn probe(&mut self, now_ns: u64) -> Vec<Segment> {
        let data_end = self.unacknowledged + self.send.len() as u64;
        let is_new = self.next < data_end && self.peer_edge > self.next;
        let full = SEGMENT_BYTES_MAX as u64;
        let segment = if is_new {
            let end = data_end.min(self.next + full).min(self.peer_edge);
            Some(self.send_to(now_ns, end))
        } else {
            self.outstanding.resend_last(now_ns, full).map(|piece| self.again(now_ns, piece))
        };
        self.probed = Some((self.next, !is_new));
        self.arm(now_ns, None);
        segment.into_iter().collect()
    }

    /// A segment has arrived; what is sent because of it.
    pub fn arrive(&mut self, now_ns: u64, segment: &Segment) -> Vec<Segment> {
        if segment.rst {
            self.end_as(State::Reset);
            return Vec::new();
        }
        if segment.syn {
            return self.arrive_syn(now_ns, segment);
        }
        if self.state == State::SynReceived && segment.ack && segment.acknowledged >= 1 {
            self.establish(now_ns, segment);
        }
        if segment.ack {
            self.acknowledge(now_ns, segment);
        }
        self.incoming.take_in(now_ns, segment);
        let mut answers = self.sendable(now_ns);
        if self.incoming.owed_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            answers.push(self.header(now_ns, self.next));
        }
        if self.fin_acknowledged && self.incoming.ended && self.is_open() {
            self.end_as(State::Closed);
        }
        answers
    }

    fn arrive_syn(&mut self, now_ns: u64, segment: &Segment) -> Vec<Segment> {
        if self.state == State::SynSent && segment.ack {
            (self.incoming.expected, self.incoming.stamp) = (1, segment.stamp);
            self.establish(now_ns, segment);
            let mut answers = vec![self.header(now_ns, self.next)];
            answers.extend(self.sendable(now_ns));
            return answers;
        }
        if self.state == State::SynReceived {
            return vec![self.syn(now_ns)];
        }
        // Our last acknowledgement was lost.
        vec![self.header(now_ns, self.next)]
    }

    fn establish(&mut self, now_ns: u64, segment: &Segment) {
        self.state = State::Established;
        self.unacknowledged = 1;
        self.peer_edge = self.peer_edge.max(segment.acknowledged + segment.window);
        (self.tries, self.timer) = (0, None);
        if let Some(sent_ns) = self.syn_sent_ns {
            self.round_trips.note(now_ns - sent_ns);
        }
    }
}
