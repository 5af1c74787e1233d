//! What a node waits for by reads that block, and what it is told of children.

use std::fs;
use std::process::Command;

use suites::{Mode, Outcome, Scratch, TestResult, Tool, in_workspace, make_file};

use super::{call, failed, text};

fn run_described(tool: &Tool, scratch: &Scratch, description: &str) -> Result<Outcome, String> {
    let file = scratch.join("lab.toml");
    fs::write(&file, description).map_err(|error| error.to_string())?;
    call(tool, scratch.path(), &["run", &file.display().to_string()])
}

/// Signals, counters and timers are read as they come; that a child computed for a while is not told.
pub fn reads_block(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-waits")?;
    let program = scratch.join("waits");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-Wall", "-Werror", "-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(in_workspace("tests/lab/waits.c"))
        .arg("-lrt");
    make_file(compiler)?;
    let description =
        format!("clock = \"virtual\"\ncpu = \"none\"\n[node.one]\ncommand = [\"{}\"]\n", program.display());
    let outcome = run_described(tool, &scratch, &description)?;
    let said = text(&outcome.stdout);
    const ALL: [&str; 13] = [
        "wait4",
        "sigwaitinfo",
        "signalfd",
        "eventfd",
        "timerfd",
        "fifo",
        "queue",
        "epoll_pwait",
        "flags",
        "paused",
        "over",
        "no time",
        "written",
    ];
    let is_all = ALL.iter().all(|line| said.contains(line));
    match outcome.code == 0 && is_all {
        true => Ok(()),
        false => Err(failed("it should come to its end", &outcome)),
    }
}

/// A process that is stopped does nothing until it is continued, and the others go on: a pause, as testers of distributed
/// systems make them.
pub fn processes_are_stopped(tool: &Tool) -> TestResult {
    const LAB: &str = r#"
clock = "virtual"
cpu = "none"
[node.one]
command = ["sh", "-c", "(while :; do sleep 1; echo tick; done) & sleep 1.5; kill -STOP $!; sleep 3; kill -CONT $!; sleep 1.2; kill -9 $!"]
[node.two]
command = ["sh", "-c", "(sleep 2; echo before; kill -STOP $$) & sleep 1; (sleep 3; kill -CONT $$) & sleep 2; echo behind; wait"]
[node.three]
command = ["sh", "-c", "for i in 1 2 3 4 5; do sleep 1; echo goes on; done"]
"#;
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let outcome = run_described(tool, &Scratch::new("lab-stopped")?, LAB)?;
    let said = text(&outcome.stdout);
    let times = |node: &str, what: &str| -> Vec<String> {
        let is_it = |line: &&str| line.contains(node) && line.ends_with(what);
        // A node starts some nanoseconds behind the one before.
        said.lines()
            .filter(is_it)
            .filter_map(|line| Some(line.split_whitespace().next()?.get(..5)?.to_owned()))
            .collect()
    };
    let is_right = times("one", "tick") == ["1.000", "4.500", "5.500"]
        && times("two", "before") == ["2.000"]
        && times("two", "behind") == ["4.000"]
        && times("three", "goes on").len() == 5;
    match outcome.code == 0 && is_right {
        true => Ok(()),
        false => Err(failed("it should stop and go on", &outcome)),
    }
}

/// A thread that takes an interpreter's lock again and again, while it waits for the time, lets another one have it.
pub fn pool_of_python(tool: &Tool) -> TestResult {
    const LAB: &str = r#"
clock = "virtual"
cpu = "none"
[node.one]
command = ["python3", "pool.py"]
files = { "pool.py" = "POOL" }
"#;
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let description = LAB.replace("POOL", &in_workspace("tests/lab/pool.py").display().to_string());
    let outcome = run_described(tool, &Scratch::new("lab-pool")?, &description)?;
    let said = text(&outcome.stdout);
    match outcome.code == 0 && said.contains("[0, 1, 4, 9, 16, 25]") && said.contains("all are back") {
        true => Ok(()),
        false => Err(failed("the pool should do its work", &outcome)),
    }
}
