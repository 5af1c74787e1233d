//! What system calls mean for descriptors, and for what is sent and received.

use std::collections::HashMap;

use events::{Event, Tag};
use syscall_model::by_name;

use super::descriptors::EndNumber;
use super::ends::{Address, Connection};
use super::{Meeting, Place, Senders};
use crate::control_messages::passed_descriptors;
use crate::dump::waited_for;
use crate::lane_events::{BlobView, WholeEvent};

const CLOEXEC: u64 = 0o2_000_000;
const MSG_PEEK: u64 = 2;
/// Bytes of `struct msghdr`, and of `struct mmsghdr`.
const HEADER_BYTES: u64 = 56;
const COUNTED_HEADER_BYTES: u64 = 64;
/// Where the address of the control data stands in it.
const CONTROL_AT: usize = 32;
/// Messages of one call that are looked at.
const MESSAGES_MAX: u64 = 1024;

/// A call that means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Pipe,
    SocketPair,
    Socket,
    Bind,
    Connect,
    Accept,
    LocalName,
    RemoteName,
    Dup,
    DupTo,
    Control,
    Close,
    CloseRange,
    /// The number is of the argument that names a path.
    Open(usize),
    MakeNode(usize),
    Counter,
    /// It makes a descriptor of which nothing more is known here.
    Makes,
    Clone,
    Read,
    ReadVectors,
    ReceiveFrom,
    ReceiveMessage,
    ReceiveMessages,
    Write,
    SendTo,
    SendMessage,
    SendMessages,
    /// From the descriptor of the first argument to that of the second.
    Moves(usize, usize),
    QueueSend,
    QueueReceive,
    /// Who is meant is in the first argument; the signal in this one.
    Kill(usize),
    KillThread,
    Wait4,
    WaitId,
    Futex,
}

/// Those calls, by their numbers.
pub fn known() -> HashMap<u16, Call> {
    const ALL: &[(&str, Call)] = &[
        ("pipe", Call::Pipe),
        ("pipe2", Call::Pipe),
        ("socketpair", Call::SocketPair),
        ("socket", Call::Socket),
        ("bind", Call::Bind),
        ("connect", Call::Connect),
        ("accept", Call::Accept),
        ("accept4", Call::Accept),
        ("getsockname", Call::LocalName),
        ("getpeername", Call::RemoteName),
        ("dup", Call::Dup),
        ("dup2", Call::DupTo),
        ("dup3", Call::DupTo),
        ("fcntl", Call::Control),
        ("close", Call::Close),
        ("close_range", Call::CloseRange),
        ("open", Call::Open(0)),
        ("creat", Call::Makes),
        ("openat", Call::Open(1)),
        ("openat2", Call::Makes),
        ("mknod", Call::MakeNode(0)),
        ("mknodat", Call::MakeNode(1)),
        ("eventfd", Call::Counter),
        ("eventfd2", Call::Counter),
        ("epoll_create", Call::Makes),
        ("epoll_create1", Call::Makes),
        ("timerfd_create", Call::Makes),
        ("signalfd4", Call::Makes),
        ("inotify_init", Call::Makes),
        ("inotify_init1", Call::Makes),
        ("memfd_create", Call::Makes),
        ("pidfd_open", Call::Makes),
        ("fork", Call::Clone),
        ("vfork", Call::Clone),
        ("clone", Call::Clone),
        ("read", Call::Read),
        ("readv", Call::ReadVectors),
        ("recvfrom", Call::ReceiveFrom),
        ("recvmsg", Call::ReceiveMessage),
        ("recvmmsg", Call::ReceiveMessages),
        ("write", Call::Write),
        ("writev", Call::Write),
        ("sendto", Call::SendTo),
        ("sendmsg", Call::SendMessage),
        ("sendmmsg", Call::SendMessages),
        ("splice", Call::Moves(0, 2)),
        ("sendfile", Call::Moves(1, 0)),
        ("msgsnd", Call::QueueSend),
        ("msgrcv", Call::QueueReceive),
        ("kill", Call::Kill(1)),
        ("tkill", Call::KillThread),
        ("rt_sigqueueinfo", Call::Kill(1)),
        ("tgkill", Call::Kill(2)),
        ("rt_tgsigqueueinfo", Call::Kill(2)),
        ("wait4", Call::Wait4),
        ("waitid", Call::WaitId),
        ("futex", Call::Futex),
    ];
    ALL.iter().filter_map(|(name, call)| Some((by_name(name)?.nr, *call))).collect()
}

