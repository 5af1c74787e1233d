//! `struct sockaddr_in` and `sockaddr_in6`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::memory::Memory;

const AF_UNSPEC: u16 = 0;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// What a program gave as an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    Address(SocketAddr),
    /// AF_UNSPEC: no address.
    None,
}

/// Reads an address.
///
/// # Errors
/// An error number.
pub fn read(memory: &Memory, address: u64, bytes: u64) -> Result<Given, i32> {
    let bytes = bytes.min(128) as usize;
    let raw = memory.read(address, bytes).ok_or(libc::EFAULT)?;
    let family = raw.first_chunk().map(|bytes| u16::from_le_bytes(*bytes)).ok_or(libc::EINVAL)?;
    let port = |raw: &[u8]| u16::from_be_bytes([raw[2], raw[3]]);
    match family {
        AF_UNSPEC => Ok(Given::None),
        AF_INET if raw.len() >= 16 => {
            let ip = Ipv4Addr::new(raw[4], raw[5], raw[6], raw[7]);
            Ok(Given::Address(SocketAddr::new(ip.into(), port(&raw))))
        }
        AF_INET6 if raw.len() >= 24 => {
            let mut octets = [0u8; 16];
            octets.copy_from_slice(&raw[8..24]);
            Ok(Given::Address(SocketAddr::new(Ipv6Addr::from(octets).into(), port(&raw))))
        }
        AF_INET | AF_INET6 => Err(libc::EINVAL),
        _ => Err(libc::EAFNOSUPPORT),
    }
}

/// The bytes of an address, as a socket of IPv4 or IPv6 sees it.
pub fn bytes(address: SocketAddr, is_v6: bool) -> Vec<u8> {
    let ip = match (address.ip(), is_v6) {
        (IpAddr::V4(ip), true) if ip.is_unspecified() => Ipv6Addr::UNSPECIFIED.into(),
        (IpAddr::V4(ip), true) => ip.to_ipv6_mapped().into(),
        (ip, _) => ip,
    };
    let mut raw = Vec::with_capacity(28);
    match ip {
        IpAddr::V4(ip) => {
            raw.extend(AF_INET.to_le_bytes());
            raw.extend(address.port().to_be_bytes());
            raw.extend(ip.octets());
            raw.extend([0; 8]);
        }
        IpAddr::V6(ip) => {
            raw.extend(AF_INET6.to_le_bytes());
            raw.extend(address.port().to_be_bytes());
            raw.extend([0; 4]);
            raw.extend(ip.octets());
            raw.extend([0; 4]);
        }
    }
    raw
}

/// Writes an address where a program wants it, as far as there is room, and its length.
pub fn write(memory: &Memory, at: u64, length_at: u64, raw: &[u8]) -> bool {
    if at == 0 || length_at == 0 {
        return true;
    }
    let Some(room) = memory.half_word(length_at) else { return false };
    let fits = raw.len().min(room as usize);
    memory.write(at, &raw[..fits]) && memory.write(length_at, &(raw.len() as u32).to_le_bytes())
}
