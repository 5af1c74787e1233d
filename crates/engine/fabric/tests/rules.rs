//! The rules of a stream's end, each alone: two ends, a way of so long between them, and what it loses.

use std::collections::VecDeque;

use fabric::{End, LinkSpec, SEGMENT_BYTES_MAX, Segment, State};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;
const FULL: usize = SEGMENT_BYTES_MAX;

/// Two ends; what each sends takes `delay_ns`, and `lost` says what does not arrive.
struct Pair {
    now_ns: u64,
    delay_ns: u64,
    ends: [End; 2],
    /// To whom, when it arrives.
    on_its_way: VecDeque<(u64, usize, Segment)>,
    sent: Vec<(u64, usize, Segment)>,
}

impl Pair {
    fn new(delay_ns: u64) -> Pair {
        let (one, syn) = End::connect(0);
        let (other, answer) = End::accept(delay_ns, &syn);
        let mut pair = Pair {
            now_ns: 2 * delay_ns,
            delay_ns,
            ends: [one, other],
            on_its_way: VecDeque::new(),
            sent: Vec::new(),
        };
        let answers = pair.ends[0].arrive(pair.now_ns, &answer);
        pair.put(0, answers);
        pair.run(3 * delay_ns, |_, _| false);
        assert!(pair.ends.iter().all(|end| end.state == State::Established));
        pair.sent.clear();
        pair
    }

    fn put(&mut self, from: usize, segments: Vec<Segment>) {
        for segment in segments {
            self.sent.push((self.now_ns, from, segment.clone()));
            self.on_its_way.push_back((self.now_ns + self.delay_ns, 1 - from, segment));
        }
    }

    fn give(&mut self, from: usize, bytes: usize) {
        assert_eq!(self.ends[from].give(&vec![7; bytes]), bytes, "there is room");
        let segments = self.ends[from].sendable(self.now_ns);
        self.put(from, segments);
    }

    /// Lets time pass; what arrives is not read.
    fn run(&mut self, to_ns: u64, mut lost: impl FnMut(usize, &Segment) -> bool) {
        for _ in 0..1_000_000 {
            let arrival = self.on_its_way.front().map(|(at_ns, ..)| *at_ns);
            let deadline = self.ends.iter().filter_map(End::deadline_ns).min();
            let Some(next_ns) = arrival.into_iter().chain(deadline).min().filter(|&at| at <= to_ns) else {
                break;
            };
            self.now_ns = self.now_ns.max(next_ns);
            if arrival == Some(next_ns) {
                let Some((_, to, segment)) = self.on_its_way.pop_front() else { break };
                if !lost(to, &segment) {
                    let answers = self.ends[to].arrive(self.now_ns, &segment);
                    self.put(to, answers);
                }
            } else {
                for from in 0..2 {
                    if self.ends[from].deadline_ns().is_some_and(|at_ns| at_ns <= self.now_ns) {
                        let segments = self.ends[from].expire(self.now_ns);
                        self.put(from, segments);
                    }
                }
            }
        }
        self.now_ns = self.now_ns.max(to_ns);
    }

    fn for_ns(&mut self, ns: u64) {
        self.run(self.now_ns + ns, |_, _| false);
    }

    /// What was sent since the last time: when, and what.
    fn take_sent(&mut self, from: usize) -> Vec<(u64, Segment)> {
        let sent = std::mem::take(&mut self.sent);
        sent.into_iter()
            .filter(|(_, by, _)| *by == from)
            .map(|(at_ns, _, segment)| (at_ns, segment))
            .collect()
    }

    fn data_sent(&mut self) -> Vec<(u64, u64)> {
        let sent = self.take_sent(0);
        sent.iter()
            .filter(|(_, one)| !one.data.is_empty())
            .map(|(at_ns, one)| (*at_ns, one.sequence))
            .collect()
    }
}

#[test]
fn ten_packets_are_sent_at_first_and_twice_as_many_then() {
    let mut pair = Pair::new(50 * MILLISECOND);
    pair.give(0, 40 * FULL);
    assert_eq!(pair.data_sent().len(), 10);
    pair.for_ns(105 * MILLISECOND);
    assert_eq!(pair.data_sent().len(), 20);
}

