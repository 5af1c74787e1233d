//! What languages bring for gdb themselves works on recordings.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{RUN_TIME_MAX, Scratch, TestResult, Tool, User, run};

use super::super::compare;
use super::{build, missing, path_of_compilers};

/// What the program says to these words, in a line.
fn said_by(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).env("PATH", path_of_compilers()).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// What gdb says to the commands on a recording of the program, with the user's own compilers.
fn session(tool: &Tool, name: &str, page: &str, commands: &[&str]) -> Result<String, String> {
    let scratch = Scratch::new(name)?;
    build(&scratch, page)?;
    let (home, trace) = (scratch.fresh_directory("home")?, scratch.join("trace"));
    let mut args: Vec<OsString> = ["record", "-q", "-o"].iter().map(OsString::from).collect();
    args.extend([trace.clone().into(), scratch.join("program").into()]);
    run(tool.command(User::Current, &home, &args), RUN_TIME_MAX)?;
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(&tool.binary).args(["replay", "--batch"]);
    for asked in commands {
        command.args(["--ex", asked]);
    }
    command.arg(trace);
    suites::plain_environment(&mut command, &home);
    command.env("PATH", path_of_compilers());
    for (name, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
        let home = std::env::var_os("HOME").unwrap_or_default();
        command.env(name, std::env::var_os(name).unwrap_or_else(|| Path::new(&home).join(folder).into()));
    }
    Ok(run(command, RUN_TIME_MAX)?.stdout_text())
}

const GO: &str = "<!-- program: waiting.go -->\n<!-- needs: go -->\n";

/// Go's command that shows another goroutine sets registers: in a copy.
fn check_goroutines(tool: &Tool) -> TestResult {
    let root = said_by("go", &["env", "GOROOT"]).ok_or("go does not say where it is")?;
    let script = format!("source {root}/src/runtime/runtime-gdb.py");
    let commands = [
        &script,
        "break main.done",
        "continue",
        "goroutine all bt",
        "backtrace 1",
        "goroutine 1 nonsense",
        "reverse-stepi",
        "stepi",
        "finish",
        "print 'main.counter'",
    ];
    let text = session(tool, "goroutines", GO, &commands)?;
    let expected = ["Breakpoint 1, main.done", "main.waiter (", "#0  main.done", "main.main ()", "= 1"];
    compare(&text, &expected, &["cannot be changed", "retrovane:"])
}

const RUST: &str = "<!-- program: store.rs --edition 2021 -->\n<!-- needs: rustc -->\n";

/// The compiler's printers are found as rust-gdb finds them.
fn check_rust_printers(tool: &Tool) -> TestResult {
    let commands = ["break store::check", "continue", "print shelf.boxes"];
    let text = session(tool, "rust_printers", RUST, &commands)?;
    compare(&text, &["Breakpoint 1, store::check", "(size=1)", "{6}"], &["RawVec", "retrovane:"])
}

/// What is missing for the printers of Rust.
fn missing_printers() -> Option<String> {
    let root = said_by("rustc", &["--print", "sysroot"]).unwrap_or_default();
    let is_there = Path::new(&root).join("lib/rustlib/etc/gdb_lookup.py").exists();
    (!is_there).then(|| "gdb's printers for Rust".to_owned())
}

pub fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    type Check = fn(&Tool) -> TestResult;
    let cases: [(&str, Check, Option<String>); 2] = [
        ("goroutines_are_shown", check_goroutines, missing(GO)),
        ("values_of_rust_are_shown", check_rust_printers, missing(RUST).or_else(missing_printers)),
    ];
    let one = |(name, check, missing): (&str, Check, Option<String>)| {
        let own = Arc::clone(tool);
        let trial = Trial::test(name, move || check(&own).map_err(Failed::from));
        match missing {
            Some(what) => trial.with_kind(format!("needs {what}")).with_ignored_flag(true),
            None => trial,
        }
    };
    cases.into_iter().map(one).collect()
}
