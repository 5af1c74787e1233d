//! Sockets: what a program can do with one.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::hosts::{HostId, PORTS_FROM, is_own};
use crate::packet::{Content, Packet};
use crate::ping::Pings;
use crate::sharing::Sharing;
use crate::tcp::{End, State, copied};
use crate::travel::is_group;
use crate::{Error, Fabric, canonical};

/// Most bytes of a datagram.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// A socket's number; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SocketId(pub u64);

/// What a socket carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Transport {
    Stream,
    Datagram,
}

/// How bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    Plain,
    /// More follows (MSG_MORE): what fills no segment is held.
    More,
    /// The last one is urgent (MSG_OOB).
    Urgent,
}

/// A datagram that has arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagram {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub data: Vec<u8>,
    /// When it came.
    pub at_ns: u64,
}

/// What a socket is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Kind {
    /// A stream that is none yet.
    Unconnected,
    Listener {
        ready: VecDeque<SocketId>,
        backlog: usize,
    },
    Stream(Box<End>),
    Datagram {
        queue: VecDeque<Datagram>,
    },
}

/// A socket of a program, or of a connection that no program has yet, or no longer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Socket {
    pub host: HostId,
    pub local: Option<SocketAddr>,
    pub remote: Option<SocketAddr>,
    /// The address that the program chose, where it did.
    chosen: Option<SocketAddr>,
    pub kind: Kind,
    /// The program made it for IPv6.
    pub is_v6: bool,
    /// With `is_v6`: it takes nothing that comes by IPv4.
    pub v6_only: bool,
    pub(crate) sharing: Sharing,
    /// TCP_NODELAY, TCP_CORK.
    pub(crate) no_delay: bool,
    pub(crate) corked: bool,
    /// SO_BROADCAST.
    pub broadcasts: bool,
    /// Groups whose datagrams it gets.
    pub groups: BTreeSet<IpAddr>,
    /// IP_RECVERR: it is told what it sent met, even where it exchanges datagrams with anybody.
    pub(crate) hears_errors: bool,
    /// IP_MULTICAST_LOOP: its own host gets what it sends to groups.
    pub hears_itself: bool,
    /// It carries echo requests and replies.
    pub pings: Option<Pings>,
    /// Datagrams that have come, of hosts that are not done.
    pub arrived: u64,
    /// What the next who asks is told.
    pub error: Option<Error>,
    /// The listener that it came to, until it is accepted or over.
    pub(crate) parent: Option<SocketId>,
    /// No program has it any more.
    pub(crate) released: bool,
    pub(crate) was_connected: bool,
}

impl Socket {
    pub(crate) fn new(host: HostId, kind: Kind, is_v6: bool) -> Socket {
        Socket {
            host,
            local: None,
            remote: None,
            chosen: None,
            kind,
            arrived: 0,
            is_v6,
            v6_only: false,
            sharing: Sharing::default(),
            no_delay: false,
            corked: false,
            broadcasts: false,
            groups: BTreeSet::new(),
            hears_errors: false,
            hears_itself: true,
            pings: None,
            error: None,
            parent: None,
            released: false,
            was_connected: false,
        }
    }

    /// Whether one that is bound to any address has this one.
    pub(crate) fn takes(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(_) => !(self.is_v6 && self.v6_only),
            IpAddr::V6(_) => self.is_v6,
        }
    }

    /// Others know its address, and send to it first: it listens, or takes datagrams of anyone at a port that is not for clients.
    pub fn serves(&self) -> bool {
        match self.kind {
            Kind::Listener { .. } => true,
            Kind::Datagram { .. } => {
                self.remote.is_none()
                    && self.pings.is_none()
                    && self.chosen.is_some_and(|chosen| chosen.port() < PORTS_FROM)
            }
            Kind::Unconnected | Kind::Stream(_) => false,
        }
    }

    /// The stream, if it is one.
    pub fn stream(&self) -> Option<&End> {
        match &self.kind {
            Kind::Stream(end) => Some(end),
            Kind::Unconnected | Kind::Listener { .. } | Kind::Datagram { .. } => None,
        }
    }
}

