//! `retrovane debug`: live programs under gdb, with their past.

#[path = "attached.rs"]
mod attached;
#[path = "clients.rs"]
mod clients;
#[path = "edits.rs"]
mod edits;
#[path = "pasts.rs"]
mod pasts;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use suites::{RUN_TIME_MAX, Scratch, TestResult, Tool, User, run};

use super::{built, compare};

/// A session in gdb on a live program.
pub struct Debugging {
    pub name: &'static str,
    pub source: &'static str,
    pub flags: &'static [&'static str],
    pub commands: &'static [&'static str],
    /// What gdb and the program say, in this order.
    pub expected: &'static [&'static str],
    pub unexpected: &'static [&'static str],
}

pub const THREADS: &[&str] = &["-O0", "-pthread"];

const SESSIONS: &[Debugging] = &[
    Debugging {
        name: "live_stops_past_and_present",
        source: "live_rounds",
        flags: THREADS,
        commands: &[
            "break tell",
            "continue",
            "continue",
            "backtrace",
            "info threads",
            "print sums",
            "when",
            "reverse-continue",
            "print round",
            "print sums",
            "reverse-finish",
            "next",
            "live",
            "print round",
            "delete",
            "continue",
            "continue",
        ],
        expected: &[
            "tell (round=1)",
            "round 1: 1 2 3",
            "tell (round=2)",
            "work (argument=0x0)",
            ".3 \"",
            "$1 = {3, 6, 9}",
            "tell (round=1)",
            "$2 = 1",
            "$3 = {1, 2, 3}",
            "$4 = 2",
            "round 2: 3 6 9",
            "round 6: 21 42 63",
            "sum 126",
            "about to exit with 7",
            "exited with code 07",
        ],
        unexpected: &["[The recording"],
    },
    Debugging {
        name: "live_crash_and_its_cause",
        source: "use_after_free",
        flags: &["-O0"],
        commands: &[
            "continue",
            "backtrace",
            "print list->next->next",
            "last-write list->next->next",
            "backtrace 2",
            "live",
            "backtrace 1",
            "continue",
        ],
        expected: &[
            "total 10",
            "SIGSEGV",
            "total ()",
            "0x4141414141414141",
            "reuse ()",
            "main ()",
            "total ()",
            "terminated with signal SIGSEGV",
        ],
        unexpected: &["retrovane:"],
    },
    Debugging {
        // Watched places have descriptors, which are none of the program's.
        name: "live_rollback_from_a_watched_place",
        source: "live_rounds",
        flags: THREADS,
        commands: &[
            "break tell if round == 2",
            "continue",
            "awatch last_round",
            "continue",
            "checkpoint",
            "delete",
            "break tell if round == 5",
            "continue",
            "rollback 0",
        ],
        expected: &["tell (round=2)", "checkpoint 0", "tell (round=5)", "descriptor 1: the "],
        unexpected: &["retrovane:", "was closed since"],
    },
    Debugging {
        name: "live_rollback_in_place",
        source: "live_rounds",
        flags: THREADS,
        commands: &[
            "break tell if round == 2",
            "continue",
            "checkpoint",
            "info checkpoints",
            "delete",
            "break tell if round == 5",
            "continue",
            "print sums",
            "rollback 0",
            "print sums",
            "print last_round",
            "backtrace 1",
            "stepi",
            "reverse-continue",
            "live",
            "delete",
            "break tell if round == 3",
            "continue",
            "print sums",
            "rollback 0",
            "discard 0",
            "info checkpoints",
            "delete",
            "continue",
            "continue",
        ],
        expected: &[
            "round 1: 1 2 3",
            "tell (round=2)",
            "checkpoint 0",
            "command",
            "round 2: 3 6 9",
            "round 4: 10 20 30",
            "tell (round=5)",
            "$1 = {15, 30, 45}",
            "[The rollback did not restore: descriptor 1: the ",
            "$2 = {3, 6, 9}",
            "$3 = 1",
            "tell (round=2)",
            "round 2: 3 6 9",
            "tell (round=3)",
            "$4 = {6, 12, 18}",
            "discarded checkpoint 0",
            "round 2: 3 6 9",
            "round 6: 21 42 63",
            "exited with code 07",
        ],
        unexpected: &["retrovane:"],
    },
    Debugging {
        name: "live_watchpoints_and_steps",
        source: "live_rounds",
        flags: THREADS,
        commands: &[
            "break main",
            "continue",
            "watch last_round",
            "continue",
            "continue",
            "continue",
            "print last_round",
            "reverse-continue",
            "reverse-continue",
            "print last_round",
            "continue",
            "continue",
            "continue",
            "print last_round",
            "next",
            "stepi",
            "reverse-stepi",
            "next",
            "print last_round",
            "delete",
            "continue",
            "continue",
        ],
        expected: &[
            "main ()",
            "New value = 1",
            "New value = 2",
            "New value = 3",
            "$1 = 3",
            "New value = 2",
            "New value = 1",
            "$2 = 1",
            "New value = 2",
            "New value = 3",
            "round 3: 6 12 18",
            "New value = 4",
            "$3 = 4",
            "$4 = 4",
            "round 6: 21 42 63",
            "exited with code 07",
        ],
        unexpected: &["retrovane:"],
    },
    Debugging {
        name: "live_calls_run_in_a_copy",
        source: "functions",
        flags: &["-O0"],
        commands: &["break main", "continue", "next", "print next()", "print counter", "delete", "kill"],
        expected: &["main ()", "$1 = ", "$2 = ", "killed"],
        unexpected: &["retrovane:"],
    },
];

