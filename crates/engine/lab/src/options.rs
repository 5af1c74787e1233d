//! Options of sockets: what each does, and what is answered. docs/LAB.md has the list.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use fabric::{Kind, SEGMENT_BYTES_MAX, SocketId};
use lane_protocol::lab_answer;

use crate::calls::{Call, SOL_SOCKET, errno};
use crate::engine::Engine;
use crate::questions::Answer;

const IPPROTO_IP: u64 = libc::IPPROTO_IP as u64;
/// <linux/in.h>.
const MCAST_JOIN_GROUP: i32 = 42;
const MCAST_LEAVE_GROUP: i32 = 45;
const IPPROTO_TCP: u64 = libc::IPPROTO_TCP as u64;
const IPPROTO_IPV6: u64 = libc::IPPROTO_IPV6 as u64;
/// Bytes of an option, at most.
const OPTION_BYTES_MAX: usize = 4096;

/// Whether an option enters a group (true) or leaves it (false).
fn let_in(level: u64, name: u64) -> Option<bool> {
    match (level, name as i32) {
        (IPPROTO_IP, libc::IP_ADD_MEMBERSHIP | MCAST_JOIN_GROUP)
        | (IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP | MCAST_JOIN_GROUP) => Some(true),
        (IPPROTO_IP, libc::IP_DROP_MEMBERSHIP | MCAST_LEAVE_GROUP)
        | (IPPROTO_IPV6, libc::IPV6_DROP_MEMBERSHIP | MCAST_LEAVE_GROUP) => Some(false),
        _ => None,
    }
}

/// The group of `struct ip_mreq`, `ipv6_mreq` or `group_req`. A node has one interface: which is meant does
/// not matter.
fn group_of(level: u64, name: u64, value: &[u8]) -> Option<IpAddr> {
    let v4 = |at: usize| Some(IpAddr::from(*value.get(at..at + 4)?.first_chunk::<4>()?));
    let v6 = |at: usize| Some(IpAddr::from(*value.get(at..at + 16)?.first_chunk::<16>()?));
    match (level, name as i32) {
        (_, MCAST_JOIN_GROUP | MCAST_LEAVE_GROUP) => match value.get(8).map(|&family| i32::from(family))? {
            libc::AF_INET => v4(12),
            _ => v6(16),
        },
        (IPPROTO_IP, _) => v4(0),
        _ => v6(0),
    }
}

