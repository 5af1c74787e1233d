//! Every way of interception and checking gives the same recording; doctor tells them.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use suites::{
    Live, RUN_TIME_MAX, TestResult, Tool, User, compare, in_workspace, plain_environment, run,
    tests_run_as_root,
};

use crate::bench::{Bench, ORDINARY, check, no_panic, path, says};

pub fn doctor(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "doctor")?;
    let outcome = bench.call(&["doctor"])?;
    check(outcome.code == 0 && !outcome.stdout.is_empty(), "doctor speaks", &outcome)
}

pub fn seccomp_fallback(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "seccomp")?;
    let args = ["record", "--seccomp", "-o", path(&bench.trace), "--", "bash", "-c", ORDINARY];
    let recorded = bench.call(&args)?;
    check(recorded.code == 5, "the program's code", &recorded)?;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

pub fn without_rewriting(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "no-rewrite")?;
    let args = ["record", "--no-rewrite", "-o", path(&bench.trace), "--", "bash", "-c", ORDINARY];
    let recorded = bench.call(&args)?;
    check(recorded.code == 5, "the program's code", &recorded)?;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

pub fn with_memory_checks(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "memory-checks")?;
    let args = ["record", "--check", "10", "-o", path(&bench.trace), "--", "bash", "-c", ORDINARY];
    let recorded = bench.call(&args)?;
    check(recorded.code == 5, "the program's code", &recorded)?;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

/// Where no descriptor is free, memory cannot be looked at, and is not compared.
pub fn with_memory_checks_that_cannot_be_made(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "no-memory-checks")?;
    let script = "import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
print(sum(os.getppid() > 0 for _ in range(300)))";
    let args = ["record", "--check", "1", "-o", path(&bench.trace), "--", "python3", "-c", script];
    let recorded = bench.call(&args)?;
    check(recorded.stdout_text() == "300\n", "the program's output", &recorded)?;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

/// A program that has no room for the runtime runs without it.
pub fn limit_leaves_no_room(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "no-room")?;
    let recorded = bench.record("ulimit -d 6000; /bin/true; echo $?")?;
    check(recorded.stdout_text() == "0\n", "the program should have run as without a recorder", &recorded)?;
    says(&recorded, &["ulimit -d", "14 mb"])?;
    let replayed = bench.replay()?;
    check(replayed.stdout == recorded.stdout, "the shell saw how it ended", &replayed)
}

/// Where a limit leaves no room for the recorder, the program runs all the same.
pub fn narrow_limits(tool: &Tool) -> TestResult {
    let limits = ["-u 4", "-s 32", "-f 1", "-n 8", "-n 12", "-v 100000"];
    limits.iter().try_for_each(|limit| {
        let bench = Bench::new(tool, "narrow-limits")?;
        let script = format!("ulimit {limit}; exec \"$@\"");
        let user = if tests_run_as_root() { User::Nobody } else { User::Current };
        let mut command = user.command("bash".as_ref());
        command.args(["-c", &script, "bash"]).arg(&tool.binary);
        command.args(["record", "-o", path(&bench.trace), "--", "sh", "-c", "echo ran; exit 3"]);
        plain_environment(&mut command, &bench.scratch.join("home"));
        command.current_dir(&bench.run);
        let recorded = run(command, RUN_TIME_MAX)?;
        no_panic(&recorded)?;
        let what = format!("the program should have run under ulimit {limit}");
        check(recorded.code == 3 && recorded.stdout_text() == "ran\n", &what, &recorded)?;
        if !bench.trace.join("trace.json").exists() {
            return says(&recorded, &["runs unrecorded"]);
        }
        compare("recorded", &recorded, "replayed", &bench.replay()?)
    })
}

/// The trace of a program that reads much stays as small as was said; the program ends by itself.
pub fn largest_size(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "largest-size")?;
    let script = "head -c 40000000 /dev/urandom | wc -c; exit 4";
    let args = ["record", "--max-size", "3M", "-o", path(&bench.trace), "--", "bash", "-c", script];
    let recorded = bench.call(&args)?;
    check(recorded.code == 4 && recorded.stdout_text() == "40000000\n", "the program's own end", &recorded)?;
    says(&recorded, &["--max-size", "can be replayed"])?;
    let bytes = std::fs::metadata(bench.trace.join("events.rvt")).map_or(0, |about| about.len());
    check((3 << 20..6 << 20).contains(&bytes), &format!("the log has {bytes} bytes"), &recorded)?;
    let replayed = bench.replay()?;
    no_panic(&replayed)?;
    says(&replayed, &["--max-size"])
}

