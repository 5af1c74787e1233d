//! Hosts, what they are linked to, and what part of the network they are in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::Fabric;
use crate::link::{Direction, LinkSpec};
use crate::sockets::Kind;

pub const LOOPBACK_V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub const LOOPBACK_V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
/// The first port that is given to who asks for any (ip_local_port_range).
pub(crate) const PORTS_FROM: u16 = 32768;

/// A host's place among the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId(pub usize);

/// A machine of the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    pub addresses: Vec<IpAddr>,
    /// False while it has no power.
    pub up: bool,
    /// What it was there for is done: who takes its datagrams serves nobody by that.
    pub is_done: bool,
    pub(crate) next_port: u16,
}

/// True for the addresses by which each host means itself.
pub fn is_own(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

fn key(from: HostId, to: HostId) -> u64 {
    (from.0 as u64) << 32 | to.0 as u64
}

impl Fabric {
    /// One more host, without links.
    pub fn add_host(&mut self, addresses: Vec<IpAddr>) -> HostId {
        self.hosts.push(Host { addresses, up: true, is_done: false, next_port: PORTS_FROM });
        self.parts.push(0);
        HostId(self.hosts.len() - 1)
    }

    /// Links two hosts, in both directions, or describes their link anew: what is on its way stays so.
    pub fn link(&mut self, one: HostId, other: HostId, spec: &LinkSpec) {
        for key in [key(one, other), key(other, one)] {
            match self.directions.get_mut(&key) {
                Some(direction) => direction.spec = spec.clone(),
                None => {
                    self.directions.insert(key, Direction::new(spec.clone()));
                }
            }
        }
    }

    /// What is described of a link.
    pub fn link_spec(&self, from: HostId, to: HostId) -> Option<&LinkSpec> {
        self.directions.get(&key(from, to)).map(|direction| &direction.spec)
    }

    /// Takes the network apart: hosts in different parts do not reach each other. What has arrived
    /// nowhere yet is lost.
    pub fn partition(&mut self, part_of: impl Fn(HostId) -> u32) {
        for (index, part) in self.parts.iter_mut().enumerate() {
            *part = part_of(HostId(index));
        }
    }

    /// All hosts are in one part again.
    pub fn heal(&mut self) {
        self.partition(|_| 0);
    }

    /// A host loses power: its sockets are gone, and nobody is told. Or it gets power.
    pub fn set_power(&mut self, host: HostId, up: bool) {
        (self.hosts[host.0].up, self.hosts[host.0].is_done) = (up, false);
        if !up {
            self.hosts[host.0].next_port = PORTS_FROM;
            self.sockets.retain(|_, socket| socket.host != host);
        }
    }

    /// What the host was there for is done.
    pub fn note_done(&mut self, host: HostId) {
        self.hosts[host.0].is_done = true;
    }

    /// The host that has this address, as `from` sees it.
    pub fn host_of(&self, from: HostId, address: IpAddr) -> Option<HostId> {
        if is_own(address) {
            return Some(from);
        }
        (0..self.hosts.len()).map(HostId).find(|&host| self.hosts[host.0].addresses.contains(&address))
    }

    pub(crate) fn direction(&mut self, from: HostId, to: HostId) -> Option<&mut Direction> {
        self.directions.get_mut(&key(from, to))
    }

    /// Whether the hosts have a link, or are one.
    pub(crate) fn is_linked(&self, from: HostId, to: HostId) -> bool {
        from == to || self.directions.contains_key(&key(from, to))
    }

    /// Whether packets come through at the moment.
    pub(crate) fn is_reached(&self, from: HostId, to: HostId) -> bool {
        self.hosts[to.0].up && self.hosts[from.0].up && self.parts[from.0] == self.parts[to.0]
    }

    /// A port that nobody on the host has, for streams or for datagrams.
    pub(crate) fn free_port(&mut self, host: HostId, for_datagrams: bool) -> u16 {
        let is_taken = |fabric: &Fabric, port: u16| {
            fabric.sockets.values().any(|socket| {
                let is_datagram = matches!(socket.kind, Kind::Datagram { .. });
                socket.host == host
                    && is_datagram == for_datagrams
                    && socket.local.is_some_and(|local| local.port() == port)
            })
        };
        loop {
            let port = self.hosts[host.0].next_port;
            self.hosts[host.0].next_port = if port == u16::MAX { PORTS_FROM } else { port + 1 };
            if !is_taken(self, port) {
                return port;
            }
        }
    }
}
