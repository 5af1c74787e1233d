//! The rows of the table: what is run, and what is aimed at.

use crate::server_rows::{SERVER_ROWS, Server};

/// What one row runs.
pub enum Work {
    /// benches/micro/SOURCE.c with a count of iterations.
    Micro {
        source: &'static str,
        count: u64,
        quick_count: u64,
        /// For peers that are a hundred times slower.
        peer_count: u64,
    },
    /// A shell command. `$IN` names a directory that `inputs` fills once;
    /// `$SCALE` is 1, or 10 in a quick run, and divides sizes.
    Shell {
        needs: &'static str,
        inputs: &'static str,
        /// Run in each fresh directory before the clock starts.
        prepare: &'static str,
        command: &'static str,
    },
    /// A server: only `start` is recorded.
    Server(Server),
}

/// What is aimed at.
#[derive(Clone, Copy)]
pub enum Target {
    /// At most so many times the native run.
    Ratio { record: f64, replay: f64 },
    /// At most so many milliseconds more than the native run.
    MoreMs { record: f64, replay: f64 },
    /// Threads: at most so many times the native run on one core, because a lane
    /// runs one thread at a time; the replay at most so many times the recording.
    OneCore { record: f64, replay: f64 },
    /// Recording as for `Ratio`; the replay at most so many times the recording.
    Followed { record: f64, replay: f64 },
    /// Servers: at least so much of the native requests per second; the replay
    /// takes at most so many times the time of the recording.
    Rate { record: f64, replay: f64 },
}

/// How much longer than its recording a replay of threads may take.
pub const REPLAY_OF_RECORDING: f64 = 1.2;

pub struct Row {
    pub name: &'static str,
    pub work: Work,
    pub target: Target,
}

const fn micro(
    name: &'static str,
    source: &'static str,
    count: u64,
    peer_count: u64,
    record: f64,
    replay: f64,
) -> Row {
    Row {
        name,
        work: Work::Micro { source, count, quick_count: count / 10, peer_count },
        target: Target::Ratio { record, replay },
    }
}

/// A micro row whose program has threads.
const fn threads(name: &'static str, source: &'static str, count: u64, peer_count: u64, record: f64) -> Row {
    Row {
        name,
        work: Work::Micro { source, count, quick_count: count / 10, peer_count },
        target: Target::OneCore { record, replay: REPLAY_OF_RECORDING },
    }
}

/// A row that reads a file, of which the first recording makes a copy.
const fn read_file(name: &'static str, command: &'static str) -> Row {
    Row {
        name,
        work: Work::Shell {
            needs: "dd",
            inputs: "head -c $((200000000 / SCALE)) /dev/urandom > $IN/data; sleep 4",
            prepare: "",
            command,
        },
        target: Target::Ratio { record: 1.3, replay: 1.5 },
    }
}

/// All rows, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(SERVER_ROWS)
}

