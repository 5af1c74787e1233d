//! Clocks, timers and sleeping.

use crate::flags::files::CLOEXEC_NONBLOCK;
use crate::flags::signals::{CLOCK, ITIMER, TIMER, TIMERFD};
use crate::notation::*;
use crate::row::{Len::*, Row, Shape::*, Special::*, When::*};

pub(super) const ROWS: &[Row] = rows! {
    35 nanosleep(rqtp: TIMESPEC, rmtp: updates(Interrupted, Timespec, Fixed(16))), blocks;
    36 getitimer(which: of(&ITIMER), value: writes(Itimerval, Fixed(32)));
    37 alarm(seconds: UINT), releases;
    38 setitimer(which: of(&ITIMER), value: reads(Itimerval, Fixed(32)),
        ovalue: writes(Itimerval, Fixed(32))), releases;
    96 gettimeofday(tv: writes(Timeval, Fixed(16)), tz: writes(I32Pair, Fixed(8))) => execute(Gettimeofday);
    100 times(tbuf: writes_when(Always, Opaque, Fixed(32)));
    159 adjtimex(txc_p: updates(Always, Opaque, Fixed(208)));
    164 settimeofday(tv: reads(Timeval, Fixed(16)), tz: reads(I32Pair, Fixed(8)));
    201 time(tloc: U64_OUT) => execute(Time);
    222 timer_create(which_clock: of(&CLOCK), timer_event_spec: reads(Opaque, Fixed(64)),
        created_timer_id: writes_when(Always, I32, Fixed(4)));
    223 timer_settime(timer_id: INT, flags: of(&TIMER), new_setting: reads(Itimerspec, Fixed(32)),
        old_setting: writes(Itimerspec, Fixed(32))), releases;
    224 timer_gettime(timer_id: INT, setting: writes(Itimerspec, Fixed(32)));
    225 timer_getoverrun(timer_id: INT);
    226 timer_delete(timer_id: INT);
    227 clock_settime(which_clock: of(&CLOCK), tp: TIMESPEC);
    228 clock_gettime(which_clock: of(&CLOCK), tp: writes(Timespec, Fixed(16))) => execute(ClockGettime);
    229 clock_getres(which_clock: of(&CLOCK), tp: writes(Timespec, Fixed(16)));
    230 clock_nanosleep(which_clock: of(&CLOCK), flags: of(&TIMER), rqtp: TIMESPEC,
        rmtp: updates(Interrupted, Timespec, Fixed(16))), blocks;
    283 timerfd_create(clockid: of(&CLOCK), flags: of(&CLOEXEC_NONBLOCK));
    286 timerfd_settime(ufd: FD, flags: of(&TIMERFD), utmr: reads(Itimerspec, Fixed(32)),
        otmr: writes(Itimerspec, Fixed(32))), releases;
    287 timerfd_gettime(ufd: FD, otmr: writes(Itimerspec, Fixed(32)));
    305 clock_adjtime(which_clock: of(&CLOCK), utx: updates(Always, Opaque, Fixed(208)));
};
