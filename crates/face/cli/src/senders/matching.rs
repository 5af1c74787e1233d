//! Finds for what was received what was sent.
//!
//! Logs of processes have no common clock. Bytes of one sender arrive in the order in which it sent them; which of
//! several senders was first is told by what arrived, as far as the log has the beginnings of what was sent.

use std::collections::{BTreeMap, VecDeque};

use super::ends::{Address, Connection, End, Ends, Received, Sent, may_agree};
use super::{Arrow, Meeting};

/// So many connections that were asked for are looked at for one that was accepted.
const CONNECTIONS_TRIED_MAX: usize = 256;
/// So many messages of one sender are passed over, at most, that do not agree with what arrived.
const PASSED_OVER_MAX: usize = 64;
/// So many messages to an address are looked at for one that arrived.
const MESSAGES_TRIED_MAX: usize = 4096;

/// All arrows of pipes, sockets and queues.
pub fn arrows(ends: &mut Ends) -> Vec<Arrow> {
    connect(ends);
    let mut found = Vec::new();
    let mut addressed = Addressed::of(ends);
    for end in &ends.all {
        if end.received.is_empty() {
            continue;
        }
        match end.peer {
            Some(peer) => Stream::new(end, &ends.all[peer].sent).arrows(&mut found),
            None if end.is_addressed => addressed.arrows(end, &mut found),
            None => found.extend(end.received.iter().map(|received| outside(end, received))),
        }
    }
    found
}

fn outside(end: &End, received: &Received) -> Arrow {
    Arrow { meeting: end.meeting, from: None, to: received.at, is_certain: false }
}

/// Finds the two ends of each connection.
fn connect(ends: &mut Ends) {
    let mut asked: VecDeque<Connection> = std::mem::take(&mut ends.asked).into();
    for accepted in std::mem::take(&mut ends.accepted) {
        let fits = |one: &Connection| {
            let (client, server) = (&ends.all[one.end], &ends.all[accepted.end]);
            client.meeting == server.meeting
                && client.peer.is_none()
                && may_agree(one.listener.as_ref(), accepted.listener.as_ref())
                && may_agree(client.local.as_ref(), server.remote.as_ref())
                && agree_at_first(client, server)
                && agree_at_first(server, client)
        };
        let tried = asked.iter().take(CONNECTIONS_TRIED_MAX);
        let Some(place) = tried.into_iter().position(fits) else { continue };
        if let Some(one) = asked.remove(place) {
            ends.all[one.end].peer = Some(accepted.end);
            ends.all[accepted.end].peer = Some(one.end);
        }
    }
}

/// True unless what arrived first at one end is another than what was sent first at the other.
fn agree_at_first(sender: &End, receiver: &End) -> bool {
    match (sender.sent.first(), receiver.received.first()) {
        (Some(sent), Some(received)) => agreeing(&sent.begin, &received.begin).is_some(),
        (None, Some(_)) => false,
        (_, None) => true,
    }
}

/// How many bytes were compared; `None`: one is different.
fn agreeing(sent: &[u8], received: &[u8]) -> Option<usize> {
    let common = sent.len().min(received.len());
    (sent[..common] == received[..common]).then_some(common)
}

/// What arrives at one end, and what was sent to it.
struct Stream<'a> {
    end: &'a End,
    sent: &'a [Sent],
    /// What was not received yet of each sending process, in its order.
    waiting: BTreeMap<usize, VecDeque<usize>>,
    /// The message of which a part was received, and how many bytes.
    begun: Option<(usize, u64)>,
    has_several_readers: bool,
}

impl<'a> Stream<'a> {
    fn new(end: &'a End, sent: &'a [Sent]) -> Stream<'a> {
        let mut waiting: BTreeMap<usize, VecDeque<usize>> = BTreeMap::new();
        for (number, one) in sent.iter().enumerate() {
            if one.bytes != 0 || end.is_framed {
                waiting.entry(one.at.process).or_default().push_back(number);
            }
        }
        let mut readers = end.received.iter().map(|received| received.at.process);
        let first = readers.next();
        let has_several_readers = readers.any(|reader| Some(reader) != first);
        Stream { end, sent, waiting, begun: None, has_several_readers }
    }

    fn arrows(mut self, found: &mut Vec<Arrow>) {
        for received in &self.end.received {
            let before = found.len();
            let mut taken = 0;
            while taken < received.bytes || taken == 0 {
                let rest = received.begin.get(taken as usize..).unwrap_or_default();
                let Some((number, used, is_certain)) = self.take(rest) else { break };
                let one = &self.sent[number];
                let is_certain = is_certain && !self.has_several_readers;
                found.push(Arrow {
                    meeting: self.end.meeting,
                    from: Some(one.at),
                    to: received.at,
                    is_certain,
                });
                if self.end.is_framed {
                    break;
                }
                let bytes = (one.bytes - used).min(received.bytes - taken);
                taken += bytes;
                if used + bytes < one.bytes {
                    self.begun = Some((number, used + bytes));
                }
            }
            if found.len() == before {
                found.push(outside(self.end, received));
            }
        }
    }

    /// The message whose bytes come next, how many of them came before, and whether it is the only one
    /// that can be meant.
    fn take(&mut self, rest: &[u8]) -> Option<(usize, u64, bool)> {
        if let Some((number, used)) = self.begun.take() {
            return Some((number, used, true));
        }
        let sent = self.sent;
        let fitting = self.waiting.iter().filter_map(|(process, queue)| {
            let ahead = queue.iter().take(PASSED_OVER_MAX).enumerate();
            let mut agreed = ahead
                .filter_map(|(ahead, number)| Some((ahead, number, agreeing(&sent[*number].begin, rest)?)));
            let (ahead, number, compared) = agreed.next()?;
            Some((ahead, std::cmp::Reverse(compared), sent[*number].order, *process))
        });
        let mut fitting: Vec<_> = fitting.collect();
        fitting.sort_unstable();
        let (ahead, compared, _, process) = *fitting.first()?;
        let is_certain = fitting.get(1).is_none_or(|next| (next.0, next.1) != (ahead, compared));
        let queue = self.waiting.get_mut(&process)?;
        queue.drain(..ahead);
        let number = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&process);
        }
        Some((number, 0, is_certain))
    }
}