pub const ROWS: &[Row] = &[
    micro("getppid", "getppid", 1_000_000, 20_000, 1.3, 0.7),
    micro("write 1 byte to /dev/null", "write_null", 1_000_000, 20_000, 1.4, 0.5),
    micro("read 4 KB cached", "read_cached", 1_000_000, 20_000, 1.8, 1.5),
    micro("clock_gettime", "clock_gettime", 1_000_000, 20_000, 2.5, 2.0),
    micro("pipe ping-pong", "pipe_ping_pong", 100_000, 2_000, 1.3, 1.0),
    micro("mmap/touch/munmap", "mmap_touch", 50_000, 2_000, 1.5, 1.5),
    micro("create+unlink", "create_unlink", 50_000, 2_000, 1.15, 0.7),
    micro("fork+exec+wait", "fork_exec", 1_000, 50, 1.6, 1.6),
    micro("fork+wait", "fork_wait", 10_000, 500, 2.0, 1.5),
    micro("TCP ping-pong", "tcp_ping_pong", 100_000, 2_000, 1.2, 0.7),
    micro("UDP ping-pong", "udp_ping_pong", 100_000, 2_000, 1.2, 0.7),
    Row {
        name: "gzip of 100 MB",
        work: Work::Shell {
            needs: "gzip",
            inputs: "seq 1 20000000 | head -c $((100000000 / SCALE)) > $IN/data",
            prepare: "",
            command: "exec gzip -c < $IN/data > out.gz",
        },
        target: Target::Ratio { record: 1.05, replay: 1.05 },
    },
    Row {
        name: "gcc -O2 of a large file",
        work: Work::Shell {
            needs: "gcc",
            inputs: r##"awk -v n=$((3000 / SCALE)) 'BEGIN { print "#include <string.h>\nstruct s { int a[16]; char t[32]; };";
for (i = 0; i < n; i++) { printf "int f%d(struct s *p, int x) { int r = 0; for (int i = 0; i < 16; i++) { p->a[i] += x * %d + i; if (p->a[i] %% %d) r ^= p->a[i]; else r += i; } switch (x & 7) { case 0: return r; case 1: memset(p->t, x, 32); break; case 3: r *= %d; break; default: r += p->t[x & 31]; } return r; }\n", i, i, i % 13 + 2, i % 7 + 3 } }' > $IN/large.c"##,
            prepare: "",
            command: "exec gcc -O2 -c -o large.o $IN/large.c",
        },
        target: Target::Ratio { record: 1.15, replay: 1.1 },
    },
    Row {
        name: "ls -lR /usr",
        work: Work::Shell {
            needs: "ls",
            inputs: "",
            prepare: "",
            command: "exec ls -lR $(test $SCALE = 1 && echo /usr || echo /usr/share/doc) > list",
        },
        target: Target::Ratio { record: 1.25, replay: 0.8 },
    },
    Row {
        name: "sqlite3, 100,000 inserts",
        work: Work::Shell {
            needs: "sqlite3",
            inputs: r##"awk -v n=$((100000 / SCALE)) 'BEGIN { print "create table t(a integer primary key, b text); begin;"; for (i = 0; i < n; i++) printf "insert into t(b) values (\"row %d\");\n", i; print "commit;" }' > $IN/in.sql"##,
            prepare: "",
            command: "exec sqlite3 d.db < $IN/in.sql",
        },
        target: Target::Ratio { record: 1.15, replay: 1.0 },
    },
    Row {
        name: "make -j2, 100 files",
        work: Work::Shell {
            needs: "make",
            inputs: r##"for i in $(seq 1 $((100 / SCALE))); do printf '#include <stdio.h>\n#include <stdlib.h>\nint f%d(int x) { int s = 0; for (int i = 0; i < x; i++) s += i * %d; printf("%%d", s); return s; }\n' $i $i > $IN/f$i.c; done
printf 'all: $(patsubst %%.c,%%.o,$(wildcard *.c))\n%%.o: %%.c\n\tgcc -O1 -c -o $@ $<\n' > $IN/Makefile"##,
            prepare: "cp $IN/* .",
            command: "exec make -s -j2",
        },
        target: Target::Ratio { record: 1.4, replay: 1.3 },
    },
    Row {
        name: "python3 compute",
        work: Work::Shell {
            needs: "python3",
            inputs: "",
            prepare: "",
            command: "exec python3 -c \"print(sum(i * i % 7 for i in range(20000000 // $SCALE)))\"",
        },
        target: Target::Ratio { record: 1.03, replay: 1.03 },
    },
    read_file("200 MB read by 4 KB", "exec dd if=$IN/data of=/dev/null bs=4k status=none"),
    read_file("200 MB read by 2 MB", "exec dd if=$IN/data of=/dev/null bs=2M status=none"),
    Row {
        name: START_UP,
        work: Work::Micro { source: "start_up", count: 1, quick_count: 1, peer_count: 1 },
        target: Target::MoreMs { record: 30.0, replay: 30.0 },
    },
    threads("two compute threads", "two_compute_threads", 300_000_000, 3_000_000, 1.1),
    threads("mutex hand-over", "mutex_hand_over", 100_000, 2_000, 1.5),
    // The two compute one after the other when recorded.
    micro("spin barriers, 50 us each", "spin_barriers", 20_000, 200, 2.5, 2.5),
    threads("sched_yield, 8 threads", "yields_in_a_ring", 10_000, 100, 2.5),
    // About 12 ms natively, of which the start and the end of the threads are a part.
    threads("sched_yield, short run", "yields_in_a_ring", 1_000, 100, 1.5),
    threads("4 threads, one mutex", "four_threads_mutex", 200_000, 2_000, 1.5),
    Row {
        name: "1000 signals into a loop",
        work: Work::Micro {
            source: "signals_into_computation",
            count: 400_000_000,
            quick_count: 40_000_000,
            peer_count: 40_000_000,
        },
        target: Target::Followed { record: 1.05, replay: REPLAY_OF_RECORDING },
    },
];

/// The row whose replay is taken off the replays of the other micro rows.
pub const START_UP: &str = "start-up";
