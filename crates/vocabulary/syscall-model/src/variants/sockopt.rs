//! setsockopt(2) and getsockopt(2), by level: what the name of an option is
//! depends on it. What the kernel reads and writes does not, but for the options of packet filters,
//! whose structures hold addresses that it writes to (of iptables, ebtables and their like), and for
//! the few that count otherwise than in bytes, or map memory.

use crate::flags::sockets::{IP, IPV6, SO, SOL, TCP};
use crate::notation::*;
use crate::row::{Act, Arg, Len, Shape::Opaque, VariantTable};

const LEVEL: Arg = of(&SOL);
const VALUE_IN: Arg = reads(Opaque, Len::Arg(4));
const VALUE_OUT: Arg = option_out(4);

/// Those of linux/in.h; from 64 on they are packet filters', but for SO_ORIGINAL_DST.
const IP_OPTIONS: Act = Act::Options(&[(0, 63), (80, 80)]);
/// Those of linux/in6.h; 64, 65, 68 and 69 are packet filters'.
const IPV6_OPTIONS: Act = Act::Options(&[(0, 63), (66, 67), (70, 80)]);
/// Up to SO_INQ; 26 is SO_GET_FILTER, of which the length counts instructions.
const SOCKET_OPTIONS: Act = Act::Options(&[(0, 25), (27, 84)]);
/// Up to TCP_MAX_RTO_MS; 35 is TCP_ZEROCOPY_RECEIVE, which maps memory and has an address.
const TCP_OPTIONS: Act = Act::Options(&[(0, 34), (36, 44)]);
/// But MPTCP_FULL_INFO, which has addresses.
const MPTCP_OPTIONS: Act = Act::Options(&[(0, 3)]);

/// setsockopt(2).
pub static SETSOCKOPT: VariantTable = VariantTable {
    name: "setsockopt",
    selector: 1,
    mask: u32::MAX,
    variants: requests! {
        0 SOL_IP(fd: FD, level: LEVEL, optname: of(&IP), optval: VALUE_IN, optlen: INT)
            => Act::Options(&[(0, 63)]);
        1 SOL_SOCKET(fd: FD, level: LEVEL, optname: of(&SO), optval: VALUE_IN, optlen: INT);
        6 SOL_TCP(fd: FD, level: LEVEL, optname: of(&TCP), optval: VALUE_IN, optlen: INT);
        17 SOL_UDP(fd: FD, level: LEVEL, optname: INT, optval: VALUE_IN, optlen: INT);
        40 AF_VSOCK(fd: FD, level: LEVEL, optname: INT, optval: VALUE_IN, optlen: INT);
        41 SOL_IPV6(fd: FD, level: LEVEL, optname: of(&IPV6), optval: VALUE_IN, optlen: INT)
            => IPV6_OPTIONS;
        58 SOL_ICMPV6(fd: FD, level: LEVEL, optname: INT, optval: VALUE_IN, optlen: INT);
        101 SOL_CAN_RAW(fd: FD, level: LEVEL, optname: INT, optval: VALUE_IN, optlen: INT);
        136 SOL_UDPLITE(fd: FD, level: LEVEL, optname: INT, optval: VALUE_IN, optlen: INT);
        255 SOL_RAW(fd: FD, level: LEVEL, optname: INT, optval: VALUE_IN, optlen: INT);
        263 SOL_PACKET(fd: FD, level: LEVEL, optname: INT, optval: VALUE_IN, optlen: INT);
        270 SOL_NETLINK(fd: FD, level: LEVEL, optname: INT, optval: VALUE_IN, optlen: INT);
        279 SOL_ALG(fd: FD, level: LEVEL, optname: INT, optval: VALUE_IN, optlen: INT);
        282 SOL_TLS(fd: FD, level: LEVEL, optname: INT, optval: VALUE_IN, optlen: INT);
        283 SOL_XDP(fd: FD, level: LEVEL, optname: INT, optval: VALUE_IN, optlen: INT)
            => reject("its rings are memory that the kernel writes at any time");
        284 SOL_MPTCP(fd: FD, level: LEVEL, optname: INT, optval: VALUE_IN, optlen: INT);
    },
    fallback: DETECT,
};

/// getsockopt(2).
pub static GETSOCKOPT: VariantTable = VariantTable {
    name: "getsockopt",
    selector: 1,
    mask: u32::MAX,
    variants: requests! {
        0 SOL_IP(fd: FD, level: LEVEL, optname: of(&IP), optval: VALUE_OUT, optlen: SOCKLEN) => IP_OPTIONS;
        1 SOL_SOCKET(fd: FD, level: LEVEL, optname: of(&SO), optval: VALUE_OUT, optlen: SOCKLEN)
            => SOCKET_OPTIONS;
        6 SOL_TCP(fd: FD, level: LEVEL, optname: of(&TCP), optval: VALUE_OUT, optlen: SOCKLEN)
            => TCP_OPTIONS;
        17 SOL_UDP(fd: FD, level: LEVEL, optname: INT, optval: VALUE_OUT, optlen: SOCKLEN);
        40 AF_VSOCK(fd: FD, level: LEVEL, optname: INT, optval: VALUE_OUT, optlen: SOCKLEN);
        41 SOL_IPV6(fd: FD, level: LEVEL, optname: of(&IPV6), optval: VALUE_OUT, optlen: SOCKLEN)
            => IPV6_OPTIONS;
        58 SOL_ICMPV6(fd: FD, level: LEVEL, optname: INT, optval: VALUE_OUT, optlen: SOCKLEN);
        101 SOL_CAN_RAW(fd: FD, level: LEVEL, optname: INT, optval: VALUE_OUT, optlen: SOCKLEN);
        136 SOL_UDPLITE(fd: FD, level: LEVEL, optname: INT, optval: VALUE_OUT, optlen: SOCKLEN);
        255 SOL_RAW(fd: FD, level: LEVEL, optname: INT, optval: VALUE_OUT, optlen: SOCKLEN);
        263 SOL_PACKET(fd: FD, level: LEVEL, optname: INT, optval: VALUE_OUT, optlen: SOCKLEN);
        270 SOL_NETLINK(fd: FD, level: LEVEL, optname: INT, optval: VALUE_OUT, optlen: SOCKLEN);
        282 SOL_TLS(fd: FD, level: LEVEL, optname: INT, optval: VALUE_OUT, optlen: SOCKLEN);
        284 SOL_MPTCP(fd: FD, level: LEVEL, optname: INT, optval: VALUE_OUT, optlen: SOCKLEN)
            => MPTCP_OPTIONS;
    },
    fallback: DETECT,
};
