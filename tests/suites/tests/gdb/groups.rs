//! Programs whose processes share memory: going back in one of them, what the others wrote
//! there.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{RUN_TIME_MAX, Scratch, TestResult, Tool, User, have_program, run};

use super::{Session, built, compare, recorded, workloads};

const WRITES: &[&str] = &["source SCRIPTS/all_writes.py"];
const WRONG: &[&str] = &["retrovane:", "Error", "missing", "diverge"];

const fn of_writes(name: &'static str, flags: &'static [&'static str]) -> Session {
    Session {
        name,
        source: "group",
        flags,
        options: &["--batch"],
        commands: WRITES,
        expected: &["changes", "ends with 333", "differences 0"],
        unexpected: WRONG,
    }
}

pub const SESSIONS: &[Session] = &[
    of_writes("memory_of_a_group_is_gone_back_in", &["-O0"]),
    of_writes("a_segment_of_a_group_is_gone_back_in", &["-O0", "-DSEGMENT"]),
    of_writes("a_memfd_of_a_group_is_gone_back_in", &["-O0", "-DMEMFD"]),
    of_writes("a_shared_file_of_a_group_is_gone_back_in", &["-O0", "-DPOSIX"]),
    of_writes("a_group_with_killed_processes_is_gone_back_in", &["-O0", "-DKILLED"]),
    Session {
        name: "what_a_group_wrote_is_found_from_the_end",
        source: "group",
        flags: &["-O1"],
        options: &["--at", "end"],
        commands: &[
            "print common->counter",
            "tbreak main",
            "reverse-continue",
            "print common",
            "continue",
            "print common->counter",
            "last-write common->counter",
            "reverse-stepi",
            "reverse-stepi",
            "stepi",
            "stepi",
            "watch common->counter",
            "continue",
            "print common->counter",
            "continue",
            "print common->counter",
        ],
        expected: &[
            "$1 = 333",
            "main ()",
            "$2 = (",
            "exits with 0",
            "$3 = 333",
            "common->counter: ",
            "-> 333\nby ",
            "process",
            "Old value = ",
            "New value = 333",
            "$4 = 333",
            "exits with 0",
            "$5 = 333",
        ],
        unexpected: WRONG,
    },
    Session {
        name: "memory_is_shared_by_its_name_again",
        source: "attached_again",
        flags: &["-O0"],
        options: &["--batch"],
        commands: &[
            "break printf",
            "continue",
            "up",
            "print *counter",
            // Its children may both have run before it had the turn again.
            "watch -l *counter",
            "reverse-continue",
            "delete",
            "continue",
        ],
        expected: &[
            "Breakpoint 1, ",
            "$1 = 111",
            "Old value = 111",
            "New value = 1",
            "counter 111",
            "exits with 0",
        ],
        unexpected: WRONG,
    },
];

/// Debugs a process of the trace by its id; what gdb says.
fn said(
    tool: &Tool,
    scratch: &Scratch,
    trace: &Path,
    pid: Option<&str>,
    commands: &[&str],
) -> Result<String, String> {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(&tool.binary).args(["replay", "--batch"]);
    command.args(pid.map(|pid| format!("--pid={pid}")));
    for line in commands {
        command.args(["-ex", &line.replace("SCRIPTS", &workloads().to_string_lossy())]);
    }
    command.arg(trace);
    suites::plain_environment(&mut command, &scratch.join("home"));
    Ok(run(command, RUN_TIME_MAX)?.stdout_text())
}

/// Process ids of the trace, in the order of their births.
fn pids(tool: &Tool, scratch: &Scratch, trace: &Path) -> Result<Vec<String>, String> {
    let args: [OsString; 2] = ["info".into(), trace.into()];
    let text = run(tool.command(User::Current, &scratch.join("home"), &args), RUN_TIME_MAX)?.stdout_text();
    let rows = text.lines().skip_while(|row| !row.starts_with("Processes:")).skip(2);
    let rows = rows.take_while(|row| !row.is_empty());
    Ok(rows.filter_map(|row| row.split_whitespace().next()).map(str::to_owned).collect())
}

/// Each child of a group is gone back in, too.
fn check_children(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("children_of_a_group")?;
    let trace = recorded(tool, &scratch, "group", &["-O0"])?;
    let pids = pids(tool, &scratch, &trace)?;
    let [_, children @ ..] = &pids[..] else { return Err("no processes".to_owned()) };
    if children.len() != 2 {
        return Err(format!("other processes than two children: {pids:?}"));
    }
    for child in children {
        let text = said(tool, &scratch, &trace, Some(child), WRITES)?;
        compare(&text, &["changes", "ends with ", "differences 0"], WRONG)?;
    }
    Ok(())
}

/// Processes that share nothing when they are made: what comes before is of others, too, whichever of them is looked at.
fn check_late(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("late_group")?;
    let trace = recorded(tool, &scratch, "late_group", &["-O0"])?;
    let pids = pids(tool, &scratch, &trace)?;
    let [main, children @ ..] = &pids[..] else { return Err("no processes".to_owned()) };
    if children.len() != 3 {
        return Err(format!("other processes than three children: {pids:?}"));
    }
    let end = ["break add", "continue", "print *counter", "delete", "continue", "print *counter"];
    let text = said(tool, &scratch, &trace, Some(main), &[&end[..], &["last-write *counter"]].concat())?;
    compare(&text, &["$1 = 300", "ends with 333", "$2 = 333", "add (value=33)"], WRONG)?;
    for (first, child) in (0..).step_by(100).zip(children) {
        let text = said(tool, &scratch, &trace, Some(child), &end[..3])?;
        compare(&text, &[&format!("$1 = {first}\n")], WRONG)?;
    }
    let last = children.last().expect("there are three");
    let args: [OsString; 4] =
        ["replay".into(), "--run".into(), format!("--pid={last}").into(), trace.clone().into()];
    let outcome = run(tool.command(User::Current, &scratch.join("home"), &args), RUN_TIME_MAX)?;
    match outcome.code {
        0 => Ok(()),
        code => Err(format!("the replay of process {last} ended with {code}: {}", outcome.stderr_text())),
    }
}

/// All that processes share is the same at each stop, on all ways to it, in each of them.
fn check_states(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("states_of_a_group")?;
    let (program, trace) = (built(&scratch, "group_pages", &["-O0"])?, scratch.join("trace"));
    let args: [OsString; 5] =
        ["record".into(), "-q".into(), "-o".into(), trace.clone().into(), program.into()];
    let outcome = run(tool.command(User::Current, &scratch.fresh_directory("home")?, &args), RUN_TIME_MAX)?;
    let children = outcome.stdout_text();
    let mut all: Vec<Option<&str>> = children.lines().map(Some).collect();
    if all.len() != 2 {
        return Err(format!("other processes than two children: {children}"));
    }
    all.push(None);
    let expected = ["backwards the same", "again the same", "with the others the same", "stops 20 states 20"];
    for pid in all {
        let text = said(tool, &scratch, &trace, pid, &["source SCRIPTS/group_states.py"])?;
        compare(&text, &expected, WRONG)?;
    }
    Ok(())
}

/// What several processes of Python add to one value.
fn check_python(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("values_of_python")?;
    let trace = scratch.join("trace");
    let mut args: Vec<OsString> = vec!["record".into(), "-q".into(), "-o".into(), trace.clone().into()];
    args.extend(["python3".into(), workloads().join("values.py").into()]);
    let home = scratch.fresh_directory("home")?;
    let outcome = run(tool.command(User::Current, &home, &args), RUN_TIME_MAX)?;
    compare(&outcome.stdout_text(), &["together 600"], &[])?;
    let end = ["continue"; 10];
    let mut commands: Vec<&str> = end.to_vec();
    commands.extend(["when", "reverse-stepi", "reverse-stepi", "when", "stepi", "stepi", "continue", "when"]);
    let text = said(tool, &scratch, &trace, None, &commands)?;
    compare(&text, &["together 600", "exits with 0", "exits with 0"], WRONG)
}

pub fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let (own, other, third, late) = (Arc::clone(tool), Arc::clone(tool), Arc::clone(tool), Arc::clone(tool));
    let python =
        Trial::test("values_of_python_are_gone_back_in", move || check_python(&other).map_err(Failed::from));
    let kind = if have_program("python3") { "" } else { "needs python3" };
    vec![
        Trial::test("children_of_a_group", move || check_children(&own).map_err(Failed::from)),
        Trial::test("children_of_a_late_group", move || check_late(&late).map_err(Failed::from)),
        Trial::test("states_of_a_group", move || check_states(&third).map_err(Failed::from)),
        python.with_kind(kind).with_ignored_flag(!kind.is_empty()),
    ]
}