/// `struct tcp_info`: the state and what was measured. All others are zero.
fn tcp_info(state: u8, info: Option<fabric::Info>) -> Vec<u8> {
    const TCP_INFO_BYTES: usize = 104;
    let mut bytes = vec![0; TCP_INFO_BYTES];
    bytes[0] = state;
    let Some(info) = info else { return bytes };
    bytes[2] = info.tries.min(255) as u8;
    let segment = SEGMENT_BYTES_MAX as u64;
    let segments = |bytes: u64| bytes.div_ceil(segment).min(u64::from(i32::MAX as u32));
    for (at, value) in [
        (8, info.rto_ns / 1000),
        (16, segment),
        (20, segment),
        (24, segments(info.in_flight_bytes)),
        (60, 1500),
        (68, info.trip_ns / 1000),
        (72, info.variation_ns / 1000),
        (76, segments(info.threshold_bytes)),
        (80, segments(info.congestion_bytes)),
        (84, segment),
        (88, 3),
        (100, info.resent),
    ] {
        bytes[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
    }
    bytes
}

impl Engine {
    /// setsockopt(2): some have an effect, all are kept to be asked back.
    pub fn set_option(&mut self, id: SocketId, call: &Call) -> Answer {
        let [_, level, name, at, length, _] = call.args;
        let Some(process) = self.processes.of_slot(call.slot) else { return Answer::error(libc::ESRCH) };
        let length = (length as u32 as usize).min(OPTION_BYTES_MAX);
        let Some(value) = process.memory.read(at, length) else { return Answer::error(libc::EFAULT) };
        let number = value.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        match (level, name as i32) {
            (SOL_SOCKET, libc::SO_REUSEADDR) => {
                self.fabric.share_address(id, |sharing| sharing.address = number.unwrap_or(0) != 0);
            }
            (SOL_SOCKET, libc::SO_REUSEPORT) => {
                self.fabric.share_address(id, |sharing| sharing.port = number.unwrap_or(0) != 0);
            }
            (IPPROTO_TCP, libc::TCP_CORK) => {
                // What was written before is sent as it was.
                self.follow_placeholder(id.0, rustix::event::epoll::EventFlags::empty());
                self.fabric.set_cork(id, number.unwrap_or(0) != 0);
            }
            (IPPROTO_TCP, libc::TCP_NODELAY) => self.fabric.set_no_delay(id, number.unwrap_or(0) != 0),
            (SOL_SOCKET, libc::SO_BROADCAST) => self.fabric.set_broadcasts(id, number.unwrap_or(0) != 0),
            (IPPROTO_IP, libc::IP_RECVERR) | (IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                self.fabric.set_hears_errors(id, number.unwrap_or(0) != 0);
            }
            (IPPROTO_IP, libc::IP_MULTICAST_LOOP) | (IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP) => {
                // A byte, or more.
                self.fabric.set_hears_itself(id, value.first().is_some_and(|&byte| byte != 0));
            }
            _ if let_in(level, name).is_some() => {
                let group = group_of(level, name, &value);
                let Some(group) = group else { return Answer::error(libc::EINVAL) };
                let done = match let_in(level, name) {
                    Some(true) => self.fabric.join(id, group),
                    _ => self.fabric.leave(id, group),
                };
                return done.map_or_else(|error| Answer::error(errno(error)), |()| Answer::result(0));
            }
            (IPPROTO_IPV6, libc::IPV6_V6ONLY) => self.fabric.set_v6_only(id, number.unwrap_or(0) != 0),
            _ => {}
        }
        if let Some(placeholder) = self.placeholders.get(id) {
            placeholder.options.insert((level, name), value);
        }
        let lingers = self.placeholders.get(id).is_some_and(|one| one.lingers_ns().is_some());
        if lingers {
            self.memory.lab().lingers.store(1, Ordering::Relaxed);
        }
        // How long a call may wait is the kernel's to know, and where an urgent byte is: streams are read there.
        match (level, name as i32) {
            (SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO | libc::SO_OOBINLINE) => {
                Answer::kind(lab_answer::KERNEL)
            }
            _ => Answer::result(0),
        }
    }

    /// getsockopt(2).
    pub fn get_option(&mut self, id: SocketId, call: &Call) -> Answer {
        let [_, level, name, at, length_at, _] = call.args;
        let value = match self.option(id, level, name as i32) {
            Some(value) => value,
            None => match self.placeholders.get(id).and_then(|one| one.options.get(&(level, name))) {
                Some(value) => value.clone(),
                // The name of none.
                None if (level, name as i32) == (SOL_SOCKET, libc::SO_BINDTODEVICE) => Vec::new(),
                None => vec![0; 4],
            },
        };
        let Some(process) = self.processes.of_slot(call.slot) else { return Answer::error(libc::ESRCH) };
        let Some(room) = process.memory.half_word(length_at) else { return Answer::error(libc::EFAULT) };
        let fits = value.len().min(room as usize);
        let written = (fits == 0 || process.memory.write(at, &value[..fits]))
            && process.memory.write(length_at, &(fits as u32).to_le_bytes());
        if written { Answer::result(0) } else { Answer::error(libc::EFAULT) }
    }

    /// Those whose value is not what was set.
    fn option(&mut self, id: SocketId, level: u64, name: i32) -> Option<Vec<u8>> {
        let word = |value: i32| Some(value.to_le_bytes().to_vec());
        let socket = self.fabric.socket(id)?;
        let is_datagram = matches!(socket.kind, Kind::Datagram { .. });
        let listens = crate::placeholders::listens(&socket.kind);
        let is_v6 = socket.is_v6;
        match (level, name) {
            (SOL_SOCKET, libc::SO_ERROR) => word(self.take_error(id)),
            (SOL_SOCKET, libc::SO_TYPE) => word(match (socket.pings, is_datagram) {
                (Some(fabric::Pings::Raw), _) => libc::SOCK_RAW,
                (_, true) => libc::SOCK_DGRAM,
                (_, false) => libc::SOCK_STREAM,
            }),
            (SOL_SOCKET, libc::SO_DOMAIN) => word(if is_v6 { libc::AF_INET6 } else { libc::AF_INET }),
            (SOL_SOCKET, libc::SO_PROTOCOL) => word(match (socket.pings, is_datagram) {
                (Some(_), _) if is_v6 => libc::IPPROTO_ICMPV6,
                (Some(_), _) => libc::IPPROTO_ICMP,
                (None, true) => libc::IPPROTO_UDP,
                (None, false) => libc::IPPROTO_TCP,
            }),
            (SOL_SOCKET, libc::SO_ACCEPTCONN) => word(i32::from(listens)),
            (SOL_SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF) => {
                let set = self.placeholders.get(id)?.options.get(&(level, name as u64));
                let set = set.and_then(|bytes| Some(i32::from_le_bytes(*bytes.first_chunk()?)));
                // The kernel doubles what was set.
                word(set.map_or(212_992, |bytes| bytes.saturating_mul(2)))
            }
            (IPPROTO_TCP, libc::TCP_MAXSEG) => word(SEGMENT_BYTES_MAX as i32),
            (IPPROTO_TCP, libc::TCP_INFO) => {
                const ESTABLISHED: u8 = 1;
                const CLOSE: u8 = 7;
                const LISTEN: u8 = 10;
                let stream = socket.stream();
                let state = match stream {
                    _ if listens => LISTEN,
                    Some(end) if end.is_open() => ESTABLISHED,
                    _ => CLOSE,
                };
                Some(tcp_info(state, stream.map(fabric::End::info)))
            }
            _ => None,
        }
    }
}
