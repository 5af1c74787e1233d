//! Waiting for descriptors and for futexes.

use crate::flags::files::CLOEXEC_NONBLOCK;
use crate::flags::polling::{EPOLL_CTL, FUTEX, FUTEX2};
use crate::flags::signals::CLOCK;
use crate::notation::*;
use crate::row::Act::Variant;
use crate::row::{Len::*, Row, Shape::*, Special::*, When::*};
use crate::variants;

pub(super) const ROWS: &[Row] = rows! {
    7 poll(ufds: updates(Always, PollFds, ArgTimes(1, 8)), nfds: UINT, timeout: INT), blocks, acquires;
    23 select(n: INT, inp: updates(Success, FdSet, BitsOfArg(0)), outp: updates(Success, FdSet, BitsOfArg(0)),
        exp: updates(Success, FdSet, BitsOfArg(0)), tvp: updates(Always, Timeval, Fixed(16))),
        blocks, acquires;
    202 futex(uaddr: updates(Always, U32, Fixed(4)), op: of(&FUTEX), val: UINT, utime: ADDRESS,
        uaddr2: updates(Always, U32, Fixed(4)), val3: HEX) => Variant(&variants::FUTEX), blocks;
    213 epoll_create(size: INT);
    214 epoll_ctl_old();
    215 epoll_wait_old();
    232 epoll_wait(epfd: FD, events: writes_when(Positive, EpollEvents, RetTimes(12)), maxevents: INT,
        timeout: INT), blocks, acquires;
    233 epoll_ctl(epfd: FD, op: of(&EPOLL_CTL), fd: FD, event: reads(EpollEvents, Fixed(12)));
    270 pselect6(n: INT, inp: updates(Success, FdSet, BitsOfArg(0)),
        outp: updates(Success, FdSet, BitsOfArg(0)), exp: updates(Success, FdSet, BitsOfArg(0)),
        tsp: updates(Always, Timespec, Fixed(16)), sig: reads(Opaque, Fixed(16)))
        => execute(MaskedWait), blocks, acquires;
    271 ppoll(ufds: updates(Always, PollFds, ArgTimes(1, 8)), nfds: UINT,
        tsp: updates(Always, Timespec, Fixed(16)), sigmask: reads(Sigset, Arg(4)), sigsetsize: SIZE)
        => execute(MaskedWait), blocks, acquires;
    281 epoll_pwait(epfd: FD, events: writes_when(Positive, EpollEvents, RetTimes(12)), maxevents: INT,
        timeout: INT, sigmask: reads(Sigset, Arg(5)), sigsetsize: SIZE)
        => execute(MaskedWait), blocks, acquires;
    291 epoll_create1(flags: of(&CLOEXEC_NONBLOCK));
    441 epoll_pwait2(epfd: FD, events: writes_when(Positive, EpollEvents, RetTimes(12)), maxevents: INT,
        timeout: TIMESPEC, sigmask: reads(Sigset, Arg(5)), sigsetsize: SIZE)
        => execute(MaskedWait), blocks, acquires;
    449 futex_waitv(waiters: reads(Opaque, ArgTimes(1, 24)), nr_futexes: UINT, flags: HEX, timeout: TIMESPEC,
        clockid: of(&CLOCK)), blocks, acquires;
    454 futex_wake(uaddr: ADDRESS, mask: HEX, nr: INT, flags: of(&FUTEX2)), releases;
    455 futex_wait(uaddr: ADDRESS, val: HEX, mask: HEX, flags: of(&FUTEX2), timeout: TIMESPEC,
        clockid: of(&CLOCK)), blocks, acquires;
    456 futex_requeue(waiters: reads(Opaque, Fixed(48)), flags: HEX, nr_wake: INT, nr_requeue: INT), releases;
};