/// Runs a session, in gdb.
fn check(tool: &Tool, session: &Debugging) -> TestResult {
    let scratch = Scratch::new(session.name)?;
    let program = built(&scratch, session.source, session.flags)?;
    let mut args: Vec<OsString> = vec!["debug".into(), "--batch".into()];
    for command in session.commands {
        args.extend(["-ex".into(), command.into()]);
    }
    args.extend(["--".into(), program.into()]);
    let home = scratch.fresh_directory("home")?;
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(&tool.binary).args(args);
    suites::plain_environment(&mut command, &home);
    let outcome = run(command, RUN_TIME_MAX)?;
    compare(&outcome.stdout_text(), session.expected, session.unexpected)
}

/// A client that speaks gdb's protocol.
struct Client {
    stream: UnixStream,
}

impl Client {
    fn send(&mut self, packet: &str) -> TestResult {
        let sum = packet.bytes().fold(0u8, u8::wrapping_add);
        let framed = format!("${packet}#{sum:02x}");
        self.stream.write_all(framed.as_bytes()).map_err(|error| error.to_string())
    }

    /// The next packet that is not text for the user.
    fn answer(&mut self) -> Result<String, String> {
        loop {
            let mut packet = Vec::new();
            let mut byte = [0];
            let mut read = || match self.stream.read(&mut byte) {
                Ok(1) => Ok(byte[0]),
                other => Err(format!("the server is gone: {other:?}")),
            };
            while read()? != b'$' {}
            loop {
                match read()? {
                    b'#' => break,
                    other => packet.push(other),
                }
            }
            read()?;
            read()?;
            // A server that was told to end may be gone by now.
            let _ = self.stream.write_all(b"+");
            if packet.first() != Some(&b'O') || packet == b"OK" {
                return Ok(String::from_utf8_lossy(&packet).into_owned());
            }
        }
    }

    fn ask(&mut self, packet: &str) -> Result<String, String> {
        self.send(packet)?;
        self.answer()
    }

    fn expect(&mut self, packet: &str, start: &str) -> TestResult {
        let answer = self.ask(packet)?;
        if answer.starts_with(start) { Ok(()) } else { Err(format!("{packet}: {answer}, not {start}")) }
    }

    fn interrupt(&mut self) -> TestResult {
        self.stream.write_all(b"\x03").map_err(|error| error.to_string())?;
        let answer = self.answer()?;
        if answer.starts_with("T02") { Ok(()) } else { Err(format!("interrupted: {answer}")) }
    }
}

