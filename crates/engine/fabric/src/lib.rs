//! A network as data: hosts with addresses, links between them, connections, datagrams, and everything
//! that is on its way. It knows no clock, no descriptor and no process: time is told to it, bytes are
//! given to it and taken from it.
//!
//! Architecture invariant: what it does depends on its seed and on what it was told, in that order, and
//! on nothing else. All of it can be copied, compared and serialised at any moment, packets in flight
//! included: that copy is a checkpoint of the network.
//!
//! Deliberately absent: routers (hosts reach those they have a link to), fragments, ICMP but for echoes and ports
//! that nobody has. What is sent to a group goes to all hosts with a link to the sender.
#![forbid(unsafe_code)]

mod error;
mod hosts;
mod link;
mod options;
mod packet;
mod ping;
mod random;
mod segment;
mod sharing;
mod sockets;
mod tcp;
mod travel;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

pub use error::Error;
pub use hosts::{Host, HostId};
pub use link::LinkSpec;
pub use packet::{Content, Packet};
pub use ping::{Echo, Pings, checksum};
pub use random::Random;
pub use segment::Segment;
pub use sharing::Sharing;
pub use sockets::{Datagram, Kind, Sending, Socket, SocketId, Transport};
pub use tcp::{End, Info, RECEIVE_BYTES_MAX, SEGMENT_BYTES_MAX, SEND_BYTES_MAX, State};

use link::Direction;

/// A packet that was put on a link.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sent {
    pub at_ns: u64,
    pub from: HostId,
    pub to: HostId,
    /// It will arrive, as far as is known when it is sent.
    pub arrives: bool,
    pub packet: Packet,
}

/// A packet in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Flight {
    from: HostId,
    to: HostId,
    packet: Packet,
}

/// The network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fabric {
    now_ns: u64,
    random: Random,
    hosts: Vec<Host>,
    /// By the host that sends (upper half) and the one that receives.
    directions: BTreeMap<u64, Direction>,
    /// The part of the network that each host is in; hosts of different parts do not reach each other.
    parts: Vec<u32>,
    sockets: BTreeMap<SocketId, Socket>,
    next_socket: u64,
    /// By the time of arrival (upper half) and a number.
    flights: BTreeMap<u128, Flight>,
    next_flight: u64,
    changed: BTreeSet<SocketId>,
    sent: Vec<Sent>,
}

impl Fabric {
    /// A network without hosts.
    pub fn new(seed: u64) -> Fabric {
        Fabric {
            now_ns: 0,
            random: Random::new(seed),
            hosts: Vec::new(),
            directions: BTreeMap::new(),
            parts: Vec::new(),
            sockets: BTreeMap::new(),
            next_socket: 0,
            flights: BTreeMap::new(),
            next_flight: 0,
            changed: BTreeSet::new(),
            sent: Vec::new(),
        }
    }

    /// What chance draws from here on.
    pub fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    /// The network's time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// When something happens by itself; `None`: nothing does until somebody sends.
    pub fn next_event_ns(&self) -> Option<u64> {
        let arrival = self.flights.first_key_value().map(|(&key, _)| (key >> 64) as u64);
        let deadlines = self.sockets.values().filter_map(|socket| match &socket.kind {
            Kind::Stream(end) => end.deadline_ns(),
            Kind::Unconnected | Kind::Listener { .. } | Kind::Datagram { .. } => None,
        });
        deadlines.chain(arrival).min()
    }

    /// Lets time pass; all that happens until then happens. Times before the present are the present.
    pub fn advance(&mut self, to_ns: u64) {
        while let Some(at_ns) = self.next_event_ns().filter(|&at_ns| at_ns <= to_ns) {
            self.now_ns = self.now_ns.max(at_ns);
            self.happen();
        }
        self.now_ns = self.now_ns.max(to_ns);
    }

    /// The next thing that is due happens.
    fn happen(&mut self) {
        if let Some((&key, _)) = self.flights.first_key_value()
            && (key >> 64) as u64 <= self.now_ns
            && let Some(flight) = self.flights.remove(&key)
        {
            self.arrive(&flight);
            return;
        }
        let now_ns = self.now_ns;
        let is_due = |socket: &Socket| match &socket.kind {
            Kind::Stream(end) => end.deadline_ns().is_some_and(|at_ns| at_ns <= now_ns),
            Kind::Unconnected | Kind::Listener { .. } | Kind::Datagram { .. } => false,
        };
        let due = self.sockets.iter().find(|(_, socket)| is_due(socket)).map(|(&id, _)| id);
        if let Some(id) = due {
            self.with_stream(id, |end| end.expire(now_ns));
        }
    }

