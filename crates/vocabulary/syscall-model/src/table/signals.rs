//! Signals.

use crate::flags::files::CLOEXEC_NONBLOCK;
use crate::flags::signals::{PIDFD_SIGNAL, SIG_HOW};
use crate::notation::*;
use crate::row::{Len::*, Row, Shape::*, Special::*, When::*};

pub(super) const ROWS: &[Row] = rows! {
    13 rt_sigaction(sig: SIGNAL, act: reads(Sigaction, Fixed(32)), oact: writes(Sigaction, Fixed(32)),
        sigsetsize: SIZE) => execute(RtSigaction);
    14 rt_sigprocmask(how: of(&SIG_HOW), nset: reads(Sigset, Arg(3)), oset: writes(Sigset, Arg(3)),
        sigsetsize: SIZE) => execute(RtSigprocmask);
    15 rt_sigreturn() => execute(RtSigreturn);
    34 pause(), blocks, acquires;
    62 kill(pid: PID, sig: SIGNAL), releases, signals;
    127 rt_sigpending(uset: writes(Sigset, Arg(1)), sigsetsize: SIZE) => execute(RtSigpending);
    128 rt_sigtimedwait(uthese: reads(Sigset, Arg(3)), uinfo: writes_when(Positive, Siginfo, Fixed(128)),
        uts: TIMESPEC, sigsetsize: SIZE) => execute(RtSigtimedwait), blocks, acquires;
    129 rt_sigqueueinfo(pid: PID, sig: SIGNAL, uinfo: reads(Siginfo, Fixed(128))), releases, signals;
    130 rt_sigsuspend(unewset: reads(Sigset, Arg(1)), sigsetsize: SIZE)
        => execute(MaskedWait), blocks, acquires;
    131 sigaltstack(uss: reads(Opaque, Fixed(24)), uoss: writes(Opaque, Fixed(24))) => execute(Sigaltstack);
    200 tkill(pid: PID, sig: SIGNAL), releases, signals;
    234 tgkill(tgid: PID, pid: PID, sig: SIGNAL), releases, signals;
    282 signalfd(ufd: INT, user_mask: reads(Sigset, Arg(2)), sizemask: SIZE) => execute(Signalfd);
    289 signalfd4(ufd: INT, user_mask: reads(Sigset, Arg(2)), sizemask: SIZE, flags: of(&CLOEXEC_NONBLOCK))
        => execute(Signalfd);
    297 rt_tgsigqueueinfo(tgid: PID, pid: PID, sig: SIGNAL, uinfo: reads(Siginfo, Fixed(128))), releases, signals;
    424 pidfd_send_signal(pidfd: FD, sig: SIGNAL, info: reads(Siginfo, Fixed(128)), flags: of(&PIDFD_SIGNAL)),
        releases, signals;
};