/// A server whose connections last for one request each.
const SERVER: &str = "exec python3 -c '
import os, socket
listener = socket.socket(socket.AF_UNIX)
listener.bind(\"socket\")
listener.listen()
print(\"ready\", os.getpid(), flush=True)
while True:
    connection, _ = listener.accept()
    text = connection.recv(100).decode()
    connection.close()
    print(\"served\", text, flush=True)
'";

/// What a connection had sent that was closed since is lost with a rollback, which says so before and
/// after, and is refused where nothing may be lost.
pub fn strict_rollback(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "strict-rollback")?;
    let mut live = Live::start(bench.tool_command(User::Current, &["live", "--", "bash", "-c", SERVER]))?;
    let pid = live.wait_for_line("ready ")?;
    let mut request = |text: &str| -> TestResult {
        let sent = UnixStream::connect(bench.run.join("socket"))
            .and_then(|mut connection| connection.write_all(text.as_bytes()));
        sent.map_err(|error| format!("nobody serves: {error}"))?;
        live.wait_for_line(&format!("served {text}")).map(drop)
    };
    let taken = bench.call(&["ctl", &pid, "checkpoint"])?;
    let number = taken.stdout_text().trim().strip_prefix("checkpoint ").unwrap_or_default().to_owned();
    check(!number.is_empty(), "a checkpoint should have been taken", &taken)?;
    let strict = ["ctl", &pid, "rollback", &number, "--strict"];
    request("set a 1")?;
    let lost = ["the 7 bytes that it had sent are lost", "set a 1"];
    let refused = bench.call(&strict)?;
    check(refused.code != 0, "nothing may be lost", &refused)?;
    says(&refused, &lost)?;
    let told = bench.call(&["ctl", &pid, "rollback", &number, "--dry-run"])?;
    check(lost.iter().all(|text| told.stdout_text().contains(text)), "it is said before", &told)?;
    request("set b 2")?;
    let done = bench.call(&["ctl", &pid, "rollback", &number])?;
    check(done.code == 0, "the rollback is made", &done)?;
    check(lost.iter().all(|text| done.stdout_text().contains(text)), "it is said afterwards", &done)?;
    let again = bench.call(&strict)?;
    check(again.code == 0, "now nothing would be lost", &again)?;
    request("set c 3")?;
    Live::kill(&pid)?;
    live.end().map(drop)
}

/// Somebody makes links to the program all the time: its file is a changed one at each look.
pub fn linked_meanwhile(tool: &Tool) -> TestResult {
    const PROGRAM: &str = r#"
        #include <stdio.h>
        #include <x86intrin.h>
        int main(void) {
            for (int i = 0; i < 5; i++)
                printf("%llu\n", (unsigned long long)__rdtsc());
        }"#;
    let bench = Bench::new(tool, "linked-meanwhile")?;
    let source = bench.run.join("time.c");
    std::fs::write(&source, PROGRAM).map_err(|error| error.to_string())?;
    let binary = bench.compiled("time", &source, &[])?;
    let is_over = AtomicBool::new(false);
    let link = bench.run.join("link");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = std::fs::hard_link(&binary, &link);
                let _ = std::fs::remove_file(&link);
            }
        });
        let compared = (0..5).try_for_each(|round| {
            let trace = bench.scratch.join(format!("trace-{round}"));
            let recorded = bench.call(&["record", "-o", path(&trace), "--", path(&binary)])?;
            check(recorded.stdout_text().lines().count() == 5, "the program's output", &recorded)?;
            compare("recorded", &recorded, "replayed", &bench.call(&["replay", path(&trace)])?)
        });
        is_over.store(true, Ordering::Relaxed);
        compared
    })
}

/// Whose HOME cannot be written, or who has none, has a place of his own.
pub fn without_home(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "without-home")?;
    let run_with = |home: Option<&str>, args: &[&str]| {
        let mut command = bench.tool_command(User::Current, args);
        command.env_remove("RETROVANE_HOME").env_remove("HOME").envs(home.map(|home| ("HOME", home)));
        run(command, RUN_TIME_MAX)
    };
    let trace = path(&bench.trace);
    let recorded =
        run_with(Some("/etc/passwd"), &["record", "-q", "-o", trace, "--", "bash", "-c", ORDINARY])?;
    check(recorded.code == 5, "the program's code", &recorded)?;
    compare("recorded", &recorded, "replayed", &run_with(None, &["replay", "-q", "--run", trace])?)?;
    let other = bench.scratch.join("other");
    let told = run_with(None, &["record", "-o", path(&other), "--", "true"])?;
    check(told.code == 0, "the program's code", &told)?;
    says(&told, &["/var/tmp/retrovane-", "retrovane_home"])
}

