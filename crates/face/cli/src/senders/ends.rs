//! Ends of pipes, sockets and queues: what was sent and received at each.

use std::collections::{HashMap, VecDeque};

use super::descriptors::EndNumber;
use super::{Meeting, Place};

/// What is kept of a message that was received.
const RECEIVED_BYTES_KEPT_MAX: usize = 256;
/// Messages with descriptors that nobody has received; the oldest are forgotten.
const PASSED_MAX: usize = 4096;

/// Where a socket is, or whom it sends to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// IPv4 as IPv6 has it; zeros: any.
    Inet {
        ip: [u8; 16],
        port: u16,
    },
    Unix(Vec<u8>),
    /// A System V message queue.
    Queue(u64),
}

impl Address {
    /// Of a `sockaddr`; `None` for one without a name, and for other families.
    pub fn of(data: &[u8]) -> Option<Address> {
        const UNIX: u16 = 1;
        const INET: u16 = 2;
        const INET6: u16 = 10;
        let port = || Some(u16::from_be_bytes(data.get(2..4)?.try_into().ok()?));
        match u16::from_le_bytes(data.get(..2)?.try_into().ok()?) {
            UNIX => {
                let path = data.get(2..)?;
                // Abstract names begin with a zero, and may hold others.
                let length = match path.first()? {
                    0 => path.len(),
                    _ => path.iter().position(|byte| *byte == 0).unwrap_or(path.len()),
                };
                (length != 0).then(|| Address::Unix(path[..length].to_vec()))
            }
            INET => {
                let mut ip = [0; 16];
                let four: [u8; 4] = data.get(4..8)?.try_into().ok()?;
                if four != [0; 4] {
                    ip[10..12].copy_from_slice(&[0xff; 2]);
                    ip[12..].copy_from_slice(&four);
                }
                Some(Address::Inet { ip, port: port()? })
            }
            INET6 => {
                let ip: [u8; 16] = data.get(8..24)?.try_into().ok()?;
                Some(Address::Inet { ip, port: port()? })
            }
            _ => None,
        }
    }

    /// True if both may be the same place: one of them may be any address of a machine.
    pub fn agrees(&self, other: &Address) -> bool {
        match (self, other) {
            (Address::Inet { ip, port }, Address::Inet { ip: other_ip, port: other_port }) => {
                port == other_port && (ip == other_ip || *ip == [0; 16] || *other_ip == [0; 16])
            }
            (one, other) => one == other,
        }
    }
}

/// True unless both are known and are different.
pub fn may_agree(one: Option<&Address>, other: Option<&Address>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.agrees(other),
        (None, _) | (_, None) => true,
    }
}

/// Something that was sent.
#[derive(Debug, Clone)]
pub struct Sent {
    pub at: Place,
    pub bytes: u64,
    /// As far as the log has it.
    pub begin: Vec<u8>,
    /// To whom, where the call says so.
    pub to: Option<Address>,
    /// Place in the order of all that was sent.
    pub order: u64,
}

/// Something that was received.
#[derive(Debug, Clone)]
pub struct Received {
    pub at: Place,
    pub bytes: u64,
    pub begin: Vec<u8>,
    pub from: Option<Address>,
}

#[derive(Debug)]
pub struct End {
    pub meeting: Meeting,
    /// What is sent there is received here.
    pub peer: Option<EndNumber>,
    /// A message is received as a whole.
    pub is_framed: bool,
    /// Messages find their receiver by its address.
    pub is_addressed: bool,
    pub local: Option<Address>,
    pub remote: Option<Address>,
    pub sent: Vec<Sent>,
    pub received: Vec<Received>,
}

/// A connection that one side asked for, or the other accepted.
#[derive(Debug, Clone)]
pub struct Connection {
    pub end: EndNumber,
    /// Asked: whom; accepted: at which listener's address.
    pub listener: Option<Address>,
}

