//! What goes wrong in practice: kills in the middle, full disks, damaged and
//! moved traces, programs that cannot be recorded, wrong options.
//!
//! In every case the tool says what happened, ends with a code of its own, and
//! never shows a panic.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use suites::{
    Live, Mode, Outcome, RUN_TIME_MAX, Scratch, TestResult, Tool, User, compare, plain_environment, run,
    tests_run_as_root,
};

/// A program that prints, says that it is ready with its pid, then waits for
/// its end to be brought about.
const WAITING: &str =
    "for i in $(seq 200); do echo line $i; done; echo ready $$; read -r _ < gate; echo after";

/// A program with some of everything, that ends with code 5.
const ORDINARY: &str = "for i in $(seq 300); do echo $i $RANDOM; done | tail -50; date +%N; ls -l /proc/self/fd | wc -l; \
                        echo to stderr >&2; exit 5";

/// One test's directory and the tool.
struct Bench<'a> {
    tool: &'a Tool,
    scratch: Scratch,
    run: PathBuf,
    trace: PathBuf,
}

impl<'a> Bench<'a> {
    fn new(tool: &'a Tool, label: &str) -> Result<Bench<'a>, String> {
        let scratch = Scratch::new(label)?;
        let run = scratch.fresh_directory("run")?;
        scratch.fresh_directory("home")?;
        let trace = scratch.join("trace");
        Ok(Bench { tool, scratch, run, trace })
    }

    fn tool_command(&self, user: User, args: &[&str]) -> std::process::Command {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let mut command = self.tool.command(user, &self.scratch.join("home"), &args);
        command.current_dir(&self.run);
        command
    }

    fn call(&self, args: &[&str]) -> Result<Outcome, String> {
        let outcome = run(self.tool_command(User::Current, args), RUN_TIME_MAX)?;
        no_panic(&outcome)?;
        Ok(outcome)
    }

    fn record_command(&self, script: &str) -> std::process::Command {
        self.tool_command(User::Current, &["record", "-o", path(&self.trace), "--", "bash", "-c", script])
    }

    fn record(&self, script: &str) -> Result<Outcome, String> {
        run(self.record_command(script), RUN_TIME_MAX)
    }

    fn replay(&self) -> Result<Outcome, String> {
        self.call(&["replay", path(&self.trace)])
    }

    /// Starts the waiting program under the recorder, up to its wait.
    fn start_waiting(&self) -> Result<(Live, String), String> {
        let gate = self.run.join("gate");
        let made = std::process::Command::new("mkfifo").arg(&gate).status();
        if !made.is_ok_and(|status| status.success()) {
            return Err("cannot make a fifo".into());
        }
        let mut live = Live::start(self.record_command(WAITING))?;
        let pid = live.wait_for_line("ready ")?;
        Ok((live, pid))
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("scratch paths are plain text")
}

fn check(condition: bool, what: &str, outcome: &Outcome) -> TestResult {
    if condition {
        Ok(())
    } else {
        Err(format!(
            "{what}\nexit code {}\nstdout: {}\nstderr: {}",
            outcome.code,
            outcome.stdout_text().chars().take(1000).collect::<String>(),
            outcome.stderr_text().chars().take(2000).collect::<String>()
        ))
    }
}

fn no_panic(outcome: &Outcome) -> TestResult {
    check(!outcome.stderr_text().contains("panicked"), "the tool panicked", outcome)
}

/// The tool speaks of all these words on stderr.
fn says(outcome: &Outcome, words: &[&str]) -> TestResult {
    let text = outcome.stderr_text().to_lowercase();
    words
        .iter()
        .try_for_each(|word| check(text.contains(word), &format!("stderr does not say {word:?}"), outcome))
}

fn is_prefix_of_waiting(outcome: &Outcome) -> TestResult {
    let whole: String = (1..=200).map(|i| format!("line {i}\n")).collect();
    let text = outcome.stdout_text();
    let lines = text.split("ready ").next().unwrap_or_default();
    check(whole.starts_with(lines), "stdout is not what the program printed", outcome)
}

fn program_killed(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "program-killed")?;
    let (live, pid) = bench.start_waiting()?;
    Live::kill(&pid)?;
    let recorded = live.end()?;
    check(recorded.code == 137, "the recording should end as the program did, by SIGKILL", &recorded)?;
    let replayed = bench.replay()?;
    check(replayed.stdout == recorded.stdout, "nothing that was printed may be lost", &replayed)?;
    check(replayed.code == 137, "the replay should end with the recorded code", &replayed)
}

fn recorder_killed(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "recorder-killed")?;
    let (live, _) = bench.start_waiting()?;
    Live::kill(&live.pid().to_string())?;
    // The program goes on without its recorder.
    fs::write(bench.run.join("gate"), "go\n").map_err(|error| format!("nobody reads the gate: {error}"))?;
    let recorded = live.end()?;
    check(recorded.stdout_text().ends_with("after\n"), "the program should have finished", &recorded)?;
    let replayed = bench.replay()?;
    is_prefix_of_waiting(&replayed)?;
    says(&replayed, &["cut"])
}