/// What cannot be said does not end the work: a recording, its replay, and an error.
pub fn nobody_listens(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "nobody-listens")?;
    let code_of = |args: &[&str]| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let full = full.map_err(|error| format!("/dev/full: {error}"))?;
        let mut command = bench.tool_command(User::Current, args);
        let output = command.stderr(full).output().map_err(|error| error.to_string())?;
        output.status.code().ok_or_else(|| "the tool was killed".to_owned())
    };
    let trace = path(&bench.trace);
    let said = [
        (code_of(&["record", "--chaos", "-o", trace, "--", "sh", "-c", "exit 5"])?, 5),
        (code_of(&["replay", "--run", trace])?, 5),
        (code_of(&["replay", "--run", "/nowhere/at/all"])?, 121),
    ];
    match said.iter().find(|(code, wanted)| code != wanted) {
        None => Ok(()),
        Some((code, wanted)) => Err(format!("exit code {code}, expected {wanted}")),
    }
}

/// What a traced process writes is not recorded, and whoever replays its tracer is told so.
pub fn traced_is_told(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "traced-is-told")?;
    let debugger = ["gdb", "-q", "-nx", "--batch", "-ex", "run", "--args", "/bin/echo", "from the traced"];
    let recorded = bench.call(&[&["record", "-o", path(&bench.trace), "--"][..], &debugger].concat())?;
    check(recorded.code == 0, "the debugger's code", &recorded)?;
    let replayed = bench.replay()?;
    check(replayed.code == 0, "the debugger's code", &replayed)?;
    says(&replayed, &["traced", "is missing"])
}

/// What the runtime says of itself, where that is asked for: of a recording and of its replay the same.
pub fn runtime_says_what_it_does(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "runtime-log")?;
    let said = |args: &[&str], name: &str| {
        let file = bench.run.join(name);
        let mut command = bench.tool_command(User::Current, args);
        command.env("RETROVANE_RUNTIME_LOG", "signals,process").env("RETROVANE_RUNTIME_LOG_FILE", &file);
        let outcome = run(command, RUN_TIME_MAX)?;
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{name}: {error}"))?;
        // Without its own number, which counts what only one of the two does, too.
        let delivered = text.lines().filter(|line| line.contains("signal delivered"));
        let lines: Vec<String> =
            delivered.filter_map(|line| Some(line.split_once("lane")?.1.to_owned())).collect();
        Ok::<_, String>((outcome, text, lines))
    };
    let script = "trap 'echo caught' USR1; kill -USR1 $$; (exit 3); true";
    let record = ["record", "-o", path(&bench.trace), "--", "bash", "-c", script];
    let (recorded, text, delivered) = said(&record, "recorded")?;
    check(recorded.code == 0 && recorded.stdout == b"caught\n", "the recording", &recorded)?;
    if delivered.is_empty() || !text.contains("clone") || text.contains(" call ") {
        return Err(format!("not what was asked for:\n{text}"));
    }
    let (replayed, _, again) = said(&["replay", path(&bench.trace)], "replayed")?;
    check(replayed.code == 0, "the replay", &replayed)?;
    if again != delivered {
        return Err(format!("recording: {delivered:#?}\nreplay: {again:#?}"));
    }
    let mut other = bench.tool_command(User::Current, &["record", "-o", "other", "--", "true"]);
    other.env("RETROVANE_RUNTIME_LOG", "signals,tokens");
    let told = run(other, RUN_TIME_MAX)?;
    says(&told, &["tokens", "scheduler"])
}

/// Where a loop that waits leads to the runtime by a jump when it is recorded, it does in replay: a trap takes a
/// hundred times as long, in each of its rounds.
pub fn loops_jump_in_replay_too(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "loops-jump")?;
    let source = in_workspace("tests/guests/shared_writable_later.c");
    let binary = bench.compiled("loops", &source, &["-O2", "-pthread"])?;
    let said = |args: &[&str], name: &str| {
        let file = bench.run.join(name);
        let mut command = bench.tool_command(User::Current, args);
        command.env("RETROVANE_RUNTIME_LOG", "code").env("RETROVANE_RUNTIME_LOG_FILE", &file);
        let outcome = run(command, RUN_TIME_MAX)?;
        check(outcome.code == 0, name, &outcome)?;
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{name}: {error}"))?;
        let jumps = text.lines().filter(|line| line.contains("loop jumps here")).count();
        let traps = text.lines().filter(|line| line.contains("loop traps here")).count();
        Ok::<_, String>([jumps, traps])
    };
    let recorded = said(&["record", "-o", path(&bench.trace), "--", path(&binary)], "recorded")?;
    let replayed = said(&["replay", path(&bench.trace)], "replayed")?;
    if recorded[0] == 0 || replayed != recorded {
        return Err(format!("jumps and traps: {recorded:?} recorded, {replayed:?} in replay"));
    }
    Ok(())
}
