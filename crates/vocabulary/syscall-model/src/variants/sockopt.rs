//! setsockopt(2) and getsockopt(2), by level: what the name of an option is
//! depends on it. What the kernel reads and writes does not.

use crate::flags::sockets::{IP, IPV6, SO, SOL, TCP};
use crate::notation::*;
use crate::row::{Act, Arg, Len, Shape::Opaque, VariantTable, When::Success};

const LEVEL: Arg = of(&SOL);
const VALUE_IN: Arg = reads(Opaque, Len::Arg(4));
/// Some options read the value too, and an option may write less than it says.
const VALUE_OUT: Arg = updates(Success, Opaque, Len::AtArg32(4, 1));

/// setsockopt(2).
pub static SETSOCKOPT: VariantTable = VariantTable {
    name: "setsockopt",
    selector: 1,
    mask: u32::MAX,
    variants: requests! {
        0 SOL_IP(fd: FD, level: LEVEL, optname: of(&IP), optval: VALUE_IN, optlen: INT);
        1 SOL_SOCKET(fd: FD, level: LEVEL, optname: of(&SO), optval: VALUE_IN, optlen: INT);
        6 SOL_TCP(fd: FD, level: LEVEL, optname: of(&TCP), optval: VALUE_IN, optlen: INT);
        41 SOL_IPV6(fd: FD, level: LEVEL, optname: of(&IPV6), optval: VALUE_IN, optlen: INT);
        283 SOL_XDP(fd: FD, level: LEVEL, optname: INT, optval: VALUE_IN, optlen: INT)
            => refuse("its rings are memory that the kernel writes at any time");
    },
    fallback: Act::Feed,
};

/// getsockopt(2).
pub static GETSOCKOPT: VariantTable = VariantTable {
    name: "getsockopt",
    selector: 1,
    mask: u32::MAX,
    variants: requests! {
        0 SOL_IP(fd: FD, level: LEVEL, optname: of(&IP), optval: VALUE_OUT, optlen: SOCKLEN);
        1 SOL_SOCKET(fd: FD, level: LEVEL, optname: of(&SO), optval: VALUE_OUT, optlen: SOCKLEN);
        6 SOL_TCP(fd: FD, level: LEVEL, optname: of(&TCP), optval: VALUE_OUT, optlen: SOCKLEN);
        41 SOL_IPV6(fd: FD, level: LEVEL, optname: of(&IPV6), optval: VALUE_OUT, optlen: SOCKLEN);
    },
    fallback: Act::Feed,
};
