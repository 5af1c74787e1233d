//! What a node waits for by reads that block, and what it is told of children.

use std::fs;
use std::process::Command;

use suites::{Mode, Scratch, TestResult, Tool, in_workspace, make_file};

use super::{call, failed, text};

/// Signals, counters and timers are read as they come; that a child computed for a while is not told.
pub fn reads_block(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-waits")?;
    let program = scratch.join("waits");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Werror", "-O1", "-o"]).arg(&program).arg(in_workspace("tests/lab/waits.c"));
    make_file(compiler)?;
    let file = scratch.join("lab.toml");
    let description =
        format!("clock = \"virtual\"\ncpu = \"none\"\n[node.one]\ncommand = [\"{}\"]\n", program.display());
    fs::write(&file, description).map_err(|error| error.to_string())?;
    let outcome = call(tool, scratch.path(), &["run", &file.display().to_string()])?;
    let said = text(&outcome.stdout);
    let is_all =
        ["wait4", "sigwaitinfo", "signalfd", "eventfd", "timerfd"].iter().all(|line| said.contains(line));
    match outcome.code == 0 && is_all {
        true => Ok(()),
        false => Err(failed("it should come to its end", &outcome)),
    }
}
