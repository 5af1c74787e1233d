//! How a suite begins: its trials are made, or it says why not.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

use crate::guest::forget_built;
use crate::{Scratch, Tool};

/// What the command line says. Where it does not say how many trials run at a time, there are more of them than
/// processors: they wait as well, for programs that sleep and for one another.
pub fn suite_arguments() -> Arguments {
    let mut arguments = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    arguments.test_threads.get_or_insert(processors + processors.div_ceil(2));
    arguments
}

/// Runs a suite whose trials all use a copy of the tool that every user can reach.
pub fn run_suite(trials: impl FnOnce(&Arc<Tool>) -> Result<Vec<Trial>, String>) -> ExitCode {
    let arguments = suite_arguments();
    let prepared = Scratch::new("tool").and_then(|scratch| {
        let tool = Arc::new(Tool::find().reachable_copy(scratch.path())?);
        Ok((trials(&tool)?, scratch))
    });
    match prepared {
        Ok((trials, _scratch)) => {
            let conclusion = libtest_mimic::run(&arguments, trials);
            forget_built();
            conclusion.exit_code()
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The trial, skipped with the reason if something is missing.
pub fn unless_missing(trial: Trial, missing: Option<impl Into<String>>) -> Trial {
    match missing {
        Some(capability) => trial.with_kind(capability).with_ignored_flag(true),
        None => trial,
    }
}
