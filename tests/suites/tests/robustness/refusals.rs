//! Programs that cannot be recorded, traces that are missing, wrong options.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use suites::{RUN_TIME_MAX, TestResult, Tool, User, run, tests_run_as_root};

use crate::bench::{Bench, check, no_panic, path, says};

/// Nothing ran, the code is not 0, and the message has these words.
fn refused(bench: &Bench<'_>, args: &[&str], words: &[&str]) -> TestResult {
    let outcome = bench.call(args)?;
    check(outcome.code != 0, "the tool should refuse", &outcome)?;
    check(outcome.stdout.is_empty(), "nothing should run", &outcome)?;
    says(&outcome, words)
}

pub fn missing_program(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "missing")?;
    refused(&bench, &["record", "-o", path(&bench.trace), "--", "no-such-program"], &["no-such-program"])?;
    refused(&bench, &["record", "-o", path(&bench.trace), "--", "./absent/x"], &["absent"])
}

pub fn not_executable(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "not-executable")?;
    fs::write(bench.run.join("plain"), "text").map_err(|error| error.to_string())?;
    refused(&bench, &["record", "-o", path(&bench.trace), "--", "./plain"], &["plain"])?;
    refused(&bench, &["record", "-o", path(&bench.trace), "--", "/"], &["directory"])
}

/// An ELF header of class 32 that claims to be an i386 program.
pub fn thirty_two_bit(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "thirty-two-bit")?;
    let mut header = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0];
    header.resize(16, 0);
    for half in [2u16, 3] {
        header.extend(half.to_le_bytes());
    }
    for word in [1u32, 0x0804_8054, 52, 0, 0] {
        header.extend(word.to_le_bytes());
    }
    for half in [52u16, 32, 1, 0, 0, 0] {
        header.extend(half.to_le_bytes());
    }
    for word in [1u32, 0, 0x0804_8000, 0x0804_8000, 4096, 4096, 5, 4096] {
        header.extend(word.to_le_bytes());
    }
    header.resize(4096, 0x90);
    let program = bench.run.join("old");
    fs::write(&program, &header).map_err(|error| error.to_string())?;
    fs::set_permissions(&program, Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
    refused(&bench, &["record", "-o", path(&bench.trace), "--", "./old"], &["32-bit"])
}

pub fn setuid_program(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "setuid")?;
    let program = bench.run.join("privileged");
    fs::copy("/bin/true", &program).map_err(|error| error.to_string())?;
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).map_err(|error| error.to_string())?;
    let args = ["record", "-o", path(&bench.trace), "--", "./privileged"];
    let outcome = run(bench.tool_command(User::Nobody, &args), RUN_TIME_MAX)?;
    no_panic(&outcome)?;
    check(outcome.code != 0, "the tool should refuse", &outcome)?;
    says(&outcome, &["set-user-id"])
}

/// A program of this name only traces others.
pub fn tracer(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "tracer")?;
    fs::copy("/bin/true", bench.run.join("rr")).map_err(|error| error.to_string())?;
    let args = ["record", "-o", path(&bench.trace), "--", "./rr"];
    refused(&bench, &args, &["ptrace", "retrovane dump"])?;
    check(bench.call(&args)?.code == 122, "it cannot be recorded", &bench.call(&args)?)
}

pub fn unknown_options(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "options")?;
    for args in [&["record", "--no-such-option", "--", "true"][..], &["no-such-command"], &[]] {
        let outcome = bench.call(args)?;
        check(outcome.code == 2, "wrong usage ends with 2", &outcome)?;
        check(!outcome.stderr.is_empty(), "wrong usage is explained", &outcome)?;
    }
    refused(&bench, &["record"], &["usage"])
}

pub fn missing_trace(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "missing-trace")?;
    refused(&bench, &["replay", "/absent/trace"], &["/absent/trace"])?;
    refused(&bench, &["replay"], &["trace"])?;
    let empty = bench.scratch.fresh_directory("empty")?;
    refused(&bench, &["replay", path(&empty)], &["trace"])
}

pub fn no_write_permission(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "no-permission")?;
    let closed = bench.scratch.fresh_directory("closed")?;
    fs::set_permissions(&closed, Permissions::from_mode(0o555)).map_err(|error| error.to_string())?;
    let user = if tests_run_as_root() { User::Nobody } else { User::Current };
    let trace = closed.join("trace");
    let args = ["record", "-o", path(&trace), "--", "echo", "ran"];
    let outcome = run(bench.tool_command(user, &args), RUN_TIME_MAX)?;
    no_panic(&outcome)?;
    check(outcome.code != 0 && outcome.stdout.is_empty(), "nothing should run", &outcome)?;
    says(&outcome, &["permission denied"])
}

pub fn existing_directory_is_kept(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "existing")?;
    let precious = bench.scratch.fresh_directory("precious")?;
    fs::write(precious.join("file"), "data").map_err(|error| error.to_string())?;
    let outcome = bench.call(&["record", "-o", path(&precious), "--", "true"])?;
    let kept = fs::read(precious.join("file")).is_ok_and(|bytes| bytes == b"data");
    check(kept && outcome.code != 0, "a directory with other files is refused and kept", &outcome)
}
