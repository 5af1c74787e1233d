//! gdb on recordings: the real gdb, driven in batches, forwards and backwards.

#[path = "gdb/branches.rs"]
mod branches;
#[path = "gdb/children.rs"]
mod children;
#[path = "gdb/debugging.rs"]
mod debugging;
#[path = "gdb/departures.rs"]
mod departures;
#[path = "gdb/editors.rs"]
mod editors;
#[path = "gdb/families.rs"]
mod families;
#[path = "gdb/groups.rs"]
mod groups;
#[path = "gdb/keyframes.rs"]
mod keyframes;
#[path = "gdb/lines.rs"]
mod lines;
#[path = "gdb/pages.rs"]
mod pages;
#[path = "gdb/signals.rs"]
mod signals;
#[path = "gdb/threads.rs"]
mod threads;
#[path = "gdb/views.rs"]
mod views;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{Mode, RUN_TIME_MAX, Scratch, TestResult, Tool, User, have_program, run, run_suite};

/// A session in gdb.
struct Session {
    name: &'static str,
    /// The program's source in `tests/gdb`, and how it is compiled.
    source: &'static str,
    flags: &'static [&'static str],
    /// Options of `replay`.
    options: &'static [&'static str],
    commands: &'static [&'static str],
    /// What gdb says, in this order.
    expected: &'static [&'static str],
    /// What it does not say.
    unexpected: &'static [&'static str],
}

const STATIC: &[&str] = &["-O1", "-nostdlib", "-static", "-fno-stack-protector"];

