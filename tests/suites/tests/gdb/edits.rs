//! Changes of a live program at its present: its memory, its registers. Its past has them
//! too, and what is saved of it.

use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{RUN_TIME_MAX, Scratch, TestResult, Tool, run};

use super::{Debugging, Served, THREADS};
use crate::{built, compare};

pub const SESSIONS: &[Debugging] = &[
    Debugging {
        name: "live_end_has_its_position",
        source: "use_after_free",
        flags: &["-O0"],
        commands: &[
            "continue",
            "python where = lambda: gdb.execute('when', to_string=True)",
            "python end = where()",
            "mark crash",
            "reverse-stepi",
            "python before = where()",
            "stepi",
            "python print('stepped to it:', where() == end and before != end)",
            "reverse-continue",
            "seek crash",
            "backtrace 1",
            "python print('went to it:', where() == end)",
            "checkpoint",
            "rollback 0",
            "python print('stands there again:', where() == end)",
            "reverse-stepi",
            "python print('came before it:', where() == before)",
            "live",
            "continue",
        ],
        expected: &[
            "SIGSEGV",
            "stepped to it: True",
            "No more reverse-execution history",
            "#0  0x",
            "in total ()",
            "went to it: True",
            "checkpoint 0",
            "stands there again: True",
            "came before it: True",
            "terminated with signal SIGSEGV",
        ],
        unexpected: &["retrovane:"],
    },
    Debugging {
        name: "live_memory_is_written",
        source: "edited",
        flags: &["-O0"],
        commands: &[
            "break show",
            "continue",
            "mark before",
            "set var value = 77",
            "print limit = 4",
            "set var word[0] = 82",
            "mark after",
            "continue",
            "mark later",
            "reverse-continue",
            "print value",
            "reverse-stepi",
            "print value",
            "print word",
            "reverse-stepi",
            "print limit",
            "set var limit = 9",
            "seek later",
            "print value",
            "seek before",
            "print value",
            "stepi",
            "print value",
            "seek after",
            "print value",
            "live",
            "last-write limit",
            "print limit",
            "delete",
            "continue",
            "print round",
            "tbreak count",
            "continue",
        ],
        expected: &[
            "show (round=1, value=10)",
            "$1 = 4",
            "Round 1: 77",
            "show (round=2, value=20)",
            "show (round=1, value=77)",
            "$2 = 77",
            "show (round=1, value=10)",
            "$3 = 10",
            "$4 = \"round\"",
            "$5 = 3",
            "Cannot access memory",
            "$6 = 20",
            "$7 = 10",
            "$8 = 77",
            "$9 = 77",
            "show (round=2, value=20)",
            "limit: 3 -> 4",
            "show (round=1, value=10)",
            "$10 = 3",
            "The present",
            "$11 = 2",
            "Round 2: 20",
            "Round 4: 40",
            "count (rounds=100000)",
        ],
        unexpected: &["diverge", "Round 5"],
    },
    Debugging {
        name: "live_registers_are_written",
        source: "edited",
        flags: &["-O0"],
        commands: &[
            "break weigh",
            "continue",
            "finish",
            "mark before",
            "print $rax = 123",
            "print $rbx = 0x1234",
            "mark after",
            "tbreak show",
            "continue",
            "print value",
            "print $rbx",
            "seek before",
            "print $rax",
            "print $rax = 5",
            "seek after",
            "print $rax",
            "print $rbx",
            "live",
            "continue",
            "return 55",
            "tbreak show",
            "continue",
            "reverse-continue",
            "print n",
            "live",
            "jump show:out",
            "delete",
            "break *scaled",
            "continue",
            "mark scaled",
            "set var $xmm0.v2_double[0] = 21",
            "print $xmm0.v2_double[0]",
            "stepi",
            "seek scaled",
            "print $xmm0.v2_double[0]",
            "stepi",
            "print $xmm0.v2_double[0]",
            "live",
            "continue",
        ],
        expected: &[
            "weigh (n=1)",
            "Value returned is $1 = 10",
            "$2 = 123",
            "$3 = 4660",
            "show (round=1, value=123)",
            "$4 = 123",
            "$5 = 4660",
            "$6 = 10",
            "this is a recording: its memory and registers cannot be changed",
            "$7 = 123",
            "$8 = 4660",
            "round 1: 123",
            "weigh (n=2)",
            "show (round=2, value=55)",
            "weigh (n=2)",
            "$9 = 2",
            // The line of the second round was jumped over.
            "weigh (n=3)",
            "round 3: 30",
            "count ",
            "$10 = 21",
            "$11 = 2",
            "$12 = 21",
            "scaled 31.50",
            "SIGSEGV",
        ],
        unexpected: &["retrovane:", "round 2"],
    },
    Debugging {
        name: "live_deaths_are_averted",
        source: "edited",
        flags: &["-O0"],
        commands: &[
            "continue",
            "print $pc = -1",
            "print *(int *)8 = 1",
            "print $rax = (long)&limit",
            "continue",
            "print 'edited.c'::limit = weigh(7)",
            "print $rdi = weigh(1) + 1",
            "last-write 'edited.c'::limit",
            "print 'edited.c'::limit",
            "live",
            "reverse-stepi",
            "print $rdi",
            "live",
            "continue",
            "continue",
        ],
        expected: &[
            "scaled 3.00",
            "SIGSEGV",
            "which is no address of its own",
            "Cannot access memory",
            "read 3",
            "about to exit with 3",
            "$2 = 70",
            "$3 = 11",
            "limit: 3 -> 70",
            "$4 = 3",
            "$5 = 3",
            "about to exit with 11",
            "exited with code 013",
        ],
        unexpected: &["retrovane:"],
    },
    Debugging {
        name: "live_loop_is_written_to",
        source: "edited",
        flags: &["-O0"],
        commands: &[
            "break count",
            "continue",
            "next",
            "break +1 if i == 70003",
            "continue",
            "print sum",
            "set var sum = 5000000",
            "delete",
            "next",
            "print i",
            "last-write sum",
            "last-write sum",
            "print i",
            "print sum",
            "stepi",
            "print sum",
            "live",
            "continue",
        ],
        expected: &[
            "count (rounds=100000)",
            "$1 = 210003",
            "$2 = 70003",
            "sum: 5000000 -> 5000003",
            "sum: 210003 -> 5000000",
            "$3 = 70003",
            "$4 = 210003",
            "$5 = 5000000",
            "count 5089992",
        ],
        unexpected: &["retrovane:"],
    },
    Debugging {
        name: "live_threads_see_what_was_written",
        source: "live_rounds",
        flags: THREADS,
        commands: &[
            "break tell if round == 2",
            "continue",
            "set var sums[1] = 600",
            "checkpoint",
            "set var sums[2] = 900",
            "thread 1",
            "print $rax = 1",
            "set var sums[0] = 50",
            "delete",
            "break tell if round == 3",
            "continue",
            "print sums",
            "last-write sums[2]",
            "last-write sums[2]",
            "print sums",
            "rollback 0",
            "print sums",
            "reverse-continue",
            "live",
            "delete",
            "continue",
        ],
        expected: &[
            "round 1: 1 2 3",
            "tell (round=2)",
            "only in the thread that runs",
            "round 2: 50 600 900",
            "tell (round=3)",
            "$1 = {53, 606, 909}",
            "sums[2]: 900 -> 909",
            "sums[2]: 9 -> 900",
            "$2 = {3, 6, 9}",
            "$3 = {3, 600, 9}",
            "tell (round=2)",
            "round 2: 3 600 9",
            "round 6: 21 636 63",
            "sum 720",
            "about to exit with 7",
        ],
        unexpected: &["retrovane:"],
    },
];