fn both_killed(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "both-killed")?;
    let (live, pid) = bench.start_waiting()?;
    Live::kill(&format!("{} {pid}", live.pid()))?;
    live.end()?;
    let replayed = bench.replay()?;
    is_prefix_of_waiting(&replayed)?;
    says(&replayed, &["cut"])
}

fn interrupted_from_terminal(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "interrupted")?;
    let gate = bench.run.join("gate");
    let made = std::process::Command::new("mkfifo").arg(&gate).status();
    check_status(made.is_ok_and(|status| status.success()), "cannot make a fifo")?;
    let script = "trap 'echo interrupted; exit 9' INT; echo ready $$; read -r _ < gate";
    let mut live = Live::start(bench.record_command(script))?;
    live.wait_for_line("ready ")?;
    // As a terminal does it: to every process of the group.
    let sent = std::process::Command::new("sh").args(["-c", &format!("kill -INT -{}", live.pid())]).status();
    check_status(sent.is_ok_and(|status| status.success()), "cannot send SIGINT")?;
    let recorded = live.end()?;
    check(recorded.code == 9, "the program's own handler decides", &recorded)?;
    check(recorded.stdout_text().ends_with("interrupted\n"), "the trap did not run", &recorded)?;
    let replayed = bench.replay()?;
    compare("recorded", &recorded, "replayed", &replayed)
}

fn check_status(ok: bool, what: &str) -> TestResult {
    if ok { Ok(()) } else { Err(what.to_owned()) }
}

fn disk_full(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "disk-full")?;
    fs::create_dir(bench.scratch.join("small")).map_err(|error| error.to_string())?;
    let small = bench.scratch.join("small");
    let script = format!(
        "mount -t tmpfs -o size=3m small {small} || exit 99
         {tool} record -o {small}/trace -- bash -c 'head -c 20000000 /dev/urandom | wc -c; echo end; exit 6'
         echo recorded $?
         {tool} replay {small}/trace; echo replayed $?",
        small = path(&small),
        tool = path(&tool.binary),
    );
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "bash", "-c", &script]).current_dir(&bench.run);
    plain_environment(&mut command, &bench.scratch.join("home"));
    let outcome = run(command, RUN_TIME_MAX)?;
    no_panic(&outcome)?;
    check(
        outcome.stdout_text().starts_with("20000000\nend\nrecorded 6\n"),
        "the program should have finished as without a recorder",
        &outcome,
    )?;
    says(&outcome, &["space"])
}

fn moved_trace(tool: &Tool) -> TestResult {
    let mut bench = Bench::new(tool, "moved")?;
    let recorded = bench.record(ORDINARY)?;
    check(recorded.code == 5, "the program's code", &recorded)?;
    let elsewhere = bench.scratch.fresh_directory("else where")?.join("renamed");
    fs::rename(&bench.trace, &elsewhere).map_err(|error| format!("cannot move the trace: {error}"))?;
    bench.trace = elsewhere;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

fn replayed_repeatedly(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "repeatedly")?;
    let recorded = bench.record(ORDINARY)?;
    for _ in 0..3 {
        compare("recorded", &recorded, "replayed", &bench.replay()?)?;
    }
    Ok(())
}

