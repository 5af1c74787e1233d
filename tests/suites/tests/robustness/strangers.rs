//! Packs of strangers: what code that leaves the runtime's hands can reach from their replay.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use suites::{Outcome, RUN_TIME_MAX, TestResult, Tool, User, in_workspace, run};

use crate::bench::{Bench, check, path, says};

/// What the program tries.
const ATTEMPTS: [&str; 12] = [
    "create",
    "read",
    "connect",
    "internet",
    "kill",
    "trace",
    "memory",
    "keys",
    "ring",
    "segment",
    "namespace",
    "exec",
];
/// Of these some machines have none, also outside of a sandbox.
const MAY_BE_MISSING: [&str; 3] = ["ring", "namespace", "keys"];

/// What is there to be reached.
struct Outside {
    directory: PathBuf,
    other: Child,
    listener: UnixListener,
}

impl Outside {
    fn new(bench: &Bench<'_>) -> Result<Outside, String> {
        let directory = bench.scratch.fresh_directory("outside")?;
        fs::write(directory.join("secret"), "secret").map_err(|error| error.to_string())?;
        let listener = UnixListener::bind(directory.join("socket")).map_err(|error| error.to_string())?;
        listener.set_nonblocking(true).map_err(|error| error.to_string())?;
        // It ends with the end of its input, at the latest when this test does.
        let other = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Ok(Outside { directory, other: other.map_err(|error| error.to_string())?, listener })
    }

    /// What was reached since the last time.
    fn reached(&self) -> Result<Vec<&'static str>, String> {
        let mut reached = Vec::new();
        for (name, what) in [("made", "a file was made"), ("executed", "a program was executed")] {
            if fs::remove_file(self.directory.join(name)).is_ok() {
                reached.push(what);
            }
        }
        if self.listener.accept().is_ok() {
            reached.push("a socket was connected to");
        }
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.other.id()));
        let stat = stat.map_err(|error| error.to_string())?;
        if stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['T', 't'])) {
            reached.push("a process was stopped");
            let continued = Command::new("kill").args(["-CONT", &self.other.id().to_string()]).status();
            check_status_of(continued)?;
        }
        Ok(reached)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.other.kill();
        let _ = self.other.wait();
    }
}

fn check_status_of(status: std::io::Result<std::process::ExitStatus>) -> TestResult {
    match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("a command of the test failed: {other:?}")),
    }
}

/// Whether the kernel has all that the sandbox is made of.
pub fn has_sandbox(tool: &Tool) -> bool {
    let said = Command::new(&tool.binary).arg("doctor").output();
    said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("works (seccomp, Landlock)"))
}

/// Where no sandbox is, all of it is reached: then it is the sandbox that keeps it away.
pub fn reaches_nothing(tool: &Tool) -> TestResult {
    let mut bench = Bench::new(tool, "strangers")?;
    let source = in_workspace("tests/strangers/attempts.c");
    let program = bench.compiled("attempts", &source, &["-O1", "-mno-red-zone"])?;
    let outside = Outside::new(&bench)?;
    let other = outside.other.id().to_string();
    let all =
        ["a file was made", "a program was executed", "a socket was connected to", "a process was stopped"];
    let record = ["record", "-o", path(&bench.trace), "--", path(&program), path(&outside.directory), &other];
    let recorded = bench.call(&record)?;
    attempted(&recorded, "done", &MAY_BE_MISSING)?;
    check(outside.reached()? == all, "the attempts work where nothing is confined", &recorded)?;

    let packed = bench.call(&["pack", "-q", path(&bench.trace)])?;
    check(packed.code == 0, "it is packed", &packed)?;
    let pack = bench.run.join("trace.rvpack");
    bench.trace = bench.scratch.join("home").join("traces").join("trace");
    for replay in [&["replay", "-q", path(&pack)][..], &["replay", "-q", path(&bench.trace)]] {
        let replayed = bench.call(replay)?;
        attempted(&replayed, "refused", &[])?;
        let reached = outside.reached()?;
        check(
            reached.is_empty(),
            &format!("the replay of a pack reached something: {reached:?}"),
            &replayed,
        )?;
    }
    let trusted = bench.call(&["replay", "-q", "--sandbox", "never", path(&bench.trace)])?;
    attempted(&trusted, "done", &MAY_BE_MISSING)?;
    let reached = outside.reached()?;
    let again = ["a file was made", "a socket was connected to", "a process was stopped"];
    check(
        again.iter().all(|what| reached.contains(what)),
        "without a sandbox they are reached again",
        &trusted,
    )?;
    in_gdb(&bench, &outside)
}

