//! Programs that run to their end, as rows of a table: native, recorded and
//! replayed runs are compared.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};

use crate::TestResult;
use crate::run::User;
use crate::scratch::Scratch;
use crate::surroundings::{Surroundings, prepare};
use crate::tool::{have_program, quick_mode, tests_run_as_root, times};
use crate::triple::{Case, check_case};

/// How far native and recorded runs are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Every byte, but for lines that begin with `~`.
    Exact,
    /// The exit code only: the program prints times or speeds. The replay
    /// still equals the recording in every byte.
    ExitCode,
}

/// One row. In all scripts `{name}` stands for a value of the surroundings.
#[derive(Clone, Copy)]
pub struct Program {
    pub name: &'static str,
    /// Programs that must be installed.
    pub needs: &'static [&'static str],
    /// Run by bash once, in the directory `{built}`.
    pub build: &'static str,
    /// Run by bash outside of the recording, in the fresh directory.
    pub setup: &'static str,
    /// Run by bash inside of the recording, before the command.
    pub preamble: &'static str,
    /// Run by bash inside of the recording.
    pub command: &'static str,
    pub code: i32,
    pub comparison: Comparison,
    /// Recorded with checksums of the program's memory.
    pub checked: bool,
    /// Left out of a quick run.
    pub slow: bool,
}

impl Program {
    pub const PLAIN: Program = Program {
        name: "",
        needs: &[],
        build: "",
        setup: "",
        preamble: "",
        command: "",
        code: 0,
        comparison: Comparison::Exact,
        checked: false,
        slow: false,
    };
}

/// Every this many events memory is checked, where it is.
pub const CHECK_INTERVAL: &str = "1000";

/// Trials of all rows, by each of the users; without root, by whoever runs them.
pub fn program_trials(
    surroundings: &Arc<Surroundings>,
    programs: &'static [Program],
    users: &[User],
) -> Vec<Trial> {
    let is_root = tests_run_as_root();
    let users = if is_root { users } else { &[User::Current] };
    let mut trials = Vec::new();
    for program in programs {
        for &user in users {
            let surroundings = Arc::clone(surroundings);
            let trial = Trial::test(format!("{}::{}", program.name, user.name(is_root)), move || {
                check_program(&surroundings, program, user).map_err(Failed::from)
            });
            trials.push(unless_missing(trial, program.needs, program.slow));
        }
    }
    trials
}

/// The trial, or the reason why it is skipped.
pub fn unless_missing(trial: Trial, needs: &[&str], slow: bool) -> Trial {
    let missing = needs.iter().find(|name| !have_program(name));
    match missing {
        Some(name) => trial.with_kind(format!("needs {name}")).with_ignored_flag(true),
        None if slow && quick_mode() => trial.with_kind("left out of a quick run").with_ignored_flag(true),
        None => trial,
    }
}

/// Runs the check as often as `RETROVANE_TIMES` says, and counts. Every second
/// run has checksums of memory, whatever the row says.
pub fn repeatedly(check: impl Fn(bool) -> TestResult) -> TestResult {
    let count = times();
    let failures: Vec<String> = (0..count)
        .filter_map(|number| check(number % 2 == 1).err().map(|e| format!("#{number}: {e}")))
        .collect();
    match failures.first() {
        None => Ok(()),
        Some(first) if count == 1 => Err(first.trim_start_matches("#0: ").to_owned()),
        Some(first) => Err(format!("{} of {count} runs failed; {first}", failures.len())),
    }
}

fn check_program(surroundings: &Surroundings, program: &Program, user: User) -> TestResult {
    let mut scratch = Scratch::new(program.name)?;
    let own = [surroundings.build(program.build, &scratch)?];
    let setup = surroundings.fill(program.setup, &own);
    let command = surroundings.fill(&format!("{}\n{}", program.preamble, program.command), &own);
    let set_up = |directory: &Path| prepare(&setup, directory);
    let mut case = Case::new(user, vec!["bash".into(), "-c".into(), command.into()]);
    case.prepare = &set_up;
    case.code = Some(program.code);
    case.time_max = Duration::from_secs(120);
    if program.comparison == Comparison::ExitCode {
        case.normalise = &|_| Vec::new();
    }
    let checked = Case { record_options: vec!["--check".into(), CHECK_INTERVAL.into()], ..case.clone() };
    repeatedly(|check| {
        scratch.remove("trace")?;
        check_case(&surroundings.tool, &scratch, if check || program.checked { &checked } else { &case })
    })
    .inspect_err(|_| scratch.keep_if_asked())
}