/// The files of the trace, the largest first.
fn trace_files(trace: &Path) -> Result<Vec<PathBuf>, String> {
    let mut directories = vec![trace.to_path_buf()];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).map_err(|error| error.to_string())?;
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            let metadata = entry.metadata().map_err(|error| error.to_string())?;
            if metadata.is_dir() {
                directories.push(entry.path());
            } else {
                files.push((metadata.len(), entry.path()));
            }
        }
    }
    files.sort_by_key(|file| std::cmp::Reverse(file.0));
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// Whatever file is damaged: the replay is right, or is refused.
fn damaged_trace(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "damaged")?;
    let recorded = bench.record(ORDINARY)?;
    let mut refused = 0;
    for file in trace_files(&bench.trace)? {
        let original = fs::read(&file).map_err(|error| error.to_string())?;
        if original.is_empty() {
            continue;
        }
        let middle = original.len() as u64 / 2;
        let mut handle = OpenOptions::new().write(true).open(&file).map_err(|error| error.to_string())?;
        handle.seek(SeekFrom::Start(middle)).map_err(|error| error.to_string())?;
        handle.write_all(&[!original[middle as usize]]).map_err(|error| error.to_string())?;
        drop(handle);
        let replayed = bench.replay()?;
        if compare("recorded", &recorded, "replayed", &replayed).is_err() {
            refused += 1;
            check(
                replayed.code != 0 && replayed.code != recorded.code && replayed.code < 128,
                &format!("with {} damaged: a code of its own", file.display()),
                &replayed,
            )?;
            check(!replayed.stderr.is_empty(), "a message that says what is wrong", &replayed)?;
        }
        fs::write(&file, &original).map_err(|error| error.to_string())?;
    }
    compare("recorded", &recorded, "replayed after repair", &bench.replay()?)?;
    check(refused > 0, "damage was noticed nowhere", &recorded)
}

/// Cut at any length the trace replays to its last event, or is refused.
fn truncated_trace(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "truncated")?;
    let recorded = bench.record(ORDINARY)?;
    for file in trace_files(&bench.trace)? {
        let original = fs::read(&file).map_err(|error| error.to_string())?;
        for length in [original.len() * 9 / 10, original.len() / 3, 1, 0] {
            fs::write(&file, &original[..length]).map_err(|error| error.to_string())?;
            let replayed = bench.replay()?;
            let same = compare("recorded", &recorded, "replayed", &replayed).is_ok();
            let is_start = recorded.stdout.starts_with(&replayed.stdout);
            check(
                same || (is_start && !replayed.stderr.is_empty()),
                &format!("with {} cut to {length} bytes", file.display()),
                &replayed,
            )?;
        }
        fs::write(&file, &original).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Nothing ran, the code is not 0, and the message has these words.
fn refused(bench: &Bench<'_>, args: &[&str], words: &[&str]) -> TestResult {
    let outcome = bench.call(args)?;
    check(outcome.code != 0, "the tool should refuse", &outcome)?;
    check(outcome.stdout.is_empty(), "nothing should run", &outcome)?;
    says(&outcome, words)
}

fn missing_program(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "missing")?;
    refused(&bench, &["record", "-o", path(&bench.trace), "--", "no-such-program"], &["no-such-program"])?;
    refused(&bench, &["record", "-o", path(&bench.trace), "--", "./absent/x"], &["absent"])
}

fn not_executable(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "not-executable")?;
    fs::write(bench.run.join("plain"), "text").map_err(|error| error.to_string())?;
    refused(&bench, &["record", "-o", path(&bench.trace), "--", "./plain"], &["plain"])?;
    refused(&bench, &["record", "-o", path(&bench.trace), "--", "/"], &["directory"])
}

/// An ELF header of class 32 that claims to be an i386 program.
fn thirty_two_bit(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "thirty-two-bit")?;
    let mut header = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0];
    header.resize(16, 0);
    for half in [2u16, 3] {
        header.extend(half.to_le_bytes());
    }
    for word in [1u32, 0x0804_8054, 52, 0, 0] {
        header.extend(word.to_le_bytes());
    }
    for half in [52u16, 32, 1, 0, 0, 0] {
        header.extend(half.to_le_bytes());
    }
    for word in [1u32, 0, 0x0804_8000, 0x0804_8000, 4096, 4096, 5, 4096] {
        header.extend(word.to_le_bytes());
    }
    header.resize(4096, 0x90);
    let program = bench.run.join("old");
    fs::write(&program, &header).map_err(|error| error.to_string())?;
    fs::set_permissions(&program, Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
    refused(&bench, &["record", "-o", path(&bench.trace), "--", "./old"], &["32-bit"])
}

