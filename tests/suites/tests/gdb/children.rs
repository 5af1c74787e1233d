//! Processes that a live program makes, debugged in place of it.

use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{RUN_TIME_MAX, Scratch, TestResult, Tool, run};

use super::{built, compare};

/// A session with one of them.
struct Child {
    name: &'static str,
    number: &'static str,
    commands: &'static [&'static str],
    expected: &'static [&'static str],
    unexpected: &'static [&'static str],
}

const CHILDREN: &[Child] = &[
    Child {
        // It stands behind the fork; its past begins there.
        name: "a_live_child_has_its_past_and_present",
        number: "1",
        commands: &[
            "break add",
            "continue",
            "checkpoint",
            "finish",
            "print sum",
            "last-write sum",
            "live",
            "rollback 0",
            "print sum",
            "set var n = 7",
            "finish",
            "print sum",
            "reverse-continue",
            "live",
            "attach 1",
            "set follow-fork-mode child",
            "delete",
            "continue",
            "continue",
        ],
        expected: &[
            "fork",
            "Breakpoint 1, add (n=100)",
            "checkpoint 0 of the live program",
            "$1 = 101",
            "sum: 1 -> 101",
            "$2 = 1",
            "$3 = 8",
            "Breakpoint 1, add (n=",
            "No other process is looked at in this gdb",
            "retrovane debug --child N",
            "about to exit with 0",
            "exited normally",
        ],
        unexpected: &["retrovane:", "Error"],
    },
    Child {
        // By vfork: it runs in its parent's memory until it becomes its program.
        name: "a_live_child_becomes_its_program",
        number: "2",
        commands: &[
            "catch exec",
            "continue",
            "break add",
            "continue",
            "finish",
            "print sum",
            "reverse-continue",
            "print sum",
            "live",
            "continue",
            "continue",
        ],
        expected: &[
            "vfork",
            "is executing new program",
            "add (n=200)",
            "$1 = 200",
            "add (n=200)",
            "$2 = 0",
            "about to exit with 3",
            "exited with code 03",
        ],
        unexpected: &["retrovane:", "Error"],
    },
    Child {
        // The program itself: its past leads through all of its images.
        name: "a_live_program_has_its_past_through_execve",
        number: "0",
        commands: &[
            "break add",
            "continue",
            "continue",
            "continue",
            "continue",
            "checkpoint",
            "finish",
            "last-write sum",
            "live",
            "rollback 0",
            "finish",
            "print sum",
            "reverse-continue",
            "catch exec",
            "reverse-continue",
            "reverse-continue",
            "print sum",
            "live",
            "print sum",
        ],
        expected: &[
            "add (n=1)",
            "add (n=2)",
            "add (n=4)",
            "add (n=300)",
            "checkpoint 0 of the live program",
            "sum: 0 -> 300",
            "add (n=300)",
            "$1 = 300",
            "add (n=300)",
            "Catchpoint 2 (exec'd",
            "add (n=4)",
            "$2 = 3",
            "$3 = 300",
        ],
        unexpected: &["retrovane:", "Error"],
    },
    Child {
        name: "a_live_child_that_is_never_made",
        number: "9",
        commands: &[],
        expected: &["so many others were not made"],
        unexpected: &["Error", "Traceback", "Remote"],
    },
];

pub fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let trial = |child: &'static Child| {
        let own = Arc::clone(tool);
        Trial::test(child.name, move || check(&own, child).map_err(Failed::from))
    };
    CHILDREN.iter().map(trial).collect()
}

fn check(tool: &Tool, child: &Child) -> TestResult {
    let scratch = Scratch::new(child.name)?;
    let program = built(&scratch, "family", &["-O0"])?;
    let mut args: Vec<OsString> = ["debug", "--batch", "--child", child.number].map(OsString::from).into();
    for command in child.commands {
        args.extend(["-ex".into(), command.into()]);
    }
    args.extend(["--".into(), program.into()]);
    let home = scratch.fresh_directory("home")?;
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(&tool.binary).args(args);
    suites::plain_environment(&mut command, &home);
    let outcome = run(command, RUN_TIME_MAX)?;
    compare(&outcome.stdout_text(), child.expected, child.unexpected)
}
