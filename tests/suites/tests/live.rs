//! Every guest that goes back itself, in a live session: it prints and ends as its
//! header lines say, and leaves no process behind.
//!
//! `RETROVANE_TIMES=20` runs each of them so often.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{LiveGuest, Mode, TestResult, Tool, User, run_suite, tests_run_as_root, times, unless_missing};

fn check(tool: &Tool, guest: &LiveGuest, user: User) -> TestResult {
    let mut built = guest.build()?;
    for time in 1..=times() {
        built.check_live(tool, user).map_err(|error| format!("time {time}: {error}")).inspect_err(|_| {
            built.scratch.keep_if_asked();
        })?;
    }
    Ok(())
}

fn trials(tool: &Arc<Tool>) -> Result<Vec<Trial>, String> {
    let is_root = tests_run_as_root();
    let mut trials = Vec::new();
    for guest in LiveGuest::all()? {
        let is_for_others = is_root && guest.is_plain() && guest.is_for_everybody();
        let users = if is_for_others { &[User::Current, User::Nobody][..] } else { &[User::Current] };
        for &user in users {
            let name = format!("{}::{}", guest.name, user.name(is_root));
            let missing = match tool.mode {
                Mode::Native => Some("needs the tool".to_owned()),
                Mode::Full => guest.missing(),
            };
            let (tool, guest) = (Arc::clone(tool), guest.clone());
            let trial = Trial::test(name, move || check(&tool, &guest, user).map_err(Failed::from));
            trials.push(unless_missing(trial, missing));
        }
    }
    Ok(trials)
}

fn main() -> ExitCode {
    run_suite(trials)
}