fn setuid_program(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "setuid")?;
    let program = bench.run.join("privileged");
    fs::copy("/bin/true", &program).map_err(|error| error.to_string())?;
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).map_err(|error| error.to_string())?;
    let args = ["record", "-o", path(&bench.trace), "--", "./privileged"];
    let outcome = run(bench.tool_command(User::Nobody, &args), RUN_TIME_MAX)?;
    no_panic(&outcome)?;
    check(outcome.code != 0, "the tool should refuse", &outcome)?;
    says(&outcome, &["set-user-id"])
}

fn unknown_options(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "options")?;
    for args in [&["record", "--no-such-option", "--", "true"][..], &["no-such-command"], &[]] {
        let outcome = bench.call(args)?;
        check(outcome.code == 2, "wrong usage ends with 2", &outcome)?;
        check(!outcome.stderr.is_empty(), "wrong usage is explained", &outcome)?;
    }
    refused(&bench, &["record"], &["usage"])
}

fn missing_trace(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "missing-trace")?;
    refused(&bench, &["replay", "/absent/trace"], &["/absent/trace"])?;
    refused(&bench, &["replay"], &["trace"])?;
    let empty = bench.scratch.fresh_directory("empty")?;
    refused(&bench, &["replay", path(&empty)], &["trace"])
}

fn no_write_permission(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "no-permission")?;
    let closed = bench.scratch.fresh_directory("closed")?;
    fs::set_permissions(&closed, Permissions::from_mode(0o555)).map_err(|error| error.to_string())?;
    let user = if tests_run_as_root() { User::Nobody } else { User::Current };
    let trace = closed.join("trace");
    let args = ["record", "-o", path(&trace), "--", "echo", "ran"];
    let outcome = run(bench.tool_command(user, &args), RUN_TIME_MAX)?;
    no_panic(&outcome)?;
    check(outcome.code != 0 && outcome.stdout.is_empty(), "nothing should run", &outcome)?;
    says(&outcome, &["permission denied"])
}

fn existing_directory_is_kept(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "existing")?;
    let precious = bench.scratch.fresh_directory("precious")?;
    fs::write(precious.join("file"), "data").map_err(|error| error.to_string())?;
    let outcome = bench.call(&["record", "-o", path(&precious), "--", "true"])?;
    let kept = fs::read(precious.join("file")).is_ok_and(|bytes| bytes == b"data");
    check(kept && outcome.code != 0, "a directory with other files is refused and kept", &outcome)
}

fn private_trace(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "private")?;
    let recorded = bench.record("umask 0; echo secret")?;
    check(recorded.code == 0, "the program's code", &recorded)?;
    let mode =
        |path: &Path| fs::metadata(path).map(|m| m.permissions().mode() & 0o777).map_err(|e| e.to_string());
    check(mode(&bench.trace)? == 0o700, "the trace's directory is for its owner only", &recorded)?;
    for file in trace_files(&bench.trace)? {
        let open = mode(&file)? & 0o077;
        check(open == 0, &format!("{} is open to others", file.display()), &recorded)?;
    }
    Ok(())
}

fn named_traces(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "named")?;
    let first = bench.call(&["record", "--", "bash", "-c", "echo first"])?;
    check(first.stdout == b"first\n", "the program's output", &first)?;
    bench.call(&["record", "--", "bash", "-c", "echo second"])?;
    let latest = bench.call(&["replay", "-q"])?;
    check(latest.stdout == b"second\n", "the latest trace is the default", &latest)?;
    let list = bench.call(&["ls"])?;
    check(list.stdout_text().lines().count() >= 2, "both traces are listed", &list)
}

