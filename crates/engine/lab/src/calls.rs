//! Calls that the engine performs.

use std::io::Write;
use std::os::fd::OwnedFd;

use fabric::{Error, Kind, Pings, SocketId, State, Transport};
use lane_protocol::{LAB_NEVER, LAB_WORDS, lab_answer};

use crate::addresses::{self, Given};
use crate::ancillary;
use crate::engine::Engine;
use crate::processes::Process;
use crate::questions::{Answer, Outcome};

const SOCK_TYPE_MASK: u64 = 0xf;
const MSG_PEEK: u64 = libc::MSG_PEEK as u64;
const MSG_TRUNC: u64 = libc::MSG_TRUNC as u64;

/// A call's number, arguments, and what goes with it.
#[derive(Clone, Copy)]
pub struct Call {
    pub slot: u32,
    pub number: i64,
    pub args: [u64; 6],
    pub waits: bool,
    /// Descriptors that were made for it: the program's, the engine's.
    pub made: [i32; 2],
    pub has_made: bool,
}

/// The number of an error.
pub fn errno(error: Error) -> i32 {
    match error {
        Error::InUse => libc::EADDRINUSE,
        Error::NotOurs => libc::EADDRNOTAVAIL,
        Error::Refused => libc::ECONNREFUSED,
        Error::Reset => libc::ECONNRESET,
        Error::TimedOut => libc::ETIMEDOUT,
        Error::Unreachable => libc::ENETUNREACH,
        Error::NotConnected => libc::ENOTCONN,
        Error::IsConnected => libc::EISCONN,
        Error::InProgress => libc::EINPROGRESS,
        Error::Already => libc::EALREADY,
        Error::Ended => libc::EPIPE,
        Error::Nothing => libc::EAGAIN,
        Error::Invalid => libc::EINVAL,
        Error::NoAddress => libc::EDESTADDRREQ,
        Error::TooLong => libc::EMSGSIZE,
        Error::NotForThis => libc::EOPNOTSUPP,
        Error::NoBroadcast => libc::EACCES,
    }
}

fn of_result(result: Result<(), Error>) -> Answer {
    match result {
        Ok(()) => Answer::result(0),
        Err(error) => Answer::error(errno(error)),
    }
}

impl Engine {
    /// Performs a call, or says that the kernel is to.
    pub fn perform(&mut self, slot: u32, words: &[u64; LAB_WORDS]) -> Outcome {
        let [number, a, b, c, d, e, f, inode, waits, made] = *words;
        let call = Call {
            slot,
            number: number as i64,
            args: [a, b, c, d, e, f],
            waits: waits != 0,
            made: [made as u32 as i32, (made >> 32) as i32],
            has_made: made != 0,
        };
        if call.number == libc::SYS_socket {
            return Outcome::Answer(self.open_socket(&call));
        }
        if call.number == libc::SYS_close {
            return Outcome::Answer(self.linger(inode));
        }
        let id = if inode == 0 { None } else { self.placeholders.find(inode) };
        let answer = match id {
            Some(id) => {
                let answer = self.on_socket(id, &call);
                self.take_errors_mark(id, answer)
            }
            None if inode != 0 => Answer::kind(lab_answer::KERNEL),
            None => self.perform_timed(&call),
        };
        self.settle();
        Outcome::Answer(answer)
    }

    /// What is sent and takes no time arrives.
    fn settle(&mut self) {
        self.fabric.advance(self.now_ns);
        self.follow_fabric();
    }