#[test]
fn what_is_not_read_ends_at_the_first_window() {
    let mut pair = Pair::new(MILLISECOND);
    pair.give(0, 60 * FULL);
    pair.for_ns(10 * SECOND);
    let unread = pair.ends[1].received().len();
    assert!((60_000..=65_536).contains(&unread), "{unread} bytes");
    pair.take_sent(0);
    // It asks from time to time, and goes on when there is room.
    pair.for_ns(60 * SECOND);
    let asked = pair.take_sent(0);
    assert!((2..20).contains(&asked.len()), "{} questions", asked.len());
    assert!(asked.iter().all(|(_, segment)| segment.data.is_empty()));
    let tells = pair.ends[1].take(pair.now_ns, usize::MAX).expect("there is room again");
    pair.put(1, vec![tells]);
    pair.for_ns(SECOND);
    assert_eq!(unread + pair.ends[1].received().len(), 60 * FULL);
}

#[test]
fn the_window_grows_with_what_is_read() {
    let mut pair = Pair::new(10 * MILLISECOND);
    let mut widest = 0;
    for _ in 0..40 {
        let room = pair.ends[0].room();
        pair.give(0, room);
        pair.for_ns(10 * MILLISECOND);
        let bytes = pair.ends[1].received().len();
        let told = pair.ends[1].take(pair.now_ns, bytes);
        pair.put(1, told.into_iter().collect());
        widest = widest.max(pair.take_sent(1).iter().map(|(_, one)| one.window).max().unwrap_or(0));
    }
    assert!(widest > 500_000, "{widest} bytes");
}

#[test]
fn every_second_segment_is_acknowledged_once_a_stream_has_begun() {
    let mut pair = Pair::new(MILLISECOND);
    for _ in 0..4 {
        pair.give(0, 10 * FULL);
        pair.for_ns(100 * MILLISECOND);
        pair.ends[1].take(pair.now_ns, usize::MAX);
    }
    pair.take_sent(1);
    pair.give(0, 10 * FULL);
    pair.for_ns(30 * MILLISECOND);
    assert_eq!(pair.take_sent(1).len(), 5);
}

#[test]
fn an_answer_carries_the_acknowledgement_and_without_one_it_comes_late() {
    let mut pair = Pair::new(MILLISECOND);
    for _ in 0..3 {
        pair.give(0, 1);
        pair.for_ns(MILLISECOND);
        pair.ends[1].take(pair.now_ns, 1);
        pair.give(1, 1);
        pair.for_ns(MILLISECOND);
        pair.ends[0].take(pair.now_ns, 1);
    }
    pair.take_sent(1);
    let began_ns = pair.now_ns;
    pair.give(0, 1);
    pair.for_ns(MILLISECOND);
    assert!(pair.ends[1].take(pair.now_ns, 1).is_none(), "the program will answer");
    pair.for_ns(100 * MILLISECOND);
    let late: Vec<u64> = pair.take_sent(1).iter().map(|(at_ns, _)| at_ns - began_ns).collect();
    assert_eq!(late, [41 * MILLISECOND]);
}

#[test]
fn small_segments_wait_for_each_other_unless_told_not_to() {
    for no_delay in [false, true] {
        let mut pair = Pair::new(10 * MILLISECOND);
        pair.ends[0].set_way(false, [no_delay, false]);
        pair.give(0, 3);
        pair.give(0, 3);
        assert_eq!(pair.data_sent().len(), if no_delay { 2 } else { 1 });
        pair.for_ns(100 * MILLISECOND);
        assert_eq!(pair.ends[1].received().len(), 6);
    }
}

