//! `retrovane debug --attach`: a process that ran already, under gdb, with its past from then on. It goes on
//! alone when gdb has ended, and has missed nothing.

use std::ffi::OsString;
use std::process::Command;

use suites::{Live, RUN_TIME_MAX, Scratch, TestResult, Tool, run};

use super::{THREADS, built};
use crate::compare;

const COMMANDS: [&str; 13] = [
    "thread 1",
    "backtrace",
    "break tick",
    "continue",
    "print count",
    "set $before = count",
    "continue",
    "print count == $before + 1",
    "reverse-continue",
    "print count == $before",
    "reverse-continue",
    "live",
    "print count == $before + 1",
];
const EXPECTED: [&str; 9] = [
    "main () at",
    "Breakpoint 1, tick ()",
    "$1 = ",
    "Breakpoint 1, tick ()",
    "$2 = 1",
    "$3 = 1",
    "No more reverse-execution history",
    "tick ()",
    "$4 = 1",
];

/// The next lines of a program that counts: the numbers that follow.
fn follow(program: &mut Live, last: &mut u64, lines: usize) -> TestResult {
    for _ in 0..lines {
        let line = program.wait_for_line("")?;
        if line.parse() != Ok(*last + 1) {
            return Err(format!("`{line}` came behind {last}"));
        }
        *last += 1;
    }
    Ok(())
}

pub fn check_attached(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("attached")?;
    let program = built(&scratch, "ticks", THREADS)?;
    let mut ticks = Live::start(Command::new(&program))?;
    let mut last = 0;
    follow(&mut ticks, &mut last, 3)?;
    let mut args: Vec<OsString> =
        vec!["debug".into(), "--attach".into(), ticks.pid().to_string().into(), "--batch".into()];
    for command in COMMANDS {
        args.extend(["-ex".into(), command.into()]);
    }
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(&tool.binary).args(args);
    suites::plain_environment(&mut command, &scratch.fresh_directory("home")?);
    let outcome = run(command, RUN_TIME_MAX)?;
    let is_right = compare(&outcome.stdout_text(), &EXPECTED, &["Cannot insert", "Cannot access"])
        // More than there were when gdb ended.
        .and_then(|()| follow(&mut ticks, &mut last, 40));
    Live::kill(&format!("-{}", ticks.pid()))?;
    is_right
}