fn pack_and_unpack(tool: &Tool) -> TestResult {
    let mut bench = Bench::new(tool, "pack")?;
    let recorded = bench.record(ORDINARY)?;
    let packed = bench.call(&["pack", path(&bench.trace)])?;
    check(packed.code == 0, "pack makes the trace whole in place", &packed)?;
    let elsewhere = bench.scratch.fresh_directory("other-machine")?.join("trace");
    fs::rename(&bench.trace, &elsewhere).map_err(|error| error.to_string())?;
    // Another machine has neither the traces' home nor what was kept there.
    bench.scratch.fresh_directory("home")?;
    bench.trace = elsewhere;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

fn dump_and_info(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "dump")?;
    bench.record("echo a word; cat /etc/hostname > /dev/null; exit 5")?;
    let dump = bench.call(&["dump", path(&bench.trace)])?;
    check(dump.code == 0, "dump works", &dump)?;
    for part in ["execve(", "write(1, \"a word\\n\"", "exit_group(5)"] {
        check(dump.stdout_text().contains(part), &format!("the dump lacks {part}"), &dump)?;
    }
    let json = bench.call(&["dump", "--json", path(&bench.trace)])?;
    let whole = json.stdout_text().lines().all(|line| line.starts_with(['{', '[', ' ', '}', ']']));
    check(json.code == 0 && whole, "the dump as JSON", &json)?;
    let info = bench.call(&["info", path(&bench.trace)])?;
    check(info.code == 0 && info.stdout_text().contains("bash"), "info names the command", &info)
}

fn doctor(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "doctor")?;
    let outcome = bench.call(&["doctor"])?;
    check(outcome.code == 0 && !outcome.stdout.is_empty(), "doctor speaks", &outcome)
}

fn seccomp_fallback(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "seccomp")?;
    let args = ["record", "--seccomp", "-o", path(&bench.trace), "--", "bash", "-c", ORDINARY];
    let recorded = bench.call(&args)?;
    check(recorded.code == 5, "the program's code", &recorded)?;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

fn without_rewriting(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "no-rewrite")?;
    let args = ["record", "--no-rewrite", "-o", path(&bench.trace), "--", "bash", "-c", ORDINARY];
    let recorded = bench.call(&args)?;
    check(recorded.code == 5, "the program's code", &recorded)?;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

fn with_memory_checks(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "memory-checks")?;
    let args = ["record", "--check", "10", "-o", path(&bench.trace), "--", "bash", "-c", ORDINARY];
    let recorded = bench.call(&args)?;
    check(recorded.code == 5, "the program's code", &recorded)?;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

/// Runs one case with the tool.
type Test = fn(&Tool) -> TestResult;

/// The tests by name; the second says whether root is needed.
const TESTS: &[(&str, bool, Test)] = &[
    ("program_killed", false, program_killed),
    ("recorder_killed", false, recorder_killed),
    ("both_killed", false, both_killed),
    ("interrupted_from_terminal", false, interrupted_from_terminal),
    ("disk_full", true, disk_full),
    ("moved_trace", false, moved_trace),
    ("replayed_repeatedly", false, replayed_repeatedly),
    ("damaged_trace", false, damaged_trace),
    ("truncated_trace", false, truncated_trace),
    ("missing_program", false, missing_program),
    ("not_executable", false, not_executable),
    ("thirty_two_bit", false, thirty_two_bit),
    ("setuid_program", true, setuid_program),
    ("unknown_options", false, unknown_options),
    ("missing_trace", false, missing_trace),
    ("no_write_permission", false, no_write_permission),
    ("existing_directory_is_kept", false, existing_directory_is_kept),
    ("private_trace", false, private_trace),
    ("named_traces", false, named_traces),
    ("pack_and_unpack", false, pack_and_unpack),
    ("dump_and_info", false, dump_and_info),
    ("doctor", false, doctor),
    ("seccomp_fallback", false, seccomp_fallback),
    ("without_rewriting", false, without_rewriting),
    ("with_memory_checks", false, with_memory_checks),
];

fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let is_root = tests_run_as_root();
    TESTS
        .iter()
        .map(|&(name, needs_root, test)| {
            let own = Arc::clone(tool);
            let trial = Trial::test(name, move || test(&own).map_err(Failed::from));
            if needs_root && !is_root {
                trial.with_kind("needs root").with_ignored_flag(true)
            } else if tool.mode == Mode::Native {
                trial.with_kind("needs the tool").with_ignored_flag(true)
            } else {
                trial
            }
        })
        .collect()
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let prepared = Scratch::new("tool").and_then(|scratch| {
        let tool = Arc::new(Tool::find().reachable_copy(scratch.path())?);
        Ok((trials(&tool), scratch))
    });
    match prepared {
        Ok((trials, _scratch)) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
