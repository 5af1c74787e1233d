//! Packets as pcapng (draft-ietf-opsawg-pcapng), for Wireshark: headers are made up from what the network
//! knows of a packet.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};

use fabric::{Content, SEGMENT_BYTES_MAX, Sent, checksum};

const TCP: u8 = 6;
const UDP: u8 = 17;
/// By how many bits windows are shifted, and the bytes of time stamps.
const WINDOW_SCALE: u8 = 8;
const STAMP_BYTES: usize = 12;
/// Bytes of a block before its packet.
const BLOCK_HEADER_BYTES: usize = 28;

/// A file of packets.
pub struct Capture {
    file: BufWriter<File>,
    /// The block that is being made.
    block: Vec<u8>,
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (12 + body.len().next_multiple_of(4)) as u32;
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend(kind.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(body);
    bytes.resize(length as usize - 4, 0);
    bytes.extend(length.to_le_bytes());
    bytes
}

impl Capture {
    /// Begins a file: one interface, times in nanoseconds.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(file: File) -> io::Result<Capture> {
        const BYTE_ORDER: u32 = 0x1a2b_3c4d;
        const ETHERNET: u32 = 1;
        let mut file = BufWriter::new(file);
        let mut section = BYTE_ORDER.to_le_bytes().to_vec();
        section.extend([1, 0, 0, 0]);
        section.extend([0xff; 8]);
        file.write_all(&block(0x0a0d_0d0a, &section))?;
        let mut interface = ETHERNET.to_le_bytes().to_vec();
        interface.extend(0u32.to_le_bytes());
        // if_tsresol: 10^-9; the end of options.
        interface.extend([9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        file.write_all(&block(1, &interface))?;
        Ok(Capture { file, block: Vec::new() })
    }

    pub fn packet(&mut self, sent: &Sent) {
        // Written in place: bulk is copied once.
        let bytes = &mut self.block;
        bytes.clear();
        bytes.extend([0; BLOCK_HEADER_BYTES]);
        frame(bytes, sent);
        let frame_bytes = ((bytes.len() - BLOCK_HEADER_BYTES) as u32).to_le_bytes();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        if !sent.arrives {
            // A comment.
            let text = b"lost";
            bytes.extend(1u16.to_le_bytes());
            bytes.extend((text.len() as u16).to_le_bytes());
            bytes.extend(text);
            bytes.extend([0; 4]);
        }
        let length = (bytes.len() as u32 + 4).to_le_bytes();
        bytes.extend(length);
        let time = [(sent.at_ns >> 32) as u32, sent.at_ns as u32].map(u32::to_le_bytes);
        let header = [6u32.to_le_bytes(), length, [0; 4], time[0], time[1], frame_bytes, frame_bytes];
        for (to, word) in bytes.chunks_exact_mut(4).zip(header) {
            to.copy_from_slice(&word);
        }
        // A capture that cannot be written is not worth the lab.
        let _ = self.file.write_all(bytes);
    }

    pub fn flush(&mut self) {
        let _ = self.file.flush();
    }
}

/// Adds the packet as Ethernet has it.
fn frame(bytes: &mut Vec<u8>, sent: &Sent) {
    let packet = &sent.packet;
    let mac = |host: usize| [2, 0, 0, 0, (host >> 8) as u8, host as u8];
    bytes.extend(mac(sent.to.0));
    bytes.extend(mac(sent.from.0));
    let headers_at = bytes.len();
    let is_v4 = packet.from.ip().is_ipv4() && packet.to.ip().is_ipv4();
    bytes.extend(if is_v4 { [0x08, 0x00] } else { [0x86, 0xdd] });
    bytes.resize(headers_at + 2 + if is_v4 { 20 } else { 40 }, 0);
    let payload_at = bytes.len();
    let (from, to) = (packet.from.ip(), packet.to.ip());
    let protocol = match &packet.content {
        Content::Tcp(segment) => tcp(bytes, packet.from, packet.to, segment),
        Content::Udp(data) => udp(bytes, packet.from, packet.to, data),
        Content::Echo(echo) => {
            let (protocol, message) = icmp(from, to, echo);
            bytes.extend(message);
            protocol
        }
        Content::Unreachable => {
            bytes.extend([3, 3, 0xfc, 0xfc, 0, 0, 0, 0]);
            1
        }
    };
    let payload_bytes = bytes.len() - payload_at;
    let header = &mut bytes[headers_at + 2..payload_at];
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            header[0] = 0x45;
            header[2..4].copy_from_slice(&((20 + payload_bytes) as u16).to_be_bytes());
            header[6..10].copy_from_slice(&[0x40, 0, 64, protocol]);
            header[12..16].copy_from_slice(&from.octets());
            header[16..20].copy_from_slice(&to.octets());
            let sum = checksum(&[header]).to_be_bytes();
            header[10..12].copy_from_slice(&sum);
        }
        (from, to) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            header[0] = 0x60;
            header[4..6].copy_from_slice(&(payload_bytes as u16).to_be_bytes());
            header[6..8].copy_from_slice(&[protocol, 64]);
            header[8..24].copy_from_slice(&octets(from));
            header[24..40].copy_from_slice(&octets(to));
        }
    }
}