const SESSIONS: &[Session] = &[
    Session {
        name: "use_after_free_by_one_reverse_watchpoint",
        source: "use_after_free",
        flags: &["-O0"],
        options: &["--at", "crash"],
        commands: &[
            "backtrace",
            "print list->next->next",
            "watch -l list->next->next",
            "reverse-continue",
            "backtrace",
        ],
        expected: &[
            "total ()",
            "0x4141414141414141",
            "Hardware watchpoint",
            "New value",
            "reuse ()",
            "main ()",
        ],
        unexpected: &["retrovane:"],
    },
    Session {
        // Each of them takes its time, and the last one is all that is asked for: it takes about as
        // long as to find one that stands alone.
        name: "last_of_very_many_writes_is_found_soon",
        source: "busy",
        flags: &["-O1"],
        options: &["--at", "end"],
        commands: &[
            "python import time; began = time.time()",
            "last-write busy",
            "python many = time.time() - began",
            "last-write busy",
            "python began = time.time()",
            "last-write rare",
            "python few = time.time() - began",
            "up",
            "watch busy",
            "reverse-continue",
            "print busy",
            "delete",
            "break loop",
            "reverse-continue",
            "print rounds",
            "last-write busy",
            "break busy.c:10",
            "seek end",
            "reverse-continue",
            "print busy",
            "python print('soon' if many < 5 * (1 + few) else f'late: {many} and {few}')",
        ],
        expected: &[
            "busy: 243999998 -> 244000000",
            "busy: 243999996 -> 243999998",
            "rare: 0 -> 1",
            "Old value = 120000000",
            "New value = 119999998",
            "$1 = 119999998",
            "Breakpoint",
            "$2 = 60000000",
            "busy was not written before",
            "Breakpoint",
            "$3 = 243999998",
            "soon",
        ],
        unexpected: &["retrovane:"],
    },
    Session {
        name: "crash_is_reached_by_continue_too",
        source: "use_after_free",
        flags: &["-O0"],
        options: &["--batch"],
        commands: &["break total", "continue", "continue", "info sharedlibrary", "continue", "continue"],
        expected: &[
            "Breakpoint 1, total",
            "total 10",
            "Breakpoint 1, total",
            "libc.so.6",
            "SIGSEGV",
            "history ends",
        ],
        unexpected: &["retrovane:"],
    },
    Session {
        name: "reverse_execution_by_lines",
        source: "use_after_free",
        flags: &["-O0"],
        options: &["--gdb", "--batch"],
        commands: &[
            "break reuse",
            "continue",
            "next",
            "next",
            "reverse-next",
            "reverse-finish",
            "reverse-next",
            "reverse-step",
            "print list->value",
            "tbreak add",
            "reverse-continue",
            "print n",
            "print value",
        ],
        expected: &[
            "Breakpoint 1, reuse",
            "main ()",
            "reuse();",
            "free(list->next)",
            "$1 = 4",
            "add (value=4)",
            "$3 = 4",
        ],
        unexpected: &["retrovane:"],
    },
    Session {
        name: "lost_update_found_backwards",
        source: "lost_update",
        flags: &["-O0", "-pthread"],
        options: &["--at", "end"],
        commands: &[
            "print counter",
            "watch counter",
            "reverse-continue",
            "backtrace",
            "info threads",
            "reverse-continue",
            "backtrace",
            "reverse-continue",
            "reverse-continue",
            "print counter",
            "reverse-continue",
        ],
        expected: &[
            "$1 = 1",
            "Old value = 1",
            "New value = 3",
            "slow (",
            "Old value = 3",
            "New value = 2",
            "fast (",
            "Old value = 1",
            "New value = 0",
            "$2 = 0",
            "No more reverse-execution history",
        ],
        unexpected: &["retrovane:"],
    },
    Session {
        name: "every_step_back_is_the_step_forward",
        source: "steps",
        flags: STATIC,
        options: &["--batch"],
        commands: &["source SCRIPTS/all_steps.py"],
        expected: &["forwards ", "begins differences 0"],
        unexpected: &["retrovane:", "differs"],
    },
    Session {
        name: "far_from_any_event",
        source: "far_from_events",
        flags: STATIC,
        options: &["--at", "end"],
        commands: &[
            "watch rare",
            "reverse-continue",
            "reverse-continue",
            "mark second",
            "print rare",
            "delete",
            "reverse-stepi",
            "seek second",
            "print rare",
            "delete",
            "seek end",
            "watch often[3]",
            "reverse-continue",
        ],
        expected: &[
            "Old value = 27999999",
            "New value = 20999999",
            "Old value = 20999999",
            "New value = 13999999",
            "second is ",
            "$1 = 13999999",
            "$2 = 13999999",
            "Old value = 1872990",
            "New value = 1872989",
        ],
        unexpected: &["retrovane:"],
    },
    Session {
        name: "positions_marks_and_checkpoints",
        source: "steps",
        flags: STATIC,
        options: &["--batch"],
        commands: &[
            "when",
            "break on_signal",
            "continue",
            "mark first",
            "checkpoint",
            "continue",
            "print handled",
            "info checkpoints",
            "rollback 1",
            "print handled",
            "seek end",
            "seek first",
            "print handled",
            "seek begin",
            "when",
            "seek 999999",
            "seek nowhere",
            "discard 1",
            "info checkpoints",
        ],
        expected: &[
            "Breakpoint 1, on_signal",
            "first is ",
            "checkpoint 1 at ",
            "Breakpoint 1, on_signal",
            "$1 = 10",
            "on_signal (number=10)",
            "$2 = 0",
            "on_signal (number=10)",
            "$3 = 0",
            "discarded the checkpoint",
            "No checkpoints.",
        ],
        unexpected: &[],
    },
    Session {
        name: "writers_of_a_variable",
        source: "steps",
        flags: STATIC,
        options: &["--at", "end"],
        commands: &["last-write handled", "seek end", "who handled", "when", "timeline", "log"],
        expected: &["handled: 50 -> 60", "50 -> 60", "40 -> 50", "0 -> 10"],
        unexpected: &["retrovane:"],
    },
    Session {
        // Each way there is the same, however many traps of steps it takes.
        name: "many_steps_lead_to_one_place",
        source: "computation",
        flags: STATIC,
        options: &["--batch"],
        commands: &["break middle", "continue", "mark here", "print x", "seek begin", "seek here", "print x"],
        expected: &["Breakpoint 1, middle", "here is ", "$1 = 1750397292", "$2 = 1750397292"],
        unexpected: &["retrovane:"],
    },
    Session {
        name: "what_cannot_be_is_said",
        source: "steps",
        flags: STATIC,
        options: &["--batch"],
        commands: &[
            "break *0x10",
            "continue",
            "delete",
            "break _start",
            "print handled = 5",
            "print $rax = 1",
            "print handled",
        ],
        expected: &["Cannot access memory at address 0x10", "cannot be changed", "= 0"],
        unexpected: &["diverge"],
    },
    Session {
        name: "conditions_and_watched_reads",
        source: "steps",
        flags: STATIC,
        options: &["--batch"],
        commands: &[
            "break on_signal if handled == 30",
            "continue",
            "print handled",
            "delete",
            "rwatch handled",
            "continue",
            "delete",
            "awatch handled",
            "reverse-continue",
            "reverse-continue",
        ],
        expected: &[
            "Breakpoint 1, on_signal",
            "$1 = 30",
            "read watchpoint",
            "Value = ",
            "access (read/write) watchpoint",
            "access (read/write)",
        ],
        unexpected: &["retrovane:"],
    },
];

