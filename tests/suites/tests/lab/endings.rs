//! How connections end and what they hold back, and how programs begin beside others that compute.

use super::daemons::{Daemon, PLAIN};

pub const LABS: &[Daemon] = &[
    // Reset by who closes at once, or without having read all.
    Daemon {
        name: "endings",
        needs: &["python3"],
        description: r#"
            [node.server]
            command = ["python3", "LAB/endings.py"]
            [node.client]
            command = ["python3", "LAB/endings.py", "client"]
        "#,
        says: &[
            "server | sent before: b'abc'",
            "server | no linger: ECONNRESET",
            "server | then: b'' EPIPE",
            "client | unread: ECONNRESET",
            "server | ended: b'read' b''",
            "client | read: b''",
        ],
        ..PLAIN
    },
    // What is corked, what more follows, and who waits when it closes.
    Daemon {
        name: "held",
        needs: &["python3"],
        description: r#"
            [node.server]
            command = ["python3", "LAB/held.py", "receive"]
            [node.client]
            command = ["sh", "-c", "sleep 1; exec python3 LAB/held.py send server"]
            [[link]]
            between = ["server", "client"]
            delay = "50ms"
            rate = "100Mbit"
        "#,
        says: &[
            "server | 20 at 100, 30 at 800, 40 at 1000",
            "server | 30 at 100, 10 at 150",
            "client | closed after 100 ms",
            "server | 100 at 0",
            "server | 1 at 0",
        ],
        ..PLAIN
    },
    // Urgent data, of which the receiver is told when all before it has come.
    Daemon {
        name: "urgent",
        needs: &["python3"],
        description: r#"
            [node.server]
            command = ["python3", "LAB/urgent.py", "receive"]
            [node.client]
            command = ["sh", "-c", "sleep 1; exec python3 LAB/urgent.py send server"]
            [[link]]
            between = ["server", "client"]
            delay = "50ms"
            rate = "100Mbit"
            loss = 0.02
        "#,
        says: &[
            "none came: 22",
            "server | b'abc' b'!' after 100 ms",
            "server | b'def'",
            "server | True bytes, of which 10 urgent",
        ],
        ..PLAIN
    },
    // What a limit of processor time does to who computes, by a signal and at last.
    Daemon {
        name: "cpu_limit",
        needs: &["python3"],
        description: r#"
            preempts_after = "50ms"
            [node.one]
            command = ["python3", "LAB/cpu_limit.py"]
        "#,
        says: &["one | 3 times, then killed by signal 9", "one | spent: 1 s", "one | * ended with 0"],
        is_preempted: true,
        ..PLAIN
    },
    // What the first one waits for comes in a week: the other one begins before.
    Daemon {
        name: "begins_beside_a_circle",
        needs: &["cc", "date"],
        prepare: "cc -O0 -pthread -o alone $LAB/alone.c",
        description: r#"
            [node.one]
            command = ["FOLDER/alone"]
            [node.two]
            command = ["date", "-u", "+%F"]
        "#,
        says: &["two | 2026-01-01", "604800.0", "one | a week later", "one | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "beanstalkd",
        needs: &["beanstalkd", "nc"],
        description: r#"
            [node.server]
            command = ["beanstalkd", "-l", "0.0.0.0"]
            [node.client]
            command = ["sh", "-c", "sleep 1; printf 'put 1 0 10 5\r\nhello\r\nreserve\r\ndelete 1\r\nquit\r\n' | timeout 5 nc -q1 server 11300"]
        "#,
        says: &["client | RESERVED 1 5", "client | hello", "client | DELETED", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "iperf3",
        needs: &["iperf3"],
        description: r#"
            [node.server]
            command = ["iperf3", "-s", "-1"]
            [node.client]
            command = ["sh", "-c", "sleep 1; iperf3 -c server -t 1 -P 2 | grep -c receiver"]
            [[link]]
            between = ["server", "client"]
            delay = "5ms"
            rate = "10Mbit"
        "#,
        says: &["client | 3", "client | * ended with 0"],
        ..PLAIN
    },
];
