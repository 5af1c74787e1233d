//! Labs: real programs as nodes, under one clock, and the same again to the bit.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{
    Mode, Outcome, RUN_TIME_MAX, Scratch, TestResult, Tool, User, have_program, in_workspace, run, run_suite,
    unless_missing,
};

/// Runs `retrovane lab` with these words.
fn call(tool: &Tool, home: &Path, words: &[&str]) -> Result<Outcome, String> {
    let args: Vec<_> = ["lab"].iter().chain(words).map(Into::into).collect();
    run(tool.command(User::Current, home, &args), RUN_TIME_MAX)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn failed(what: &str, outcome: &Outcome) -> String {
    let (stdout, stderr) = (text(&outcome.stdout), text(&outcome.stderr));
    format!("{what}\ncode {}\nstdout: {stdout}\nstderr: {stderr}", outcome.code)
}

/// A lab: its description, the code that it ends with, and lines that its output has.
struct Lab {
    name: &'static str,
    description: &'static str,
    code: i32,
    lines: &'static [&'static str],
}

const LABS: &[Lab] = &[
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
        name: "nothing_comes",
        description: r#"
            [node.one]
            command = ["sh", "-c", "mkfifo pipe; exec 3<>pipe; read line <&3"]
        "#,
        code: 125,
        lines: &[],
    },
];

fn run_lab(tool: &Tool, lab: &Lab) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new(&format!("lab-{}", lab.name))?;
    let file = scratch.join("lab.toml");
    fs::write(&file, lab.description).map_err(|error| error.to_string())?;
    let (file, dir) = (file.display().to_string(), scratch.join("run").display().to_string());
    let outcome = call(tool, scratch.path(), &["run", "-o", &dir, &file])?;
    let stdout = text(&outcome.stdout);
    if outcome.code != lab.code {
        return Err(failed(&format!("the lab should end with {}", lab.code), &outcome));
    }
    for line in lab.lines {
        if !stdout.lines().any(|said| said == *line) {
            return Err(failed(&format!("nobody said: {line}"), &outcome));
        }
    }
    Ok(())
}

/// An example runs, says these things, is the same again, and its recording replays.
fn run_example(tool: &Tool, name: &str, says: &[&str]) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new(&format!("lab-{name}"))?;
    let file = in_workspace(&format!("examples/lab/{name}.toml")).display().to_string();
    let dir = scratch.join("run").display().to_string();
    let outcome = call(tool, scratch.path(), &["run", "-o", &dir, &file])?;
    if outcome.code != 0 || !says.iter().all(|words| text(&outcome.stdout).contains(words)) {
        return Err(failed(&format!("it should say {says:?}"), &outcome));
    }
    let log = call(tool, scratch.path(), &["log", &dir])?;
    if log.stdout != outcome.stdout {
        return Err(failed("the log should say what the run said", &log));
    }
    let again = call(tool, scratch.path(), &["check", "--twice", &file])?;
    if again.code != 0 {
        return Err(failed("two runs should be the same", &again));
    }
    let trace = format!("{dir}/trace");
    let words = ["--quiet", "replay", &trace].map(Into::into);
    let replay = run(tool.command(User::Current, scratch.path(), &words), RUN_TIME_MAX)?;
    if replay.code != 0 {
        return Err(failed("the recording should replay", &replay));
    }
    Ok(())
}

/// Programs of node.js and Java, in a lab that is the same again.
fn node_and_java(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-node-and-java")?;
    let (js, java) = (in_workspace("tests/lab/server.js"), in_workspace("tests/lab/client.java"));
    let description = format!(
        r#"
        [node.server]
        command = ["node", "server.js"]
        files = {{ "server.js" = "{}" }}
        [node.client]
        command = ["java", "-XX:TieredStopAtLevel=1", "client.java"]
        files = {{ "client.java" = "{}" }}
        [[link]]
        between = ["server", "client"]
        delay = "5ms"
        "#,
        js.display(),
        java.display()
    );
    let file = scratch.join("lab.toml");
    fs::write(&file, description).map_err(|error| error.to_string())?;
    let (file, dir) = (file.display().to_string(), scratch.join("run").display().to_string());
    let outcome = call(tool, scratch.path(), &["run", "-o", &dir, &file])?;
    let says = [
        "client is fd00::2",
        "elsewhere is ENOTFOUND",
        "served /one",
        "served /two",
        "took 80 ms",
        "eth0 true 2",
        "client | * ended with 0",
    ];
    if outcome.code != 0 || !says.iter().all(|words| text(&outcome.stdout).contains(words)) {
        return Err(failed(&format!("it should say {says:?}"), &outcome));
    }
    let again = call(tool, scratch.path(), &["check", "--twice", &file])?;
    if again.code != 0 { Err(failed("two runs should be the same", &again)) } else { Ok(()) }
}