fn workloads() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../gdb")
}

/// Compiles a program of `tests/gdb`: the name of its source, which is one of C if it does not say.
fn built(scratch: &Scratch, source: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let program = scratch.join("program");
    let (compiler, name) = match source.ends_with(".cpp") {
        true => ("g++", source.to_owned()),
        false => ("gcc", format!("{source}.c")),
    };
    let source = workloads().join(name);
    let built = Command::new(compiler)
        .args(["-g", "-Wno-unused-result"])
        .args(flags)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return Err(format!("{} does not build", source.display()));
    }
    Ok(program)
}

/// Compiles the program and records it; the trace's directory.
fn recorded(tool: &Tool, scratch: &Scratch, source: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let (program, trace) = (built(scratch, source, flags)?, scratch.join("trace"));
    let args: [OsString; 5] =
        ["record".into(), "-q".into(), "-o".into(), trace.clone().into(), program.into()];
    run(tool.command(User::Current, &scratch.fresh_directory("home")?, &args), RUN_TIME_MAX)?;
    Ok(trace)
}

fn check(tool: &Tool, session: &Session) -> TestResult {
    let scratch = Scratch::new(session.name)?;
    let trace = recorded(tool, &scratch, session.source, session.flags)?;
    let mut args: Vec<OsString> = vec!["replay".into(), "--batch".into()];
    args.extend(session.options.iter().filter(|option| **option != "--batch").map(OsString::from));
    for command in session.commands {
        args.extend(["-ex".into(), command.replace("SCRIPTS", &workloads().to_string_lossy()).into()]);
    }
    args.push(trace.into());
    let home = scratch.join("home");
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(&tool.binary).args(args);
    suites::plain_environment(&mut command, &home);
    let outcome = run(command, RUN_TIME_MAX)?;
    compare(&outcome.stdout_text(), session.expected, session.unexpected)
}

/// Compares what gdb said with what it is to say, in this order, and with what it is not.
fn compare(text: &str, expected: &[&str], unexpected: &[&str]) -> TestResult {
    let mut rest = text;
    for wanted in expected {
        let Some(place) = rest.find(wanted) else {
            return Err(format!("gdb did not say {wanted:?} where it should; it said:\n{text}"));
        };
        rest = &rest[place + wanted.len()..];
    }
    match unexpected.iter().find(|word| text.contains(**word)) {
        Some(word) => Err(format!("gdb said {word:?}:\n{text}")),
        None => Ok(()),
    }
}

fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    let sessions = [
        SESSIONS,
        branches::SESSIONS,
        families::SESSIONS,
        groups::SESSIONS,
        lines::SESSIONS,
        signals::SESSIONS,
        threads::SESSIONS,
        views::SESSIONS,
    ];
    for session in sessions.into_iter().flatten() {
        let own = Arc::clone(tool);
        trials.push(Trial::test(session.name, move || check(&own, session).map_err(Failed::from)));
    }
    trials.extend(departures::trials(tool));
    trials.extend(children::trials(tool));
    trials.extend(debugging::trials(tool));
    trials.extend(editors::trials(tool));
    trials.extend(families::trials(tool));
    trials.extend(groups::trials(tool));
    trials.extend(keyframes::trials(tool));
    trials.extend(pages::trials(tool));
    let kind = match (!have_program("gdb"), tool.mode == Mode::Native) {
        (true, _) => "needs gdb",
        (false, true) => "needs the tool",
        (false, false) => return trials,
    };
    trials.into_iter().map(|trial| trial.with_kind(kind).with_ignored_flag(true)).collect()
}

fn main() -> ExitCode {
    run_suite(|tool| Ok(trials(tool)))
}