/// Where the kernel has no Landlock a stranger's code does not run at all, whichever command would replay it, and
/// `doctor` says so.
pub fn refused_without_landlock(tool: &Tool) -> TestResult {
    let mut bench = Bench::new(tool, "without-landlock")?;
    let source = in_workspace("tests/strangers/attempts.c");
    let program = bench.compiled("attempts", &source, &["-O1", "-g", "-mno-red-zone"])?;
    let without = bench.compiled("without", &in_workspace("tests/strangers/without_landlock.c"), &[])?;
    let outside = Outside::new(&bench)?;
    let other = outside.other.id().to_string();
    let record = ["record", "-o", path(&bench.trace), "--", path(&program), path(&outside.directory), &other];
    attempted(&bench.call(&record)?, "done", &MAY_BE_MISSING)?;
    outside.reached()?;
    let packed = bench.call(&["pack", "-q", path(&bench.trace)])?;
    check(packed.code == 0, "it is packed", &packed)?;
    bench.trace = bench.run.join("trace.rvpack");
    let call = |words: &[&str]| {
        let usual = bench.tool_command(User::Current, words);
        let mut command = Command::new(&without);
        command.arg(usual.get_program()).args(usual.get_args()).current_dir(&bench.run);
        suites::plain_environment(&mut command, &bench.scratch.join("home"));
        run(command, RUN_TIME_MAX)
    };
    let doctor = call(&["doctor"])?;
    let says_so = doctor.stdout_text().contains("replayed with `--sandbox never` only");
    check(says_so && doctor.stdout_text().contains("Landlock"), "doctor says so", &doctor)?;
    let trace = path(&bench.trace);
    for words in [
        &["replay", trace][..],
        &["replay", "--batch", "--ex", "continue", trace],
        &["bt", trace],
        &["query", "backtrace", trace],
        &["calls", trace, "main"],
        &["keyframe", trace],
    ] {
        let outcome = call(words)?;
        check(outcome.code != 0, &format!("{words:?} is refused"), &outcome)?;
        let text = format!("{}{}", outcome.stdout_text(), outcome.stderr_text());
        check(text.contains("Landlock"), &format!("{words:?} says why"), &outcome)?;
        let reached = outside.reached()?;
        check(reached.is_empty(), &format!("{words:?} reached something: {reached:?}"), &outcome)?;
    }
    // What replays nothing works.
    let told = call(&["info", trace])?;
    check(told.code == 0, "a pack can be looked at", &told)
}

/// gdb works on it, on a process that is confined.
fn in_gdb(bench: &Bench<'_>, outside: &Outside) -> TestResult {
    let gdb = [
        "replay",
        "-q",
        "--batch",
        "--ex",
        "break execute",
        "--ex",
        "continue",
        "--ex",
        "continue",
        "--ex",
        "reverse-continue",
        "--ex",
        "print 6 * 7",
        path(&bench.trace),
    ];
    let debugged = bench.call(&gdb)?;
    check(debugged.stdout_text().contains("$1 = 42"), "gdb goes back and on in a sandbox", &debugged)?;
    attempted(&debugged, "refused", &[])?;
    let reached = outside.reached()?;
    check(reached.is_empty(), &format!("a pack under gdb reached something: {reached:?}"), &debugged)
}

fn attempted(outcome: &Outcome, how: &str, but: &[&str]) -> TestResult {
    for attempt in ATTEMPTS.iter().filter(|attempt| !but.contains(attempt)) {
        let line = format!("{attempt} {how}\n");
        check(outcome.stdout_text().contains(&line), &format!("it is not so: {line}"), outcome)?;
    }
    Ok(())
}

/// A word that is none of the three is refused, and the sandbox of others is asked for by one.
pub fn sandbox_by_option(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "sandbox-option")?;
    let recorded = bench.record("echo out; echo errors >&2; (echo child); exit 9")?;
    let replayed = bench.call(&["replay", "--sandbox", "always", path(&bench.trace)])?;
    suites::compare("recorded", &recorded, "replayed", &replayed)?;
    let wrong = bench.call(&["replay", "--sandbox", "perhaps", path(&bench.trace)])?;
    check(wrong.code == 2, "a usage error", &wrong)?;
    says(&wrong, &["auto, always or never"])
}
