//! Sockets.

use crate::flags::sockets::*;
use crate::notation::*;
use crate::row::Act::Variant;
use crate::row::{Len::*, Row, Shape::*, Special::*, When::*};
use crate::variants::{GETSOCKOPT, SETSOCKOPT};

pub(super) const ROWS: &[Row] = rows! {
    41 socket(family: of(&AF), type: of(&SOCK), protocol: INT);
    42 connect(fd: FD, uservaddr: reads(SockAddr, Arg(2)), addrlen: INT), blocks, outward;
    43 accept(fd: FD, upeer_sockaddr: sockaddr_out(2), upeer_addrlen: SOCKLEN), blocks, acquires;
    44 sendto(fd: FD, buff: reads(Bytes, Arg(2)), len: SIZE, flags: of(&MSG), addr: reads(SockAddr, Arg(5)),
        addr_len: INT) => execute(Output), blocks, releases, outward;
    45 recvfrom(fd: FD, ubuf: updates(Positive, Bytes, RetOrArg(2)), size: SIZE, flags: of(&MSG),
        addr: sockaddr_out(5), addr_len: SOCKLEN), blocks, acquires;
    46 sendmsg(fd: FD, msg: MSG_IN, flags: of(&MSG)) => execute(Output), blocks, releases;
    47 recvmsg(fd: FD, msg: MSG_OUT, flags: of(&MSG)) => execute(Receive), blocks, acquires;
    48 shutdown(fd: FD, how: of(&SHUT)), releases, shadowed;
    49 bind(fd: FD, umyaddr: reads(SockAddr, Arg(2)), addrlen: INT), outward;
    50 listen(fd: FD, backlog: INT);
    51 getsockname(fd: FD, usockaddr: sockaddr_out(2), usockaddr_len: SOCKLEN);
    52 getpeername(fd: FD, usockaddr: sockaddr_out(2), usockaddr_len: SOCKLEN);
    53 socketpair(family: of(&AF), type: of(&SOCK), protocol: INT,
        usockvec: writes_when(Always, I32Pair, Fixed(8)));
    54 setsockopt(fd: FD, level: of(&SOL), optname: INT, optval: reads(Opaque, Arg(4)), optlen: INT)
        => Variant(&SETSOCKOPT);
    55 getsockopt(fd: FD, level: of(&SOL), optname: INT, optval: option_out(4),
        optlen: SOCKLEN) => Variant(&GETSOCKOPT);
    288 accept4(fd: FD, upeer_sockaddr: sockaddr_out(2), upeer_addrlen: SOCKLEN, flags: of(&SOCK_FLAGS)),
        blocks, acquires;
    299 recvmmsg(fd: FD, mmsg: mmsg_out(2), vlen: UINT, flags: of(&MSG),
        timeout: updates(Always, Timespec, Fixed(16))) => execute(Receive), blocks, acquires;
    307 sendmmsg(fd: FD, mmsg: mmsg_in(2), vlen: UINT, flags: of(&MSG)) => execute(Output), blocks, releases;
};
