//! Every guest that goes back itself, in a live session: it prints and ends as its
//! header lines say, and leaves no process behind, in
//! all ways of making checkpoints.
//!
//! `RETROVANE_TIMES=20` runs each of them so often.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{
    AttachedGuest, LiveGuest, Mode, Ordered, OtherUser, REFUSED, RecoverGuest, TestResult, Tool, User,
    WindowGuest, check_killed, check_no_such_process, check_postgres, check_redis, check_redis_data,
    has_static_libc, have_program, run_suite, tests_run_as_root, times, unless_missing,
};

/// How checkpoints are made.
#[derive(Clone, Copy)]
enum Way {
    /// By default: mostly by forks, as guests are small.
    Usual,
    /// Later ones save the pages written since.
    Saving,
    /// The same where userfaultfd is refused: each by a fork.
    Refused,
}

impl Way {
    fn suffix(self) -> &'static str {
        match self {
            Way::Usual => "",
            Way::Saving => "::saving",
            Way::Refused => "::refused",
        }
    }
}

fn check(tool: &Tool, guest: &LiveGuest, way: Way, user: User) -> TestResult {
    let mut built = guest.build()?;
    for time in 1..=times() {
        let checked = match way {
            Way::Usual => built.check_live(tool, user),
            Way::Saving => built.check_live_saving(tool, user),
            Way::Refused => built.check_live_refused(tool, user),
        };
        checked.map_err(|error| format!("time {time}: {error}")).inspect_err(|_| {
            built.scratch.keep_if_asked();
        })?;
    }
    Ok(())
}

fn trials(tool: &Arc<Tool>) -> Result<Vec<Trial>, String> {
    let is_root = tests_run_as_root();
    let mut trials = Vec::new();
    for guest in LiveGuest::all()? {
        let mut ways = vec![(Way::Usual, User::Current)];
        // Neither differs in anything that a compiler decides.
        if guest.is_plain() && guest.is_for_everybody() {
            ways.push((Way::Saving, User::Current));
            // Forks are what the others come down to.
            if guest.name.starts_with("increments") {
                ways.push((Way::Refused, User::Current));
            }
            if is_root {
                ways.extend([(Way::Usual, User::Nobody), (Way::Saving, User::Nobody)]);
            }
        }
        for (way, user) in ways {
            let name = format!("{}::{}{}", guest.name, user.name(is_root), way.suffix());
            let is_other = !is_root || user == User::Nobody;
            let missing = match tool.mode {
                Mode::Native => Some("needs the tool".to_owned()),
                Mode::Full if is_other && guest.needs_root() => Some("needs root".to_owned()),
                Mode::Full => guest.missing(),
            };
            let (tool, guest) = (Arc::clone(tool), guest.clone());
            let trial = Trial::test(name, move || check(&tool, &guest, way, user).map_err(Failed::from));
            trials.push(unless_missing(trial, missing));
        }
    }
    trials.extend(attach_trials(tool, is_root)?);
    Ok(trials)
}