impl Senders {
    pub fn note_call(&mut self, call: Call, at: Place, whole: &WholeEvent) {
        let event = whole.event();
        let (result, fd) = (event.result(), event.arg(0) as i32);
        // A connection that is under way is one that is asked for.
        const EINPROGRESS: i64 = -115;
        if result < 0 && !(call == Call::Connect && result == EINPROGRESS) {
            return;
        }
        match call {
            Call::Pipe | Call::SocketPair | Call::Socket | Call::Bind | Call::Connect | Call::Accept => {
                self.note_socket(call, at, whole);
            }
            Call::LocalName | Call::RemoteName => self.note_name(call, at, whole),
            Call::Dup | Call::DupTo | Call::Control | Call::Close | Call::CloseRange => {
                self.note_descriptor(call, at.process, &event);
            }
            Call::Open(path) => self.note_open(path, at.process, whole),
            Call::MakeNode(path) => self.note_node(path, whole),
            Call::Counter => {
                let end = self.ends.add(Meeting::Counter, false);
                self.ends.all[end].peer = Some(end);
                // What it counts from is there from the beginning.
                self.ends.send(end, at, event.arg(0) & 0xffff_ffff, &[], None);
                self.descriptors.set(at.process, result as i32, end, event.arg(1) & CLOEXEC != 0);
            }
            Call::Makes => self.descriptors.close(at.process, result as i32..=result as i32),
            Call::Clone => {}
            Call::Read | Call::ReadVectors | Call::ReceiveFrom | Call::ReceiveMessage => {
                self.note_received(call, at, whole);
            }
            Call::ReceiveMessages | Call::SendMessages => self.note_messages(call, at, whole),
            Call::Write | Call::SendTo | Call::SendMessage => self.note_sent(call, at, whole),
            Call::Moves(from, to) => {
                let [from, to] = [from, to].map(|index| event.arg(index) as i32);
                if let Some(end) = self.descriptors.end_of(at.process, from) {
                    self.ends.receive(end, at, result as u64, &[], None);
                }
                if let Some(end) = self.descriptors.end_of(at.process, to) {
                    self.ends.send(end, at, result as u64, &[], None);
                }
            }
            Call::QueueSend => {
                let end = self.ends.queue(event.arg(0));
                self.ends.send(end, at, event.arg(2), &[], Some(Address::Queue(event.arg(0))));
            }
            Call::QueueReceive => {
                let end = self.ends.queue(event.arg(0));
                self.ends.receive(end, at, result as u64, &[], None);
            }
            Call::Kill(signal) => self.processes.note_kill(at, Some(fd), event.arg(signal) as i32),
            Call::KillThread => self.processes.note_kill(at, None, event.arg(1) as i32),
            Call::Wait4 | Call::WaitId => {
                if let Some(pid) = waited_for(whole) {
                    self.processes.note_wait(at, pid);
                }
            }
            Call::Futex => self.processes.note_futex(at, self.threads[at.process], &event),
        }
    }

