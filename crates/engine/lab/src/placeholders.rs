//! What stands for a socket in the kernel: the engine's end of the pair whose other end the program has.
//!
//! A stream's bytes go through the pair. Of a listener, and of a socket for datagrams, the program's end
//! holds one byte for each connection or datagram that waits, so that it can be polled.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};

use fabric::{Kind, Sending, SocketId, State};
use lane_protocol::lab_answer;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::net::SendFlags;

use crate::calls::errno;
use crate::engine::Engine;
use crate::questions::Answer;

/// Bytes that are moved at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// How the kernel is given an urgent byte for a program; where it knows none among Unix sockets (before Linux 5.15), it is
/// one as any other.
const URGENT: SendFlags = SendFlags::OOB.union(SendFlags::DONTWAIT).union(SendFlags::NOSIGNAL);
/// Tokens from here on are nodes' outputs, not sockets.
pub const OUTPUT_TOKENS: u64 = 1 << 62;

/// The engine's end.
#[derive(Debug)]
enum End {
    Stream(UnixStream),
    Datagram(UnixDatagram),
    /// The connection failed, or was broken off: the program's end says that it is over.
    Closed,
}

/// A socket of a program.
#[derive(Debug)]
pub struct Placeholder {
    pub node: Option<usize>,
    pub inode: u64,
    end: End,
    /// The program's end is full, so that it cannot be written to before there is a connection.
    pub connecting: bool,
    /// Bytes for the program that its end had no room for, and whether that is an urgent one.
    pending: Vec<u8>,
    is_urgent: bool,
    /// What the program sends is held for more (MSG_MORE).
    pub more: bool,
    /// Bytes that say that something waits.
    pub marks: usize,
    told_end: bool,
    /// It was told that the connection was broken off, as an error of its end.
    was_broken_off: bool,
    heard_end: bool,
    /// There may be something to read.
    readable: bool,
    closed: bool,
    /// The program closed it, and had not read all.
    unread: bool,
    /// Options as the program set them: level, name.
    pub options: BTreeMap<(u64, u64), Vec<u8>>,
}

/// All of them.
#[derive(Debug)]
pub struct Placeholders {
    epoll: OwnedFd,
    sockets: BTreeMap<SocketId, Placeholder>,
    by_inode: BTreeMap<u64, SocketId>,
    /// Those that were closed, by their inodes, while who closed them waits: until when.
    pub lingering: BTreeMap<u64, (SocketId, u64)>,
}

impl Placeholders {
    pub fn new(epoll: OwnedFd) -> Placeholders {
        Placeholders {
            epoll,
            sockets: BTreeMap::new(),
            by_inode: BTreeMap::new(),
            lingering: BTreeMap::new(),
        }
    }

    /// How many streams hold what they sent last.
    pub fn held(&self) -> u32 {
        self.sockets.values().filter(|one| one.more).count() as u32
    }

    pub fn epoll(&self) -> &OwnedFd {
        &self.epoll
    }

    /// The socket whose end the program has.
    pub fn find(&self, inode: u64) -> Option<SocketId> {
        self.by_inode.get(&inode).copied()
    }

    pub fn get(&mut self, id: SocketId) -> Option<&mut Placeholder> {
        self.sockets.get_mut(&id)
    }

    /// The inode of the end that the program has.
    pub fn inode(&self, id: SocketId) -> Option<u64> {
        self.sockets.get(&id).map(|one| one.inode)
    }

    /// Takes the engine's end of a pair.
    pub fn add(&mut self, id: SocketId, node: Option<usize>, inode: u64, end: OwnedFd, is_stream: bool) {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP;
        let data = epoll::EventData::new_u64(id.0);
        let watched = epoll::add(&self.epoll, &end, data, flags | epoll::EventFlags::ET);
        let end = match is_stream {
            true => End::Stream(UnixStream::from(end)),
            false => End::Datagram(UnixDatagram::from(end)),
        };
        let nonblocking = match &end {
            End::Stream(end) => end.set_nonblocking(true),
            End::Datagram(end) => end.set_nonblocking(true),
            End::Closed => Ok(()),
        };
        debug_assert!(watched.is_ok() && nonblocking.is_ok());
        let placeholder = Placeholder {
            node,
            inode,
            end,
            connecting: false,
            pending: Vec::new(),
            is_urgent: false,
            more: false,
            marks: 0,
            told_end: false,
            was_broken_off: false,
            heard_end: false,
            readable: true,
            closed: false,
            unread: false,
            options: BTreeMap::new(),
        };
        self.by_inode.insert(inode, id);
        self.sockets.insert(id, placeholder);
    }

