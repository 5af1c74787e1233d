//! Processes that make others: forks that are caught, images that follow each other, and
//! children that are debugged by their own ids.

use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{RUN_TIME_MAX, Scratch, TestResult, Tool, run};

use super::{Session, compare, recorded};

const FLAGS: &[&str] = &["-O0"];

pub const SESSIONS: &[Session] = &[
    Session {
        name: "forks_are_caught_forwards_and_backwards",
        source: "family",
        flags: FLAGS,
        options: &["--batch"],
        commands: &[
            "catch fork",
            "catch vfork",
            "catch exec",
            "break add",
            "continue",
            "print n",
            "continue",
            "continue",
            "continue",
            "continue",
            "print n",
            "continue",
            "continue",
            "print n",
            "continue",
            "reverse-continue",
            "reverse-continue",
            "reverse-continue",
            "reverse-continue",
            "print sum",
            "reverse-continue",
            "reverse-continue",
        ],
        expected: &[
            "$1 = 1",
            "Catchpoint 1 (forked process",
            "Detaching after fork from child process",
            "Breakpoint 4, add (n=2)",
            "Catchpoint 2 (vforked process",
            "Detaching after vfork from child process",
            "Breakpoint 4, add (n=4)",
            "$2 = 4",
            "Catchpoint 3 (exec'd",
            "Breakpoint 4, add (n=300)",
            "$3 = 300",
            "exits with 3 here",
            "Breakpoint 4, add (n=300)",
            "Catchpoint 3 (exec'd",
            "execve",
            "Breakpoint 4, add (n=4)",
            "Catchpoint 2 (vforked process",
            "$4 = 3",
            "Breakpoint 4, add (n=2)",
            "Catchpoint 1 (forked process",
        ],
        unexpected: &["retrovane:", "does not support", "communication error"],
    },
    Session {
        name: "places_of_other_images_are_gone_to",
        source: "family",
        flags: FLAGS,
        options: &["--batch"],
        commands: &[
            "break add if n == 2",
            "continue",
            "mark two",
            "seek end",
            "seek two",
            "print n",
            "print sum",
            "seek end",
            "last-write sum",
            "set follow-fork-mode child",
            "show follow-fork-mode",
        ],
        expected: &[
            "two is ",
            "add (n=2)",
            "$1 = 2",
            "$2 = 1",
            "sum: 0 -> 300",
            "add (n=300)",
            "retrovane replay --pid",
            "\"parent\"",
        ],
        unexpected: &["retrovane:"],
    },
];

fn said(tool: &Tool, scratch: &Scratch, args: Vec<OsString>) -> Result<String, String> {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(&tool.binary).args(args);
    suites::plain_environment(&mut command, &scratch.join("home"));
    Ok(run(command, RUN_TIME_MAX)?.stdout_text())
}

/// Each process has its own calls, and is debugged by its own id, those of vfork too.
fn check_children(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("children_by_their_ids")?;
    let trace = recorded(tool, &scratch, "family", FLAGS)?;
    let calls = said(tool, &scratch, vec!["calls".into(), trace.clone().into(), "add".into()])?;
    let pid_of = |n: u32| {
        let row = calls.lines().find(|row| row.ends_with(&format!("add(n = {n})")));
        let pid = row.and_then(|row| row.split_whitespace().next());
        pid.map(str::to_owned).ok_or_else(|| format!("no call with {n}:\n{calls}"))
    };
    let parent = pid_of(1)?;
    if pid_of(2)? != parent || pid_of(4)? != parent || pid_of(300)? != parent {
        return Err(format!("the parent's calls are not one process's:\n{calls}"));
    }
    for n in [100, 200] {
        let commands = ["break add", "continue", "backtrace", "reverse-continue", "backtrace"];
        let mut args: Vec<OsString> = vec!["replay".into(), "--batch".into(), "--pid".into()];
        args.push(pid_of(n)?.into());
        for command in commands {
            args.extend(["-ex".into(), command.into()]);
        }
        args.push(trace.clone().into());
        let text = said(tool, &scratch, args)?;
        let call = format!("add (n={n})");
        let made_at = "fork";
        compare(
            &text,
            &[made_at, &call, "main (", "No more reverse-execution", made_at, "main ("],
            &["?? ()"],
        )?;
    }
    Ok(())
}

pub fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let own = Arc::clone(tool);
    vec![Trial::test("children_by_their_ids", move || check_children(&own).map_err(Failed::from))]
}