/// What was changed is in what is saved: its replay writes what the program wrote, and gdb
/// finds the changes in it.
fn check_saved(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("live_edits_are_saved")?;
    let program = built(&scratch, "edited", &["-O0"])?;
    let home = scratch.fresh_directory("home")?;
    let saved = scratch.join("saved");
    let commands = [
        "break show",
        "continue",
        "set var value = 77",
        "set var limit = 2",
        "continue",
        "print $rdi = 1",
        "return",
        "delete",
        "continue",
        "print $rax = (long)&limit",
        "continue",
        "print $rdi = 4",
        "shell \"$RETROVANE\" ctl \"$(\"$RETROVANE\" ctl | head -1)\" save \"$SAVED\"",
        "continue",
        "continue",
    ];
    let mut args: Vec<OsString> = vec!["debug".into(), "--batch".into()];
    args.extend(commands.iter().flat_map(|command| ["-ex".into(), command.into()]));
    args.extend(["--".into(), program.into()]);
    let mut command = Command::new(&tool.binary);
    command.args(args);
    suites::plain_environment(&mut command, &home);
    command.env("RETROVANE", &tool.binary).env("SAVED", &saved);
    let outcome = run(command, RUN_TIME_MAX)?;
    let written = ["round 1: 77", "count 299995", "scaled 3.00", "read 2"];
    compare(&outcome.stdout_text(), &[&written[..], &["events in", "with code 04"]].concat(), &["round 2"])?;

    let replay = |options: &[&str]| {
        let mut command = Command::new(&tool.binary);
        command.arg("replay").arg(&saved).args(options);
        suites::plain_environment(&mut command, &home);
        run(command, RUN_TIME_MAX)
    };
    let plain = replay(&["--run"])?;
    let expected = written.map(|line| format!("{line}\n")).concat();
    if plain.stdout_text() != expected {
        return Err(format!("its replay wrote {:?}: {}", plain.stdout_text(), plain.stderr_text()));
    }
    let commands = ["watch limit", "continue", "print limit", "delete", "break show", "reverse-continue"];
    let options: Vec<&str> = commands.iter().flat_map(|command| ["-ex", command]).collect();
    let looked_at = replay(&[&["--batch"], &options[..], &["-ex", "log 0-999"]].concat())?;
    compare(
        &looked_at.stdout_text(),
        &["Old value = 3", "New value = 2", "$1 = 2", "show (round=1, value=10)", "pause", "edit"],
        &["diverge"],
    )
}

