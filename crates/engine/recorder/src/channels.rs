//! Pipes and socket pairs between processes that go back together: what was in them then is in
//! them again.
//!
//! What was in one then is the beginning of what was read from it since and what is in it now;
//! the rest was written since. The processes stand still, all of them have logged what they did,
//! and nobody else has an end.
//!
//! Invariant: a channel of which not everything is known is left alone: what was read from it is
//! given back to its readers, as the input of others is.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use injector::{
    ChannelEnd, Segment, SessionMemory, borrow_descriptor, channel_ends, drain, ends_allowed, held_outside,
    is_packet_pipe, keeps_bounds, peer_of, put,
};

use crate::history::History;
use crate::logged_calls::{Call, Calls};
use crate::numbers::{
    CLOSE, CLOSE_RANGE, CLOSE_RANGE_CLOEXEC, DUP, DUP2, DUP3, F_DUPFD, FCNTL, MSG_PEEK, PIPE, PIPE2, PREADV2,
    PWRITEV2, READ, READV, RECVFROM, RECVMMSG, RECVMSG, SENDFILE, SENDMMSG, SENDMSG, SENDTO, SOCKETPAIR,
    SPLICE, TEE, VMSPLICE, WRITE, WRITEV,
};
use crate::undoing::Between;

/// Calls whose result is a descriptor of something that was not open before: open, socket,
/// accept, creat, `epoll_create`, openat, signalfd, `timerfd_create`, eventfd, accept4, signalfd4,
/// eventfd2, `epoll_create1`, `inotify_init1`, `memfd_create`, `pidfd_open`, openat2.
const OPENERS: [u16; 17] = [2, 41, 43, 85, 213, 257, 282, 283, 284, 288, 289, 290, 291, 294, 319, 434, 437];
/// Bytes that are sent at a time.
const PIECE_BYTES: usize = 32 * 1024;

/// A process that goes back, and from which position of its log on it forgets.
pub(crate) struct Member {
    pub lane: u32,
    pub pid: i32,
    pub position: u64,
}

impl Member {
    pub fn all(memory: &SessionMemory, segments: &[(Segment, u64)]) -> Vec<Member> {
        let member = |(segment, position): &(Segment, u64)| {
            let lane = memory.lane(*segment);
            Member { lane: lane.ids().0, pid: lane.pid().load(Ordering::Acquire), position: *position }
        };
        segments.iter().map(member).collect()
    }
}

/// What was done about the channels of those that go back.
#[derive(Default)]
pub(crate) struct Channels {
    /// Which going back that was.
    round: Option<u32>,
    /// Descriptors of each lane at those that are as they were.
    restored: BTreeMap<u32, Between>,
}

impl Channels {
    /// Restores the channels between the members, before the first of their logs is cut.
    pub fn restore(&mut self, round: u32, members: &[Member], history: &mut History) {
        if self.round == Some(round) {
            return;
        }
        self.round = Some(round);
        self.restored.clear();
        for channel in restorable(members, history) {
            if channel.restore(members).is_some() {
                for (member, numbers) in &channel.to.readers {
                    self.restored.entry(members[*member].lane).or_default().read.extend(numbers);
                }
                for (member, numbers) in &channel.from.writers {
                    self.restored.entry(members[*member].lane).or_default().written.extend(numbers);
                }
            }
        }
    }

    /// A lane's descriptors at those.
    pub fn restored(&self, round: u32, lane: u32) -> Between {
        let between = self.restored.get(&lane).filter(|_| self.round == Some(round));
        between.cloned().unwrap_or_default()
    }
}

/// The first member's descriptors of which what it wrote there since would be taken back.
pub(crate) fn taken_back(members: &[Member], history: &mut History) -> BTreeSet<u32> {
    let all = restorable(members, history);
    all.iter().filter_map(|channel| channel.from.writers.get(&0)).flatten().copied().collect()
}

/// One way through a pipe or a pair of sockets.
struct Channel {
    name: ChannelEnd,
    from: Rc<End>,
    to: Rc<End>,
}

