//! Every guest that goes back itself, in a live session: it prints and ends as its
//! header lines say, and leaves no process behind.
//!
//! `RETROVANE_TIMES=20` runs each of them so often.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{
    AttachedGuest, LiveGuest, Mode, REFUSED, TestResult, Tool, User, check_no_such_process, has_static_libc,
    run_suite, tests_run_as_root, times, unless_missing,
};

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
    trials.extend(attach_trials(tool, is_root)?);
    Ok(trials)
}

/// Programs that ran before the session.
fn attach_trials(tool: &Arc<Tool>, is_root: bool) -> Result<Vec<Trial>, String> {
    let mut trials = Vec::new();
    let mut add = |name: String, missing: Option<String>, check: Box<dyn Fn(&Tool) -> TestResult + Send>| {
        let needs_tool = (tool.mode == Mode::Native).then(|| "needs the tool".to_owned());
        let tool = Arc::clone(tool);
        let trial =
            Trial::test(name, move || (1..=times()).try_for_each(|_| check(&tool)).map_err(Failed::from));
        trials.push(unless_missing(trial, needs_tool.or(missing)));
    };
    for guest in AttachedGuest::all()? {
        let users =
            if is_root && guest.is_plain() { &[User::Current, User::Nobody][..] } else { &[User::Current] };
        for &user in users {
            let guest = guest.clone();
            let missing = (guest.is_static() && !has_static_libc()).then(|| "needs a static libc".to_owned());
            let name = format!("{}::{}", guest.name, user.name(is_root));
            add(name, missing, Box::new(move |tool| guest.check(tool, user)));
        }
    }
    for refused in REFUSED {
        let missing = (refused.by_nobody && !is_root).then(|| "needs root".to_owned());
        add(refused.name.to_owned(), missing, Box::new(move |tool| refused.check(tool)));
    }
    add("attach::refused::no_such_process".to_owned(), None, Box::new(check_no_such_process));
    Ok(trials)
}

fn main() -> ExitCode {
    run_suite(trials)
}
