//! Program and recorder that are killed together: what was logged is in the trace.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use suites::{Live, Outcome, RUN_TIME_MAX, TestResult, Tool, User, compare, run};

use crate::bench::{Bench, check, check_status, path, says};

/// Four threads that append to a file each until somebody kills them. With the file `said`, the
/// line on the standard output is behind the program: a call that others see and that has not
/// yet returned is not in the trace ([`UNDER_WAY_MAX`]).
const WRITERS: &str = "exec python3 -c '
import os, threading
def write(number):
    file = os.open(f\"file-{number}\", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        os.write(file, b\"x\")
for number in range(4):
    threading.Thread(target=write, args=(number,)).start()
print(\"ready\", os.getpid(), flush=True)
os.mkdir(\"said\")
'";

/// Calls whose effect was there and whose event was not, one of each thread.
const UNDER_WAY_MAX: usize = 4;

/// Bytes that the writers wrote.
fn written(run: &Path) -> usize {
    (0..4)
        .filter_map(|number| fs::metadata(run.join(format!("file-{number}"))).ok())
        .map(|about| about.len() as usize)
        .sum()
}

/// Waits until so many bytes are written.
fn wait_until_written(run: &Path, bytes: usize) -> TestResult {
    let deadline = Instant::now() + RUN_TIME_MAX;
    while written(run) < bytes || !run.join("said").exists() {
        check_status(Instant::now() < deadline, "the writers do not write")?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// All writes of the writers are in the trace, which replays up to there.
fn nothing_is_lost(bench: &Bench) -> TestResult {
    let calls = written(&bench.run);
    let dump = bench.call(&["dump", "--call", "write", path(&bench.trace)])?;
    let logged = dump.stdout_text().lines().filter(|line| line.contains("\"x\"")).count();
    let what = format!("of {calls} calls {logged} are in the trace");
    check(logged <= calls && calls - logged <= UNDER_WAY_MAX, &what, &dump)?;
    check(!bench.trace.join("rings").exists(), "what was taken over should be gone", &dump)?;
    let replayed = bench.replay()?;
    check(replayed.code == 119, "the trace does not say how the program ended", &replayed)?;
    check(replayed.stdout_text().starts_with("ready "), "the program's output is replayed", &replayed)
}

/// SIGKILL of the whole process group, at several moments.
pub fn group_killed(tool: &Tool) -> TestResult {
    for bytes in [1, 700, 5000, 20000] {
        let bench = Bench::new(tool, "group-killed")?;
        let mut live = Live::start(bench.record_command(WRITERS))?;
        live.wait_for_line("ready ")?;
        wait_until_written(&bench.run, bytes)?;
        Live::kill(&format!("-{}", live.pid()))?;
        live.end()?;
        nothing_is_lost(&bench)?;
    }
    Ok(())
}

/// A program that kills its group, and so its recorder, with the first that it does: the trace
/// that is then the latest is its own.
pub fn kills_its_group(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "kills-its-group")?;
    let command =
        bench.tool_command(User::Current, &["record", "--", "bash", "-c", "echo begin; kill -KILL 0"]);
    let recorded = Live::start(command)?.end()?;
    check(recorded.code == 137, "it is killed with its group", &recorded)?;
    let replayed = bench.call(&["replay", "--run"])?;
    check(replayed.stdout_text() == "begin\n", "what it wrote is in the trace", &replayed)?;
    says(&replayed, &["killed", "cut"])
}

/// SIGABRT to the group is for the program: the recorder lives, and says how it ended.
pub fn aborts_its_group(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "aborts-its-group")?;
    let script = "ulimit -c 0; trap 'echo caught' ALRM; kill -ALRM 0; echo begin; kill -ABRT 0";
    let recorded = Live::start(bench.record_command(script))?.end()?;
    check(recorded.code == 134, "the program's own end", &recorded)?;
    check(recorded.stdout_text() == "caught\nbegin\n", "each signal comes once", &recorded)?;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

/// The end of a namespace of process ids takes everybody in it along: nobody is left to write.
pub fn namespace_killed(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "namespace-killed")?;
    let record = bench.record_command(WRITERS);
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c"]);
    command.args(["echo first; \"$@\" & wait", "bash"]).arg(record.get_program()).args(record.get_args());
    command.current_dir(&bench.run);
    for (name, value) in record.get_envs() {
        value.map(|value| command.env(name, value));
    }
    let mut live = Live::start(command)?;
    live.wait_for_line("ready ")?;
    wait_until_written(&bench.run, 3000)?;
    // The launcher, whose child, the first of the namespace, dies with it.
    Live::kill(&live.pid().to_string())?;
    live.end()?;
    nothing_is_lost(&bench)
}

/// The recorder alone: its program, which goes on, has logged more meanwhile.
pub fn recorder_killed_among_threads(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "recorder-killed-among-threads")?;
    let mut live = Live::start(bench.record_command(WRITERS))?;
    let program = live.wait_for_line("ready ")?;
    wait_until_written(&bench.run, 1000)?;
    Live::kill(&live.pid().to_string())?;
    let before = written(&bench.run);
    // More than a ring holds: the program has noticed.
    wait_until_written(&bench.run, before + 100_000)?;
    Live::kill(&program)?;
    live.end()?;
    let dump = bench.call(&["dump", "--call", "write", path(&bench.trace)])?;
    let logged = dump.stdout_text().lines().filter(|line| line.contains("\"x\"")).count();
    check(logged + UNDER_WAY_MAX >= before, &format!("of {before} calls {logged} are there"), &dump)?;
    let replayed = bench.replay()?;
    check(replayed.code == 119, "the replay should end where the log does", &replayed)
}

/// The supervisor of a live session is killed: its checkpoints, which nobody can go back to, are gone soon, and the
/// program goes on.
pub fn supervisor_killed_among_checkpoints(tool: &Tool) -> TestResult {
    const CHECKPOINTS: usize = 4;
    let bench = Bench::new(tool, "supervisor-killed")?;
    let program = "import os, time; print('ready', os.getpid(), flush=True)\nwhile True: time.sleep(0.01)";
    let options =
        ["live", "--checkpoint-every", "30ms", "--checkpoints", "fork", "--", "python3", "-c", program];
    let mut live = Live::start(bench.tool_command(User::Current, &options))?;
    let program = live.wait_for_line("ready ")?;
    wait_for_shadows(&program, |count| count >= CHECKPOINTS)?;
    Live::kill(&live.pid().to_string())?;
    let gone = wait_for_shadows(&program, |count| count == 0);
    let goes_on = Path::new("/proc").join(&program).join("exe").exists();
    Live::kill(&program)?;
    live.end()?;
    gone?;
    check_status(goes_on, "the program should go on")
}

/// Waits until there are so many copies of a process that keep its checkpoints.
fn wait_for_shadows(program: &str, is_it: impl Fn(usize) -> bool) -> TestResult {
    let deadline = Instant::now() + RUN_TIME_MAX;
    loop {
        // Any of its threads may have made them.
        let threads = fs::read_dir(format!("/proc/{program}/task")).map_err(|error| error.to_string())?;
        let children = threads.flatten().map(|thread| fs::read_to_string(thread.path().join("children")));
        let children: String = children.flatten().collect();
        let is_shadow = |pid: &&str| {
            fs::read_to_string(format!("/proc/{pid}/status"))
                .is_ok_and(|status| status.starts_with("Name:\trv-shadow") && !status.contains("State:\tZ"))
        };
        let count = children.split_ascii_whitespace().filter(is_shadow).count();
        if is_it(count) {
            return Ok(());
        }
        check_status(Instant::now() < deadline, &format!("the program has {count} copies of itself"))?;
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Each thread of the recorder says by its name what it is for, and there are no more of them than it asks
/// for beforehand, where a user may not have many.
pub fn threads_have_names(tool: &Tool) -> TestResult {
    /// `THREADS` of the recorder, in which the program counts, and its first thread does not.
    const THREADS_MAX: usize = 8;
    let bench = Bench::new(tool, "threads-have-names")?;
    let mut live = Live::start(bench.record_command(WRITERS))?;
    let program = live.wait_for_line("ready ")?;
    let tasks = fs::read_dir(format!("/proc/{}/task", live.pid())).map_err(|error| error.to_string())?;
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    let mut names: Vec<String> = tasks.flatten().map(name).collect();
    // Of those that answer programs there are more where there may be.
    names.sort();
    names.dedup_by(|one, other| one == other && one.trim() == "attach");
    Live::kill(&program)?;
    live.end()?;
    let unnamed = names.iter().filter(|name| name.trim() == "retrovane").count();
    if unnamed == 1 && (2..=THREADS_MAX).contains(&names.len()) {
        Ok(())
    } else {
        Err(format!("threads of the recorder: {names:?}"))
    }
}

/// Whoever started the recorder ignores SIGCHLD, as daemons do: children leave no status.
pub fn children_ignored(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "children-ignored")?;
    let ignoring = |args: &[&str]| -> Result<Outcome, String> {
        let command = bench.tool_command(User::Current, args);
        let mut ignoring = Command::new("env");
        ignoring.arg("--ignore-signal=CHLD").arg(command.get_program()).args(command.get_args());
        ignoring.current_dir(&bench.run);
        for (name, value) in command.get_envs() {
            value.map(|value| ignoring.env(name, value));
        }
        run(ignoring, RUN_TIME_MAX)
    };
    let script = "grep SigIgn /proc/self/status; /bin/true; exit 5";
    let recorded = ignoring(&["record", "-o", path(&bench.trace), "--", "bash", "-c", script])?;
    check(recorded.code == 5, "the program's own code", &recorded)?;
    let ignored = recorded.stdout_text();
    let mask = ignored.trim().rsplit('\t').next().and_then(|mask| u64::from_str_radix(mask, 16).ok());
    check(mask.is_some_and(|mask| mask & 1 << 16 != 0), "the program should ignore it, too", &recorded)?;
    compare("recorded", &recorded, "replayed", &ignoring(&["replay", path(&bench.trace)])?)
}