/// Descriptors in a message that nobody has received yet.
#[derive(Debug)]
struct Passed {
    from: EndNumber,
    ends: Vec<Option<EndNumber>>,
}

#[derive(Debug, Default)]
pub struct Ends {
    pub all: Vec<End>,
    pub asked: Vec<Connection>,
    pub accepted: Vec<Connection>,
    /// Reading and writing end of named pipes.
    named_pipes: HashMap<Vec<u8>, [EndNumber; 2]>,
    queues: HashMap<u64, EndNumber>,
    passed: VecDeque<Passed>,
    sent: u64,
}

impl Ends {
    pub fn add(&mut self, meeting: Meeting, is_framed: bool) -> EndNumber {
        self.all.push(End {
            meeting,
            peer: None,
            is_framed,
            is_addressed: false,
            local: None,
            remote: None,
            sent: Vec::new(),
            received: Vec::new(),
        });
        self.all.len() - 1
    }

    /// A pipe: the reading end, then the writing one.
    pub fn add_pipe(&mut self) -> [EndNumber; 2] {
        let ends = [self.add(Meeting::Pipe, false), self.add(Meeting::Pipe, false)];
        self.all[ends[0]].peer = Some(ends[1]);
        ends
    }

    pub fn add_pair(&mut self, is_framed: bool) -> [EndNumber; 2] {
        let ends = [self.add(Meeting::Unix, is_framed), self.add(Meeting::Unix, is_framed)];
        self.all[ends[0]].peer = Some(ends[1]);
        self.all[ends[1]].peer = Some(ends[0]);
        ends
    }

    pub fn add_named_pipe(&mut self, path: &[u8]) {
        if !self.named_pipes.contains_key(path) {
            let ends = self.add_pipe();
            self.named_pipes.insert(path.to_vec(), ends);
        }
    }

    pub fn named_pipe(&self, path: &[u8]) -> Option<[EndNumber; 2]> {
        self.named_pipes.get(path).copied()
    }

    pub fn queue(&mut self, id: u64) -> EndNumber {
        if let Some(end) = self.queues.get(&id) {
            return *end;
        }
        let end = self.add(Meeting::Queue, true);
        self.all[end].is_addressed = true;
        self.all[end].local = Some(Address::Queue(id));
        self.queues.insert(id, end);
        end
    }

    pub fn send(&mut self, end: EndNumber, at: Place, bytes: u64, begin: &[u8], to: Option<Address>) {
        self.sent += 1;
        let to = to.or_else(|| self.all[end].remote.clone());
        let sent = Sent { at, bytes, begin: begin.to_vec(), to, order: self.sent };
        self.all[end].sent.push(sent);
    }

    pub fn receive(&mut self, end: EndNumber, at: Place, bytes: u64, begin: &[u8], from: Option<Address>) {
        let begin = begin[..begin.len().min(RECEIVED_BYTES_KEPT_MAX)].to_vec();
        let from = from.or_else(|| self.all[end].remote.clone());
        self.all[end].received.push(Received { at, bytes, begin, from });
    }

    /// Descriptors leave in a message from this end.
    pub fn pass(&mut self, from: EndNumber, ends: Vec<Option<EndNumber>>) {
        if self.passed.len() == PASSED_MAX {
            self.passed.pop_front();
        }
        self.passed.push_back(Passed { from, ends });
    }

    /// So many descriptors arrive at this end: what they lead to. Who is at the other end is known of pairs; of connections
    /// the oldest message with as many of them is meant.
    pub fn take_passed(&mut self, at: EndNumber, count: usize) -> Option<Vec<Option<EndNumber>>> {
        let peer = self.all[at].peer;
        let all = &self.all;
        let fits = |one: &Passed| match peer {
            Some(peer) => one.from == peer,
            None => one.from != at && all[one.from].peer.is_none() && one.ends.len() == count,
        };
        let place = self.passed.iter().position(fits)?;
        self.passed.remove(place).map(|passed| passed.ends)
    }
}
