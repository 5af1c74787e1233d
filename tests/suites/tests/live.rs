//! Every guest that goes back itself, in a live session: it prints and ends as its
//! header lines say, and leaves no process behind.
//!
//! `RETROVANE_TIMES=20` runs each of them so often.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use suites::{LiveGuest, Mode, Scratch, TestResult, Tool, User, tests_run_as_root, times};

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
            trials.push(match missing {
                Some(capability) => trial.with_kind(capability).with_ignored_flag(true),
                None => trial,
            });
        }
    }
    Ok(trials)
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let prepared = Scratch::new("tool").and_then(|scratch| {
        let tool = Arc::new(Tool::find().reachable_copy(scratch.path())?);
        Ok((trials(&tool)?, scratch))
    });
    match prepared {
        Ok((trials, _scratch)) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
