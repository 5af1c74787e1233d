//! Echo requests and replies (ICMP, RFC 792 and 4443): hosts answer them, sockets send and get them.
//!
//! A datagram socket for them has its identifier as its port, as in Linux (`net.ipv4.ping_group_range`); a raw one
//! chooses identifiers itself, and gets all replies that come to its host, by IPv4 with the packet's header.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::hosts::HostId;
use crate::packet::{Content, Packet};
use crate::sockets::{Kind, Socket, SocketId};
use crate::travel::is_group;
use crate::{Error, Fabric};

/// How a socket pings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pings {
    Datagram,
    Raw,
}

/// An echo request or reply.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Echo {
    pub is_reply: bool,
    pub identifier: u16,
    /// The sequence number, and what was sent with it.
    pub rest: Vec<u8>,
}

const HEADER_BYTES: usize = 8;
/// How many hosts a packet may come through: what Linux begins with.
const HOPS: u8 = 64;

/// The sum of RFC 1071.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        // In the machine's order, four bytes at a time: the sum has its bytes exchanged then, and no others.
        let (words, rest) = part.as_chunks::<4>();
        sum += words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum::<u64>();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        sum += u64::from(u32::from_le_bytes(last));
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16).swap_bytes()
}

impl Echo {
    /// What a socket is to send.
    fn read(data: &[u8], is_v4: bool) -> Result<Echo, Error> {
        let (kind, code) = (data.first(), data.get(1));
        let is_request = kind == Some(&if is_v4 { 8 } else { 128 }) && code == Some(&0);
        let is_reply = kind == Some(&if is_v4 { 0 } else { 129 }) && code == Some(&0);
        if data.len() < HEADER_BYTES || !is_request && !is_reply {
            return Err(Error::Invalid);
        }
        let identifier = u16::from_be_bytes([data[4], data[5]]);
        Ok(Echo { is_reply, identifier, rest: data[6..].to_vec() })
    }

    /// The message, without the sum that IPv6 makes of addresses, too.
    pub fn message(&self, is_v4: bool) -> Vec<u8> {
        let kind = match (is_v4, self.is_reply) {
            (true, true) => 0,
            (true, false) => 8,
            (false, true) => 129,
            (false, false) => 128,
        };
        let mut bytes = vec![kind, 0, 0, 0];
        bytes.extend(self.identifier.to_be_bytes());
        bytes.extend_from_slice(&self.rest);
        if is_v4 {
            let sum = checksum(&[&bytes]).to_be_bytes();
            bytes[2..4].copy_from_slice(&sum);
        }
        bytes
    }
}

/// A header of IPv4 before a message of ICMP.
fn with_header(from: IpAddr, to: IpAddr, message: Vec<u8>) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) else { return message };
    let mut bytes = vec![0x45, 0];
    bytes.extend(((20 + message.len()) as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, HOPS, 1, 0, 0]);
    bytes.extend(from.octets());
    bytes.extend(to.octets());
    let sum = checksum(&[&bytes]).to_be_bytes();
    bytes[10..12].copy_from_slice(&sum);
    bytes.extend(message);
    bytes
}

impl Fabric {
    /// A new socket that pings.
    pub fn open_pings(&mut self, host: HostId, pings: Pings, is_v6: bool) -> SocketId {
        let mut socket = Socket::new(host, Kind::Datagram { queue: Default::default() }, is_v6);
        socket.pings = Some(pings);
        self.add(socket)
    }

    /// Sends what a program wrote to such a socket.
    pub(crate) fn send_echo(
        &mut self,
        host: HostId,
        pings: Pings,
        [from, to]: [SocketAddr; 2],
        data: &[u8],
    ) -> Result<(), Error> {
        let mut echo = Echo::read(data, to.is_ipv4())?;
        if pings == Pings::Datagram {
            if echo.is_reply {
                return Err(Error::Invalid);
            }
            echo.identifier = from.port();
        }
        let [from, to] = [from, to].map(|address| SocketAddr::new(address.ip(), 0));
        self.send(host, Packet { from, to, content: Content::Echo(echo) });
        Ok(())
    }

    /// One has come: it is answered, or given to who waits for it.
    pub(crate) fn arrive_echo(&mut self, host: HostId, packet: &Packet, echo: &Echo) {
        let is_v4 = packet.to.is_ipv4();
        let is_for = |socket: &Socket| {
            let takes = match socket.pings {
                Some(Pings::Datagram) => {
                    echo.is_reply && socket.local.is_some_and(|local| local.port() == echo.identifier)
                }
                Some(Pings::Raw) => true,
                None => false,
            };
            takes && socket.host == host && socket.is_v6 != is_v4
        };
        let found: Vec<(SocketId, Option<Pings>)> = self
            .sockets
            .iter()
            .filter(|(_, socket)| is_for(socket))
            .map(|(&id, socket)| (id, socket.pings))
            .collect();
        for (id, pings) in found {
            let mut data = echo.message(is_v4);
            if pings == Some(Pings::Raw) {
                data = with_header(packet.from.ip(), packet.to.ip(), data);
            }
            self.enqueue(id, packet, &data);
        }
        // Linux answers no broadcasts (net.ipv4.icmp_echo_ignore_broadcasts), but multicasts of IPv6.
        if echo.is_reply || is_v4 && is_group(packet.to.ip()) {
            return;
        }
        let mut answer = Self::answer(packet, Content::Echo(Echo { is_reply: true, ..echo.clone() }));
        if is_group(packet.to.ip())
            && let Some(own) = self.source(host, packet.from.ip())
        {
            answer.from.set_ip(own);
        }
        self.send(host, answer);
    }
}
