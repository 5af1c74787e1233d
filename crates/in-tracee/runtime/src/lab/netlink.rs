//! Netlink is the kernel's, of the node's own network namespace; but links, addresses, neighbours and routes have the
//! machine's uptime at which they were made or used, and links a time that the kernel draws by chance. By chance it draws
//! the port of a process's second socket, too, and of each further one.

use linux_abi::{errno, general as nr};

use crate::ground::{kernel, memory};

const SOL_SOCKET: u64 = 1;
const SO_DOMAIN: u64 = 39;
const AF_NETLINK: u32 = 16;
/// Of a `struct sockaddr_nl`: family, port, groups.
const ADDRESS_SIZE: u64 = 12;

/// bind(2) of a socket of netlink that leaves its port to the kernel (netlink(7)): to that which another run has, too.
/// `None`: the call is another one.
pub fn bind(real: &[u64; 6]) -> Option<i64> {
    let [family, port, groups] = memory::read::<[u32; 3]>(real[1])?;
    let leaves_it = real[2] >= ADDRESS_SIZE && family & 0xffff == AF_NETLINK && port == 0;
    let is_unbound = || is_netlink(real[0]) && groups_without_port(real[0]).is_some();
    (leaves_it && is_unbound()).then(|| bind_to_free(real[0], groups))
}

/// Before a call on a socket. One of netlink that has no port gets one where the kernel would give it one of its choice. A
/// question about sockets (sock_diag(7)), of which the kernel knows none of a node's, is an error, upon which who asks
/// reads the tables of /proc/net.
pub fn before_call(number: u64, real: &[u64; 6]) -> Option<i64> {
    const SO_PROTOCOL: u64 = 38;
    const NETLINK_SOCK_DIAG: u32 = 4;
    let number = number as u32;
    let is_question = matches!(number, nr::__NR_sendmsg | nr::__NR_sendto | nr::__NR_write);
    let needs_port = match number {
        nr::__NR_connect => memory::read::<u16>(real[1]).map(u32::from) == Some(AF_NETLINK),
        nr::__NR_sendmmsg | nr::__NR_writev => true,
        _ => is_question,
    };
    if !needs_port || !is_netlink(real[0]) {
        return None;
    }
    if is_question && kernel::socket_option(real[0], SOL_SOCKET, SO_PROTOCOL) == NETLINK_SOCK_DIAG {
        return Some(-i64::from(errno::EOPNOTSUPP));
    }
    if let Some(groups) = groups_without_port(real[0]) {
        // If this fails the kernel says why at the call itself.
        bind_to_free(real[0], groups);
    }
    None
}

fn is_netlink(fd: u64) -> bool {
    kernel::socket_option(fd, SOL_SOCKET, SO_DOMAIN) == AF_NETLINK
}

/// The groups that a socket of netlink is in, if it has no port.
fn groups_without_port(fd: u64) -> Option<u32> {
    let (mut address, mut size) = ([0u32; 3], ADDRESS_SIZE as u32);
    let words = [fd, address.as_mut_ptr() as u64, &raw mut size as u64, 0, 0, 0];
    if kernel::failed(kernel::call(nr::__NR_getsockname, words)) {
        return None;
    }
    let [_, port, groups] = core::hint::black_box(address);
    (port == 0).then_some(groups)
}

/// Binds it to the port that the kernel gives, the process's id. If another socket has that, to the first one that is
/// free from -4097 downwards: there the kernel draws where it begins to look.
fn bind_to_free(fd: u64, groups: u32) -> i64 {
    const FIRST_OF_OTHERS: u32 = -4097i32 as u32;
    let mut port = kernel::call(nr::__NR_getpid, [0; 6]) as u32;
    let mut next = FIRST_OF_OTHERS;
    loop {
        let address = [AF_NETLINK, port, groups];
        let result = kernel::call(nr::__NR_bind, [fd, address.as_ptr() as u64, ADDRESS_SIZE, 0, 0, 0]);
        if result != -i64::from(errno::EADDRINUSE) {
            return result;
        }
        (port, next) = (next, next - 1);
    }
}