/// A lab that is asked to end by a signal leaves nothing, ends with that, and its recording replays.
fn ended_by_signals(tool: &Tool) -> TestResult {
    const SIGKILL: i32 = 9;
    if tool.mode == Mode::Native {
        return Ok(());
    }
    for (clock, signal) in [("virtual", 2), ("real", 15), ("real", SIGKILL)] {
        let scratch = Scratch::new(&format!("lab-ended-{signal}"))?;
        let file = scratch.join("lab.toml");
        let loops = r#"while :; do echo up; sleep 1; done"#;
        let description = format!(
            "clock = \"{clock}\"\n[node.one]\ncommand = [\"sh\", \"-c\", \"{loops}\"]\n[node.two]\n\
             command = [\"sleep\", \"100000000\"]\n"
        );
        fs::write(&file, description).map_err(|error| error.to_string())?;
        let dir = scratch.join("run").display().to_string();
        let words = ["lab", "run", "-o", &dir, &file.display().to_string()].map(Into::into);
        let mut command = tool.command(User::Current, scratch.path(), &words);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let mut said = String::new();
        let stdout = child.stdout.take().ok_or("no output")?;
        let mut stdout = BufReader::new(stdout);
        stdout.read_line(&mut said).map_err(|error| error.to_string())?;
        // The process there is ours, and not waited for yet.
        let sent = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status();
        sent.map_err(|error| error.to_string())?;
        let status = child.wait().map_err(|error| error.to_string())?;
        if signal != SIGKILL && status.code() != Some(128 + signal) {
            return Err(format!("signal {signal}: it ended with {status}, after `{said}`"));
        }
        // Its pipe ends when nobody is left who could write to it.
        std::io::copy(&mut stdout, &mut std::io::sink()).map_err(|error| error.to_string())?;
        let words = ["--quiet", "replay", &format!("{dir}/trace")].map(Into::into);
        let replay = run(tool.command(User::Current, scratch.path(), &words), RUN_TIME_MAX)?;
        let is_good = if signal == SIGKILL { replay.code == 119 } else { replay.code == 137 };
        if !is_good {
            return Err(failed(&format!("signal {signal}: the recording should replay"), &replay));
        }
    }
    Ok(())
}

/// What is wrong with a description is said with its line.
fn bad_descriptions(tool: &Tool) -> TestResult {
    const BAD: [(&str, &str); 5] = [
        ("[node.a]\ncommand = [\"true\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n", ":3: there is no node `b`"),
        ("[node.a]\ncommand = []\n", ":1: the node `a` has an empty command"),
        ("[node.a]\ncommand = [\"true\"]\ncolour = 1\n", ":3: unknown field `colour`"),
        (
            "[node.a]\ncommand = [\"true\"]\n[[event]]\nat = \"soon\"\ndo = \"heal\"\n",
            ":3: `soon` is no time: write it like `10ms`",
        ),
        ("clock = \"sun\"\n[node.a]\ncommand = [\"true\"]\n", ":1: unknown variant `sun`"),
    ];
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-bad")?;
    let file = scratch.join("lab.toml");
    for (description, message) in BAD {
        fs::write(&file, description).map_err(|error| error.to_string())?;
        let outcome = call(tool, scratch.path(), &["run", &file.display().to_string()])?;
        if outcome.code != 2 || !text(&outcome.stderr).contains(message) {
            return Err(failed(&format!("it should say `{message}`"), &outcome));
        }
    }
    Ok(())
}

fn trial(name: &str, tool: &Arc<Tool>, test: impl FnOnce(&Tool) -> TestResult + Send + 'static) -> Trial {
    let tool = Arc::clone(tool);
    Trial::test(format!("lab::{name}"), move || test(&tool).map_err(Failed::from))
}

/// A program that the example needs, and that is not there.
fn missing(needs: &[&str]) -> Option<String> {
    needs.iter().find(|name| !have_program(name)).map(|name| format!("without {name}"))
}

fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let mut trials: Vec<Trial> =
        LABS.iter().map(|lab| trial(lab.name, tool, move |tool| run_lab(tool, lab))).collect();
    trials.push(trial("bad_descriptions", tool, bad_descriptions));
    trials.push(trial("ended_by_signals", tool, ended_by_signals));
    let website = trial("website", tool, |tool| {
        run_example(tool, "website", &["server | ! 10.0.0.2", "client | * ended with 0"])
    });
    trials.push(unless_missing(website, missing(&["python3", "curl"])));
    let languages = trial("node_and_java", tool, node_and_java);
    trials.push(unless_missing(languages, missing(&["node", "java"])));
    let etcd = trial("etcd", tool, |tool| {
        run_example(tool, "etcd", &["client | said OK", "client | read: 2", "client | * ended with 0"])
    });
    trials.push(unless_missing(etcd, missing(&["etcd", "etcdctl"])));
    let redis = trial("redis_stale_read", tool, |tool| {
        let says = ["replica: old", "stale: the replica still says old", "replica: new"];
        run_example(tool, "redis-stale-read", &says)
    });
    trials.push(unless_missing(redis, missing(&["redis-server", "redis-cli"])));
    trials
}

fn main() -> ExitCode {
    run_suite(|tool| Ok(trials(tool)))
}
