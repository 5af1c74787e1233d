//! What travels.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::ping::Echo;

/// Bytes of the headers of Ethernet, IPv4 and TCP without options; they take time on a link, too.
const TCP_HEADERS_BYTES: usize = 14 + 20 + 20;
const UDP_HEADERS_BYTES: usize = 14 + 20 + 8;
/// An IPv6 header is so much longer.
const V6_MORE_BYTES: usize = 20;

/// A part of a stream (RFC 9293). Numbers count from 0, where the SYN is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Segment {
    pub sequence: u64,
    pub acknowledged: u64,
    pub syn: bool,
    pub fin: bool,
    pub rst: bool,
    pub ack: bool,
    /// Bytes that the sender of this has room for behind `acknowledged`.
    pub window: u64,
    pub data: Vec<u8>,
}

impl Segment {
    /// How many numbers it takes up.
    pub fn length(&self) -> u64 {
        self.data.len() as u64 + u64::from(self.syn) + u64::from(self.fin)
    }
}

/// What a packet carries.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Content {
    Tcp(Segment),
    Udp(Vec<u8>),
    /// ICMP, or ICMPv6.
    Echo(Echo),
    /// Nobody has the port that a datagram of these addresses went to (ICMP, RFC 792).
    Unreachable,
}

/// A packet on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Packet {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub content: Content,
}

impl Packet {
    /// Bytes on the wire.
    pub fn bytes(&self) -> usize {
        let more = if self.to.is_ipv6() { V6_MORE_BYTES } else { 0 };
        more + match &self.content {
            Content::Tcp(segment) => TCP_HEADERS_BYTES + segment.data.len(),
            Content::Udp(data) => UDP_HEADERS_BYTES + data.len(),
            Content::Echo(echo) => UDP_HEADERS_BYTES - 2 + echo.rest.len(),
            Content::Unreachable => UDP_HEADERS_BYTES + 28,
        }
    }
}