/// Where a message of rtnetlink(7) has what another run would not have.
struct Hidden {
    /// Type of the message.
    kind: u64,
    /// Bytes of its own header, before its attributes.
    header: u64,
    /// Types of the attributes, from the outermost.
    path: &'static [u32],
    /// Bytes into the innermost one's value.
    at: u64,
    words: &'static [u32],
}

/// `struct ifla_cacheinfo`, `ifa_cacheinfo`, `nda_cacheinfo` and `rta_cacheinfo`: uptimes in hundredths of seconds, and
/// milliseconds for which a neighbour counts as reachable: RFC 4861 has 30 s, of which the kernel draws half to
/// one and a half times. And counts of packets: a node's do not pass by the kernel's links, but it sends some
/// of its own there when timers of the machine's end (RFC 3810).
const HIDDEN: [Hidden; 8] = {
    const RTM_NEWLINK: u64 = 16;
    const RTM_NEWADDR: u64 = 20;
    const RTM_NEWROUTE: u64 = 24;
    const RTM_NEWNEIGH: u64 = 28;
    const AF_SPEC: u32 = 26;
    const AF_INET6: u32 = 10;
    const IFLA_INET6_CACHEINFO: u32 = 5;
    const IFLA_INET6_STATS: u32 = 3;
    const IFLA_INET6_ICMP6STATS: u32 = 6;
    const IFLA_STATS: u32 = 7;
    const IFLA_STATS64: u32 = 23;
    const IFA_CACHEINFO: u32 = 6;
    const RTA_CACHEINFO: u32 = 12;
    const NDA_CACHEINFO: u32 = 3;
    // More than any of them has.
    const COUNTS: &[u32] = &[0; 256];
    const fn link(path: &'static [u32], at: u64, words: &'static [u32]) -> Hidden {
        Hidden { kind: RTM_NEWLINK, header: 16, path, at, words }
    }
    [
        link(&[AF_SPEC, AF_INET6, IFLA_INET6_CACHEINFO], 4, &[0, 30_000]),
        link(&[IFLA_STATS], 0, COUNTS),
        link(&[IFLA_STATS64], 0, COUNTS),
        // Behind how many there are.
        link(&[AF_SPEC, AF_INET6, IFLA_INET6_STATS], 8, COUNTS),
        link(&[AF_SPEC, AF_INET6, IFLA_INET6_ICMP6STATS], 8, COUNTS),
        // Made, changed.
        Hidden { kind: RTM_NEWADDR, header: 8, path: &[IFA_CACHEINFO], at: 8, words: &[0; 2] },
        // Last used.
        Hidden { kind: RTM_NEWROUTE, header: 12, path: &[RTA_CACHEINFO], at: 4, words: &[0] },
        // Confirmed, used, updated.
        Hidden { kind: RTM_NEWNEIGH, header: 12, path: &[NDA_CACHEINFO], at: 0, words: &[0; 3] },
    ]
};

/// Overwrites in what was received what another run would not have.
pub fn hide_uptime(number: u64, real: &[u64; 6], bytes: u64) {
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
    while message + 16 <= end {
        let Some(head) = memory::read::<u64>(message) else { return };
        let (length, kind) = (head & 0xffff_ffff, head >> 32 & 0xffff);
        if length < 16 || message + length > end {
            return;
        }
        for hidden in HIDDEN.iter().filter(|hidden| hidden.kind == kind) {
            hide(message + 16 + hidden.header, message + length, hidden.path, hidden);
        }
        message += length.next_multiple_of(4);
    }
}

/// In the attributes from `at` to `end`, those that `path` leads to.
fn hide(mut at: u64, end: u64, path: &[u32], hidden: &Hidden) {
    const KIND: u32 = 0x3fff;
    let Some((first, rest)) = path.split_first() else { return };
    while at + 4 <= end {
        let Some(head) = memory::read::<u32>(at) else { return };
        let (length, kind) = (u64::from(head & 0xffff), head >> 16 & KIND);
        if length < 4 || at + length > end {
            return;
        }
        if kind == *first && !rest.is_empty() {
            hide(at + 4, at + length, rest, hidden);
        } else if kind == *first {
            let from = at + 4 + hidden.at;
            for (place, word) in (from..at + length - 3).step_by(4).zip(hidden.words) {
                memory::write(place, word);
            }
        }
        at += length.next_multiple_of(4);
    }
}
