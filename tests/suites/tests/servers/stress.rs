//! Classes of stress-ng, two workers each, few operations, results verified.
//! Classes that count too slowly end by time.
//! What it prints has times and pids, so only its exit code tells that all was
//! well; the replay equals the recording in every byte.

use suites::{Comparison, Program};

/// A row for each `NAME OPERATIONS [MORE OPTIONS]`; the slow ones are left out of quick runs.
macro_rules! stress {
    (slow: $slow:literal; $($name:literal $count:literal $($more:literal)?),* $(,)?) => {
        &[$(Program {
            name: concat!("stress_", $name),
            needs: &["stress-ng"],
            command: concat!(
                "exec stress-ng --temp-path . --verify --metrics-brief --timeout 20 --", $name, " 2 --", $name, "-ops ", $count
                $(, " ", $more)?
            ),
            comparison: Comparison::ExitCode,
            slow: $slow,
            ..Program::PLAIN
        }),*]
    };
}

pub const PROGRAMS: &[Program] = stress![
    slow: false;
    "fork" 200,
    "futex" 20000,
    "pthread" 500,
    "shm" 10,
    "timer" 2000 "--timer-freq 2000",
];

pub const MORE_PROGRAMS: &[Program] = stress![
    slow: true;
    "aio" 200,
    "clone" 50,
    "cpu" 20,
    "daemon" 20,
    "dup" 50,
    "epoll" 500,
    "eventfd" 20000,
    "fifo" 20000,
    "flock" 20000,
    "itimer" 200,
    "kill" 20000,
    "madvise" 8,
    "malloc" 50000,
    "membarrier" 50,
    "memfd" 4 "--memfd-bytes 8M",
    "mmap" 2 "--mmap-bytes 8M",
    "mq" 20000,
    "msg" 20000,
    "mutex" 20000,
    "nanosleep" 200,
    "pipe" 20000,
    "poll" 2000,
    "sem" 20000 "--timeout 1",
    "sem-sysv" 20000,
    "sendfile" 500,
    "shm-sysv" 10,
    "sigfd" 20000,
    // Natively one of the two waits until the time is over, mostly.
    "sigio" 2000 "--timeout 5",
    "signest" 2000,
    "sigpending" 20000,
    "sigpipe" 500,
    "sigq" 20000,
    "sigrt" 5000,
    "sigsegv" 20000,
    "sigsuspend" 20000,
    "sigtrap" 20000,
    "sock" 500,
    "sockpair" 5000,
    "splice" 5000,
    "switch" 20000,
    "tee" 2000,
    "timerfd" 2000,
    "udp" 5000,
    "vfork" 500,
    "vm" 20 "--vm-bytes 8M",
    "wait" 500,
    "yield" 20000 "--timeout 1",
    "zombie" 200,
];