/// Those in which something was written since, of which all is known.
fn restorable(members: &[Member], history: &mut History) -> Vec<Channel> {
    let flows = members.iter().map(|member| Flows::since(history, member)).collect::<Vec<_>>();
    let Some(ends) = ends_of(members, &flows) else { return Vec::new() };
    let ends: BTreeMap<ChannelEnd, Rc<End>> =
        ends.into_iter().map(|(name, end)| (name, Rc::new(end))).collect();
    let channel = |(name, from): (&ChannelEnd, &Rc<End>)| {
        let other = match name {
            ChannelEnd::Pipe(_) => *name,
            ChannelEnd::Socket(inode) => ChannelEnd::Socket(peer_of(*inode)?),
        };
        let to = ends.get(&other)?;
        let is_known = !from.in_doubt && !to.in_doubt && to.readers.len() < 2;
        is_known.then(|| (other, Channel { name: *name, from: Rc::clone(from), to: Rc::clone(to) }))
    };
    let written = ends.iter().filter(|(_, from)| !from.given.is_empty());
    let mut channels: Vec<(ChannelEnd, Channel)> = written.filter_map(channel).collect();
    if !channels.is_empty() {
        let names = channels.iter().flat_map(|(other, channel)| [*other, channel.name]).collect();
        let pids: Vec<i32> = members.iter().map(|member| member.pid).collect();
        let outside = held_outside(&names, &pids);
        channels.retain(|(other, channel)| !outside.contains(other) && !outside.contains(&channel.name));
    }
    channels.into_iter().map(|(_, channel)| channel).collect()
}

/// What the members did at one end.
#[derive(Default)]
struct End {
    /// Who holds it: the member, and under which number.
    holders: Vec<(usize, u32)>,
    /// What was read, piece by piece; who read it, and under which numbers.
    taken: Vec<Vec<u8>>,
    readers: BTreeMap<usize, BTreeSet<u32>>,
    /// Bytes that were written, call by call; who wrote, and under which numbers.
    given: Vec<u64>,
    writers: BTreeMap<usize, BTreeSet<u32>>,
    in_doubt: bool,
}

/// All ends that the members hold; `None` if something was done at one that nobody knows.
fn ends_of(members: &[Member], flows: &[Flows]) -> Option<BTreeMap<ChannelEnd, End>> {
    let mut ends: BTreeMap<ChannelEnd, End> = BTreeMap::new();
    for (index, (member, flows)) in members.iter().zip(flows).enumerate() {
        if flows.made_process {
            return None;
        }
        let open = channel_ends(member.pid);
        for (number, name) in &open {
            let end = ends.entry(*name).or_default();
            end.holders.push((index, *number));
            end.in_doubt |= flows.meaning(*number) == Meaning::Since;
        }
        for (then, flow) in &flows.flows {
            let numbers = flows.numbers_of(*then);
            if numbers.is_empty() {
                return None;
            }
            // What is none of these is a file or the like.
            let name = numbers.iter().find_map(|number| open.get(number));
            let Some(end) = name.and_then(|name| ends.get_mut(name)) else { continue };
            end.in_doubt |= flow.in_doubt;
            end.given.extend(&flow.given);
            end.writers.entry(index).or_default().extend(&flow.written_by);
            if !flow.taken.is_empty() {
                end.taken.extend(flow.taken.iter().cloned());
                end.readers.entry(index).or_default().extend(&flow.read_by);
            }
        }
    }
    Some(ends)
}

impl Channel {
    /// Takes what is in it, and puts in what was in it. `None` if it is left as it was.
    fn restore(&self, members: &[Member]) -> Option<()> {
        let is_socket = matches!(self.name, ChannelEnd::Socket(_));
        let find = |end: &End, writes: bool| -> Option<OwnedFd> {
            let allowed = |fd: &OwnedFd| if writes { ends_allowed(fd).1 } else { ends_allowed(fd).0 };
            let mut all =
                end.holders.iter().filter_map(|(member, fd)| borrow_descriptor(members[*member].pid, *fd));
            all.find(allowed)
        };
        let (reader, writer) = (find(&self.to, false)?, find(&self.from, true)?);
        let bounds = if is_socket { keeps_bounds(&reader)? } else { false };
        if !is_socket && is_packet_pipe(&writer) {
            return None;
        }
        let now = drain(&reader, is_socket)?;
        let then = content_then(&self.to.taken, &now, &self.from.given, bounds);
        let wanted = then.as_ref().unwrap_or(&now);
        // A stream of sockets takes no more than its buffer at a time.
        let piece_bytes = if is_socket && !bounds { PIECE_BYTES } else { usize::MAX };
        if !wanted
            .iter()
            .flat_map(|piece| piece.chunks(piece_bytes))
            .all(|piece| put(&writer, is_socket, piece))
        {
            diagnostics::tell!(
                "retrovane: not all that was between two processes could be put back between them"
            );
        }
        then.map(|_| ())
    }
}

