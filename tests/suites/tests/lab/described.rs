//! Labs that are described in a few lines, and what they say.

/// A lab: its description, the code that it ends with, and lines that its output has; without the time where
/// that is of no interest.
pub struct Lab {
    pub name: &'static str,
    pub description: &'static str,
    pub code: i32,
    pub lines: &'static [&'static str],
}

pub const LABS: &[Lab] = &[
    Lab {
        name: "time",
        description: r#"
            [node.one]
            command = ["sh", "-c", "hostname; date -u +%s; sleep 3600; date -u +%s; echo $$"]
        "#,
        code: 0,
        lines: &[
            "    0.000000 one | one",
            "    0.000000 one | 1767225600",
            " 3600.000000 one | 1767229200",
            " 3600.000000 one | 2",
            " 3600.000000 one | * ended with 0",
        ],
    },
    Lab {
        name: "failing_node",
        description: r#"
            [node.good]
            command = ["true"]
            [node.bad]
            command = ["sh", "-c", "sleep 1; exit 3"]
        "#,
        code: 1,
        lines: &["    0.000000 good | * ended with 0", "    1.000001 bad  | * ended with 3"],
    },
    Lab {
        name: "killed_and_restarted",
        description: r#"
            [node.one]
            command = ["sh", "-c", "echo up; sleep 10; echo done"]
            [[event]]
            at = "4s"
            do = "kill"
            node = "one"
            [[event]]
            at = "5s"
            do = "restart"
            node = "one"
            [[event]]
            at = "6s"
            do = "run"
            node = "one"
            command = ["sh", "-c", "echo beside"]
        "#,
        code: 0,
        lines: &[
            "    0.000000 one | up",
            "    4.000000 lab | * one loses power",
            "    5.000000 one | up",
            "    6.000000 one | beside",
            "   15.000000 one | done",
        ],
    },
    Lab {
        name: "interfaces_and_names",
        description: r#"
            [node.one]
            command = ["sh", "-c", """
                ip -br addr show up; cat /proc/net/dev | wc -l
                python3 -c 'import socket as s; print(s.if_nameindex(), s.gethostbyaddr("10.0.0.2")[0])'
            """]
            [node.two]
            starts = "2s"
            command = ["python3", "-c", """
import socket, struct
ask = struct.pack('>6H', 7, 0x100, 1, 0, 0, 0) + b'\\x03one\\0' + struct.pack('>2H', 1, 1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(ask, ('127.0.0.53', 53))
answer = s.recv(512)
print('one is', socket.inet_ntoa(answer[-4:]))
s.sendto(ask.replace(b'\\x03one', b'\\x04none'), ('127.0.0.53', 53))
print('none:', s.recv(512)[3] & 15)
"""]
        "#,
        code: 0,
        lines: &[
            "    0.000000 one | lo               UNKNOWN        127.0.0.1/8 ::1/128 ",
            "    0.000000 one | eth0@if2         UP             10.0.0.1/16 fd00::1/64 ",
            "    0.000000 one | 4",
            "    0.000000 one | [(1, 'lo'), (2, 'eth0')] two",
            "    2.000000 two | one is 10.0.0.1",
            "    2.000000 two | none: 3",
        ],
    },
    Lab {
        name: "groups_and_shared_ports",
        description: r#"
            [node.member]
            count = 2
            command = ["python3", "-c", """
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 7000))
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack('4s4s', socket.inet_aton('239.1.2.3'), bytes(4)))
v6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
v6.bind(('::', 7006))
v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, 'ff02::7') + bytes(4))
for one in (s, s, v6):
    data, sender = one.recvfrom(100)
    print(data.decode(), 'from', sender[0])
"""]
            [node.outsider]
            command = ["python3", "-c", """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 7000))
s.settimeout(3)
print('outside:', s.recv(100).decode())
try: print(s.recv(100))
except TimeoutError: print('outside: nothing more')
"""]
            [node.sender]
            command = ["python3", "-c", """
import socket, time
time.sleep(1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: s.sendto(b'x', ('255.255.255.255', 7000))
except PermissionError: print('no broadcast')
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
s.sendto(b'all', ('10.0.255.255', 7000))
s.sendto(b'group', ('239.1.2.3', 7000))
socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'six', ('ff02::7', 7006))
"""]
            [node.shared]
            command = ["python3", "-c", """
import socket
one, other = [socket.socket() for _ in range(2)]
for s in (one, other):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(('', 8000)); s.listen(); s.setblocking(False)
clients = [socket.create_connection(('127.0.0.1', 8000)) for _ in range(20)]
got, kept = [], []
for s in (one, other):
    count = 0
    try:
        while True: kept.append(s.accept()); count += 1
    except BlockingIOError: got.append(count)
print('shared:', sum(got), min(got) > 2)
c = clients[0]; c.send(b'x')
info = c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
print('info:', info[0], int.from_bytes(info[16:20], 'little'), int.from_bytes(info[80:84], 'little') >= 10)
"""]
        "#,
        code: 0,
        lines: &[
            "    1.000003 member-1 | all from 10.0.0.4",
            "    1.000003 member-1 | group from 10.0.0.4",
            "    1.000003 member-2 | group from 10.0.0.4",
            "    1.000003 member-2 | six from fd00::4",
            "    4.000003 outsider | outside: all",
            "    4.000003 outsider | outside: nothing more",
            "    1.000003 sender   | no broadcast",
            "    0.000004 shared   | shared: 20 True",
            "    0.000004 shared   | info: 1 1448 True",
        ],
    },
    Lab {
        name: "pings",
        description: r#"
            [node.one]
            command = ["sh", "-c", "ping -c 2 -i .5 two | grep -v PING; ping -4 -c 1 10.0.0.2 | grep ttl; ping -c 1 -W 1 three | tail -3"]
            [node.two]
            command = ["python3", "-c", """
import socket, struct, time
time.sleep(3)
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
raw.setsockopt(socket.SOL_SOCKET, 29, 1)
raw.sendto(struct.pack('>BBHHH', 8, 0, 0, 77, 1) + b'hello', ('10.0.0.1', 0))
data, control, flags, sender = raw.recvmsg(100, 100)
print('raw:', data[0] >> 4, data[9], data[20], data[24:], sender[0], struct.unpack('qq', control[0][2])[0])
try: raw.sendto(b'x', ('10.0.0.1', 0))
except OSError as error: print('short:', error.errno)
"""]
            [node.three]
            command = ["sleep", "10"]
            [[link]]
            between = ["one", "two"]
            delay = "10ms"
            [[link]]
            between = ["one", "three"]
            loss = 1.0
        "#,
        code: 0,
        lines: &[
            "    0.520000 one   | 64 bytes from two (fd00::2): icmp_seq=1 ttl=64 time=20.0 ms",
            "    0.520000 one   | 64 bytes from two (fd00::2): icmp_seq=2 ttl=64 time=20.0 ms",
            "    0.540000 one   | 64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=20.0 ms",
            "    1.540000 one   | 1 packets transmitted, 0 received, 100% packet loss, time 0ms",
            "    3.020001 two   | raw: 4 1 0 b'\\x00M\\x00\\x01hello' 10.0.0.1 1767225603",
            "    3.020001 two   | short: 22",
        ],
    },
    Lab {
        name: "tables_of_sockets",
        description: r#"
            [node.server]
            command = ["python3", "-c", """
import socket
listener = socket.create_server(('', 7000)); udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); udp.bind(('::', 53))
kept = listener.accept()[0]; kept.recv(1)
"""]
            [node.client]
            command = ["python3", "-c", """
import os, socket, subprocess, time
time.sleep(1)
s = socket.create_connection(('server', 7000)); time.sleep(1)
inode = str(os.fstat(s.fileno()).st_ino)
print('own:', [l.split()[3] for l in open('/proc/net/tcp') if inode in l])
"""]
            [[event]]
            at = "1500ms"
            do = "run"
            node = "server"
            command = ["ss", "-tuan", "-H"]
        "#,
        code: 0,
        lines: &[
            "    1.500000 server | udp UNCONN 0      0             *:53          *:*    ",
            "    1.500000 server | tcp LISTEN 0      0       0.0.0.0:7000  0.0.0.0:*    ",
            "    1.500000 server | tcp ESTAB  0      0      10.0.0.1:7000 10.0.0.2:32771",
            "    2.000001 client | own: ['01']",
        ],
    },
    Lab {
        name: "times_of_files",
        description: r#"
            [node.one]
            command = ["sh", "-c", """
                touch file; stat -c '%y %z %b' file; sleep 5; echo x > file
                stat -c '%y %w %b' file
                test $(stat -c %i file) = $(ls -i file | cut -d' ' -f1) && echo 'the same number'
            """]
        "#,
        code: 0,
        lines: &[
            "    0.000000 one | 2026-01-01 00:00:00.000000000 +0000 2026-01-01 00:00:00.000000000 +0000 0",
            "    5.000000 one | 2026-01-01 00:00:05.000000000 +0000 2026-01-01 00:00:05.000000000 +0000 8",
            "    5.000000 one | the same number",
        ],
    },
    Lab {
        name: "times_of_changes",
        description: r#"
            [node.one]
            command = ["sh", "-c", """
                touch a; sleep 2; echo x > b; sleep 3; test b -nt a && echo 'b is newer'; test a -nt b || echo 'a is not'
                stat -c '%y %n' a b .; touch -d '2001-02-03 UTC' a; stat -c %y a
                echo x > c; sleep 1; echo y >> c; sleep 1; mv c d; stat -c '%y %z' d; mkdir e; sleep 1; rmdir e; sleep 1
                stat -c %y .; printf 'b: d\\n\\techo made; cp d b\\nd:\\n' > Makefile; make -s; make -s
                stat -c %i b | cut -c1-4; sleep 1; truncate -s 1 d; cp -p b kept; sleep 1; stat -c '%y %n' d kept
            """]
        "#,
        code: 0,
        lines: &[
            "    5.000000 one | b is newer",
            "    5.000000 one | a is not",
            "    5.000000 one | 2026-01-01 00:00:00.000000000 +0000 a",
            "    5.000000 one | 2026-01-01 00:00:02.000000000 +0000 b",
            "    5.000000 one | 2026-01-01 00:00:02.000000000 +0000 .",
            "    5.000000 one | 2001-02-03 00:00:00.000000000 +0000",
            "    7.000000 one | 2026-01-01 00:00:06.000000000 +0000 2026-01-01 00:00:07.000000000 +0000",
            "    9.000000 one | 2026-01-01 00:00:08.000000000 +0000",
            "    9.000000 one | made",
            "    9.000000 one | 1099",
            "   11.000000 one | 2026-01-01 00:00:10.000000000 +0000 d",
            "   11.000000 one | 2026-01-01 00:00:09.000000000 +0000 kept",
        ],
    },
    Lab {
        name: "loops_that_wait_for_time",
        description: r#"
            [node.one]
            command = ["python3", "-c", """
import os, time
end = time.monotonic() + .05
while time.monotonic() < end: pass
print('spun')
while time.time() < 1767225600.1: os.sched_yield()
print('yielded')
while time.time() < 1767225600.11: os.stat('.')
print('acted')
"""]
            [node.two]
            command = ["python3", "-c", """
import os, time
ours, theirs = os.pipe()
began = time.monotonic()
if os.fork() == 0:
    os.write(theirs, b'x')
    while time.monotonic() < began + .01: pass
    os._exit(7)
os.read(ours, 1)
print('read early', time.monotonic() < began + .005)
print('ended', os.wait()[1] >> 8, time.monotonic() >= began + .01)
"""]
        "#,
        code: 0,
        lines: &["one | spun", "one | yielded", "one | acted", "two | read early True", "two | ended 7 True"],
    },
    Lab {
        name: "a_real_clock_goes_on",
        description: r#"
            clock = "real"
            [node.one]
            command = ["python3", "-c", """
import os, time
reads = []
for _ in range(2000):
    reads.append(time.monotonic_ns())
    os.stat('/')
print('goes on', all(one < other for one, other in zip(reads, reads[1:])))
"""]
        "#,
        code: 0,
        lines: &["one | goes on True"],
    },
    Lab {
        name: "locks_and_children",
        description: r#"
            [node.locks]
            command = ["sh", "-c", """
                flock lock sh -c 'sleep 2; echo first' & sleep 1; flock lock echo second
                flock lock sleep 3 & sleep .5; flock -n lock true || echo busy; flock -w 1 lock true || echo 'still busy'
            """]
            [node.makes]
            command = ["sh", "-c", """
                printf 'all: a b c\\na b c:\\n\\tsleep 1; echo $@\\n' > Makefile; make -s -j3
                python3 -c 'import os; print(os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", "sleep 1; exit 7"], {}), 0)[1] >> 8)'
            """]
        "#,
        code: 0,
        lines: &[
            "    2.000000 locks | first",
            "    2.000000 locks | second",
            "    2.500000 locks | busy",
            "    3.500000 locks | still busy",
            "    1.000001 makes | a",
            "    1.000001 makes | b",
            "    1.000001 makes | c",
            "makes | 7",
        ],
    },
    Lab {
        name: "timers_that_send_signals",
        description: r#"
            [node.one]
            command = ["sh", "-c", "timeout 2.5 sleep 10; echo $?"]
            [node.two]
            command = ["python3", "-c", """
import ctypes, signal, time
libc, hits, began = ctypes.CDLL(None), [], time.monotonic()
class Event(ctypes.Structure):
    _fields_ = [('value', ctypes.c_long), ('signal', ctypes.c_int), ('how', ctypes.c_int), ('rest', ctypes.c_char * 48)]
def span(interval, first):
    return (ctypes.c_long * 4)(*[int(part) for time in (interval, first) for part in (time, time % 1 * 1e9)])
def hit(*_): hits.append(round(time.monotonic() - began, 2))
signal.signal(signal.SIGRTMIN, hit)
timer = ctypes.c_void_p()
print('made', libc.timer_create(1, ctypes.byref(Event(7, signal.SIGRTMIN, 0)), ctypes.byref(timer)))
libc.timer_settime(timer, 0, span(1, .25), None)
while len(hits) < 3: signal.pause()
print(hits)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
time.sleep(1.5)
info, left = signal.sigwaitinfo([signal.SIGRTMIN]), span(0, 0)
libc.timer_gettime(timer, left)
print('of a timer', info.si_code, 'left', left[3] // 10000000)
print('gone', libc.timer_delete(timer), libc.timer_delete(timer))
"""]
        "#,
        code: 0,
        lines: &[
            "    2.500000 one | 124",
            "two | made 0",
            "two | [0.25, 1.25, 2.25]",
            "two | of a timer -2 left 50",
            "two | gone 0 -1",
        ],
    },
    Lab {
        name: "bulk_without_delay",
        description: r#"
            [node.to]
            command = ["python3", "-c", """
import socket
listener = socket.socket(); listener.bind(('', 7000)); listener.listen()
connection, total = listener.accept()[0], 0
while data := connection.recv(1 << 20): total += len(data)
print('got', total)
"""]
            [node.from]
            command = ["python3", "-c", """
import socket, time
time.sleep(1)
s = socket.create_connection(('10.0.0.1', 7000))
s.sendall(bytes(4 << 20))
s.close()
"""]
        "#,
        code: 0,
        lines: &["    1.000001 to   | got 4194304"],
    },
    Lab {
        name: "who_only_writes_is_told_of_a_reset",
        description: r#"
            [node.to]
            command = ["python3", "-c", """
import socket, time
listener = socket.socket(); listener.bind(('', 7000)); listener.listen()
connection = listener.accept()[0]; time.sleep(1); connection.close(); time.sleep(5)
"""]
            [node.from]
            command = ["python3", "-c", """
import socket, time
time.sleep(1)
s = socket.create_connection(('10.0.0.1', 7000))
try:
    while True: s.sendall(bytes(1 << 16))
except OSError as error: print(type(error).__name__)
"""]
            [[link]]
            between = ["to", "from"]
            delay = "10ms"
            rate = "100Mbit"
        "#,
        code: 0,
        lines: &["from | BrokenPipeError"],
    },
    Lab {
        name: "a_way_over_others_is_named",
        description: r#"
            [node.one]
            command = ["python3", "-c", """
import socket
try: socket.create_connection(('other', 7000))
except OSError as error: print(error.strerror)
"""]
            [node.between]
            command = ["true"]
            [node.other]
            command = ["true"]
            [[link]]
            between = ["one", "between"]
            [[link]]
            between = ["between", "other"]
        "#,
        code: 0,
        lines: &[
            "one     | * not there in a lab: a way to `other`, to which the node has no link (there are no routers)",
            "one     | Network is unreachable",
        ],
    },
    Lab {
        name: "nothing_comes",
        description: r#"
            [node.one]
            command = ["sh", "-c", "mkfifo pipe; exec 3<>pipe; read line <&3"]
        "#,
        code: 125,
        lines: &[],
    },
];