    fn open_socket(&mut self, call: &Call) -> Answer {
        let [domain, kind, protocol, ..] = call.args;
        let is_v6 = domain == libc::AF_INET6 as u64;
        let is_packet = domain == libc::AF_PACKET as u64;
        let echoes = if is_v6 { libc::IPPROTO_ICMPV6 } else { libc::IPPROTO_ICMP };
        let pings = match (kind & SOCK_TYPE_MASK) as i32 {
            _ if is_packet || protocol != echoes as u64 => None,
            libc::SOCK_DGRAM => Some(Pings::Datagram),
            libc::SOCK_RAW => Some(Pings::Raw),
            _ => None,
        };
        let transport = match kind & SOCK_TYPE_MASK {
            _ if pings.is_some() => Transport::Datagram,
            1 if domain != libc::AF_PACKET as u64 => Transport::Stream,
            2 if domain != libc::AF_PACKET as u64 && matches!(protocol, 0 | 17) => Transport::Datagram,
            _ => {
                let what = format!("socket({domain}, {kind}, {protocol}): no such sockets in a lab");
                self.name_unsupported(call.slot, &what);
                return Answer::error(libc::EPERM);
            }
        };
        if !call.has_made {
            return Answer::kind(lab_answer::ACCEPT);
        }
        let Some(node) = self.processes.node_of(call.slot) else { return Answer::error(libc::EACCES) };
        let host = self.nodes.host(node);
        let id = match pings {
            Some(pings) => self.fabric.open_pings(host, pings, is_v6),
            None => self.fabric.open(host, transport, is_v6),
        };
        self.take_end(call, id, transport == Transport::Stream)
    }

    /// The engine takes its end of the pair that was made for a socket.
    fn take_end(&mut self, call: &Call, id: SocketId, is_stream: bool) -> Answer {
        let [own, other] = call.made;
        let Some(pid) = self.processes.pid_of(call.slot) else { return Answer::error(libc::EACCES) };
        let taken = self.processes.processes[&pid].handle.descriptor(other);
        let inode = std::fs::read_link(format!("/proc/{pid}/fd/{own}"))
            .ok()
            .and_then(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok());
        let (Ok(end), Some(inode)) = (taken, inode) else {
            self.fabric.close(id);
            self.name_unsupported(call.slot, "descriptors cannot be taken here (pidfd_getfd)");
            return Answer::error(libc::EPERM);
        };
        let node = self.processes.node_of(call.slot);
        self.placeholders.add(id, node, inode, OwnedFd::from(end), is_stream);
        Answer::result(i64::from(own))
    }

    fn on_socket(&mut self, id: SocketId, call: &Call) -> Answer {
        let Some(process) = self.processes.of_slot(call.slot) else { return Answer::error(libc::ESRCH) };
        let args = call.args;
        match call.number {
            libc::SYS_bind => match addresses::read(&process.memory, args[1], args[2]) {
                Ok(Given::Address(address)) => of_result(self.fabric.bind(id, address)),
                Ok(Given::None) => Answer::error(libc::EAFNOSUPPORT),
                Err(errno) => Answer::error(errno),
            },
            libc::SYS_listen => {
                let backlog = (args[1] as i32).clamp(0, 4096) as usize;
                self.note_listening();
                of_result(self.fabric.listen(id, backlog))
            }
            libc::SYS_connect => self.connect(id, call),
            libc::SYS_accept | libc::SYS_accept4 => self.accept(id, call),
            libc::SYS_getsockname | libc::SYS_getpeername => self.tell_address(id, call),
            libc::SYS_shutdown => self.shutdown(id, call),
            libc::SYS_getsockopt => self.get_option(id, call),
            libc::SYS_setsockopt => self.set_option(id, call),
            libc::SYS_ioctl => Answer::kind(lab_answer::KERNEL),
            _ => self.move_datagrams(id, call),
        }
    }

    fn connect(&mut self, id: SocketId, call: &Call) -> Answer {
        let Some(process) = self.processes.of_slot(call.slot) else { return Answer::error(libc::ESRCH) };
        let given = addresses::read(&process.memory, call.args[1], call.args[2]);
        let address = match given {
            Ok(Given::Address(address)) => address,
            Ok(Given::None) => {
                self.fabric.disconnect(id);
                return Answer::result(0);
            }
            Err(errno) => return Answer::error(errno),
        };
        let is_stream = !self.is_for_datagrams(id);
        if let Some(error) = self.fabric.take_error(id).filter(|_| is_stream) {
            return Answer::error(errno(error));
        }
        let was_begun = self.placeholders.get(id).is_some_and(|one| one.options.contains_key(&BEGUN));
        let result = self.fabric.connect(id, address);
        self.note_no_way(call, &result, address);
        if result == Err(Error::InProgress) {
            self.fill(id, call);
            self.settle();
        }
        let state = self.fabric.socket(id).and_then(|socket| socket.stream()).map(|end| end.state);
        let note_begun = |lab: &mut Self| {
            if let Some(placeholder) = lab.placeholders.get(id) {
                placeholder.options.insert(BEGUN, Vec::new());
            }
        };
        match (result, state) {
            // What the other side answered at once is told later, too: Linux looks at it when it has left the call.
            (Err(Error::InProgress), _) if !call.waits => {
                note_begun(self);
                Answer::error(libc::EINPROGRESS)
            }
            (Err(Error::InProgress), Some(State::Established)) => Answer::result(0),
            (Err(Error::InProgress | Error::Already), Some(State::SynSent)) => {
                note_begun(self);
                match call.waits {
                    true => Answer::kind(lab_answer::WAIT),
                    false => Answer::error(libc::EALREADY),
                }
            }
            (Err(Error::InProgress), _) => {
                let error = self.fabric.take_error(id).unwrap_or(Error::Refused);
                Answer::error(errno(error))
            }
            (Err(Error::IsConnected), Some(State::Established)) if was_begun => {
                if let Some(placeholder) = self.placeholders.get(id) {
                    placeholder.options.remove(&BEGUN);
                }
                Answer::result(0)
            }
            (result, _) => of_result(result),
        }
    }