    /// The program has it no more.
    fn remove(&mut self, id: SocketId) {
        if let Some(placeholder) = self.sockets.remove(&id) {
            self.by_inode.remove(&placeholder.inode);
        }
    }

    /// A node's sockets are gone.
    pub fn forget_node(&mut self, node: usize) {
        let gone: Vec<SocketId> = self
            .sockets
            .iter()
            .filter(|(_, placeholder)| placeholder.node == Some(node))
            .map(|(&id, _)| id)
            .collect();
        for id in gone {
            self.remove(id);
        }
    }

    /// What has happened to descriptors, in an order that does not depend on when it did.
    pub fn events(&self) -> Vec<(u64, epoll::EventFlags)> {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut found = Vec::new();
        loop {
            let mut events = Vec::with_capacity(256);
            let count = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&none)).unwrap_or(0);
            found.extend(events.iter().map(|event| (event.data.u64(), event.flags)));
            if count < 256 {
                break;
            }
        }
        found.sort_by_key(|(token, _)| *token);
        found
    }
}

/// What a read of a program's stream gave.
enum Read {
    Bytes(Vec<u8>),
    /// There is nothing yet.
    Nothing,
    Ended,
    /// It was closed, and what had come for the program not read to its end: unix(7) says ECONNRESET.
    Unread,
}

fn read(end: &UnixStream, bytes_max: usize) -> Read {
    let mut bytes = Vec::with_capacity(bytes_max.min(CHUNK_BYTES));
    loop {
        match rustix::io::read(end, spare_capacity(&mut bytes)) {
            Ok(0) => return Read::Ended,
            Ok(_) => return Read::Bytes(bytes),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Read::Nothing,
            Err(rustix::io::Errno::CONNRESET) => return Read::Unread,
            Err(_) => return Read::Ended,
        }
    }
}

