//! Netlink is the kernel's, of the node's own network namespace; but addresses have the machine's uptime at
//! which they were made.

use linux_abi::{errno, general as nr};

use crate::ground::{kernel, memory};

const SOL_SOCKET: u64 = 1;
const SO_DOMAIN: u64 = 39;
const AF_NETLINK: u32 = 16;

/// A question to the kernel about sockets (sock_diag(7)), of which it knows none of a node's: an error, upon which
/// who asks reads the tables of /proc/net.
pub fn refuse_diagnosis(number: u64, real: &[u64; 6]) -> Option<i64> {
    const SO_PROTOCOL: u64 = 38;
    const NETLINK_SOCK_DIAG: u32 = 4;
    let is_sent = matches!(number as u32, nr::__NR_sendmsg | nr::__NR_sendto | nr::__NR_write);
    let option = |name: u64| kernel::socket_option(real[0], SOL_SOCKET, name);
    let is_it = is_sent && option(SO_DOMAIN) == AF_NETLINK && option(SO_PROTOCOL) == NETLINK_SOCK_DIAG;
    is_it.then_some(-i64::from(errno::EOPNOTSUPP))
}

/// Overwrites the times (`struct ifa_cacheinfo` of rtnetlink(7)) of what was received.
pub fn hide_uptime(number: u64, real: &[u64; 6], bytes: u64) {
    const RTM_NEWADDR: u64 = 20;
    let is_received = matches!(number as u32, nr::__NR_recvmsg | nr::__NR_recvfrom | nr::__NR_read);
    if !is_received || kernel::socket_option(real[0], SOL_SOCKET, SO_DOMAIN) != AF_NETLINK {
        return;
    }
    let (at, room) = match number as u32 {
        // The first part takes all that netlink's users ask for.
        nr::__NR_recvmsg => {
            let parts = memory::read::<[u64; 3]>(real[1]).map_or(0, |header| header[2]);
            memory::read::<[u64; 2]>(parts).map_or((0, 0), |[at, room]| (at, room))
        }
        _ => (real[1], real[2]),
    };
    let end = at + bytes.min(room);
    let mut message = at;
    while message + 24 <= end {
        let Some(head) = memory::read::<u64>(message) else { return };
        let (length, kind) = (head & 0xffff_ffff, head >> 32 & 0xffff);
        if length < 16 || message + length > end {
            return;
        }
        if kind == RTM_NEWADDR {
            hide_in_address(message + 24, message + length);
        }
        message += length.next_multiple_of(4);
    }
}

/// Attributes of an address.
fn hide_in_address(mut at: u64, end: u64) {
    const IFA_CACHEINFO: u32 = 6;
    while at + 4 <= end {
        let Some(head) = memory::read::<u32>(at) else { return };
        let (length, kind) = (u64::from(head & 0xffff), head >> 16);
        if length < 4 || at + length > end {
            return;
        }
        if kind == IFA_CACHEINFO && length >= 20 {
            // Made, changed: in hundredths of seconds since the machine's start.
            memory::write(at + 12, &[0u32; 2]);
        }
        at += length.next_multiple_of(4);
    }
}