impl Fabric {
    pub(crate) fn add(&mut self, socket: Socket) -> SocketId {
        let id = SocketId(self.next_socket);
        self.next_socket += 1;
        self.sockets.insert(id, socket);
        id
    }

    /// A new socket.
    pub fn open(&mut self, host: HostId, transport: Transport, is_v6: bool) -> SocketId {
        let kind = match transport {
            Transport::Stream => Kind::Unconnected,
            Transport::Datagram => Kind::Datagram { queue: VecDeque::new() },
        };
        self.add(Socket::new(host, kind, is_v6))
    }

    pub(crate) fn get(&mut self, id: SocketId) -> Result<&mut Socket, Error> {
        self.sockets.get_mut(&id).ok_or(Error::Invalid)
    }

    /// Gives a socket its address.
    ///
    /// # Errors
    /// The address is another host's, in use, or the socket has one.
    pub fn bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), Error> {
        let address = canonical(address);
        let socket = self.get(id)?;
        if socket.local.is_some() {
            return Err(Error::Invalid);
        }
        let host = socket.host;
        let for_datagrams = matches!(socket.kind, Kind::Datagram { .. });
        if !is_own(address.ip())
            && !is_group(address.ip())
            && !self.hosts[host.0].addresses.contains(&address.ip())
        {
            return Err(Error::NotOurs);
        }
        let port = match address.port() {
            0 => self.free_port(host, for_datagrams),
            port => port,
        };
        if self.clashes(id, SocketAddr::new(address.ip(), port)) {
            return Err(Error::InUse);
        }
        let local = Some(SocketAddr::new(address.ip(), port));
        let socket = self.get(id)?;
        (socket.local, socket.chosen) = (local, local);
        Ok(())
    }

    /// Lets connections come to a socket.
    ///
    /// # Errors
    /// It is a connection, or carries datagrams.
    pub fn listen(&mut self, id: SocketId, backlog: usize) -> Result<(), Error> {
        let socket = self.get(id)?;
        if socket.local.is_none() {
            let any: IpAddr = if socket.is_v6 { [0u16; 8].into() } else { [0u8; 4].into() };
            self.bind(id, SocketAddr::new(any, 0))?;
        }
        let socket = self.get(id)?;
        if let (Kind::Unconnected, Some(local)) = (&socket.kind, socket.local)
            && self.clashes(id, local)
        {
            return Err(Error::InUse);
        }
        let socket = self.get(id)?;
        match &mut socket.kind {
            Kind::Unconnected => socket.kind = Kind::Listener { ready: VecDeque::new(), backlog },
            Kind::Listener { backlog: known, .. } => *known = backlog,
            Kind::Stream(_) => return Err(Error::Invalid),
            Kind::Datagram { .. } => return Err(Error::NotForThis),
        }
        Ok(())
    }

    /// Takes a connection that has come.
    ///
    /// # Errors
    /// [`Error::Nothing`] if none has.
    pub fn accept(&mut self, id: SocketId) -> Result<SocketId, Error> {
        match &mut self.get(id)?.kind {
            Kind::Listener { ready, .. } => ready.pop_front().ok_or(Error::Nothing),
            Kind::Unconnected | Kind::Stream(_) | Kind::Datagram { .. } => Err(Error::Invalid),
        }
    }

    /// How much waits to be taken: connections to be accepted, or datagrams and that one that was sent met an error.
    pub fn waiting(&self, id: SocketId) -> usize {
        let Some(socket) = self.sockets.get(&id) else { return 0 };
        match &socket.kind {
            Kind::Listener { ready, .. } => ready.len(),
            Kind::Datagram { queue } => queue.len() + usize::from(socket.error.is_some()),
            Kind::Unconnected | Kind::Stream(_) => 0,
        }
    }

    /// Begins a connection, or says with whom datagrams are exchanged.
    ///
    /// # Errors
    /// [`Error::InProgress`] where it was begun, others where it cannot be.
    pub fn connect(&mut self, id: SocketId, to: SocketAddr) -> Result<(), Error> {
        let mut to = canonical(to);
        let now_ns = self.now_ns;
        let socket = self.get(id)?;
        let for_datagrams = matches!(socket.kind, Kind::Datagram { .. });
        match &socket.kind {
            Kind::Stream(end) if end.state == State::SynSent => return Err(Error::Already),
            Kind::Stream(_) => return Err(Error::IsConnected),
            Kind::Listener { .. } => return Err(Error::IsConnected),
            Kind::Unconnected | Kind::Datagram { .. } => {}
        }
        let (host, local, chosen) = (socket.host, socket.local, socket.chosen);
        if is_group(to.ip()) && !for_datagrams {
            return Err(Error::Unreachable);
        }
        if is_group(to.ip()) && !to.ip().is_multicast() && !socket.broadcasts {
            return Err(Error::NoBroadcast);
        }
        let source = self.route(host, to.ip())?;
        if to.ip().is_unspecified() {
            to.set_ip(source);
        }
        let local = match (chosen, local) {
            (Some(chosen), _) if !chosen.ip().is_unspecified() => chosen,
            (_, Some(local)) => SocketAddr::new(source, local.port()),
            (_, None) => SocketAddr::new(source, self.free_port(host, for_datagrams)),
        };
        let socket = self.get(id)?;
        (socket.local, socket.remote) = (Some(local), Some(to));
        if for_datagrams {
            return Ok(());
        }
        let (end, syn) = End::connect(now_ns);
        socket.kind = Kind::Stream(Box::new(end));
        self.send_segments(id, vec![syn]);
        Err(Error::InProgress)
    }

    /// Datagrams are exchanged with anybody again.
    pub fn disconnect(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(&id)
            && matches!(socket.kind, Kind::Datagram { .. })
        {
            (socket.local, socket.remote) = (socket.chosen, None);
        }
    }

    /// The address that packets for `to` come from, if there is a way.
    fn route(&self, host: HostId, to: IpAddr) -> Result<IpAddr, Error> {
        if is_group(to) {
            return self.source(host, to).ok_or(Error::Unreachable);
        }
        let source = self.source(host, to).ok_or(Error::Unreachable)?;
        let target = self.host_of(host, to).ok_or(Error::Unreachable)?;
        if self.is_linked(host, target) { Ok(source) } else { Err(Error::Unreachable) }
    }

    /// Bytes for the other end of a stream; gives how many were taken.
    ///
    /// # Errors
    /// There is no connection, or nothing more can be sent.
    pub fn give(&mut self, id: SocketId, bytes: &[u8]) -> Result<usize, Error> {
        self.give_as(id, bytes, Sending::Plain)
    }

    /// The same of bytes that are sent in another way.
    ///
    /// # Errors
    /// As [`Fabric::give`].
    pub fn give_as(&mut self, id: SocketId, bytes: &[u8], how: Sending) -> Result<usize, Error> {
        let (now_ns, is_unlimited) = (self.now_ns, self.is_way_unlimited(id));
        let Socket { kind: Kind::Stream(end), no_delay, corked, .. } = self.get(id)? else {
            return Err(Error::NotConnected);
        };
        if !end.is_open() || end.send_ends {
            return Err(Error::Ended);
        }
        end.set_way(is_unlimited, [*no_delay, *corked]);
        end.set_more(how == Sending::More);
        let taken = end.give(bytes);
        if how == Sending::Urgent && taken == bytes.len() {
            end.mark_urgent();
        }
        let segments = end.sendable(now_ns);
        end.set_more(false);
        self.send_segments(id, segments);
        Ok(taken)
    }

    /// Bytes that have come over a stream, at most so many: they are taken off.
    pub fn take(&mut self, id: SocketId, bytes_max: usize) -> Vec<u8> {
        let now_ns = self.now_ns;
        let Ok(Socket { kind: Kind::Stream(end), .. }) = self.get(id) else { return Vec::new() };
        let bytes = end.received().len().min(bytes_max);
        let taken = copied(end.received(), 0, bytes);
        let answer = end.take(now_ns, bytes);
        self.send_segments(id, answer.into_iter().collect());
        taken
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// It is too long, or there is no way.
    pub fn send_to(&mut self, id: SocketId, to: Option<SocketAddr>, data: &[u8]) -> Result<(), Error> {
        let socket = self.get(id)?;
        if !matches!(socket.kind, Kind::Datagram { .. }) {
            return Err(Error::NotForThis);
        }
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let (host, local) = (socket.host, socket.local);
        let to = canonical(to.or(socket.remote).ok_or(Error::NoAddress)?);
        if is_group(to.ip()) && !to.ip().is_multicast() && !self.get(id)?.broadcasts {
            return Err(Error::NoBroadcast);
        }
        if data.len() > DATAGRAM_BYTES_MAX {
            return Err(Error::TooLong);
        }
        let source = self.route(host, to.ip())?;
        let to = if to.ip().is_unspecified() { SocketAddr::new(source, to.port()) } else { to };
        let local = match local {
            Some(local) => local,
            None => {
                let any: IpAddr = if to.is_ipv4() { [0u8; 4].into() } else { [0u16; 8].into() };
                let local = SocketAddr::new(any, self.free_port(host, true));
                self.get(id)?.local = Some(local);
                local
            }
        };
        let ip = if local.ip().is_unspecified() || is_group(local.ip()) { source } else { local.ip() };
        let from = SocketAddr::new(ip, local.port());
        if let Some(pings) = self.get(id)?.pings {
            return self.send_echo(host, pings, [from, to], data);
        }
        self.send(host, Packet { from, to, content: Content::Udp(data.to_vec()) });
        Ok(())
    }

    /// Takes the datagram that came first; with `keeps` it stays.
    ///
    /// # Errors
    /// [`Error::Nothing`], or what the last one that was sent met.
    pub fn receive_from(&mut self, id: SocketId, keeps: bool) -> Result<Datagram, Error> {
        let socket = self.get(id)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let Kind::Datagram { queue } = &mut socket.kind else { return Err(Error::NotForThis) };
        if keeps { queue.front().cloned() } else { queue.pop_front() }.ok_or(Error::Nothing)
    }

    /// The program sends nothing more over a stream.
    pub fn end_sending(&mut self, id: SocketId) {
        let now_ns = self.now_ns;
        self.with_stream(id, |end| {
            end.send_ends = true;
            end.sendable(now_ns)
        });
    }

    /// Takes the error that a socket has.
    pub fn take_error(&mut self, id: SocketId) -> Option<Error> {
        self.sockets.get_mut(&id)?.error.take()
    }

    /// No program has the socket any more, and its connection is not ended but broken off.
    pub fn abort(&mut self, id: SocketId) {
        self.release(id, true);
    }

    /// No program has the socket any more.
    pub fn close(&mut self, id: SocketId) {
        self.release(id, false);
    }

    fn release(&mut self, id: SocketId, breaks_off: bool) {
        let now_ns = self.now_ns;
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        match &mut socket.kind {
            Kind::Stream(end) if end.is_open() && end.state != State::SynSent => {
                socket.released = true;
                if breaks_off || !end.received().is_empty() {
                    self.with_stream(id, |end| vec![end.reset(now_ns)]);
                } else {
                    self.end_sending(id);
                }
            }
            Kind::Listener { ready, .. } => {
                let waiting: Vec<SocketId> = ready.iter().copied().collect();
                let is_child = |socket: &Socket| socket.parent == Some(id);
                let begun = self.sockets.iter().filter(|(_, socket)| is_child(socket)).map(|(&id, _)| id);
                for child in waiting.into_iter().chain(begun).collect::<Vec<_>>() {
                    if let Some(socket) = self.sockets.get_mut(&child) {
                        socket.released = true;
                    }
                    self.with_stream(child, |end| vec![end.reset(now_ns)]);
                }
                self.sockets.remove(&id);
            }
            Kind::Unconnected | Kind::Stream(_) | Kind::Datagram { .. } => {
                self.sockets.remove(&id);
            }
        }
    }
}