impl Engine {
    /// Something happened at an end.
    pub fn follow_placeholder(&mut self, token: u64, flags: epoll::EventFlags) {
        if token >= OUTPUT_TOKENS {
            self.note_output(token);
            return;
        }
        let id = SocketId(token);
        let Some(placeholder) = self.placeholders.get(id) else { return };
        placeholder.closed |= flags.contains(epoll::EventFlags::HUP);
        placeholder.readable |=
            flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::HUP);
        self.pump(id);
    }

    /// What the network did is seen at the programs' ends.
    pub fn follow_fabric(&mut self) {
        loop {
            let changed = self.fabric.take_changed();
            if changed.is_empty() && self.fabric.next_event_ns().is_none_or(|at_ns| at_ns > self.now_ns) {
                break;
            }
            for id in changed {
                match self.resolvers.contains(&id) {
                    true => crate::resolver::answer_all(&mut self.fabric, id, &self.spec.nodes),
                    false => self.refresh(id),
                }
            }
            self.fabric.advance(self.now_ns);
        }
        let sent = self.fabric.take_sent();
        self.log.packets(&sent);
    }

    fn refresh(&mut self, id: SocketId) {
        let waiting = self.fabric.waiting(id);
        // It is over, which who closed it may wait for.
        let Some(socket) = self.fabric.socket(id) else { return self.note_delivered(id) };
        let (is_stream, state) = (socket.stream().is_some(), socket.stream().map(|end| end.state));
        let Some(placeholder) = self.placeholders.get(id) else { return self.note_delivered(id) };
        let node = placeholder.node;
        if placeholder.connecting {
            match state {
                Some(State::SynSent) => return,
                Some(State::Established) => {
                    placeholder.connecting = false;
                    if let End::Stream(end) = &placeholder.end {
                        // What had filled the program's end.
                        while matches!(read(end, CHUNK_BYTES), Read::Bytes(_)) {}
                    }
                }
                _ => {
                    placeholder.connecting = false;
                    placeholder.end = End::Closed;
                }
            }
        }
        if is_stream {
            self.pump(id);
        } else {
            placeholder.mark(waiting);
        }
        self.touch_socket(node, id);
    }

    /// Moves what can be moved between a program's end and the network.
    fn pump(&mut self, id: SocketId) {
        self.pump_out(id);
        self.pump_in(id);
        let Some(placeholder) = self.placeholders.get(id) else { return };
        if placeholder.closed {
            let breaks_off = placeholder.breaks_off();
            let lingers_ns = placeholder.lingers_ns().filter(|_| !breaks_off);
            let (inode, held) = (placeholder.inode, placeholder.more);
            self.placeholders.remove(id);
            if let Some(lingers_ns) = lingers_ns {
                self.placeholders.lingering.insert(inode, (id, self.now_ns + lingers_ns));
            }
            if held {
                self.tell_held();
            }
            match breaks_off {
                true => self.fabric.abort(id),
                false => self.fabric.close(id),
            }
        }
    }

    /// From the program to the network.
    fn pump_out(&mut self, id: SocketId) {
        loop {
            let Some(stream) = self.fabric.socket(id).and_then(|socket| socket.stream()) else { return };
            let (room, is_open) = (stream.room(), stream.is_open());
            let Some(placeholder) = self.placeholders.get(id) else { return };
            let End::Stream(end) = &placeholder.end else { return };
            if placeholder.connecting
                || placeholder.heard_end
                || !placeholder.readable
                || is_open && room == 0
            {
                return;
            }
            let bytes_max = if is_open { room.min(CHUNK_BYTES) } else { CHUNK_BYTES };
            let read = read(end, bytes_max);
            // What is less than there was room for was all: each more is an event.
            placeholder.readable = matches!(&read, Read::Bytes(bytes) if bytes.len() >= bytes_max);
            match read {
                Read::Nothing => return,
                Read::Unread => {
                    (placeholder.heard_end, placeholder.unread) = (true, true);
                    return;
                }
                Read::Ended => {
                    placeholder.heard_end = true;
                    if !placeholder.closed {
                        self.fabric.end_sending(id);
                    }
                    return;
                }
                Read::Bytes(bytes) => {
                    let node = placeholder.node;
                    let how = if placeholder.more { Sending::More } else { Sending::Plain };
                    // Of what is written to a connection that is over nothing is sent.
                    let _ = self.fabric.give_as(id, &bytes, how);
                    // There is room to write again.
                    self.touch_socket(node, id);
                }
            }
        }
    }

    /// From the network to the program.
    fn pump_in(&mut self, id: SocketId) {
        loop {
            let Some(stream) = self.fabric.socket(id).and_then(|socket| socket.stream()) else { return };
            let (waits, urgent_at) = (stream.received().len(), stream.urgent_at());
            let is_broken = matches!(stream.state, State::Reset | State::TimedOut);
            let ended = stream.receive_ended() || !stream.is_open() && stream.state != State::SynSent;
            let Some(placeholder) = self.placeholders.get(id) else { return };
            let End::Stream(mut_end) = &placeholder.end else { return };
            let mut end = mut_end;
            if placeholder.connecting || placeholder.told_end && !is_broken {
                return;
            }
            if placeholder.pending.is_empty() {
                if waits == 0 {
                    if ended && is_broken {
                        self.break_off(id);
                    } else if ended {
                        placeholder.told_end = true;
                        let _ = end.shutdown(Shutdown::Write);
                        let node = placeholder.node;
                        self.touch_socket(node, id);
                    }
                    return;
                }
                // An urgent byte travels alone.
                placeholder.is_urgent = urgent_at == Some(0);
                let bytes_max = urgent_at.map_or(CHUNK_BYTES, |at| at.clamp(1, CHUNK_BYTES));
                placeholder.pending = self.fabric.take(id, bytes_max);
                continue;
            }
            let pending = std::mem::take(&mut placeholder.pending);
            if placeholder.is_urgent && rustix::net::send(end, &pending, URGENT) == Ok(1) {
                let node = placeholder.node;
                self.tell_urgent(node, id);
                continue;
            }
            match end.write(&pending) {
                Ok(written) => placeholder.pending = pending[written..].to_vec(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    placeholder.pending = pending;
                    return;
                }
                // Nobody reads any more.
                Err(_) => return,
            }
            let node = placeholder.node;
            self.touch_socket(node, id);
        }
    }
}

