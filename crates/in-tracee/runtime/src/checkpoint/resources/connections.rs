//! Connections of sockets, and one whose other side has gone away.

use linux_abi::general as nr;

use crate::checkpoint::kept_resources::Connection;
use crate::ground::kernel;
use crate::state::own_descriptors::close;

const SOCK_STREAM: u32 = 1;
const SOCK_SEQPACKET: u32 = 5;
const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const IPPROTO_TCP: u32 = 6;
/// How long the other side may take to answer, on this machine, in milliseconds.
const ANSWERED_WITHIN_MS: u64 = 100;

impl Connection {
    pub fn of(socket: u64) -> Connection {
        const SOL_SOCKET: u64 = 1;
        const SO_TYPE: u64 = 3;
        const SO_ACCEPTCONN: u64 = 30;
        const SO_PROTOCOL: u64 = 38;
        const SO_DOMAIN: u64 = 39;
        let ask = |option: u64| kernel::socket_option(socket, SOL_SOCKET, option);
        let kind = ask(SO_TYPE);
        if !matches!(kind, SOCK_STREAM | SOCK_SEQPACKET) || ask(SO_ACCEPTCONN) != 0 {
            return Connection::default();
        }
        let is_tcp = kind == SOCK_STREAM && ask(SO_PROTOCOL) == IPPROTO_TCP;
        Connection { kind, tcp_family: if is_tcp { ask(SO_DOMAIN) } else { 0 } }
    }

    pub fn is_any(self) -> bool {
        self.kind != 0
    }

    /// Both ends of one of the same kind on this machine: by TCP, whose options the program may set,
    /// where that is possible.
    pub fn make(self) -> Option<[i32; 2]> {
        let mut ends = [-1i32; 2];
        let address = match self.tcp_family {
            AF_INET => Some(Address::LOOPBACK),
            AF_INET6 => Some(Address::LOOPBACK_6),
            _ => None,
        };
        if let Some(ends) = address.and_then(connected) {
            return Some(ends);
        }
        let arguments = [u64::from(AF_UNIX), u64::from(self.kind), 0, ends.as_mut_ptr() as u64, 0, 0];
        (!kernel::failed(kernel::call(nr::__NR_socketpair, arguments))).then_some(ends)
    }
}

/// `struct sockaddr_in`, or `struct sockaddr_in6`.
struct Address {
    bytes: [u8; 28],
    length: u32,
}

impl Address {
    /// 127.0.0.1, any port.
    const LOOPBACK: Address = {
        let mut bytes = [0; 28];
        [bytes[0], bytes[4], bytes[7]] = [AF_INET as u8, 127, 1];
        Address { bytes, length: 16 }
    };
    /// ::1
    const LOOPBACK_6: Address = {
        let mut bytes = [0; 28];
        [bytes[0], bytes[23]] = [AF_INET6 as u8, 1];
        Address { bytes, length: 28 }
    };
}

/// Both ends of a TCP connection. Waits for nobody but the system itself, which may forbid it.
fn connected(mut address: Address) -> Option<[i32; 2]> {
    let family = u64::from(address.bytes[0]);
    let kind = u64::from(SOCK_STREAM | nr::O_NONBLOCK | nr::O_CLOEXEC);
    let socket = || {
        let made = kernel::call(nr::__NR_socket, [family, kind, 0, 0, 0, 0]);
        (!kernel::failed(made)).then_some(made as i32)
    };
    let place = address.bytes.as_mut_ptr() as u64;
    let length = &raw mut address.length as u64;
    let call = |number: u32, fd: i32, a: u64, b: u64| {
        let result = kernel::call(number, [fd as u64, a, b, 0, 0, 0]);
        (!kernel::failed(result)).then_some(result as i32)
    };
    let listener = socket()?;
    let listens = call(nr::__NR_bind, listener, place, u64::from(address.length))
        .and_then(|_| call(nr::__NR_listen, listener, 1, 0))
        .and_then(|_| call(nr::__NR_getsockname, listener, place, length));
    let own = listens.and_then(|_| socket());
    let other = own.and_then(|own| {
        call(nr::__NR_connect, own, place, u64::from(address.length));
        let mut waits = [listener, 1];
        kernel::call(nr::__NR_poll, [waits.as_mut_ptr() as u64, 1, ANSWERED_WITHIN_MS, 0, 0, 0]);
        call(nr::__NR_accept4, listener, 0, 0)
    });
    close(listener);
    if let (Some(own), None) = (own, other) {
        close(own);
    }
    Some([own?, other?])
}
