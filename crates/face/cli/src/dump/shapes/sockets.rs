//! Addresses of sockets.

use std::net::{Ipv4Addr, Ipv6Addr};

use syscall_model::flags::sockets::AF;

use super::super::quote::{put, quoted};
use super::{Fields, opaque};

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const AF_NETLINK: u16 = 16;

/// `struct sockaddr` of any family.
pub fn address(out: &mut String, fields: Fields<'_>, total_bytes: u64, shown_max: usize) -> Option<()> {
    let family = fields.u16(0)?;
    put(out, format_args!("{{sa_family={}", AF.show(u64::from(family))));
    let port = || fields.data.get(2..4).map(|port| u16::from_be_bytes([port[0], port[1]]));
    match family {
        AF_UNIX => unix(out, fields.data.get(2..)?),
        AF_INET => {
            let bytes: [u8; 4] = fields.data.get(4..8)?.try_into().ok()?;
            put(out, format_args!(", sin_port={}, sin_addr={}", port()?, Ipv4Addr::from(bytes)));
        }
        AF_INET6 => {
            let bytes: [u8; 16] = fields.data.get(8..24)?.try_into().ok()?;
            put(out, format_args!(", sin6_port={}, sin6_addr={}", port()?, Ipv6Addr::from(bytes)));
            if let Some(scope) = fields.u32(24).filter(|scope| *scope != 0) {
                put(out, format_args!(", sin6_scope_id={scope}"));
            }
        }
        AF_NETLINK => put(out, format_args!(", nl_pid={}, nl_groups={:#x}", fields.u32(4)?, fields.u32(8)?)),
        _ if fields.data.len() > 2 => {
            out.push_str(", ");
            opaque(out, &fields.data[2..], total_bytes - 2, shown_max);
        }
        _ => {}
    }
    out.push('}');
    Some(())
}

/// A path, or a name that begins with a NUL and has no path.
fn unix(out: &mut String, path: &[u8]) {
    match path {
        [] => {}
        [0, name @ ..] => {
            out.push_str(", sun_path=@");
            quoted(out, name);
        }
        path => {
            out.push_str(", sun_path=");
            quoted(out, path.split(|&byte| byte == 0).next().unwrap_or_default());
        }
    }
}