impl Engine {
    /// The other host broke the connection off: who writes is told EPIPE, who reads ECONNRESET, unless the end had come.
    fn break_off(&mut self, id: SocketId) {
        let Some(placeholder) = self.placeholders.get(id) else { return };
        let (node, inode) = (placeholder.node, placeholder.inode);
        if !placeholder.told_end
            && let Some(own) = self.programs_end(node, inode)
        {
            // The kernel says so at an end whose other end is closed with something in it that nobody has read. Where it
            // takes nothing, there is something, or the program itself has ended that direction.
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = rustix::net::send(&own, &[0], flags);
        }
        if let Some(placeholder) = self.placeholders.get(id) {
            placeholder.was_broken_off = !placeholder.told_end;
            placeholder.told_end = true;
            placeholder.end = End::Closed;
        }
        self.touch_socket(node, id);
    }

    /// The mark that a socket had an error to tell is taken with it, by whichever call that was.
    pub fn take_errors_mark(&mut self, id: SocketId, answer: Answer) -> Answer {
        if answer.kind != lab_answer::RESULT || !self.is_for_datagrams(id) {
            return answer;
        }
        let waiting = self.fabric.waiting(id);
        match self.placeholders.get(id).filter(|one| one.marks > waiting) {
            Some(placeholder) => {
                placeholder.marks -= 1;
                Answer { kind: lab_answer::TAKE, ..answer }
            }
            None => answer,
        }
    }

    /// SO_ERROR, which tells of an error once: of a connection that was broken off a call may have told before, which the
    /// program's end knows.
    pub fn take_error(&mut self, id: SocketId) -> i32 {
        let error = self.fabric.take_error(id).map_or(0, errno);
        let Some(placeholder) = self.placeholders.get(id).filter(|one| one.was_broken_off) else {
            return error;
        };
        let (node, inode) = (placeholder.node, placeholder.inode);
        let told = self.programs_end(node, inode).map(|own| rustix::net::sockopt::socket_error(&own));
        match told {
            Some(Ok(Ok(()))) => 0,
            Some(Ok(Err(at_end))) if error == 0 => at_end.raw_os_error(),
            Some(Ok(Err(_)) | Err(_)) | None => error,
        }
    }

    /// The program's end of a pair.
    fn programs_end(&self, node: Option<usize>, inode: u64) -> Option<std::fs::File> {
        let of_node = self.processes.processes.iter().filter(|(_, process)| process.node == node);
        of_node.into_iter().find_map(|(pid, process)| {
            let (descriptor, _) = sockets_of(*pid).find(|(_, found)| *found == inode)?;
            process.handle.descriptor(descriptor).ok()
        })
    }
}

impl Placeholder {
    /// Whether its connection does not end as one does that both are done with, now that the program has closed it: the
    /// program had not read all, or did not want to wait (SO_LINGER with no time).
    fn breaks_off(&self) -> bool {
        let waits_not = self.linger().is_some_and(|[on, seconds]| on != 0 && seconds == 0);
        let is_unread = || match &self.end {
            End::Stream(end) => matches!(read(end, 1), Read::Unread),
            End::Datagram(_) | End::Closed => false,
        };
        waits_not || self.unread || !self.pending.is_empty() || is_unread()
    }

    /// As many marks as there is something that waits.
    fn mark(&mut self, waiting: usize) {
        while self.marks < waiting {
            let sent = match &self.end {
                End::Stream(mut_end) => {
                    let mut end = mut_end;
                    end.write(&[0]).map(|_| ())
                }
                End::Datagram(end) => end.send(&[0]).map(|_| ()),
                End::Closed => return,
            };
            if sent.is_err() {
                // It is readable already; more are made when some are taken.
                return;
            }
            self.marks += 1;
        }
    }
}

/// The sockets that a process has: their descriptors and inodes.
pub fn sockets_of(pid: i32) -> impl Iterator<Item = (i32, u64)> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|found| {
        let link = std::fs::read_link(found.path()).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some((found.file_name().to_str()?.parse().ok()?, inode.parse().ok()?))
    })
}

/// True for sockets that others can come to.
pub fn listens(kind: &Kind) -> bool {
    matches!(kind, Kind::Listener { .. })
}
