//! Programs with a race that shows rarely: `hunt` catches each, and what it caught replays to the
//! same failure each time.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use suites::{
    Mode, RUN_TIME_MAX, Scratch, TestResult, Tool, User, in_workspace, make_file, run, run_suite,
    unless_missing,
};

const RACES: [&str; 6] = ["aba", "deadlock", "double_checked", "lost_update", "missed_wakeup", "plain_count"];
/// Those whose accesses `race` is to show: in the others some are atomic, far apart, or not made any more.
const CONFLICTS: [&str; 3] = ["plain_count", "corpus/pool_count", STATIC_BUFFER];
/// Its accesses are made by the C library, which it has called.
const STATIC_BUFFER: &str = "corpus/static_buffer";
/// Those of which `race` has nothing to say.
const IN_ORDER: [&str; 2] = ["locked", "handed_over"];
/// Each as its bug is in real programs, with nothing that widens a window.
const CORPUS: [&str; 20] = [
    "check_then_act",
    "descriptor_reuse",
    "file_count",
    "init_order",
    "late_thread",
    "lazy_table",
    "lock_order",
    "lost_wakeup",
    "pool_count",
    "refcount",
    "shared_count",
    "shared_slots",
    "signal_count",
    "spsc_ring",
    "static_buffer",
    "stop_flag",
    "tick_count",
    "timer_cancel",
    "torn_pair",
    "torn_report",
];
/// Those of which one to three forced switches are found in seconds: between threads, between processes that share
/// memory or a file, and signals that come between two instructions.
const FEW_SWITCHES: [&str; 9] = [
    "check_then_act",
    "file_count",
    "lazy_table",
    "shared_count",
    "shared_slots",
    "signal_count",
    "spsc_ring",
    "tick_count",
    "torn_pair",
];
const OPTIMISATIONS: [&str; 3] = ["-O0", "-O1", "-O2"];
/// A hunt is over long before, if it can catch the race at all.
const TRIES: &str = "1000";
const REPLAYS: usize = 10;
const HUNT_TIME_MAX: Duration = Duration::from_secs(300);