/// A program that computes for ever is interrupted, and gets out of its loop by what is
/// written where it stands; from behind that it is looked back to its beginning.
fn check_interrupted(tool: &Tool) -> TestResult {
    /// Where rsp is in the answer to `g`, in digits.
    const RSP: std::ops::Range<usize> = 7 * 16..8 * 16;
    /// Of the stack: it may still be on its way back from the library's functions.
    const BYTES: u64 = 8192;
    let scratch = Scratch::new("live_loop_is_left")?;
    let mut served = Served::start(tool, &scratch)?;
    served.client.expect("?", "T05")?;
    // Else what is written is taken for a part of a call.
    let announced: String = "call announced".bytes().map(|byte| format!("{byte:02x}")).collect();
    served.client.expect(&format!("qRcmd,{announced}"), "")?;
    served.client.send("vCont;c")?;
    served.line("ready")?;
    served.write("spin\n")?;
    served.line("line 1 begins with s")?;
    served.client.interrupt()?;
    let registers = served.client.ask("g")?;
    let digits = registers.get(RSP).ok_or("too few registers")?;
    let rsp = u64::from_str_radix(digits, 16).map_err(|error| error.to_string())?.swap_bytes();
    let memory = served.client.ask(&format!("m{rsp:x},{BYTES:x}"))?;
    let place = memory.find("7370696e0a").ok_or("the line is not on the stack")? as u64 / 2;
    served.client.expect(&format!("M{:x},1:78", rsp + place), "OK")?;
    served.client.send("vCont;c")?;
    served.write("back\n")?;
    served.line("line 2 begins with b")?;
    served.client.interrupt()?;
    served.client.expect("bc", "T05thread:1;replaylog:begin")?;
    served.client.expect("vCont;c", "T05thread:1;replaylog:end")?;
    served.client.expect("vKill;1", "OK")
}

/// All of them.
pub fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let trial = |name, check: fn(&Tool) -> TestResult| {
        let own = Arc::clone(tool);
        Trial::test(name, move || check(&own).map_err(Failed::from))
    };
    vec![trial("live_edits_are_saved", check_saved), trial("live_loop_is_left", check_interrupted)]
}
