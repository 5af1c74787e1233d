//! Policies of streams: what a trace keeps of inputs, and what becomes of inputs and outputs in a replay.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use suites::{Mode, Recording, TestResult, Tool, check, run_suite};

/// The age from which a file's times tell of each later change.
const SETTLED: Duration = Duration::from_millis(3200);

/// Recorded output is dropped, or goes into a file.
fn outputs_go_where_policies_say(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "policies", "parser")?;
    recording.write("in.txt", "goto\n")?;
    let record = ["--quiet", "record", "-o", "trace", "--", "./parser", "in.txt"];
    check(&recording.tool(&record, None)?, 3, "is forbidden")?;
    let replay = |policy: &[&str]| recording.tool(&[&["replay", "--run", "trace"], policy].concat(), None);
    check(&replay(&[])?, 3, "is forbidden")?;
    for policy in [&["--output", "stderr=drop"][..], &["--policy", "policies"]] {
        recording.write("policies", "# quiet\noutput *=drop\noutput stderr=to errors.txt\n")?;
        let outcome = replay(policy)?;
        if outcome.code != 3 || !outcome.stderr.is_empty() {
            return Err(format!("{policy:?}: {outcome:?}"));
        }
    }
    if !recording.read("errors.txt")?.contains("is forbidden") {
        return Err("the output did not go into the file".into());
    }
    check(&replay(&["--output", "tcp:*=real"])?, 2, "stdout and stderr")
}

/// Waits until a file is old enough to be referred to.
fn settle(recording: &Recording, name: &str) -> TestResult {
    let path = recording.path(name);
    let written =
        std::fs::metadata(path).and_then(|found| found.modified()).map_err(|error| error.to_string())?;
    while written.elapsed().is_ok_and(|age| age < SETTLED) {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Of files that are referred to the trace has a digest; replay reads them, and says which has changed.
fn files_are_referred_to(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "refer", "parser")?;
    let text = "one two\n".repeat(2000);
    recording.write("in.txt", &text)?;
    settle(&recording, "in.txt")?;
    let folder = recording.scratch.path().canonicalize().map_err(|error| error.to_string())?;
    let refer = format!("file:{}/**=refer", folder.display());
    let keep = format!("file:{}/in.txt=keep", folder.display());
    let record = |name: &str, policies: &[&str]| {
        let words = [&["--quiet", "record", "-o", name], policies, &["--", "./parser", "in.txt"]].concat();
        recording.tool(&words, None)
    };
    check(&record("kept", &["--input", &refer, "--input", &keep])?, 0, "")?;
    recording.write("policies", &format!("# small traces\ninput {refer}\ninput stdin=real\n"))?;
    check(&record("referred", &["--policy", "policies"])?, 0, "")?;
    check(&recording.tool(&["dump", "referred", "--call", "read"], None)?, 0, "in.txt>\n")?;
    check(&recording.tool(&["info", "referred"], None)?, 0, "digests only")?;
    let replayed = |name: &str| recording.tool(&["replay", "--run", name], None);
    check(&replayed("referred")?, 0, "")?;
    check(&recording.tool(&["pack", "referred", "-o", "whole.rvpack"], None)?, 0, "")?;
    // The same length, and another content; then none.
    recording.write("in.txt", &text.replace("two", "owt"))?;
    check(&replayed("referred")?, 117, "in.txt is not what it was")?;
    std::fs::remove_file(recording.path("in.txt")).map_err(|error| error.to_string())?;
    check(&replayed("referred")?, 117, "in.txt is not what it was")?;
    check(&replayed("kept")?, 0, "")?;
    check(&replayed("whole.rvpack")?, 0, "")?;
    recording.write("in.txt", &text)?;
    check(&replayed("referred")?, 0, "")?;
    check(&record("wrong", &["--input", "stdin=refer"])?, 2, "only files can be referred to")?;
    check(&record("wrong", &["--input", "file:/a[=refer"])?, 2, "--input file:/a[=refer")?;
    check(&record("wrong", &["--input", "file:/**=real"])?, 2, "keep or refer is wanted")
}

type Check = fn(&Arc<Tool>) -> TestResult;

fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let checks: [(&str, Check); 2] =
        [("outputs", outputs_go_where_policies_say), ("refer", files_are_referred_to)];
    let trial = |(name, check): (&str, Check)| {
        let tool = Arc::clone(tool);
        Trial::test(name, move || match tool.mode {
            Mode::Native => Ok(()),
            _ => check(&tool).map_err(Failed::from),
        })
    };
    checks.into_iter().map(trial).collect()
}

fn main() -> ExitCode {
    run_suite(|tool| Ok(trials(tool)))
}
