//! The past of a live program, which becomes longer as the program goes on.

use std::process::Command;

use suites::{RUN_TIME_MAX, Scratch, TestResult, Tool, run};

use super::super::{built, compare};
use super::Debugging;

pub const SESSIONS: &[Debugging] = &[
    Debugging {
        // What was replayed of the past stays when the program has gone on.
        name: "live_past_is_made_longer",
        source: "live_long",
        flags: &["-O0"],
        commands: &[
            "python kept = lambda: {word for word in gdb.execute('monitor status', False, True).split() if '+' in word}",
            "break fflush",
            "continue",
            "when",
            "python first = kept()",
            "continue",
            "when",
            "python second = kept()",
            "python print('longer', len(first) > 1, first < second)",
            "reverse-continue",
            "live",
            "continue",
            "reverse-stepi",
            "python print('longer', second < kept())",
            "reverse-continue",
            "reverse-continue",
            "reverse-continue",
            "continue",
            "live",
            "up",
            "print round",
            "delete",
            "continue",
            "continue",
        ],
        expected: &[
            "longer True True",
            "Breakpoint 1, ",
            "longer True",
            "Breakpoint 1, ",
            "Breakpoint 1, ",
            "No more reverse-execution history",
            "Breakpoint 1, ",
            "$1 = 2",
            "exited normally",
        ],
        unexpected: &["retrovane:", "Error"],
    },
    Debugging {
        // The way to the present is long: what was passed on it is kept.
        name: "live_past_has_checkpoints",
        source: "live_long",
        flags: &["-O0"],
        commands: &[
            "break finished",
            "continue",
            "print twice(21)",
            "monitor status",
            "break puts if 0",
            "reverse-continue",
            "live",
            "delete",
            "continue",
            "continue",
            "when",
            "run",
        ],
        expected: &[
            "Breakpoint 1, finished",
            "$1 = 42",
            "processes stand at earlier positions",
            "No more reverse-execution history",
            "finished",
            "exited normally",
            "The program has ended",
            "Nothing is started here",
        ],
        unexpected: &["retrovane:", "\n1 processes stand", "\n2 processes stand"],
    },
    Debugging {
        // A copy is kept where the program stood, at the twentieth hit since the event before.
        name: "live_last_write_after_a_look_back",
        source: "live_total",
        flags: &["-O0"],
        commands: &[
            "break add",
            "ignore 1 19",
            "continue",
            "reverse-stepi",
            "live",
            "delete",
            "break live_total.c:17",
            "continue",
            "last-write total",
            "live",
            "next",
            "last-write total",
        ],
        expected: &[
            "add (value=20)",
            "total 1275",
            "main ()",
            "total: 1225 -> 1275",
            "add (value=50)",
            "total: 1275 -> 1276",
            "add (value=1)",
        ],
        unexpected: &["retrovane:"],
    },
];

/// What else is written to the file that gdb and the program write to, before them and after
/// them, stays, wherever a rollback takes the program's offset.
pub fn check_outputs_in_a_file(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("live_file")?;
    let program = built(&scratch, "live_total", &["-O0"])?;
    let file = scratch.join("output");
    let mut command = Command::new("sh");
    command.args(["-c", "{ echo before; shift; \"$@\"; echo after; } > \"$0\" 2>&1"]).arg(&file).arg("sh");
    command.arg(&tool.binary).args(["debug", "--batch"]);
    for asked in
        ["break main", "continue", "checkpoint", "break 16", "continue", "next", "rollback 0", "print total"]
    {
        command.args(["-ex", asked]);
    }
    command.arg("--").arg(program);
    suites::plain_environment(&mut command, &scratch.fresh_directory("home")?);
    run(command, RUN_TIME_MAX)?;
    let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
    compare(&text, &["before\n", "Breakpoint 1, main", "total 1275", "$1 = 0", "\nafter\n"], &[])
}

/// What a child of a live program has done is looked at beside it, and who kills the program
/// where a child was told of ends well.
pub fn check_children(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("live_children")?;
    let program = built(&scratch, "family", &["-O0"])?;
    let saved = scratch.join("saved");
    let commands = [
        "catch fork",
        "continue",
        "tbreak add",
        "continue",
        "up",
        "python print('child', child := int(gdb.parse_and_eval('child')))",
        "shell \"$RETROVANE\" ctl \"$(\"$RETROVANE\" ctl | head -1)\" save \"$SAVED\"",
        "python os.system(f'\"$RETROVANE\" replay --pid {child} --batch -ex \"break add\" -ex continue -ex \"print n\" -ex \"print sum\" \"$SAVED\"')",
        "delete",
        "catch vfork",
        "continue",
        "kill",
    ];
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(&tool.binary).args(["debug", "--batch"]);
    for asked in commands {
        command.args(["-ex", asked]);
    }
    command.arg("--").arg(program);
    suites::plain_environment(&mut command, &scratch.fresh_directory("home")?);
    command.env("RETROVANE", &tool.binary).env("SAVED", &saved);
    let text = run(command, RUN_TIME_MAX)?.stdout_text();
    let expected = [
        "forked process",
        "child ",
        "Breakpoint 1, add (n=100)",
        "$1 = 100",
        "$2 = 1",
        "vforked process",
        "killed]",
    ];
    compare(&text, &expected, &["Remote communication error", "Traceback", "retrovane: "])
}

/// The socket of the session is found where its home has a very long name.
pub fn check_long_home(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("live_long_home")?;
    let program = built(&scratch, "live_total", &["-O0"])?;
    let home = scratch.fresh_directory(&"home".repeat(40))?;
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(&tool.binary).args(["debug", "--batch"]);
    for asked in [
        "break add",
        "continue",
        "checkpoint",
        "shell \"$RETROVANE\" ctl \"$(\"$RETROVANE\" ctl | head -1)\"",
    ] {
        command.args(["-ex", asked]);
    }
    command.arg("--").arg(program);
    suites::plain_environment(&mut command, &home);
    command.env("RETROVANE", &tool.binary);
    let text = run(command, RUN_TIME_MAX)?.stdout_text();
    compare(&text, &["add (value=1)", "taken by", "command"], &["retrovane: "])
}