    /// Nothing can be written before there is a connection: the program's end is full until then.
    fn fill(&mut self, id: SocketId, call: &Call) {
        let process = self.processes.of_slot(call.slot);
        let Some(Ok(end)) = process.map(|process| process.handle.descriptor(call.args[0] as i32)) else {
            return;
        };
        let mut end = std::os::unix::net::UnixStream::from(OwnedFd::from(end));
        let zeros = [0u8; 4096];
        let flags = rustix::fs::fcntl_getfl(&end);
        let _ = end.set_nonblocking(true);
        while end.write(&zeros).is_ok() {}
        if let Ok(flags) = flags {
            let _ = rustix::fs::fcntl_setfl(&end, flags);
        }
        if let Some(placeholder) = self.placeholders.get(id) {
            placeholder.connecting = true;
        }
    }

    fn accept(&mut self, id: SocketId, call: &Call) -> Answer {
        if !call.has_made {
            if !matches!(self.fabric.socket(id).map(|socket| &socket.kind), Some(Kind::Listener { .. })) {
                return Answer::error(libc::EINVAL);
            }
            return match (self.fabric.waiting(id), call.waits) {
                (0, true) => self.wait_answer(id, SO_RCVTIMEO),
                (0, false) => Answer::error(libc::EAGAIN),
                _ => Answer::kind(lab_answer::ACCEPT),
            };
        }
        let Ok(child) = self.fabric.accept(id) else { return Answer::error(libc::EAGAIN) };
        if let Some(placeholder) = self.placeholders.get(id) {
            placeholder.marks = placeholder.marks.saturating_sub(1);
        }
        let answer = self.take_end(call, child, true);
        let remote = self.fabric.socket(child).and_then(|socket| Some((socket.remote?, socket.is_v6)));
        if let (Some((remote, is_v6)), Some(process)) = (remote, self.processes.of_slot(call.slot)) {
            addresses::write(&process.memory, call.args[1], call.args[2], &addresses::bytes(remote, is_v6));
        }
        self.refresh_stream(child);
        answer
    }

    /// Until something comes, or for as long as the option says.
    fn wait_answer(&mut self, id: SocketId, option: u64) -> Answer {
        let option = self.placeholders.get(id).and_then(|one| one.options.get(&(SOL_SOCKET, option)));
        let words = option.and_then(|bytes| {
            let (seconds, rest) = bytes.split_first_chunk::<8>()?;
            Some((u64::from_le_bytes(*seconds), u64::from_le_bytes(*rest.first_chunk()?)))
        });
        let until_ns = match words {
            Some((seconds, micros)) if (seconds, micros) != (0, 0) => {
                self.now_ns + seconds * 1_000_000_000 + micros * 1000
            }
            _ => LAB_NEVER,
        };
        Answer { kind: lab_answer::WAIT, result: 0, until_ns }
    }

    fn refresh_stream(&mut self, id: SocketId) {
        self.follow_placeholder(id.0, rustix::event::epoll::EventFlags::empty());
    }

