//! Flags of signals, clocks and timers.

use super::flag_sets;

flag_sets! {
    /// rt_sigprocmask(2).
    SIG_HOW one_of { SIG_BLOCK 0, SIG_UNBLOCK 1, SIG_SETMASK 2 }
    /// The clocks.
    CLOCK one_of {
        CLOCK_REALTIME 0, CLOCK_MONOTONIC 1, CLOCK_PROCESS_CPUTIME_ID 2, CLOCK_THREAD_CPUTIME_ID 3,
        CLOCK_MONOTONIC_RAW 4, CLOCK_REALTIME_COARSE 5, CLOCK_MONOTONIC_COARSE 6, CLOCK_BOOTTIME 7,
        CLOCK_REALTIME_ALARM 8, CLOCK_BOOTTIME_ALARM 9, CLOCK_SGI_CYCLE 10, CLOCK_TAI 11,
    }
    /// clock_nanosleep(2), timer_settime(2).
    TIMER bits { TIMER_ABSTIME 1 }
    /// timerfd_settime(2).
    TIMERFD bits { TFD_TIMER_ABSTIME 1, TFD_TIMER_CANCEL_ON_SET 2 }
    /// setitimer(2).
    ITIMER one_of { ITIMER_REAL 0, ITIMER_VIRTUAL 1, ITIMER_PROF 2 }
    /// pidfd_send_signal(2).
    PIDFD_SIGNAL bits { PIDFD_SIGNAL_THREAD 1, PIDFD_SIGNAL_THREAD_GROUP 2, PIDFD_SIGNAL_PROCESS_GROUP 4 }
}