    fn note_socket(&mut self, call: Call, at: Place, whole: &WholeEvent) {
        const STREAM: u64 = 1;
        const UNIX: u64 = 1;
        const KIND_MASK: u64 = 0xf;
        let event = whole.event();
        let fd = event.arg(0) as i32;
        let is_framed = event.arg(1) & KIND_MASK != STREAM;
        let address = || Address::of(any_blob(whole, event.arg(1)).unwrap_or_default());
        match call {
            Call::Pipe | Call::SocketPair => {
                let is_pipe = call == Call::Pipe;
                let (numbers, flags) = if is_pipe { (0, event.arg(1)) } else { (3, event.arg(1)) };
                let closes = flags & CLOEXEC != 0 && event.arg_count() > 1;
                let ends = if is_pipe { self.ends.add_pipe() } else { self.ends.add_pair(is_framed) };
                for (place, end) in ends.into_iter().enumerate() {
                    let number = any_blob(whole, event.arg(numbers)).and_then(|data| word(data, 4 * place));
                    if let Some(number) = number {
                        self.descriptors.set(at.process, number as i32, end, closes);
                    }
                }
            }
            Call::Socket => {
                let meeting = if event.arg(0) == UNIX { Meeting::Unix } else { Meeting::Inet };
                let end = self.ends.add(meeting, is_framed);
                self.ends.all[end].is_addressed = is_framed;
                let closes = event.arg(1) & CLOEXEC != 0;
                self.descriptors.set(at.process, event.result() as i32, end, closes);
            }
            Call::Bind => {
                if let Some(end) = self.descriptors.end_of(at.process, fd) {
                    self.ends.all[end].local = address().filter(is_whole);
                }
            }
            Call::Connect => {
                let Some(end) = self.descriptors.end_of(at.process, fd) else { return };
                let listener = address();
                self.ends.all[end].remote.clone_from(&listener);
                if !self.ends.all[end].is_addressed {
                    self.ends.asked.push(Connection { end, listener });
                }
            }
            Call::Accept => self.note_accepted(at, whole),
            _ => {}
        }
    }

    fn note_accepted(&mut self, at: Place, whole: &WholeEvent) {
        let event = whole.event();
        let closes = event.arg_count() > 3 && event.arg(3) & CLOEXEC != 0;
        let number = event.result() as i32;
        let Some(listener) = self.descriptors.end_of(at.process, event.arg(0) as i32) else {
            return self.descriptors.close(at.process, number..=number);
        };
        let (meeting, is_framed) = (self.ends.all[listener].meeting, self.ends.all[listener].is_framed);
        let end = self.ends.add(meeting, is_framed);
        let local = self.ends.all[listener].local.clone();
        self.ends.all[end].local.clone_from(&local);
        self.ends.all[end].remote = any_blob(whole, event.arg(1)).and_then(Address::of);
        self.ends.accepted.push(Connection { end, listener: local });
        self.descriptors.set(at.process, number, end, closes);
    }

    /// A program that asks for an address tells it to us.
    fn note_name(&mut self, call: Call, at: Place, whole: &WholeEvent) {
        let event = whole.event();
        let Some(end) = self.descriptors.end_of(at.process, event.arg(0) as i32) else { return };
        let address = any_blob(whole, event.arg(1)).and_then(Address::of).filter(is_whole);
        match call {
            Call::LocalName => self.ends.all[end].local = address.or(self.ends.all[end].local.take()),
            _ => self.ends.all[end].remote = address.or(self.ends.all[end].remote.take()),
        }
    }

    fn note_descriptor(&mut self, call: Call, process: usize, event: &Event<'_>) {
        let (fd, result) = (event.arg(0) as i32, event.result() as i32);
        match call {
            Call::Dup => self.descriptors.copy(process, fd, result, false),
            Call::DupTo if fd == result => {}
            Call::DupTo => {
                let closes = event.arg_count() > 2 && event.arg(2) & CLOEXEC != 0;
                self.descriptors.copy(process, fd, result, closes);
            }
            Call::Control => {
                const DUP: u64 = 0;
                const SET_FLAGS: u64 = 2;
                const DUP_CLOEXEC: u64 = 1030;
                match event.arg(1) {
                    DUP => self.descriptors.copy(process, fd, result, false),
                    DUP_CLOEXEC => self.descriptors.copy(process, fd, result, true),
                    SET_FLAGS => {
                        self.descriptors.set_closes_on_exec(process, fd..=fd, event.arg(2) & 1 != 0);
                    }
                    _ => {}
                }
            }
            Call::CloseRange => {
                const ON_EXEC: u64 = 4;
                let number = |word: u64| i32::try_from(word & 0xffff_ffff).unwrap_or(i32::MAX);
                let range = number(event.arg(0))..=number(event.arg(1));
                match event.arg(2) & ON_EXEC {
                    0 => self.descriptors.close(process, range),
                    _ => self.descriptors.set_closes_on_exec(process, range, true),
                }
            }
            _ => self.descriptors.close(process, fd..=fd),
        }
    }