/// A program under `debug --server`, and a client of it. It is killed in the end.
struct Served {
    child: Child,
    client: Client,
    output: BufReader<std::process::ChildStdout>,
}

impl Served {
    fn start(tool: &Tool, scratch: &Scratch) -> Result<Served, String> {
        let program = built(scratch, "live_echo", &["-O0"])?;
        let socket = scratch.join("socket");
        let args: [OsString; 6] = [
            "debug".into(),
            "-q".into(),
            "--server".into(),
            socket.clone().into(),
            "--".into(),
            program.into(),
        ];
        let mut command = tool.command(User::Current, &scratch.fresh_directory("home")?, &args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let deadline = Instant::now() + RUN_TIME_MAX;
        while !socket.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let stream = UnixStream::connect(&socket).map_err(|error| format!("cannot connect: {error}"))?;
        stream.set_read_timeout(Some(RUN_TIME_MAX)).map_err(|error| error.to_string())?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Served { child, client: Client { stream }, output })
    }

    fn line(&mut self, wanted: &str) -> TestResult {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        if line.trim_end() == wanted { Ok(()) } else { Err(format!("it wrote {line:?}, not {wanted:?}")) }
    }

    fn write(&mut self, text: &str) -> TestResult {
        let input = self.child.stdin.as_mut().ok_or("no input")?;
        input.write_all(text.as_bytes()).map_err(|error| error.to_string())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program is interrupted in a call that sleeps, looked back from there, and goes on with
/// its pipes as they were; then it is interrupted where it computes.
fn check_interrupts(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("live_interrupts")?;
    let mut served = Served::start(tool, &scratch)?;
    served.client.expect("?", "T05")?;
    served.client.send("vCont;c")?;
    served.line("ready")?;
    served.client.interrupt()?;
    // Back to the beginning, and forward to the present.
    served.client.expect("bc", "T05thread:1;replaylog:begin")?;
    served.client.expect("vCont;c", "T05thread:1;replaylog:end")?;
    served.client.send("vCont;c")?;
    served.write("hello\n")?;
    served.line("line 1 begins with h")?;
    served.write("spin\n")?;
    served.line("line 2 begins with s")?;
    served.client.interrupt()?;
    served.client.send("vCont;c")?;
    served.client.interrupt()?;
    served.client.expect("vKill;1", "OK")?;
    let status = served.child.wait().map_err(|error| error.to_string())?;
    if status.success() { Err("it was not killed".to_owned()) } else { Ok(()) }
}

/// A client that detaches leaves the program running.
fn check_detach(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("live_detach")?;
    let mut served = Served::start(tool, &scratch)?;
    served.client.expect("?", "T05")?;
    served.client.expect("vCont;s:1", "T05")?;
    served.client.expect("D;1", "OK")?;
    served.line("ready")?;
    served.write("hello\n")?;
    served.line("line 1 begins with h")?;
    drop(served.child.stdin.take());
    let status = served.child.wait().map_err(|error| error.to_string())?;
    if status.code() == Some(1) { Ok(()) } else { Err(format!("it ended with {status}")) }
}

/// All of them.
pub fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for session in SESSIONS.iter().chain(pasts::SESSIONS).chain(edits::SESSIONS).chain(super::signals::LIVE) {
        let own = Arc::clone(tool);
        trials.push(Trial::test(session.name, move || check(&own, session).map_err(Failed::from)));
    }
    let trial = |name, check: fn(&Tool) -> TestResult| {
        let own = Arc::clone(tool);
        Trial::test(name, move || check(&own).map_err(Failed::from))
    };
    trials.push(trial("live_interrupts", check_interrupts));
    trials.push(trial("live_detach", check_detach));
    trials.push(trial("live_attached", attached::check_attached));
    trials.push(trial("live_outputs_in_a_file", pasts::check_outputs_in_a_file));
    trials.push(trial("live_children", pasts::check_children));
    trials.push(trial("live_long_home", pasts::check_long_home));
    trials.extend(clients::trials(tool));
    trials.extend(edits::trials(tool));
    trials
}
