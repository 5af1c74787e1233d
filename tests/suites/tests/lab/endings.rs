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
    // Who changes its user as it is executed has addresses by chance, which is said.
    Daemon {
        name: "addresses_by_chance",
        needs: &["su", "runuser"],
        as_root: true,
        description: r#"
            [node.one]
            command = ["runuser", "-u", "nobody", "--", "echo", "runuser"]
            [node.two]
            command = ["su", "-s", "/bin/sh", "nobody", "-c", "echo su"]
        "#,
        says: &[
            "one | runuser",
            "two | * not there in a lab: the kernel chooses addresses by chance",
            "two | su",
        ],
        ..PLAIN
    },
    // Six nodes that elect among each other, over links that lose packets, one of which loses power.
    Daemon {
        name: "redis_cluster",
        needs: &["redis-server", "redis-cli"],
        description: r#"
            [node.r]
            count = 6
            command = ["redis-server", "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--save", "", "--protected-mode", "no", "--loglevel", "warning"]
            [node.client]
            command = ["sh", "-c", "sleep 2; redis-cli --cluster create 10.0.0.1:6379 10.0.0.2:6379 10.0.0.3:6379 10.0.0.4:6379 10.0.0.5:6379 10.0.0.6:6379 --cluster-replicas 1 --cluster-yes | tail -1; sleep 10; redis-cli -c -h r-2 set k1 v1; sleep 18; redis-cli -h r-3 cluster info | head -1; redis-cli -c -h r-3 get k1"]
            [[lan]]
            delay = "5ms"
            jitter = "2ms"
            loss = 0.01
            [[event]]
            at = "17s"
            do = "kill"
            node = "r-3"
            [[event]]
            at = "25s"
            do = "restart"
            node = "r-3"
        "#,
        says: &[
            "client | [OK] All 16384 slots covered.",
            "client | cluster_state:ok",
            "client | v1",
            "client | * ended with 0",
        ],
        ..PLAIN
    },
    // Three servers with a subscriber at one and a publisher at another one.
    Daemon {
        name: "nats_cluster",
        needs: &["nats-server", "nc"],
        description: r#"
            [node.n]
            count = 3
            command = ["nats-server", "-p", "4222", "-cluster", "nats://0.0.0.0:6222", "-routes", "nats://n-1:6222,nats://n-2:6222", "-cluster_name", "c"]
            [node.sub]
            command = ["sh", "-c", "sleep 3; (printf 'CONNECT {}\r\nSUB a 1\r\nPING\r\n'; sleep 4) | timeout 5 nc n-1 4222 | grep -E 'MSG|hi|PONG'"]
            [node.pub]
            command = ["sh", "-c", "sleep 5; (printf 'CONNECT {}\r\nPUB a 2\r\nhi\r\nPING\r\n'; sleep 1) | timeout 3 nc n-3 4222 | grep PONG"]
            [[lan]]
            delay = "5ms"
            jitter = "2ms"
            loss = 0.01
        "#,
        says: &["sub | MSG a 1 2", "sub | hi", "pub | PONG", "pub | * ended with 0"],
        ..PLAIN
    },
    // Who listens only when the others have ended is not waited for for ever.
    Daemon {
        name: "listens_for_nobody",
        needs: &["python3"],
        description: r#"
            [node.server]
            command = ["python3", "-u", "-c", """
import socket, time
time.sleep(2); listener = socket.create_server(('', 80)); print('listens')
while True: time.sleep(1)
"""]
            [node.client]
            command = ["sleep", "1"]
        "#,
        says: &["server | listens", "62.0", "server | * served until all others had ended"],
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