    fn note_open(&mut self, path: usize, process: usize, whole: &WholeEvent) {
        const ACCESS_MASK: u64 = 3;
        const WRITES: u64 = 1;
        let event = whole.event();
        let (number, flags) = (event.result() as i32, event.arg(path + 1));
        match text(whole, event.arg(path)).and_then(|path| self.ends.named_pipe(path)) {
            Some([reading, writing]) => {
                let end = if flags & ACCESS_MASK == WRITES { writing } else { reading };
                self.descriptors.set(process, number, end, flags & CLOEXEC != 0);
            }
            None => self.descriptors.close(process, number..=number),
        }
    }

    fn note_node(&mut self, path: usize, whole: &WholeEvent) {
        const KIND_MASK: u64 = 0o170_000;
        const NAMED_PIPE: u64 = 0o010_000;
        let event = whole.event();
        if event.arg(path + 1) & KIND_MASK == NAMED_PIPE
            && let Some(path) = text(whole, event.arg(path))
        {
            self.ends.add_named_pipe(path);
        }
    }

    fn note_received(&mut self, call: Call, at: Place, whole: &WholeEvent) {
        let event = whole.event();
        let Some(end) = self.descriptors.end_of(at.process, event.arg(0) as i32) else { return };
        let flags = match call {
            Call::ReceiveFrom => event.arg(3),
            Call::ReceiveMessage => event.arg(2),
            _ => 0,
        };
        let bytes = event.result() as u64;
        // Nothing arrived: the other end was closed.
        if flags & MSG_PEEK != 0 || bytes == 0 && !self.ends.all[end].is_framed {
            return;
        }
        let (mut data, mut from) = (Vec::new(), None);
        match call {
            Call::ReceiveFrom => {
                data.extend_from_slice(memory(whole, event.arg(1)));
                from = any_blob(whole, event.arg(4)).and_then(Address::of);
            }
            Call::ReceiveMessage => {
                let header = memory(whole, event.arg(1));
                let [name, control] = [0, 32].map(|at| long(header, at).unwrap_or(0));
                self.note_arrived(end, at.process, &passed_descriptors(memory(whole, control)), flags);
                from = any_blob(whole, name).and_then(Address::of);
                let others = [event.arg(1), name, control];
                for blob in whole.blobs().filter(|blob| blob.tag == Tag::Memory) {
                    if !others.contains(&blob.address) {
                        data.extend_from_slice(blob.data);
                    }
                }
            }
            Call::ReadVectors => {
                let parts = whole.blobs().filter(|blob| blob.tag == Tag::Memory);
                parts.for_each(|blob| data.extend_from_slice(blob.data));
            }
            _ => data.extend_from_slice(memory(whole, event.arg(1))),
        }
        if self.ends.all[end].meeting == Meeting::Counter {
            // What is read is a sum of what was written.
            return self.ends.receive(end, at, long(&data, 0).unwrap_or(0), &[], None);
        }
        self.ends.receive(end, at, bytes, &data, from);
    }

    /// Descriptors that a message brought.
    fn note_arrived(&mut self, end: EndNumber, process: usize, numbers: &[i32], flags: u64) {
        const CMSG_CLOEXEC: u64 = 0x4000_0000;
        if numbers.is_empty() {
            return;
        }
        let sent = self.ends.take_passed(end, numbers.len()).unwrap_or_default();
        for (place, number) in numbers.iter().enumerate() {
            match sent.get(place).copied().flatten() {
                Some(end) => self.descriptors.set(process, *number, end, flags & CMSG_CLOEXEC != 0),
                None => self.descriptors.close(process, *number..=*number),
            }
        }
    }

