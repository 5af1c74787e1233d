//! A program that makes random calls from random threads, by seeds: what it learned from the
//! system is one digest, which a recording and its replay must agree on to the last bit.
//!
//! `RETROVANE_SEEDS=FIRST..END` tries other seeds than the usual ones.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{
    Case, Scratch, TestResult, Tool, User, Variant, check_case, has_static_libc, in_workspace, make_file,
    run_suite, unless_missing,
};

/// Each variant of the program gets some of them.
const USUAL_SEEDS: std::ops::Range<u64> = 1..7;

/// Ways of recording, by name.
const WAYS: [(&str, &[&str]); 4] = [
    ("plain", &[]),
    ("checked", &["--check", "20"]),
    ("seccomp", &["--seccomp"]),
    ("chaos", &["--chaos", "--seed", "7"]),
];

fn seeds() -> Result<std::ops::Range<u64>, String> {
    let Ok(asked) = std::env::var("RETROVANE_SEEDS") else {
        return Ok(USUAL_SEEDS);
    };
    let range = asked.split_once("..").and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    range.ok_or_else(|| format!("RETROVANE_SEEDS is FIRST..END, not {asked:?}"))
}

fn build(variant: Variant, output: &Path) -> TestResult {
    let source = in_workspace("tests/random/random.c");
    let mut command = Command::new("gcc");
    command.args(["-Wall", "-Werror", "-Wno-unused-result", "-g"]).args(variant.arguments());
    command.arg(source).arg("-o").arg(output).args(["-lm", "-pthread"]);
    make_file(command)
}

fn check_seed(tool: &Tool, binary: &Path, seed: u64, options: &[&str]) -> TestResult {
    let mut scratch = Scratch::new(&format!("random-{seed}"))?;
    let mut case = Case::new(User::Current, vec![binary.into(), seed.to_string().into()]);
    case.record_options = options.iter().map(Into::into).collect();
    // Natively it learns something else: only its end is the same.
    case.normalise = &|_| Vec::new();
    check_case(tool, &scratch, &case).inspect_err(|_| scratch.keep_if_asked())
}

fn trials(tool: &Arc<Tool>, directory: &Path) -> Result<Vec<Trial>, String> {
    let mut trials = Vec::new();
    let mut binaries: Vec<(Variant, PathBuf)> = Vec::new();
    for variant in Variant::ALL {
        let binary = directory.join(variant.name);
        if !variant.is_static || has_static_libc() {
            build(variant, &binary)?;
        }
        binaries.push((variant, binary));
    }
    for seed in seeds()? {
        let place = usize::try_from(seed).map_err(|error| error.to_string())?;
        let (variant, binary) = &binaries[place % binaries.len()];
        for (way, options) in WAYS {
            let missing = (!binary.exists()).then_some("needs a static libc");
            let (tool, binary) = (Arc::clone(tool), binary.clone());
            let name = format!("seed_{seed}::{}::{way}", variant.name);
            let trial =
                Trial::test(name, move || check_seed(&tool, &binary, seed, options).map_err(Failed::from));
            trials.push(unless_missing(trial, missing));
        }
    }
    Ok(trials)
}

fn main() -> ExitCode {
    let scratch = match Scratch::new("random") {
        Ok(scratch) => scratch,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    run_suite(|tool| trials(tool, scratch.path()))
}
