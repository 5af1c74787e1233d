//! What travels.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::ping::Echo;
use crate::segment::Segment;

/// Bytes of the headers of Ethernet, IPv4 and UDP.
const UDP_HEADERS_BYTES: usize = 14 + 20 + 8;
/// An IPv6 header is so much longer.
const V6_MORE_BYTES: usize = 20;

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
            Content::Tcp(segment) => segment.headers_bytes() + segment.data.len(),
            Content::Udp(data) => UDP_HEADERS_BYTES + data.len(),
            Content::Echo(echo) => UDP_HEADERS_BYTES - 2 + echo.rest.len(),
            Content::Unreachable => UDP_HEADERS_BYTES + 28,
        }
    }
}