    /// Descriptors that a message takes with it; of many the log has the first ones.
    fn note_passed(&mut self, end: EndNumber, process: usize, control: Option<BlobView<'_>>) {
        let Some(control) = control else { return };
        let numbers = passed_descriptors(control.data);
        let ends = numbers.iter().map(|number| self.descriptors.end_of(process, *number)).collect();
        self.ends.pass(end, ends);
    }

    fn note_sent(&mut self, call: Call, at: Place, whole: &WholeEvent) {
        let event = whole.event();
        let Some(end) = self.descriptors.end_of(at.process, event.arg(0) as i32) else { return };
        let to = match call {
            Call::SendTo => any_blob(whole, event.arg(4)).and_then(Address::of),
            _ => None,
        };
        // Of a message the log has the descriptors in it alone.
        if call == Call::SendMessage {
            self.note_passed(end, at.process, whole.blobs().find(|blob| blob.tag == Tag::Sent));
            return self.ends.send(end, at, event.result() as u64, &[], None);
        }
        let first = whole
            .blobs()
            .find(|blob| blob.tag == Tag::Sent && (call == Call::Write || blob.address == event.arg(1)));
        let begin = first.map_or(&[] as &[u8], |blob| blob.data);
        if self.ends.all[end].meeting == Meeting::Counter {
            return self.ends.send(end, at, long(begin, 0).unwrap_or(0), &[], None);
        }
        self.ends.send(end, at, event.result() as u64, begin, to);
    }

    /// Several messages, of which the log tells lengths.
    fn note_messages(&mut self, call: Call, at: Place, whole: &WholeEvent) {
        let event = whole.event();
        let Some(end) = self.descriptors.end_of(at.process, event.arg(0) as i32) else { return };
        for index in 0..(event.result() as u64).min(MESSAGES_MAX) {
            let header = event.arg(1).wrapping_add(index * COUNTED_HEADER_BYTES);
            let alone = any_blob(whole, header.wrapping_add(HEADER_BYTES)).and_then(|data| word(data, 0));
            let among = || {
                let all = any_blob(whole, event.arg(1))?;
                word(all, (index * COUNTED_HEADER_BYTES + HEADER_BYTES) as usize)
            };
            let bytes = u64::from(alone.or_else(among).unwrap_or(0));
            match call {
                Call::SendMessages => {
                    let control = any_blob(whole, event.arg(1)).map(|all| control_of(all, index));
                    let sent =
                        |blob: &BlobView<'_>| blob.tag == Tag::Sent && Some(Some(blob.address)) == control;
                    self.note_passed(end, at.process, whole.blobs().find(sent));
                    self.ends.send(end, at, bytes, &[], None);
                }
                _ => {
                    let control = control_of(memory(whole, header), 0).unwrap_or(0);
                    let numbers = passed_descriptors(memory(whole, control));
                    self.note_arrived(end, at.process, &numbers, event.arg(3));
                    self.ends.receive(end, at, bytes, &[], None);
                }
            }
        }
    }
}

/// An address with a port of 0 is any.
fn is_whole(address: &Address) -> bool {
    !matches!(address, Address::Inet { port: 0, .. })
}

/// Where the control data of a message of several are; of one header, the first is meant.
fn control_of(headers: &[u8], index: u64) -> Option<u64> {
    long(headers, (index * COUNTED_HEADER_BYTES) as usize + CONTROL_AT).filter(|address| *address != 0)
}

fn memory(whole: &WholeEvent, address: u64) -> &[u8] {
    whole.memory(address).map_or(&[], |blob| blob.data)
}

fn any_blob(whole: &WholeEvent, address: u64) -> Option<&[u8]> {
    let found = whole
        .blobs()
        .find(|blob| address != 0 && blob.address == address && matches!(blob.tag, Tag::Memory | Tag::Sent));
    found.map(|blob| blob.data)
}

fn text(whole: &WholeEvent, address: u64) -> Option<&[u8]> {
    let found = whole.blobs().find(|blob| blob.tag == Tag::Text && blob.address == address)?;
    found.data.split(|byte| *byte == 0).next()
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

fn long(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(data.get(at..at + 8)?.try_into().ok()?))
}
