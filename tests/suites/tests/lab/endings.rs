//! How connections end, and how programs begin beside others that compute.

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