fn build(race: &str, optimisation: &str, output: &Path) -> TestResult {
    let source = in_workspace(&format!("tests/races/{race}.c"));
    let mut command = Command::new("gcc");
    command.args(["-Wall", "-Werror", "-g", "-pthread", optimisation]).arg(source).arg("-o").arg(output);
    make_file(command)
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

fn check_race(tool: &Tool, race: &str, optimisation: &str) -> TestResult {
    let name = race.rsplit('/').next().unwrap_or(race);
    let scratch = Scratch::new(&format!("race-{name}"))?;
    let (home, trace) = (scratch.path(), scratch.path().join("trace"));
    let binary: PathBuf = home.join(name);
    build(race, optimisation, &binary)?;
    if tool.mode == Mode::Native {
        return Ok(());
    }
    check_hunt(tool, race, optimisation, (home, &trace), &[binary.into()])
}

/// A race in a program whose file is large: the standard library is most of it.
fn check_rust(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("race-rust")?;
    let home = scratch.path();
    let binary = home.join("lost_bids");
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition", "2021", "-O", "-g", "-o"]).arg(&binary);
    compiler.arg(in_workspace("tests/races/corpus/lost_bids.rs"));
    make_file(compiler)?;
    if tool.mode == Mode::Native {
        return Ok(());
    }
    check_hunt(tool, "corpus/lost_bids", "", (home, &home.join("trace")), &[binary.into()])
}

/// A race in a program of Go: its language's runtime is most of what its threads execute.
fn check_go(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("race-go")?;
    let home = scratch.path();
    let binary = home.join("lost_adds");
    let mut compiler = Command::new("go");
    compiler.env("GO111MODULE", "off").env("GOTOOLCHAIN", "local");
    compiler.args(["build", "-o"]).arg(&binary).arg(in_workspace("tests/races/corpus/lost_adds.go"));
    make_file(compiler)?;
    if tool.mode == Mode::Native {
        return Ok(());
    }
    check_hunt(tool, "corpus/lost_adds", "", (home, &home.join("trace")), &[binary.into()])
}

/// A race of a program in Python, whose threads are switched by its interpreter as well.
fn check_python(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("race-python")?;
    let home = scratch.path();
    let script = in_workspace("tests/races/corpus/lost_stock.py");
    // The interpreter itself, and not a script that looks for it.
    let program = ["/usr/bin/python3".into(), script.into()];
    check_hunt(tool, "corpus/lost_stock", "", (home, &home.join("trace")), &program)
}

/// It is caught, and fails the same in each replay.
fn check_hunt(
    tool: &Tool,
    race: &str,
    optimisation: &str,
    (home, trace): (&Path, &Path),
    program: &[OsString],
) -> TestResult {
    let name = race.rsplit('/').next().unwrap_or(race);
    let mut hunt = words(&["--quiet", "hunt", "--tries", TRIES, "--timeout", "5s", "-o"]);
    hunt.extend([trace.into(), "--".into()]);
    hunt.extend_from_slice(program);
    let caught = run(tool.command(User::Current, home, &hunt), HUNT_TIME_MAX)?;
    if caught.code != 0 {
        return Err(format!("{TRIES} tries caught nothing:\n{}", caught.stderr_text()));
    }
    let mut replay = words(&["--quiet", "replay"]);
    replay.push(trace.into());
    let replay = || run(tool.command(User::Current, home, &replay), RUN_TIME_MAX);
    let first = replay()?;
    if first.code == 0 {
        return Err("the failure that was caught does not show in its replay".into());
    }
    if RACES.contains(&race) && optimisation == "-O1" || FEW_SWITCHES.contains(&name) {
        check_schedule(tool, name, home)?;
    }
    if CONFLICTS.contains(&race) {
        check_conflict(tool, race, home)?;
    }
    for _ in 1..REPLAYS {
        let again = replay()?;
        if again != first {
            return Err(format!("one replay said {first:?}, another {again:?}"));
        }
    }
    Ok(())
}

/// `race` shows two accesses in the program's source, or in the C library that was called there.
fn check_conflict(tool: &Tool, race: &str, home: &Path) -> TestResult {
    let mut ask = words(&["race", "--json"]);
    ask.push(home.join("trace").into());
    let found = run(tool.command(User::Current, home, &ask), HUNT_TIME_MAX)?;
    let answer = found.stdout_text();
    // The innermost frame of each side, or all of its frames.
    let end = if race == STATIC_BUFFER { ']' } else { '}' };
    let place = format!("{race}.c:");
    let sides = answer
        .split("\"frames\":[{")
        .skip(1)
        .filter(|side| side.split(end).next().is_some_and(|frames| frames.contains(&place)));
    let (count, has_write) = (sides.count(), answer.contains("\"access\":\"write\""));
    if found.code != 0 || count < 2 || !has_write {
        return Err(format!("ends with {}: {}{answer}", found.code, found.stderr_text()));
    }
    Ok(())
}

/// `race` says nothing of a program whose accesses are all in order, whatever the schedule.
fn check_no_conflict(tool: &Tool, name: &str) -> TestResult {
    let scratch = Scratch::new(&format!("race-{name}"))?;
    let home = scratch.path();
    let binary = home.join(name);
    build(name, "-O2", &binary)?;
    if tool.mode == Mode::Native {
        return Ok(());
    }
    for seed in ["1", "2", "3"] {
        let trace = home.join(format!("trace-{seed}"));
        let mut record = words(&["--quiet", "record", "--chaos", "--seed", seed, "-o"]);
        record.extend([trace.clone().into(), "--".into(), binary.clone().into()]);
        let recorded = run(tool.command(User::Current, home, &record), RUN_TIME_MAX)?;
        let mut ask = words(&["race"]);
        ask.push(trace.into());
        let found = run(tool.command(User::Current, home, &ask), HUNT_TIME_MAX)?;
        let (code, said) = (found.code, found.stdout_text());
        if recorded.code != 0 || code != 1 || !said.starts_with("no conflicting accesses in process") {
            return Err(format!("seed {seed}: ends with {code}: {said}{}", found.stderr_text()));
        }
    }
    Ok(())
}

/// Few forced switches make the failure that was caught, and without one of them it passes.
fn check_schedule(tool: &Tool, race: &str, home: &Path) -> TestResult {
    let [trace, small] = ["trace", "small"].map(|name| home.join(name));
    let mut minimise = words(&["minimize", "--schedule", "--json", "-o"]);
    minimise.extend([small.clone().into(), trace.into()]);
    let found = run(tool.command(User::Current, home, &minimise), HUNT_TIME_MAX)?;
    let facts = found.stdout_text();
    let parsed: Value = serde_json::from_str(&facts).unwrap_or_default();
    let switches = parsed["switches"].as_array().map_or(&[][..], Vec::as_slice);
    // Each stack of two is a list that is not empty, and lines of the source are named.
    let is_few = (1..=3).contains(&switches.len()) && parsed["schedule_switches"] == switches.len();
    let stack = |switch: &Value| switch["stopped"].to_string();
    let sources = [format!("{race}.c:"), "race.h:".to_owned()];
    let names_source = sources.iter().any(|name| facts.contains(name));
    if !is_few || switches.iter().any(|switch| stack(switch) == "[]") || !names_source {
        return Err(format!("not one to three switches with their stacks: {}{facts}", found.stderr_text()));
    }
    // What is shown is the stack of the thread that was stopped, not of another one that came there.
    let is_of_another = |switch: &Value| switch["thread"] == 1 && stack(switch).contains("second_thread at");
    let is_of_main = |switch: &Value| switch["thread"] == 2 && stack(switch).contains("main at");
    if RACES.contains(&race) && switches.iter().any(|switch| is_of_another(switch) || is_of_main(switch)) {
        return Err(format!("the stack of another thread: {facts}"));
    }
    for (name, fails) in [("failing", true), ("passing", false)] {
        let mut replay = words(&["--quiet", "replay"]);
        replay.push(small.join(name).into());
        let code = run(tool.command(User::Current, home, &replay), RUN_TIME_MAX)?.code;
        if (code != 0) != fails {
            return Err(format!("the trace {name} ends with {code}"));
        }
    }
    Ok(())
}

fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let races =
        RACES.iter().flat_map(|race| OPTIMISATIONS.map(|optimisation| (race.to_string(), optimisation)));
    // The others are hunted by `make bench-hunt`.
    let corpus = CORPUS.iter().map(|race| (format!("corpus/{race}"), "-O2"));
    let trial = |(race, optimisation): (String, &'static str)| {
        let tool = Arc::clone(tool);
        let name = format!("{}::{}", race.replace('/', "::"), optimisation.trim_start_matches('-'));
        Trial::test(name, move || check_race(&tool, &race, optimisation).map_err(Failed::from))
    };
    let no_conflict = IN_ORDER.map(|name| {
        let tool = Arc::clone(tool);
        Trial::test(format!("{name}::O2"), move || check_no_conflict(&tool, name).map_err(Failed::from))
    });
    let python = Arc::clone(tool);
    let python = Trial::test("corpus::lost_stock::py", move || check_python(&python).map_err(Failed::from));
    let rust = Arc::clone(tool);
    let rust = Trial::test("corpus::lost_bids::rs", move || check_rust(&rust).map_err(Failed::from));
    let go = Arc::clone(tool);
    let go = Trial::test("corpus::lost_adds::go", move || check_go(&go).map_err(Failed::from));
    let has_go = Command::new("go").arg("version").output().is_ok_and(|output| output.status.success());
    let go = unless_missing(go, (!has_go).then_some("needs go"));
    races.chain(corpus).map(trial).chain(no_conflict).chain([python, rust, go]).collect()
}

fn main() -> ExitCode {
    run_suite(|tool| Ok(trials(tool)))
}