    /// Sockets of which something can be done now that could not before, or that ended.
    pub fn take_changed(&mut self) -> Vec<SocketId> {
        std::mem::take(&mut self.changed).into_iter().collect()
    }

    /// What was sent since this was last asked.
    pub fn take_sent(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.sent)
    }

    /// A socket that is there.
    pub fn socket(&self, id: SocketId) -> Option<&Socket> {
        self.sockets.get(&id)
    }

    /// All sockets.
    pub fn sockets(&self) -> impl Iterator<Item = (SocketId, &Socket)> {
        self.sockets.iter().map(|(&id, socket)| (id, socket))
    }

    /// The host's address that a packet to `to` comes from.
    fn source(&self, host: HostId, to: IpAddr) -> Option<IpAddr> {
        if hosts::is_own(to) {
            return Some(if to.is_ipv4() { hosts::LOOPBACK_V4 } else { hosts::LOOPBACK_V6 });
        }
        let addresses = &self.hosts[host.0].addresses;
        addresses.iter().copied().find(|own| own.is_ipv4() == to.is_ipv4())
    }

    /// Sends what a stream's end says.
    fn send_segments(&mut self, id: SocketId, segments: Vec<Segment>) {
        let Some(socket) = self.sockets.get(&id) else { return };
        let (host, local, remote) = (socket.host, socket.local, socket.remote);
        if let (Some(local), Some(remote)) = (local, remote) {
            for segment in segments {
                self.send(host, Packet { from: local, to: remote, content: Content::Tcp(segment) });
            }
        }
    }

    /// Whether the way of a stream has no limits.
    fn is_way_unlimited(&self, id: SocketId) -> bool {
        let way = self.sockets.get(&id).and_then(|socket| Some((socket.host, socket.remote?.ip())));
        let to = way.and_then(|(host, remote)| Some((host, self.host_of(host, remote)?)));
        let is_unlimited =
            |(host, to)| host == to || self.link_spec(host, to).is_some_and(LinkSpec::is_unlimited);
        to.is_some_and(is_unlimited)
    }

    /// Does something with a stream's end, sends what it says, and notes what came of it.
    fn with_stream(&mut self, id: SocketId, act: impl FnOnce(&mut End) -> Vec<Segment>) {
        let is_unlimited = self.is_way_unlimited(id);
        let Some(Socket { kind: Kind::Stream(end), no_delay, corked, .. }) = self.sockets.get_mut(&id) else {
            return;
        };
        end.set_way(is_unlimited, [*no_delay, *corked]);
        let was = end.state;
        let segments = act(end);
        let is = end.state;
        self.changed.insert(id);
        self.send_segments(id, segments);
        if was != is {
            self.note_state(id, is);
        }
    }

    fn note_state(&mut self, id: SocketId, state: State) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let parent = socket.parent;
        match state {
            State::Established => {
                if let Some(parent) = socket.parent.take()
                    && let Some(listener) = self.sockets.get_mut(&parent)
                    && let Kind::Listener { ready, .. } = &mut listener.kind
                {
                    ready.push_back(id);
                    self.changed.insert(parent);
                }
            }
            State::Closed | State::Reset | State::TimedOut => {
                socket.error = match state {
                    State::Reset if socket.was_connected => Some(Error::Reset),
                    State::Reset => Some(Error::Refused),
                    State::TimedOut => Some(Error::TimedOut),
                    _ => socket.error,
                };
                if socket.released || parent.is_some() {
                    self.sockets.remove(&id);
                }
            }
            State::SynSent | State::SynReceived => {}
        }
        if state == State::Established
            && let Some(socket) = self.sockets.get_mut(&id)
        {
            socket.was_connected = true;
        }
    }

    /// The addresses of a packet that answers.
    fn answer(packet: &Packet, content: Content) -> Packet {
        Packet { from: packet.to, to: packet.from, content }
    }
}

/// The same address, whichever family it was written in.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
