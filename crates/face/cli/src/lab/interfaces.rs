//! What a node sees of its network by netlink, in /proc/net and by ioctl: a loopback and one interface with
//! its addresses, in a network namespace. No packet goes through them: sockets are the lab's.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_EXCLUSIVE: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const NLMSG_HEADER_BYTES: usize = 16;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IFF_UP: u32 = 1;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const ADDR_GEN_NONE: u8 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;
/// No other host is asked whether it has the address.
const IFA_F_NODAD: u8 = 2;
/// Of all nodes: 10.0.0.0/16 and fd00::/64.
const PREFIX_V4: u8 = 16;
const PREFIX_V6: u8 = 64;
const LOOPBACK: u32 = 1;

/// The machine's side of a node's interface: while it is there the interface is.
pub struct OtherSide {
    _socket: OwnedFd,
}

/// Gives the calling process a network namespace with a loopback and `eth0`.
pub fn make(node: usize, addresses: &[IpAddr]) -> Result<OtherSide, String> {
    let refused =
        |error: nix::errno::Errno| format!("network namespaces are refused here (unshare: {error})");
    let failed = |what: &'static str| move |error: Errno| format!("{what}: {error}");
    // The other end of the interface is in a namespace of its own, which nobody looks into.
    unshare(CloneFlags::CLONE_NEWNET).map_err(refused)?;
    let other = open().map_err(failed("netlink"))?;
    let space =
        File::open("/proc/thread-self/ns/net").map_err(|error| format!("/proc/thread-self: {error}"))?;
    unshare(CloneFlags::CLONE_NEWNET).map_err(refused)?;
    let own = open().map_err(failed("netlink"))?;
    ask(&own, &up(LOOPBACK)).map_err(failed("the node's loopback cannot be set up"))?;
    let index = match ask(&own, &pair(node, &space)) {
        Ok(()) => {
            let index = index_of("eth0").map_err(|error| format!("the node's interface: {error}"))?;
            // The first that is there beside the loopback. A kernel without IPv6 makes no addresses.
            let _ = ask(&own, &without_own_address(index));
            let _ = ask(&other, &without_own_address(LOOPBACK + 1));
            ask(&other, &up(LOOPBACK + 1)).map_err(failed("the node's interface cannot be set up"))?;
            index
        }
        // A kernel without pairs of interfaces.
        Err(Errno::OPNOTSUPP) => LOOPBACK,
        Err(error) => return Err(format!("the node's interface cannot be made: {error}")),
    };
    for &address in addresses {
        match ask(&own, &with_address(index, address)) {
            Ok(()) => {}
            // A kernel without IPv6.
            Err(_) if address.is_ipv6() => {}
            Err(error) => return Err(format!("the node's interface does not take {address}: {error}")),
        }
    }
    if index != LOOPBACK {
        ask(&own, &up(index)).map_err(failed("the node's interface cannot be set up"))?;
        // The kernel works out the state later, or now for who looks.
        look(&own, index).map_err(failed("the node's interface"))?;
    }
    Ok(OtherSide { _socket: other })
}

fn open() -> Result<OwnedFd, Errno> {
    // Protocol 0: NETLINK_ROUTE.
    socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
}

fn index_of(name: &str) -> Result<u32, String> {
    // Of the calling thread's namespace, unlike /sys.
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").map_err(|error| error.to_string())?;
    // The interfaces' order is that of their numbers, and the loopback's is 1.
    let names = text.lines().skip(2).filter_map(|line| line.split_once(':'));
    let mut others = names.map(|(name, _)| name.trim()).filter(|name| *name != "lo");
    match others.next() {
        Some(first) if first == name => Ok(LOOPBACK + 1),
        _ => Err(format!("there is no {name}")),
    }
}

