//! What streams of programs hold back, and what goes before the rest: MSG_MORE, MSG_OOB, and closing that waits
//! (SO_LINGER).

use std::sync::atomic::Ordering;

use fabric::{Sending, SocketId};
use lane_protocol::lab_answer;
use rustix::event::epoll::EventFlags;

use crate::calls::Call;
use crate::engine::Engine;
use crate::placeholders::Placeholder;
use crate::questions::Answer;

const MSG_OOB: u64 = libc::MSG_OOB as u64;
const MSG_MORE: u64 = libc::MSG_MORE as u64;
const BILLION: u64 = 1_000_000_000;

/// The flags of a call that moves a stream's bytes, and whether it sends.
fn flags_of(call: &Call) -> (u64, bool) {
    match call.number {
        libc::SYS_sendto | libc::SYS_recvfrom => (call.args[3], call.number == libc::SYS_sendto),
        libc::SYS_sendmsg | libc::SYS_recvmsg => (call.args[2], call.number == libc::SYS_sendmsg),
        libc::SYS_write | libc::SYS_writev => (0, true),
        // The first argument is where the bytes go.
        libc::SYS_sendfile => (0, true),
        _ => (0, false),
    }
}

impl Placeholder {
    /// SO_LINGER: on or off, and for how many seconds.
    pub fn linger(&self) -> Option<[i32; 2]> {
        let value = self.options.get(&(libc::SOL_SOCKET as u64, libc::SO_LINGER as u64))?;
        let (on, seconds) = value.split_first_chunk::<4>()?;
        Some([i32::from_le_bytes(*on), i32::from_le_bytes(*seconds.first_chunk()?)])
    }

    /// How long who closes it waits.
    pub fn lingers_ns(&self) -> Option<u64> {
        let [on, seconds] = self.linger()?;
        (on != 0 && seconds > 0).then(|| seconds as u64 * BILLION)
    }
}

impl Engine {
    /// A call that moves a stream's bytes: the kernel does it, but where urgent ones are sent.
    pub fn on_stream(&mut self, id: SocketId, call: &Call) -> Answer {
        let (flags, sends) = flags_of(call);
        if sends && flags & MSG_OOB != 0 {
            return self.send_urgent(id, call);
        }
        if sends {
            // What was sent before is moved, as it was meant to be.
            self.follow_placeholder(id.0, EventFlags::empty());
            if let Some(placeholder) = self.placeholders.get(id) {
                placeholder.more = flags & MSG_MORE != 0;
            }
            self.tell_held();
        }
        Answer::kind(lab_answer::STREAM)
    }

    pub fn tell_held(&self) {
        self.memory.lab().held.store(self.placeholders.held(), Ordering::Relaxed);
    }

    /// send(2) with MSG_OOB: the last byte is urgent.
    fn send_urgent(&mut self, id: SocketId, call: &Call) -> Answer {
        self.follow_placeholder(id.0, EventFlags::IN);
        let stream = self.fabric.socket(id).and_then(|socket| socket.stream());
        let Some((room, is_open)) = stream.map(|end| (end.room(), end.is_open() && !end.send_ends)) else {
            return Answer::kind(lab_answer::STREAM);
        };
        if !is_open || self.placeholders.get(id).is_some_and(|one| one.connecting) {
            // The kernel says so of its own socket.
            return Answer::kind(lab_answer::STREAM);
        }
        let Some(process) = self.processes.of_slot(call.slot) else { return Answer::error(libc::ESRCH) };
        let Some(data) = Self::data_of(process, call) else { return Answer::error(libc::EFAULT) };
        if room < data.len() {
            return Answer::error(libc::EAGAIN);
        }
        match self.fabric.give_as(id, &data, Sending::Urgent) {
            Ok(taken) => Answer::result(taken as i64),
            Err(_) => Answer::kind(lab_answer::STREAM),
        }
    }

    /// An urgent byte is there: SIGURG may have come, whatever threads of the node wait for.
    pub fn tell_urgent(&mut self, node: Option<usize>, id: SocketId) {
        self.touch_socket(node, id);
        for pid in node.map(|node| self.processes.of_node(node)).unwrap_or_default() {
            self.signal(pid);
        }
    }

    /// close(2) of a socket that was to wait (SO_LINGER), after the kernel has done it.
    pub fn linger(&mut self, inode: u64) -> Answer {
        let Some(&(id, until_ns)) = self.placeholders.lingering.get(&inode) else {
            return Answer::result(0);
        };
        let stream = self.fabric.socket(id).and_then(|socket| socket.stream());
        if self.now_ns < until_ns && stream.is_some_and(|end| !end.has_delivered()) {
            return Answer { kind: lab_answer::WAIT, result: 0, until_ns };
        }
        self.placeholders.lingering.remove(&inode);
        Answer::result(0)
    }

    /// Something came for a stream that no program has any more: who closed it may wait for that.
    pub fn note_delivered(&mut self, id: SocketId) {
        if !self.placeholders.lingering.values().any(|(lingering, _)| *lingering == id) {
            return;
        }
        let host = self.fabric.socket(id).map(|socket| socket.host);
        let nodes = 0..self.spec.nodes.len();
        let of_host = nodes.into_iter().filter(|&node| host.is_none_or(|host| self.nodes.host(node) == host));
        for node in of_host.collect::<Vec<_>>() {
            self.touch_socket(Some(node), id);
        }
    }
}