    fn tell_address(&mut self, id: SocketId, call: &Call) -> Answer {
        let Some(socket) = self.fabric.socket(id) else { return Answer::error(libc::ENOTCONN) };
        let any = if socket.is_v6 { "[::]:0" } else { "0.0.0.0:0" };
        let address = match call.number {
            libc::SYS_getsockname => socket.local.or_else(|| any.parse().ok()),
            _ => socket.remote,
        };
        let Some(address) = address else { return Answer::error(libc::ENOTCONN) };
        let raw = addresses::bytes(address, socket.is_v6);
        let process = self.processes.of_slot(call.slot);
        match process.is_some_and(|one| addresses::write(&one.memory, call.args[1], call.args[2], &raw)) {
            true => Answer::result(0),
            false => Answer::error(libc::EFAULT),
        }
    }

    fn shutdown(&mut self, id: SocketId, call: &Call) -> Answer {
        let how = call.args[1];
        let is_connected = self.fabric.socket(id).is_some_and(|socket| socket.remote.is_some());
        if !is_connected {
            return Answer::error(libc::ENOTCONN);
        }
        let node = self.processes.node_of(call.slot);
        self.touch_socket(node, id);
        if how != libc::SHUT_RD as u64 {
            // What was written before is sent before.
            self.refresh_stream(id);
            self.fabric.end_sending(id);
        }
        // The kernel's ends do the rest.
        Answer::kind(lab_answer::KERNEL)
    }

    // --- datagrams ---

    pub fn is_for_datagrams(&self, id: SocketId) -> bool {
        self.fabric.socket(id).is_some_and(|socket| matches!(socket.kind, Kind::Datagram { .. }))
    }

    fn move_datagrams(&mut self, id: SocketId, call: &Call) -> Answer {
        if !self.is_for_datagrams(id) {
            return self.on_stream(id, call);
        }
        match call.number {
            libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_write | libc::SYS_writev => {
                self.send_datagram(id, call, call.args[1])
            }
            libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_read | libc::SYS_readv => {
                self.receive_datagram(id, call, call.args[1])
            }
            // One at a time is what the kernel may do, too.
            libc::SYS_sendmmsg | libc::SYS_recvmmsg if call.args[2] == 0 => Answer::result(0),
            libc::SYS_sendmmsg => self.of_many(call, Self::send_datagram, id),
            libc::SYS_recvmmsg => self.of_many(call, Self::receive_datagram, id),
            _ => {
                self.name_unsupported(call.slot, &format!("call {} on a datagram socket", call.number));
                Answer::error(libc::EOPNOTSUPP)
            }
        }
    }

    /// The first of many messages.
    fn of_many(
        &mut self,
        call: &Call,
        one: fn(&mut Self, SocketId, &Call, u64) -> Answer,
        id: SocketId,
    ) -> Answer {
        const MSGHDR_BYTES: u64 = 56;
        let number = if call.number == libc::SYS_sendmmsg { libc::SYS_sendmsg } else { libc::SYS_recvmsg };
        let flags = call.args[3];
        let single = Call { number, args: [call.args[0], call.args[1], flags, 0, 0, 0], ..*call };
        let answer = one(self, id, &single, call.args[1]);
        if answer.result < 0 || answer.kind == lab_answer::WAIT {
            return answer;
        }
        let length = (answer.result as u32).to_le_bytes();
        let process = self.processes.of_slot(call.slot);
        let written = process.is_some_and(|one| one.memory.write(call.args[1] + MSGHDR_BYTES, &length));
        if written { Answer { result: 1, ..answer } } else { Answer::error(libc::EFAULT) }
    }

    /// The parts of a message, its address and where the address's length is.
    fn message(process: &Process, call: &Call) -> Option<Message> {
        let args = call.args;
        Some(match call.number {
            libc::SYS_read | libc::SYS_write => {
                Message { parts: vec![(args[1], args[2] as usize)], ..Message::default() }
            }
            libc::SYS_readv | libc::SYS_writev => {
                Message { parts: process.memory.parts(args[1], args[2])?, ..Message::default() }
            }
            libc::SYS_sendto | libc::SYS_recvfrom => Message {
                parts: vec![(args[1], args[2] as usize)],
                address: args[4],
                length: args[5],
                flags: args[3],
                header: 0,
            },
            _ => {
                let [name, length, parts, count, ..] = process.memory.words::<7>(args[1])?;
                Message {
                    parts: process.memory.parts(parts, count)?,
                    address: name,
                    length: length & 0xffff_ffff,
                    flags: args[2],
                    header: args[1],
                }
            }
        })
    }

