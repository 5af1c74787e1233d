//! Packets: sent, on their way, arrived.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::hosts::HostId;
use crate::packet::{Content, Packet};
use crate::segment::Segment;
use crate::sockets::{Datagram, Kind, Socket, SocketId};
use crate::tcp::End;
use crate::{Error, Fabric, Flight, Sent};

/// What a datagram is charged for beyond its bytes, and what a socket takes (net.core.rmem_default).
const DATAGRAM_CHARGE_BYTES: usize = 832;
const DATAGRAMS_BYTES_MAX: usize = 212_992;

/// The hosts' own broadcast address, besides the limited one.
const BROADCAST_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 255, 255);

/// True for addresses that many hosts have.
pub(crate) fn is_group(address: IpAddr) -> bool {
    address.is_multicast()
        || matches!(address, IpAddr::V4(address) if address.is_broadcast() || address == BROADCAST_V4)
}

/// A number by which senders are spread.
fn spread(from: SocketAddr) -> u64 {
    let ip = match from.ip() {
        IpAddr::V4(ip) => u64::from(u32::from(ip)),
        IpAddr::V6(ip) => (u128::from(ip) ^ u128::from(ip) >> 64) as u64,
    };
    ((ip << 16 | u64::from(from.port())).wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 32
}

impl Fabric {
    /// Puts a packet on the link that it has to take.
    pub(crate) fn send(&mut self, from: HostId, packet: Packet) {
        if is_group(packet.to.ip()) {
            for to in self.neighbours(from) {
                self.send_to_host(from, to, packet.clone());
            }
        } else if let Some(to) = self.host_of(from, packet.to.ip()) {
            self.send_to_host(from, to, packet);
        }
    }

    fn send_to_host(&mut self, from: HostId, to: HostId, packet: Packet) {
        let (now_ns, bytes) = (self.now_ns, packet.bytes());
        let arrivals = if from == to {
            vec![now_ns]
        } else if !self.is_reached(from, to) {
            Vec::new()
        } else {
            let mut random = self.random.clone();
            let arrivals = match self.direction(from, to) {
                Some(direction) => direction.arrivals(now_ns, bytes, &mut random),
                None => Vec::new(),
            };
            self.random = random;
            arrivals
        };
        let arrives = !arrivals.is_empty();
        for at_ns in arrivals {
            let key = u128::from(at_ns) << 64 | u128::from(self.next_flight);
            self.next_flight += 1;
            self.flights.insert(key, Flight { from, to, packet: packet.clone() });
        }
        self.sent.push(Sent { at_ns: now_ns, from, to, arrives, packet });
    }

    /// A packet has come to its host.
    pub(crate) fn arrive(&mut self, flight: &Flight) {
        let Flight { from, to, packet } = flight;
        if !self.is_reached(*from, *to) {
            return;
        }
        match &packet.content {
            Content::Tcp(segment) => self.arrive_segment(*to, packet, segment),
            Content::Udp(data) => self.arrive_datagram(*to, packet, data),
            Content::Echo(echo) => self.arrive_echo(*to, packet, echo),
            Content::Unreachable => {
                let sender = self.find_datagram(*to, packet);
                if let Some((id, socket)) = sender.and_then(|id| Some((id, self.sockets.get_mut(&id)?)))
                    && (socket.remote.is_some() || socket.hears_errors)
                {
                    socket.error = Some(Error::Refused);
                    self.changed.insert(id);
                }
            }
        }
    }

    fn arrive_segment(&mut self, host: HostId, packet: &Packet, segment: &Segment) {
        let now_ns = self.now_ns;
        if let Some(id) = self.find_stream(host, packet) {
            let released = self.sockets.get(&id).is_some_and(|socket| socket.released);
            if released && !segment.data.is_empty() {
                // Nobody will read it.
                self.with_stream(id, |end| vec![end.reset(now_ns)]);
            } else {
                self.with_stream(id, |end| end.arrive(now_ns, segment));
            }
            return;
        }
        let opens = segment.syn && !segment.ack && !segment.rst;
        match self.find_listener(host, packet) {
            Some(listener) if opens => self.begin_stream(listener, packet, segment),
            _ if segment.rst => {}
            _ => {
                let rst = Segment {
                    sequence: segment.acknowledged,
                    acknowledged: segment.sequence + segment.length(),
                    rst: true,
                    ack: true,
                    ..Segment::default()
                };
                self.send(host, Self::answer(packet, Content::Tcp(rst)));
            }
        }
    }

    fn begin_stream(&mut self, listener: SocketId, packet: &Packet, syn: &Segment) {
        let is_child = |socket: &&Socket| socket.parent == Some(listener);
        let begun = self.sockets.values().filter(is_child).count();
        let Some(socket) = self.sockets.get(&listener) else { return };
        let Kind::Listener { ready, backlog } = &socket.kind else { return };
        if ready.len() + begun > *backlog {
            // As if it had been lost: it is sent again.
            return;
        }
        let (host, is_v6, no_delay) = (socket.host, socket.is_v6, socket.no_delay);
        let (end, answer) = End::accept(self.now_ns, syn);
        let mut child = Socket::new(host, Kind::Stream(Box::new(end)), is_v6);
        child.no_delay = no_delay;
        (child.local, child.remote, child.parent) = (Some(packet.to), Some(packet.from), Some(listener));
        let id = self.add(child);
        self.send_segments(id, vec![answer]);
    }

    fn arrive_datagram(&mut self, host: HostId, packet: &Packet, data: &[u8]) {
        if is_group(packet.to.ip()) {
            for id in self.members(host, packet) {
                self.enqueue(id, packet, data);
            }
            return;
        }
        let Some(id) = self.find_datagram(host, packet) else {
            self.send(host, Self::answer(packet, Content::Unreachable));
            return;
        };
        self.enqueue(id, packet, data);
    }

    pub(crate) fn enqueue(&mut self, id: SocketId, packet: &Packet, data: &[u8]) {
        let at_ns = self.now_ns;
        let Some(host) = self.sockets.get(&id).map(|socket| socket.host) else { return };
        let is_of_done = self.host_of(host, packet.from.ip()).is_some_and(|host| self.hosts[host.0].is_done);
        let Some(Socket { kind: Kind::Datagram { queue }, arrived, .. }) = self.sockets.get_mut(&id) else {
            return;
        };
        *arrived += u64::from(!is_of_done);
        let charged: usize = queue.iter().map(|one| one.data.len() + DATAGRAM_CHARGE_BYTES).sum();
        if charged + data.len() + DATAGRAM_CHARGE_BYTES <= DATAGRAMS_BYTES_MAX {
            queue.push_back(Datagram { from: packet.from, to: packet.to, data: data.to_vec(), at_ns });
            self.changed.insert(id);
        }
    }

    fn find_stream(&self, host: HostId, packet: &Packet) -> Option<SocketId> {
        let is_it = |socket: &Socket| {
            socket.host == host
                && socket.local == Some(packet.to)
                && socket.remote == Some(packet.from)
                && matches!(&socket.kind, Kind::Stream(end) if end.is_open())
        };
        self.sockets.iter().find(|(_, socket)| is_it(socket)).map(|(&id, _)| id)
    }

    fn find_listener(&self, host: HostId, packet: &Packet) -> Option<SocketId> {
        let listens = |socket: &Socket| matches!(socket.kind, Kind::Listener { .. });
        self.find_bound(host, packet, listens)
    }

    fn find_datagram(&self, host: HostId, packet: &Packet) -> Option<SocketId> {
        let is_datagram =
            |socket: &Socket| matches!(socket.kind, Kind::Datagram { .. }) && socket.pings.is_none();
        let is_connected = |socket: &Socket| is_datagram(socket) && socket.remote == Some(packet.from);
        let is_free = |socket: &Socket| is_datagram(socket) && socket.remote.is_none();
        self.find_bound(host, packet, is_connected).or_else(|| self.find_bound(host, packet, is_free))
    }

    /// Who has the packet's address, or its port with any address; the more exact one first.
    fn find_bound(&self, host: HostId, packet: &Packet, is_it: impl Fn(&Socket) -> bool) -> Option<SocketId> {
        let is_here = |socket: &Socket| {
            let local = socket.local?;
            let fits = socket.host == host && local.port() == packet.to.port() && is_it(socket);
            let is_any = local.ip().is_unspecified() && socket.takes(packet.to.ip());
            (fits && (is_any || local.ip() == packet.to.ip())).then_some(is_any)
        };
        let found = self.sockets.iter().filter_map(|(&id, socket)| Some((is_here(socket)?, id)));
        let mut found: Vec<(bool, SocketId)> = found.collect();
        let best = found.iter().map(|(is_any, _)| *is_any).min()?;
        found.retain(|(is_any, _)| *is_any == best);
        // Those that share the address (SO_REUSEPORT) share what comes, by who sent it.
        let place = spread(packet.from) % found.len() as u64;
        found.get(place as usize).map(|(_, id)| *id)
    }

    /// Who gets what is sent to a group: the hosts with a link, and the sender's own.
    fn neighbours(&self, from: HostId) -> Vec<HostId> {
        (0..self.hosts.len()).map(HostId).filter(|&host| self.is_linked(from, host)).collect()
    }

    /// The sockets of a host that a datagram for a group is for.
    fn members(&self, host: HostId, packet: &Packet) -> Vec<SocketId> {
        let (group, port) = (packet.to.ip(), packet.to.port());
        let is_broadcast = !group.is_multicast();
        let is_own = self.host_of(host, packet.from.ip()) == Some(host);
        let is_for = |socket: &Socket| {
            let Some(local) = socket.local else { return false };
            socket.host == host
                && matches!(socket.kind, Kind::Datagram { .. })
                && socket.pings.is_none()
                && local.port() == port
                && (local.ip() == group || local.ip().is_unspecified() && socket.takes(group))
                && socket.remote.is_none_or(|remote| remote == packet.from)
                && (is_broadcast || socket.groups.contains(&group))
        };
        // IP_MULTICAST_LOOP is the sender's: it is known where its socket is.
        let is_heard = !is_own
            || is_broadcast
            || self.sockets.values().all(|socket| {
                socket.host != host
                    || socket.local.is_none_or(|local| local.port() != packet.from.port())
                    || socket.hears_itself
            });
        self.sockets.iter().filter(|(_, socket)| is_heard && is_for(socket)).map(|(&id, _)| id).collect()
    }
}