/// What was in a channel: the beginning of what was taken from it since and is in it now, without
/// as much as was given since. `None` if more was given than that.
fn content_then(taken: &[Vec<u8>], now: &[Vec<u8>], given: &[u64], bounds: bool) -> Option<Vec<Vec<u8>>> {
    let all = || taken.iter().chain(now);
    if bounds {
        let count = all().count().checked_sub(given.len())?;
        return Some(all().take(count).cloned().collect());
    }
    let mut bytes = all().flatten().copied().collect::<Vec<u8>>();
    let given_bytes = usize::try_from(given.iter().sum::<u64>()).ok()?;
    bytes.truncate(bytes.len().checked_sub(given_bytes)?);
    Some(if bytes.is_empty() { Vec::new() } else { vec![bytes] })
}

/// What a number of a descriptor means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// What it, or another number, meant then.
    Then(u32),
    /// Nothing, or something that was opened since.
    Since,
}

/// What one process did with a descriptor of then.
#[derive(Debug, Default, PartialEq, Eq)]
struct Flow {
    taken: Vec<Vec<u8>>,
    given: Vec<u64>,
    /// Numbers under which it was read, and written.
    read_by: BTreeSet<u32>,
    written_by: BTreeSet<u32>,
    /// Something was done with it that does not say how many bytes that were.
    in_doubt: bool,
}

/// What one process did since.
#[derive(Default)]
struct Flows {
    meanings: BTreeMap<u32, Meaning>,
    flows: BTreeMap<u32, Flow>,
    made_process: bool,
}

impl Flows {
    fn since(history: &mut History, member: &Member) -> Flows {
        let (mut flows, mut calls) = (Flows::default(), Calls::default());
        let mut at = member.position;
        while let Some(log) = history.read(member.lane, at) {
            calls.each(&log, &mut |call| flows.call(call));
            at += log.len() as u64;
        }
        flows
    }

    fn meaning(&self, number: u32) -> Meaning {
        self.meanings.get(&number).copied().unwrap_or(Meaning::Then(number))
    }

    /// The numbers that now mean what one meant then.
    fn numbers_of(&self, then: u32) -> BTreeSet<u32> {
        let named = self.meanings.iter().filter(|(_, meaning)| **meaning == Meaning::Then(then));
        let own = (self.meaning(then) == Meaning::Then(then)).then_some(then);
        named.map(|(number, _)| *number).chain(own).collect()
    }

    fn flow(&mut self, number: u32) -> Option<&mut Flow> {
        match self.meaning(number) {
            Meaning::Then(then) => Some(self.flows.entry(then).or_default()),
            Meaning::Since => None,
        }
    }