/// Programs that ran before the session, and those whose log becomes too long.
fn attach_trials(tool: &Arc<Tool>, is_root: bool) -> Result<Vec<Trial>, String> {
    let mut trials = Vec::new();
    let mut add = |name: String, missing: Option<String>, check: Check| {
        let needs_tool = (tool.mode == Mode::Native).then(|| "needs the tool".to_owned());
        let tool = Arc::clone(tool);
        let trial =
            Trial::test(name, move || (1..=times()).try_for_each(|_| check(&tool)).map_err(Failed::from));
        trials.push(unless_missing(trial, needs_tool.or(missing)));
    };
    for guest in AttachedGuest::all()? {
        for &user in users_of(is_root && guest.is_plain()) {
            let guest = guest.clone();
            let missing = missing_libc(guest.is_static());
            let name = format!("{}::{}", guest.name, user.name(is_root));
            add(name, missing, Box::new(move |tool| guest.check(tool, user)));
        }
    }
    let missing = |names: &[&str]| {
        let missing = names.iter().find(|name| !have_program(name));
        missing.map(|name| format!("needs {name}"))
    };
    let redis = missing(&["redis-server", "redis-benchmark", "gdb"]);
    add("window::redis".to_owned(), redis, Box::new(check_redis));
    add("window::killed".to_owned(), None, Box::new(check_killed));
    let postgres = missing(&["postgres", "initdb", "psql"]);
    add("together::postgresql".to_owned(), postgres, Box::new(check_postgres));
    let redis = missing(&["redis-server", "redis-cli", "python3"]);
    add("together::redis".to_owned(), redis, Box::new(check_redis_data));
    for ordered in Ordered::ALL {
        add(ordered.name.to_owned(), missing(&["python3"]), Box::new(move |tool| ordered.check(tool)));
    }
    for server in OtherUser::ALL {
        let missing = if is_root { missing(server.needs) } else { Some("needs root".to_owned()) };
        add(server.name.to_owned(), missing, Box::new(move |tool| server.check(tool)));
    }
    add_windows(&mut add, is_root)?;
    for guest in RecoverGuest::all()? {
        let missing_static = missing_libc(guest.is_static());
        if guest.name == "recover::pad::O0" {
            let guest = guest.clone();
            add("recover::gdb".to_owned(), missing(&["gdb"]), Box::new(move |tool| guest.check_gdb(tool)));
        }
        let mut ways: Vec<(String, User, &'static [&'static str])> =
            vec![(User::Current.name(is_root).to_owned(), User::Current, &[])];
        if guest.is_plain() {
            let pages = format!("{}::saving", User::Current.name(is_root));
            ways.push((pages, User::Current, &["--checkpoints=pages"]));
            if is_root {
                ways.push((User::Nobody.name(is_root).to_owned(), User::Nobody, &[]));
            }
        }
        for (how, user, options) in ways {
            let guest = guest.clone();
            let name = format!("{}::{how}", guest.name);
            add(name, missing_static.clone(), Box::new(move |tool| guest.check(tool, user, options)));
        }
    }
    add_refused(&mut add, is_root);
    Ok(trials)
}

type Check = Box<dyn Fn(&Tool) -> TestResult + Send>;

/// Who runs a program: we, and nobody where we may choose.
fn users_of(is_both: bool) -> &'static [User] {
    if is_both { &[User::Current, User::Nobody] } else { &[User::Current] }
}

fn missing_libc(is_static: bool) -> Option<String> {
    (is_static && !has_static_libc()).then(|| "needs a static libc".to_owned())
}

/// Programs whose log becomes longer than it may be.
fn add_windows(add: &mut dyn FnMut(String, Option<String>, Check), is_root: bool) -> TestResult {
    let missing_gdb = (!have_program("gdb")).then(|| "needs gdb".to_owned());
    for guest in WindowGuest::all()? {
        if guest.name == "window::alone::O0" {
            let guest = guest.clone();
            add("window::gdb".to_owned(), missing_gdb.clone(), Box::new(move |tool| guest.check_gdb(tool)));
        }
        for &user in users_of(is_root && guest.is_plain()) {
            let guest = guest.clone();
            let missing = missing_libc(guest.is_static());
            let name = format!("{}::{}", guest.name, user.name(is_root));
            if guest.can_be_killed() {
                let guest = guest.clone();
                let check = Box::new(move |tool: &Tool| guest.check_killed(tool, user));
                add(format!("{name}::killed"), missing.clone(), check);
            }
            add(name, missing, Box::new(move |tool| guest.check(tool, user)));
        }
    }
    Ok(())
}

/// Processes that are not taken over.
fn add_refused(add: &mut dyn FnMut(String, Option<String>, Check), is_root: bool) {
    for refused in REFUSED {
        let missing = (refused.by_nobody && !is_root).then(|| "needs root".to_owned());
        add(refused.name.to_owned(), missing, Box::new(move |tool| refused.check(tool)));
    }
    add("attach::refused::no_such_process".to_owned(), None, Box::new(check_no_such_process));
}

fn main() -> ExitCode {
    run_suite(trials)
}
