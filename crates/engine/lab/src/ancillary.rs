//! What recvmsg(2) tells beside a datagram: when it came, how far it may still go, and where it was sent to.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fabric::Datagram;

use crate::memory::Memory;

/// <asm-generic/socket.h>: the forms with times of 64 bits have the same numbers on this machine.
const SO_TIMESTAMP: i32 = 29;
const SO_TIMESTAMPNS: i32 = 35;
const HEADER_BYTES: usize = 16;
/// What Linux begins with.
const HOPS: i32 = 64;
/// A node's one interface besides its loopback.
const ETH0: u32 = 2;

/// A message: level, type, content.
pub type Message = (i32, i32, Vec<u8>);

/// What a socket's options ask for; `began_ns`: the date at the lab's beginning.
pub fn of(options: &BTreeMap<(u64, u64), Vec<u8>>, datagram: &Datagram, began_ns: u64) -> Vec<Message> {
    let at_ns = began_ns + datagram.at_ns;
    let is_set = |level: i32, name: i32| {
        let value = options.get(&(level as u64, name as u64));
        value.is_some_and(|value| value.iter().any(|&byte| byte != 0))
    };
    let time = |fraction: u64| {
        let mut bytes = (at_ns / 1_000_000_000).to_le_bytes().to_vec();
        bytes.extend(fraction.to_le_bytes());
        bytes
    };
    let mut found = Vec::new();
    if is_set(libc::SOL_SOCKET, SO_TIMESTAMPNS) {
        found.push((libc::SOL_SOCKET, SO_TIMESTAMPNS, time(at_ns % 1_000_000_000)));
    } else if is_set(libc::SOL_SOCKET, SO_TIMESTAMP) {
        found.push((libc::SOL_SOCKET, SO_TIMESTAMP, time(at_ns % 1_000_000_000 / 1000)));
    }
    match datagram.to.ip() {
        IpAddr::V4(to) => {
            if is_set(libc::IPPROTO_IP, libc::IP_PKTINFO) {
                let mut bytes = ETH0.to_le_bytes().to_vec();
                bytes.extend(to.octets());
                bytes.extend(to.octets());
                found.push((libc::IPPROTO_IP, libc::IP_PKTINFO, bytes));
            }
            if is_set(libc::IPPROTO_IP, libc::IP_RECVTTL) {
                found.push((libc::IPPROTO_IP, libc::IP_TTL, HOPS.to_le_bytes().to_vec()));
            }
        }
        IpAddr::V6(to) => {
            if is_set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) {
                let mut bytes = to.octets().to_vec();
                bytes.extend(ETH0.to_le_bytes());
                found.push((libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, bytes));
            }
            if is_set(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT) {
                found.push((libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, HOPS.to_le_bytes().to_vec()));
            }
        }
    }
    found
}

/// Writes messages, as far as there is room, their length and `flags` to a `struct msghdr`.
pub fn write(memory: &Memory, header: u64, messages: &[Message], flags: u32) -> bool {
    let Some([at, room]) = memory.words::<2>(header + 32) else { return false };
    let mut bytes = Vec::new();
    let mut flags = flags;
    for (level, kind, content) in messages {
        if bytes.len() + HEADER_BYTES + content.len() > room as usize {
            flags |= libc::MSG_CTRUNC as u32;
            break;
        }
        bytes.extend(((HEADER_BYTES + content.len()) as u64).to_le_bytes());
        bytes.extend(level.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(8).min(room as usize), 0);
    }
    (bytes.is_empty() || at != 0 && memory.write(at, &bytes))
        && memory.write(header + 40, &(bytes.len() as u64).to_le_bytes())
        && memory.write(header + 48, &flags.to_le_bytes())
}