    fn call(&mut self, call: &Call) {
        self.made_process |= call.child.is_some() && call.result > 0;
        if call.result < 0 {
            return;
        }
        let (fd, result) = (call.args[0] as u32, call.result as u32);
        match call.number {
            READ | READV | RECVFROM if call.result > 0 => {
                if call.number == RECVFROM && call.args[3] & MSG_PEEK != 0 {
                    return;
                }
                let input = call.input();
                let is_whole = input.len() as i64 == call.result;
                let Some(flow) = self.flow(fd) else { return };
                flow.in_doubt |= !is_whole;
                flow.taken.push(input);
                flow.read_by.insert(fd);
            }
            WRITE | WRITEV | SENDTO if call.result > 0 => {
                let Some(flow) = self.flow(fd) else { return };
                flow.given.push(call.result as u64);
                flow.written_by.insert(fd);
            }
            SENDMSG | RECVMSG | SENDMMSG | RECVMMSG | VMSPLICE | PREADV2 | PWRITEV2 => self.doubt(fd),
            SENDFILE => self.doubt(fd),
            SPLICE | TEE => {
                self.doubt(fd);
                self.doubt(call.args[if call.number == SPLICE { 2 } else { 1 }] as u32);
            }
            PIPE | PIPE2 | SOCKETPAIR => {
                let made = call.memory.iter().flat_map(|(_, bytes)| bytes.chunks_exact(4));
                for number in made.filter_map(|bytes| bytes.try_into().ok().map(u32::from_ne_bytes)) {
                    self.meanings.insert(number, Meaning::Since);
                }
            }
            CLOSE => {
                self.meanings.insert(fd, Meaning::Since);
            }
            CLOSE_RANGE if call.args[2] & CLOSE_RANGE_CLOEXEC == 0 => {
                let closed = fd..=call.args[1] as u32;
                let known: Vec<u32> = self.meanings.keys().chain(self.flows.keys()).copied().collect();
                for number in known.into_iter().filter(|number| closed.contains(number)) {
                    self.meanings.insert(number, Meaning::Since);
                }
            }
            DUP => self.is_copy(result, fd),
            FCNTL if F_DUPFD.contains(&call.args[1]) => self.is_copy(result, fd),
            DUP2 | DUP3 => self.is_copy(call.args[1] as u32, fd),
            number if OPENERS.contains(&number) => {
                self.meanings.insert(result, Meaning::Since);
            }
            _ => {}
        }
    }

    fn doubt(&mut self, number: u32) {
        if let Some(flow) = self.flow(number) {
            flow.in_doubt = true;
        }
    }

    fn is_copy(&mut self, new: u32, of: u32) {
        self.meanings.insert(new, self.meaning(of));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: u16, result: i64, args: &[u64], memory: &[u8]) -> Call {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let memory = if memory.is_empty() { Vec::new() } else { vec![(0x1000, memory.to_vec())] };
        Call { number, result, args: all, memory, child: None }
    }

    #[test]
    fn a_flow_is_that_of_the_descriptor_of_then() {
        let mut flows = Flows::default();
        for call in [
            call(READ, 2, &[3, 0x1000, 64], b"ab"),
            call(DUP, 7, &[4], b""),
            call(CLOSE, 0, &[4], b""),
            call(WRITE, 5, &[7, 0x1000, 5], b""),
            // Another thing under the number.
            call(257, 4, &[0, 0, 0], b""),
            call(WRITE, 9, &[4, 0x1000, 9], b""),
            call(SPLICE, 1, &[9, 0, 3, 0, 1], b""),
        ] {
            flows.call(&call);
        }
        assert_eq!(flows.flows[&3].taken, [b"ab".to_vec()]);
        assert_eq!(flows.flows[&4].given, [5]);
        assert_eq!(flows.numbers_of(4), BTreeSet::from([7]));
        assert!(flows.flows[&3].in_doubt && !flows.flows[&4].in_doubt);
    }

    #[test]
    fn what_was_closed_is_not_known_any_more() {
        let mut flows = Flows::default();
        flows.call(&call(WRITE, 5, &[4, 0x1000, 5], b""));
        assert_eq!(flows.numbers_of(4), BTreeSet::from([4]));
        flows.call(&call(CLOSE_RANGE, 0, &[3, 9, 0], b""));
        assert!(flows.numbers_of(4).is_empty());
    }

    #[test]
    fn what_was_given_since_is_not_what_was_there() {
        let piece = |text: &str| text.as_bytes().to_vec();
        let (taken, now) = ([piece("ab"), piece("c")], [piece("de")]);
        assert_eq!(content_then(&taken, &now, &[1, 2], false), Some(vec![piece("ab")]));
        assert_eq!(content_then(&taken, &now, &[5], false), Some(Vec::new()));
        assert_eq!(content_then(&taken, &now, &[6], false), None);
        assert_eq!(content_then(&taken, &now, &[9], true), Some(vec![piece("ab"), piece("c")]));
    }
}