    /// What a call is to send.
    pub fn data_of(process: &Process, call: &Call) -> Option<Vec<u8>> {
        process.memory.gather(&Self::message(process, call)?.parts)
    }

    fn send_datagram(&mut self, id: SocketId, call: &Call, _at: u64) -> Answer {
        let Some(process) = self.processes.of_slot(call.slot) else { return Answer::error(libc::ESRCH) };
        let Some(message) = Self::message(process, call) else { return Answer::error(libc::EFAULT) };
        let Some(data) = process.memory.gather(&message.parts) else { return Answer::error(libc::EFAULT) };
        let to = match message.address {
            0 => None,
            at => match addresses::read(&process.memory, at, message.length) {
                Ok(Given::Address(address)) => Some(address),
                Ok(Given::None) => None,
                Err(errno) => return Answer::error(errno),
            },
        };
        let result = self.fabric.send_to(id, to, &data);
        if let Some(to) = to {
            self.note_no_way(call, &result, to);
        }
        match result {
            Ok(()) => Answer::result(data.len() as i64),
            Err(error) => Answer::error(errno(error)),
        }
    }

    fn receive_datagram(&mut self, id: SocketId, call: &Call, _at: u64) -> Answer {
        let Some(process) = self.processes.of_slot(call.slot) else { return Answer::error(libc::ESRCH) };
        let Some(message) = Self::message(process, call) else { return Answer::error(libc::EFAULT) };
        if message.flags & libc::MSG_ERRQUEUE as u64 != 0 {
            // Errors are told by the calls themselves.
            return Answer::error(libc::EAGAIN);
        }
        let peeks = message.flags & MSG_PEEK != 0;
        let datagram = match self.fabric.receive_from(id, peeks) {
            Ok(datagram) => datagram,
            Err(Error::Nothing) if call.waits => return self.wait_answer(id, SO_RCVTIMEO),
            Err(error) => return Answer::error(errno(error)),
        };
        let is_v6 = self.fabric.socket(id).is_some_and(|socket| socket.is_v6);
        let raw = addresses::bytes(datagram.from, is_v6);
        let began_ns = self.memory.lab().realtime_ns.load(std::sync::atomic::Ordering::Relaxed);
        let options = self.placeholders.get(id).map(|one| &one.options);
        let control = options.map_or_else(Vec::new, |options| ancillary::of(options, &datagram, began_ns));
        let Some(process) = self.processes.of_slot(call.slot) else { return Answer::error(libc::ESRCH) };
        let Some(taken) = process.memory.scatter(&message.parts, &datagram.data) else {
            return Answer::error(libc::EFAULT);
        };
        let is_cut = taken < datagram.data.len();
        let written = match message.header {
            0 => addresses::write(&process.memory, message.address, message.length, &raw),
            header => {
                // msg_namelen, msg_controllen, msg_flags.
                let name = message.address == 0
                    || addresses::write(&process.memory, message.address, header + 8, &raw);
                let flags = if is_cut { MSG_TRUNC as u32 } else { 0 };
                name && ancillary::write(&process.memory, header, &control, flags)
            }
        };
        if !written {
            return Answer::error(libc::EFAULT);
        }
        let wants_all = message.flags & MSG_TRUNC != 0;
        let result = if wants_all { datagram.data.len() } else { taken } as i64;
        if peeks {
            return Answer::result(result);
        }
        if let Some(placeholder) = self.placeholders.get(id) {
            placeholder.marks = placeholder.marks.saturating_sub(1);
        }
        Answer { kind: lab_answer::TAKE, result, until_ns: LAB_NEVER }
    }
}

#[derive(Default)]
struct Message {
    parts: Vec<(u64, usize)>,
    address: u64,
    length: u64,
    flags: u64,
    /// Of a message with a header.
    header: u64,
}

pub const SOL_SOCKET: u64 = libc::SOL_SOCKET as u64;
const SO_RCVTIMEO: u64 = libc::SO_RCVTIMEO as u64;
/// In place of an option: a connection was begun that the program has not been told of.
const BEGUN: (u64, u64) = (u64::MAX, 0);