#[test]
fn one_hole_is_filled_after_one_round_trip_and_nothing_else_is_sent_again() {
    let mut pair = Pair::new(50 * MILLISECOND);
    let began_ns = pair.now_ns;
    pair.give(0, 10 * FULL);
    let hole = 1 + 3 * FULL as u64;
    let mut is_first = true;
    pair.run(began_ns + SECOND, |_, one| one.sequence == hole && std::mem::take(&mut is_first));
    let told: Vec<_> =
        pair.sent.iter().filter(|(_, by, _)| *by == 1).map(|(.., one)| one.selected.clone()).collect();
    assert!(
        told.contains(&vec![(hole + FULL as u64, 1 + 10 * FULL as u64)]),
        "what is behind the hole is told"
    );
    let sent = pair.data_sent();
    assert_eq!(sent.len(), 11);
    assert_eq!(sent[10], (began_ns + 100 * MILLISECOND, hole));
    assert_eq!(pair.ends[1].received().len(), 10 * FULL);
}

#[test]
fn what_is_lost_twice_is_found_by_what_was_sent_later() {
    let mut pair = Pair::new(50 * MILLISECOND);
    let (began_ns, mut losses) = (pair.now_ns, 2);
    pair.give(0, 40 * FULL);
    pair.run(began_ns + SECOND, |_, one| {
        let is_lost = one.sequence == 1 && !one.data.is_empty() && losses > 0;
        losses -= u64::from(is_lost);
        is_lost
    });
    assert_eq!(losses, 0);
    let times: Vec<u64> = pair
        .data_sent()
        .iter()
        .filter(|(_, at)| *at == 1)
        .map(|(at_ns, _)| (at_ns - began_ns) / MILLISECOND)
        .collect();
    assert_eq!(times, [0, 100, 200], "no timeout: that would be after 300 ms");
    assert_eq!(pair.ends[1].received().len(), 40 * FULL);
}

#[test]
fn the_tail_is_probed_before_the_timeout() {
    let mut pair = Pair::new(50 * MILLISECOND);
    let (began_ns, mut losses) = (pair.now_ns, 2);
    let [last, before] = [9, 8].map(|index| 1 + index * FULL as u64);
    pair.give(0, 10 * FULL);
    pair.run(began_ns + SECOND, |_, one| {
        let is_lost = one.sequence >= before && !one.data.is_empty() && losses > 0;
        losses -= u64::from(is_lost);
        is_lost
    });
    let sent = pair.data_sent();
    let again: Vec<(u64, u64)> =
        sent[10..].iter().map(|(at_ns, at)| ((at_ns - began_ns) / MILLISECOND, *at)).collect();
    // Two round trips after the last news; the other one is found by that.
    assert_eq!(again, [(302, last), (402, before)]);
    assert_eq!(pair.ends[1].received().len(), 10 * FULL);
}

#[test]
fn a_loss_takes_three_tenths_of_the_window_and_a_timeout_all_of_it() {
    let mut pair = Pair::new(50 * MILLISECOND);
    let mut is_first = true;
    pair.give(0, 10 * FULL);
    pair.run(pair.now_ns + 250 * MILLISECOND, |_, one| {
        one.sequence == 1 && one.length() > 0 && std::mem::take(&mut is_first)
    });
    assert_eq!(pair.ends[0].info().threshold_bytes, 7 * FULL as u64);
    let mut pair = Pair::new(50 * MILLISECOND);
    pair.give(0, 10 * FULL);
    pair.run(pair.now_ns + 700 * MILLISECOND, |to, _| to == 1);
    let info = pair.ends[0].info();
    assert_eq!((info.congestion_bytes, info.threshold_bytes), (FULL as u64, 7 * FULL as u64));
}

#[test]
fn a_timeout_for_nothing_is_taken_back() {
    let mut pair = Pair::new(50 * MILLISECOND);
    pair.give(0, 10 * FULL);
    // The way has become much longer, and nothing is lost.
    for (at_ns, ..) in &mut pair.on_its_way {
        *at_ns += 500 * MILLISECOND;
    }
    pair.for_ns(520 * MILLISECOND);
    assert_eq!(pair.ends[0].info().congestion_bytes, FULL as u64);
    pair.for_ns(2 * SECOND);
    let info = pair.ends[0].info();
    assert!(info.congestion_bytes >= 10 * FULL as u64 && info.threshold_bytes > 1 << 40, "{info:?}");
}

