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
    // Who waits for the other side as it closes goes on when that has all, though it has closed as well; and who does not wait for a
    // connection is told of it later, though it is there at once.
    Daemon {
        name: "lingers",
        needs: &["python3"],
        description: r#"
            [node.server]
            command = ["python3", "-u", "-c", """
import socket
listener = socket.create_server(('', 80))
while True: c, _ = listener.accept(); c.recv(10); c.recv(10); c.close()
"""]
            [node.client]
            command = ["python3", "-u", "-c", """
import select, socket, struct, time
time.sleep(1)
for waits in (True, False):
    for how in (None, socket.SHUT_RDWR, socket.SHUT_WR):
        s = socket.create_connection(('server', 80))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 10)); s.sendall(b'x')
        time.sleep(.5); s.setblocking(waits)
        if how is not None: s.shutdown(how)
        began = time.time(); s.close(); print('closed', waits, how, round(time.time() - began, 4)); time.sleep(1)
own = socket.create_server(('127.0.0.1', 0))
for port in (own.getsockname()[1], 1):
    s = socket.socket(); s.setblocking(False); begun = s.connect_ex(('127.0.0.1', port))
    select.select([], [s], []); print('begun', begun, s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
"""]
            [[lan]]
            delay = "5ms"
        "#,
        says: &[
            "client | closed True None 0.01",
            "client | closed True 2 0.01",
            "client | closed True 1 0.01",
            "client | closed False None 0.01",
            "client | closed False 2 0.01",
            "client | closed False 1 0.01",
            "client | begun 115 0",
            "client | begun 115 111",
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
    // Four clients of a swarm, which find each other by a tracker.
    Daemon {
        name: "bittorrent",
        needs: &["aria2c", "python3", "curl"],
        description: r#"
            [node.tracker]
            command = ["python3", "LAB/tracker.py"]
            [node.seed]
            command = ["sh", "-c", "python3 LAB/tracker.py make 500000; python3 -m http.server 80 2> /dev/null & exec aria2c -q --enable-dht=false --bt-enable-lpd=false --check-integrity --seed-time=9 --seed-ratio=0 f.torrent"]
            [node.leech]
            count = 3
            command = ["sh", "-c", "sleep 2; curl -s http://seed/f.torrent > f.torrent; aria2c -q --enable-dht=false --bt-enable-lpd=false --seed-time=0.05 --seed-ratio=0 f.torrent; md5sum file"]
            [node.watch]
            command = ["sleep", "20"]
            [[lan]]
            delay = "5ms"
            rate = "20Mbit"
            loss = 0.001
        "#,
        says: &[
            "leech-1 | 1bde08ebfca24ee001cf0821b54952ea  file",
            "leech-2 | 1bde08ebfca24ee001cf0821b54952ea  file",
            "leech-3 | 1bde08ebfca24ee001cf0821b54952ea  file",
            "leech-3 | * ended with 0",
        ],
        ..PLAIN
    },
    // What the kernel draws: ports of netlink, and numbers of keys, without which pam_keyinit(8) does.
    Daemon {
        name: "drawn_by_the_kernel",
        needs: &["python3"],
        description: r#"
            [node.one]
            command = ["python3", "-c", """
import ctypes, os, socket
s = [socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) for i in range(3)]
s[0].bind((0, 0)); s[1].connect((0, 0)); s[2].sendto(bytes.fromhex('10000000010000000100000000000000'), (0, 0))
print('ports', s[0].getsockname()[0] == os.getpid(), *[2**32 - each.getsockname()[0] for each in s[1:]])
JOIN_SESSION_KEYRING = 1
libc = ctypes.CDLL(None, use_errno=True)
print('keys', libc.syscall(250, JOIN_SESSION_KEYRING, None), os.strerror(ctypes.get_errno()))
"""]
        "#,
        says: &[
            "one | ports True 4097 4098",
            "one | keys -1 Function not implemented",
            "one | * ended with 0",
        ],
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
    // Servers alone, one of which loses power at the last event: what the others do about it is seen.
    Daemon {
        name: "peers_go_on",
        needs: &["python3"],
        description: r#"
            [node.peer]
            count = 3
            command = ["python3", "-u", "-c", """
import socket, sys, threading, time
names = ['peer-1', 'peer-2', 'peer-3']; own = socket.gethostname()
listener = socket.create_server(('', 7000))
def serve():
    while True: c, _ = listener.accept(); c.sendall(b'x'); c.close()
threading.Thread(target=serve, daemon=True).start()
lost = set()
while True:
    time.sleep(1)
    for name in names:
        if name == own or name in lost: continue
        try: socket.create_connection((name, 7000), 2).close()
        except OSError: lost.add(name); print('lost', name)
"""]
            [[lan]]
            delay = "5ms"
            [[event]]
            at = "10s"
            do = "kill"
            node = "peer-2"
        "#,
        says: &[
            "peer-1 | lost peer-2",
            "peer-3 | lost peer-2",
            "   70.000000 peer-1 | * served until all others had ended",
        ],
        ..PLAIN
    },
    // The command of an event is waited for, though all nodes have ended, or it asks one that only serves; one without power
    // is none.
    Daemon {
        name: "awaits_commands",
        needs: &["python3"],
        description: r#"
            [node.server]
            command = ["python3", "-u", "-c", """
import socket
listener = socket.create_server(('', 7000))
while True: c, _ = listener.accept(); c.sendall(b'served')
"""]
            [node.client]
            command = ["sleep", "1"]
            [node.killed]
            command = ["sleep", "5"]
            [[event]]
            at = "2s"
            do = "kill"
            node = "killed"
            [[event]]
            at = "3s"
            do = "run"
            node = "killed"
            command = ["echo", "nobody"]
            [[event]]
            at = "3s"
            do = "run"
            node = "server"
            command = ["sh", "-c", """
sleep 100
python3 -c 'import socket; print(socket.create_connection(("server", 7000)).recv(9))'
"""]
        "#,
        says: &["server | b'served'", "  103.000000 server | * served until all others had ended"],
        ..PLAIN
    },
    // One that serves is not; nor one that is not there.
    Daemon {
        name: "awaits_no_servers",
        needs: &["python3"],
        description: r#"
            [node.one]
            command = ["sleep", "9"]
            [[event]]
            at = "2s"
            do = "run"
            node = "one"
            command = ["sh", "-c", "python3 -m http.server 80; true"]
            [[event]]
            at = "3s"
            do = "run"
            node = "one"
            command = ["nobody-knows-this"]
        "#,
        says: &[
            "one | ! nobody-knows-this cannot be started",
            "    3.000000 one | * `nobody-knows-this` failed: it ended with 127",
            "    9.000000 one | * ended with 0",
        ],
        ..PLAIN
    },
    // What the command of a node that has ended left running is not waited for: it asks on and on.
    Daemon {
        name: "asks_for_ever",
        needs: &["python3"],
        description: r#"
            [node.server]
            command = ["python3", "-u", "-c", """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7000))
while True: d, a = s.recvfrom(99); s.sendto(d.upper(), a)
"""]
            [node.client]
            command = ["sh", "-c", """
python3 -c 'import socket, time
time.sleep(1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("server", 7000))
while True: s.send(b"hi"); print(s.recv(99), flush=True); time.sleep(20)' &
sleep 5
"""]
        "#,
        says: &[
            "client | b'HI'",
            "    5.0",
            "client | * ended with 0",
            "   65.0",
            "server | * served until all others had ended",
        ],
        ..PLAIN
    },
    // Who takes datagrams serves those that have ended, too: where it waits without a time, and where it looks about now and then.
    Daemon {
        name: "takes_datagrams",
        needs: &["python3"],
        description: r#"
            [node.waits]
            command = ["python3", "-u", "-c", """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7000))
while True: d, a = s.recvfrom(99); s.sendto(d.upper(), a)
"""]
            [node.looks]
            command = ["python3", "-u", "-c", """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7000)); s.settimeout(1)
while True:
    try: d, a = s.recvfrom(99); s.sendto(d.upper(), a)
    except TimeoutError: pass
"""]
            [node.client]
            command = ["python3", "-u", "-c", """
import socket, time
time.sleep(1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for server in ('waits', 'looks'): s.sendto(server.encode(), (server, 7000)); print(s.recv(99))
"""]
            [[lan]]
            delay = "250ms"
        "#,
        says: &[
            "client | b'WAITS'",
            "client | b'LOOKS'",
            "   62.0",
            "waits  | * served until all others had ended",
            "looks  | * served until all others had ended",
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
