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

/// A file of packets.
pub struct Capture {
    file: BufWriter<File>,
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
        Ok(Capture { file })
    }

    pub fn packet(&mut self, sent: &Sent) {
        let frame = frame(sent);
        let mut body = 0u32.to_le_bytes().to_vec();
        body.extend(((sent.at_ns >> 32) as u32).to_le_bytes());
        body.extend((sent.at_ns as u32).to_le_bytes());
        body.extend((frame.len() as u32).to_le_bytes());
        body.extend((frame.len() as u32).to_le_bytes());
        body.extend(&frame);
        body.resize(body.len().next_multiple_of(4), 0);
        if !sent.arrives {
            // A comment.
            let text = b"lost";
            body.extend(1u16.to_le_bytes());
            body.extend((text.len() as u16).to_le_bytes());
            body.extend(text);
            body.extend([0; 4]);
        }
        // A capture that cannot be written is not worth the lab.
        let _ = self.file.write_all(&block(6, &body));
    }

    pub fn flush(&mut self) {
        let _ = self.file.flush();
    }
}

/// The packet as Ethernet has it.
fn frame(sent: &Sent) -> Vec<u8> {
    let packet = &sent.packet;
    let (protocol, payload) = match &packet.content {
        Content::Tcp(segment) => (TCP, tcp(packet.from, packet.to, segment)),
        Content::Udp(data) => (UDP, udp(packet.from, packet.to, data)),
        Content::Echo(echo) => icmp(packet.from.ip(), packet.to.ip(), echo),
        Content::Unreachable => (1, vec![3, 3, 0xfc, 0xfc, 0, 0, 0, 0]),
    };
    let mac = |host: usize| [2, 0, 0, 0, (host >> 8) as u8, host as u8];
    let mut frame = Vec::new();
    frame.extend(mac(sent.to.0));
    frame.extend(mac(sent.from.0));
    match (packet.from.ip(), packet.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend([0x08, 0x00]);
            let mut header = vec![0x45, 0];
            header.extend(((20 + payload.len()) as u16).to_be_bytes());
            header.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            header.extend(from.octets());
            header.extend(to.octets());
            let sum = checksum(&[&header]).to_be_bytes();
            header[10..12].copy_from_slice(&sum);
            frame.extend(header);
        }
        (from, to) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((payload.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend(octets(from));
            frame.extend(octets(to));
        }
    }
    frame.extend(payload);
    frame
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

fn tcp(from: SocketAddr, to: SocketAddr, segment: &fabric::Segment) -> Vec<u8> {
    let flag = |is: bool, bit: u8| if is { bit } else { 0 };
    let flags = flag(segment.fin, 1) | flag(segment.syn, 2) | flag(segment.rst, 4) | flag(segment.ack, 16);
    let flags = flags | flag(!segment.data.is_empty(), 8);
    let mut bytes = Vec::new();
    bytes.extend(from.port().to_be_bytes());
    bytes.extend(to.port().to_be_bytes());
    bytes.extend((segment.sequence as u32).to_be_bytes());
    bytes.extend((segment.acknowledged as u32).to_be_bytes());
    let options = tcp_options(segment);
    bytes.extend([((20 + options.len()) << 2) as u8, flags]);
    let window = if segment.syn { segment.window } else { segment.window >> WINDOW_SCALE };
    bytes.extend((window.min(u64::from(u16::MAX)) as u16).to_be_bytes());
    bytes.extend([0, 0, 0, 0]);
    bytes.extend(options);
    bytes.extend(&segment.data);
    let pseudo = pseudo_header(from.ip(), to.ip(), TCP, bytes.len());
    let sum = checksum(&[&pseudo, &bytes]).to_be_bytes();
    bytes[16..18].copy_from_slice(&sum);
    bytes
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

fn udp(from: SocketAddr, to: SocketAddr, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(from.port().to_be_bytes());
    bytes.extend(to.port().to_be_bytes());
    bytes.extend(((8 + data.len()) as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(data);
    let pseudo = pseudo_header(from.ip(), to.ip(), UDP, bytes.len());
    let sum = checksum(&[&pseudo, &bytes]).to_be_bytes();
    bytes[6..8].copy_from_slice(&sum);
    bytes
}