#[test]
fn a_window_that_was_not_used_begins_anew() {
    let mut pair = Pair::new(50 * MILLISECOND);
    for _ in 0..3 {
        pair.give(0, 20 * FULL);
        pair.for_ns(400 * MILLISECOND);
        let told = pair.ends[1].take(pair.now_ns, usize::MAX);
        pair.put(1, told.into_iter().collect());
    }
    let used = pair.ends[0].info().congestion_bytes;
    assert!(used >= 20 * FULL as u64);
    pair.for_ns(20 * SECOND);
    pair.take_sent(0);
    pair.give(0, 20 * FULL);
    assert_eq!(pair.data_sent().len(), 10);
}

#[test]
fn a_queue_holds_what_was_said_and_headers_take_time() {
    // A full segment is 1514 bytes on the wire.
    let spec = LinkSpec { bits_per_second: 1514 * 8 * 1000, queue_bytes: 5 * 1514, ..LinkSpec::default() };
    let mut fabric = fabric::Fabric::new(1);
    let hosts = ["10.0.0.1", "10.0.0.2"].map(|ip| fabric.add_host(vec![ip.parse().expect("an address")]));
    fabric.link(hosts[0], hosts[1], &spec);
    let sender = fabric.open(hosts[0], fabric::Transport::Datagram, false);
    for _ in 0..10 {
        let to = Some("10.0.0.2:9".parse().expect("an address"));
        fabric.send_to(sender, to, &[0; 1472]).expect("there is a way");
    }
    let arrive = fabric.take_sent().iter().filter(|sent| sent.arrives).count();
    assert_eq!(arrive, 5, "as many as fit");
    let segment = Segment { stamp: 1, data: vec![0; FULL], ..Segment::default() };
    let at = "10.0.0.2:9".parse().expect("an address");
    let packet = fabric::Packet { from: at, to: at, content: fabric::Content::Tcp(segment) };
    assert_eq!(packet.bytes(), 1514);
}

#[test]
fn what_is_corked_goes_when_it_fills_a_segment_or_after_a_while() {
    let mut pair = Pair::new(MILLISECOND);
    pair.ends[0].set_way(false, [true, true]);
    pair.give(0, FULL / 2);
    pair.for_ns(150 * MILLISECOND);
    assert_eq!(pair.data_sent().len(), 0);
    pair.give(0, FULL);
    assert_eq!(pair.data_sent().len(), 1, "one is full");
    pair.for_ns(150 * MILLISECOND);
    assert_eq!(pair.data_sent().len(), 0);
    pair.for_ns(150 * MILLISECOND);
    assert_eq!(pair.data_sent().len(), 1, "it was held for 200 ms");
    assert_eq!(pair.ends[1].received().len(), FULL + FULL / 2);
    pair.give(0, 10);
    pair.ends[0].set_way(false, [true, false]);
    let segments = pair.ends[0].sendable(pair.now_ns);
    assert_eq!(segments.len(), 1, "it is not corked any more");
}

#[test]
fn what_more_follows_goes_with_it() {
    let mut pair = Pair::new(MILLISECOND);
    pair.ends[0].set_more(true);
    pair.give(0, 10);
    pair.ends[0].set_more(false);
    assert_eq!(pair.data_sent().len(), 0);
    pair.give(0, 10);
    let sent = pair.take_sent(0);
    assert_eq!(sent.iter().map(|(_, one)| one.data.len()).collect::<Vec<_>>(), [20]);
}

#[test]
fn urgent_data_is_announced_until_it_is_acknowledged() {
    let mut pair = Pair::new(MILLISECOND);
    pair.ends[0].give(b"abU");
    pair.ends[0].mark_urgent();
    let segments = pair.ends[0].sendable(pair.now_ns);
    pair.put(0, segments);
    pair.for_ns(10 * MILLISECOND);
    assert_eq!(pair.ends[1].urgent_at(), Some(2));
    pair.ends[1].take(pair.now_ns, 2);
    assert_eq!(pair.ends[1].urgent_at(), Some(0));
    pair.ends[1].take(pair.now_ns, 1);
    assert_eq!(pair.ends[1].urgent_at(), None);
    pair.take_sent(0);
    pair.give(0, 5);
    let urgent: Vec<u64> = pair.take_sent(0).iter().map(|(_, one)| one.urgent).collect();
    assert_eq!(urgent, [0]);
}