/// What checksums of TCP and UDP count besides the packet.
fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, bytes: usize) -> Vec<u8> {
    let mut header = Vec::new();
    for ip in [from, to] {
        match ip {
            IpAddr::V4(ip) => header.extend(ip.octets()),
            IpAddr::V6(ip) => header.extend(ip.octets()),
        }
    }
    header.extend((bytes as u32).to_be_bytes());
    header.extend(u32::from(protocol).to_be_bytes());
    header
}

fn tcp(bytes: &mut Vec<u8>, from: SocketAddr, to: SocketAddr, segment: &fabric::Segment) -> u8 {
    let flag = |is: bool, bit: u8| if is { bit } else { 0 };
    let flags = flag(segment.fin, 1) | flag(segment.syn, 2) | flag(segment.rst, 4) | flag(segment.ack, 16);
    let flags = flags | flag(!segment.data.is_empty(), 8) | flag(segment.urgent != 0, 32);
    let urgent = segment.urgent.saturating_sub(segment.sequence).min(u64::from(u16::MAX)) as u16;
    let begin = bytes.len();
    bytes.extend(from.port().to_be_bytes());
    bytes.extend(to.port().to_be_bytes());
    bytes.extend((segment.sequence as u32).to_be_bytes());
    bytes.extend((segment.acknowledged as u32).to_be_bytes());
    let options = tcp_options(segment);
    bytes.extend([((20 + options.len()) << 2) as u8, flags]);
    let window = if segment.syn { segment.window } else { segment.window >> WINDOW_SCALE };
    bytes.extend((window.min(u64::from(u16::MAX)) as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(urgent.to_be_bytes());
    bytes.extend(options);
    bytes.extend(&segment.data);
    let pseudo = pseudo_header(from.ip(), to.ip(), TCP, bytes.len() - begin);
    let sum = checksum(&[&pseudo, &bytes[begin..]]).to_be_bytes();
    bytes[begin + 16..begin + 18].copy_from_slice(&sum);
    TCP
}

/// Options of a segment, as Linux lays them out.
fn tcp_options(segment: &fabric::Segment) -> Vec<u8> {
    let mut bytes = Vec::new();
    if segment.stamp == 0 {
        return bytes;
    }
    let largest = (SEGMENT_BYTES_MAX + STAMP_BYTES) as u16;
    match segment.syn {
        true => {
            bytes.extend([2, 4]);
            bytes.extend(largest.to_be_bytes());
            bytes.extend([4, 2, 8, 10]);
        }
        false => bytes.extend([1, 1, 8, 10]),
    }
    bytes.extend(segment.stamp.to_be_bytes());
    bytes.extend(segment.echo.to_be_bytes());
    if segment.syn {
        bytes.extend([1, 3, 3, WINDOW_SCALE]);
    }
    if !segment.selected.is_empty() {
        bytes.extend([1, 1, 5, 2 + 8 * segment.selected.len() as u8]);
        for &(begin, end) in &segment.selected {
            bytes.extend((begin as u32).to_be_bytes());
            bytes.extend((end as u32).to_be_bytes());
        }
    }
    bytes
}

/// The protocol, and the message.
fn icmp(from: IpAddr, to: IpAddr, echo: &fabric::Echo) -> (u8, Vec<u8>) {
    const ICMP_V6: u8 = 58;
    let mut bytes = echo.message(to.is_ipv4());
    if to.is_ipv4() {
        return (1, bytes);
    }
    let sum = checksum(&[&pseudo_header(from, to, ICMP_V6, bytes.len()), &bytes]).to_be_bytes();
    bytes[2..4].copy_from_slice(&sum);
    (ICMP_V6, bytes)
}

fn udp(bytes: &mut Vec<u8>, from: SocketAddr, to: SocketAddr, data: &[u8]) -> u8 {
    let begin = bytes.len();
    bytes.extend(from.port().to_be_bytes());
    bytes.extend(to.port().to_be_bytes());
    bytes.extend(((8 + data.len()) as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(data);
    let pseudo = pseudo_header(from.ip(), to.ip(), UDP, bytes.len() - begin);
    let sum = checksum(&[&pseudo, &bytes[begin..]]).to_be_bytes();
    bytes[begin + 6..begin + 8].copy_from_slice(&sum);
    UDP
}