/// Messages that find their receivers by addresses.
struct Addressed {
    /// With the address of the sender, where it is known.
    waiting: VecDeque<(Option<Address>, Meeting, Sent)>,
}

impl Addressed {
    fn of(ends: &Ends) -> Addressed {
        let of_end = |end: &End| end.is_addressed && end.peer.is_none();
        let all = ends.all.iter().filter(|end| of_end(end));
        let mut waiting: Vec<_> = all
            .flat_map(|end| end.sent.iter().map(|sent| (end.local.clone(), end.meeting, sent.clone())))
            .collect();
        waiting.sort_by_key(|(_, _, sent)| sent.order);
        Addressed { waiting: waiting.into() }
    }

    fn arrows(&mut self, end: &End, found: &mut Vec<Arrow>) {
        for received in &end.received {
            let fits = |(from, meeting, sent): &(Option<Address>, Meeting, Sent)| {
                *meeting == end.meeting
                    && may_agree(sent.to.as_ref(), end.local.as_ref())
                    && may_agree(from.as_ref(), received.from.as_ref())
                    && agreeing(&sent.begin, &received.begin).is_some()
                    && (received.begin.is_empty() || sent.bytes >= received.bytes)
            };
            let tried = self.waiting.iter().take(MESSAGES_TRIED_MAX).enumerate();
            let mut fitting = tried.filter(|(_, one)| fits(one)).map(|(place, one)| (place, one.2.at));
            let Some((place, at)) = fitting.next() else {
                found.push(outside(end, received));
                continue;
            };
            let is_certain = fitting.all(|(_, other)| other.process == at.process);
            found.push(Arrow { meeting: end.meeting, from: Some(at), to: received.at, is_certain });
            self.waiting.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Place;
    use super::*;

    fn place(process: usize, event: u64) -> Place {
        Place { process, event }
    }

    fn from(found: &[Arrow]) -> Vec<Option<(usize, u64)>> {
        found.iter().map(|arrow| arrow.from.map(|from| (from.process, from.event))).collect()
    }

    #[test]
    fn bytes_of_one_writer_arrive_in_order() {
        let mut ends = Ends::default();
        let [reading, writing] = ends.add_pipe();
        ends.send(writing, place(0, 1), 4, b"abcd", None);
        ends.send(writing, place(0, 2), 2, b"ef", None);
        ends.receive(reading, place(1, 7), 3, b"abc", None);
        ends.receive(reading, place(1, 8), 3, b"def", None);
        let found = arrows(&mut ends);
        assert_eq!(from(&found), [Some((0, 1)), Some((0, 1)), Some((0, 2))]);
        assert!(found.iter().all(|arrow| arrow.is_certain));
    }

    #[test]
    fn contents_tell_writers_apart() {
        let mut ends = Ends::default();
        let [reading, writing] = ends.add_pipe();
        ends.send(writing, place(1, 1), 3, b"one", None);
        ends.send(writing, place(2, 1), 3, b"two", None);
        for text in [b"two", b"one", b"new"] {
            ends.receive(reading, place(0, 9), 3, text, None);
        }
        let found = arrows(&mut ends);
        assert_eq!(from(&found), [Some((2, 1)), Some((1, 1)), None]);
        assert_eq!(found.iter().filter(|arrow| arrow.is_certain).count(), 2);
    }

    #[test]
    fn equal_messages_of_two_writers_are_not_certain() {
        let mut ends = Ends::default();
        let [reading, writing] = ends.add_pipe();
        ends.send(writing, place(1, 1), 1, b"+", None);
        ends.send(writing, place(2, 1), 1, b"+", None);
        ends.receive(reading, place(0, 3), 1, b"+", None);
        let found = arrows(&mut ends);
        assert!(found[0].from.is_some() && !found[0].is_certain);
    }

    #[test]
    fn connections_are_told_apart_by_what_was_sent() {
        let mut ends = Ends::default();
        let listener = Address::Inet { ip: [0; 16], port: 80 };
        for (process, text) in [(1, b"from one"), (2, b"from two")] {
            let client = ends.add(Meeting::Inet, false);
            ends.send(client, place(process, 5), 8, text, None);
            let listener = Some(listener.clone());
            ends.asked.push(Connection { end: client, listener });
        }
        for (event, text) in [(10, b"from two"), (20, b"from one")] {
            let server = ends.add(Meeting::Inet, false);
            ends.receive(server, place(0, event + 1), 8, text, None);
            let listener = Some(listener.clone());
            ends.accepted.push(Connection { end: server, listener });
        }
        assert_eq!(from(&arrows(&mut ends)), [Some((2, 5)), Some((1, 5))]);
    }
}