/// Sends a message, and waits until it was done.
fn ask(socket: &OwnedFd, message: &[u8]) -> Result<(), Errno> {
    send(socket, message, SendFlags::empty())?;
    let mut answer = [0u8; 4096];
    let (bytes, _) = recv(socket, &mut answer[..], RecvFlags::empty())?;
    let word = |at: usize| answer.get(at..at + 4)?.first_chunk().map(|word| i32::from_le_bytes(*word));
    let kind = u16::from_le_bytes([answer[4], answer[5]]);
    match word(NLMSG_HEADER_BYTES).filter(|_| kind == NLMSG_ERROR && bytes >= NLMSG_HEADER_BYTES + 4) {
        Some(0) => Ok(()),
        Some(error) => Err(Errno::from_raw_os_error(-error)),
        None => Err(Errno::PROTO),
    }
}

/// Asks for what there is to know of an interface.
fn look(socket: &OwnedFd, index: u32) -> Result<(), Errno> {
    let mut question = message(RTM_GETLINK, 0, &interface(index, 0));
    question[6..8].copy_from_slice(&NLM_F_REQUEST.to_le_bytes());
    send(socket, &question, SendFlags::empty())?;
    recv(socket, &mut [0u8; 8192][..], RecvFlags::empty()).map(|_| ())
}

fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = (NLMSG_HEADER_BYTES + body.len()) as u32;
    let mut message = length.to_le_bytes().to_vec();
    message.extend(kind.to_le_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_ACK | flags).to_le_bytes());
    // A number, and whose the socket is: the kernel does not need them.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// An attribute: its length, its kind, its value up to the next word.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut attribute = ((4 + value.len()) as u16).to_le_bytes().to_vec();
    attribute.extend(kind.to_le_bytes());
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

/// struct ifinfomsg.
fn interface(index: u32, flags: u32) -> Vec<u8> {
    [0, index, flags, flags].into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The interface makes no IPv6 address of its own.
fn without_own_address(index: u32) -> Vec<u8> {
    let mode = attribute(IFLA_INET6_ADDR_GEN_MODE, &[ADDR_GEN_NONE]);
    let mut body = interface(index, 0);
    // No flag is to change.
    body[12..16].fill(0);
    body.extend(attribute(IFLA_AF_SPEC, &attribute(u16::from(AF_INET6), &mode)));
    message(RTM_NEWLINK, 0, &body)
}

fn up(index: u32) -> Vec<u8> {
    message(RTM_NEWLINK, 0, &interface(index, IFF_UP))
}

/// A pair of interfaces: `eth0`, and one in the other namespace.
fn pair(node: usize, other: &File) -> Vec<u8> {
    let number = (node as u32 + 1).to_be_bytes();
    let hardware = |kind: u8| [2, kind, number[0], number[1], number[2], number[3]];
    let mut peer = interface(0, 0);
    peer.extend(attribute(IFLA_IFNAME, b"lab\0"));
    peer.extend(attribute(IFLA_ADDRESS, &hardware(1)));
    peer.extend(attribute(IFLA_NET_NS_FD, &other.as_raw_fd().to_le_bytes()));
    let mut kind = attribute(IFLA_INFO_KIND, b"veth\0");
    kind.extend(attribute(IFLA_INFO_DATA, &attribute(VETH_INFO_PEER, &peer)));
    let mut body = interface(0, 0);
    body.extend(attribute(IFLA_IFNAME, b"eth0\0"));
    body.extend(attribute(IFLA_ADDRESS, &hardware(0)));
    body.extend(attribute(IFLA_LINKINFO, &kind));
    message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCLUSIVE, &body)
}

fn with_address(index: u32, address: IpAddr) -> Vec<u8> {
    let (family, prefix, bytes) = match address {
        IpAddr::V4(address) => (AF_INET, PREFIX_V4, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6, PREFIX_V6, address.octets().to_vec()),
    };
    // struct ifaddrmsg: family, prefix, flags, scope, interface.
    let mut body = vec![family, prefix, IFA_F_NODAD, 0];
    body.extend(index.to_le_bytes());
    body.extend(attribute(IFA_LOCAL, &bytes));
    body.extend(attribute(IFA_ADDRESS, &bytes));
    if let [first, second, _, _] = bytes[..] {
        body.extend(attribute(IFA_BROADCAST, &[first, second, 255, 255]));
    }
    message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCLUSIVE, &body)
}
