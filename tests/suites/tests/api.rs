//! The calls of retrovane.h as they are installed, in every language, where there is no
//! live session: each program notices and goes on.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use suites::{
    LiveGuest, Mode, Scratch, TestResult, Tool, have_program, in_workspace, plain_environment, run,
    run_suite, unless_missing,
};

/// How long a script may take.
const SCRIPT_TIME_MAX: Duration = Duration::from_secs(120);

fn passes(mut command: Command, scratch: &Scratch) -> TestResult {
    plain_environment(&mut command, &scratch.fresh_directory("home")?);
    let outcome = run(command, SCRIPT_TIME_MAX)?;
    if outcome.code == 0 {
        Ok(())
    } else {
        Err(format!("it ended with {}:\n{}{}", outcome.code, outcome.stdout_text(), outcome.stderr_text()))
    }
}

/// Installs what was built, and builds programs with it.
fn check_install(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("install")?;
    // The script wants a target directory with the tool that is tested.
    let release = scratch.fresh_directory("target/release")?;
    std::fs::copy(&tool.binary, release.join("retrovane")).map_err(|error| error.to_string())?;
    for name in ["retrovane-mirror", "libretrovane_mirror.a", "libretrovane_mirror.so"] {
        let built = suites::target_directory().join("release").join(name);
        std::fs::copy(&built, release.join(name))
            .map_err(|error| format!("{}: {error}; `cargo build --release` makes it", built.display()))?;
    }
    let mut command = Command::new(in_workspace("tests/check-install"));
    command.arg(scratch.join("target"));
    passes(command, &scratch)
}

/// Installs what `make dist` made, and uses it where there is nothing else.
fn check_dist() -> TestResult {
    let scratch = Scratch::new("dist")?;
    let mut command = Command::new(in_workspace("tests/check-dist"));
    command.arg(suites::target_directory().join("packages"));
    passes(command, &scratch)
}

fn python_package() -> TestResult {
    let scratch = Scratch::new("python-package")?;
    let mut command = Command::new("python3");
    command.args(["-B", "-m", "unittest", "discover", "-s", "tests"]).current_dir(in_workspace("python"));
    passes(command, &scratch)
}

fn trials(tool: &Arc<Tool>) -> Result<Vec<Trial>, String> {
    let missing = |needs: &[&str]| {
        let lacks_tool = tool.mode == Mode::Native;
        let absent = needs.iter().find(|name| !have_program(name)).map(|name| format!("needs {name}"));
        if lacks_tool { Some("needs the tool".to_owned()) } else { absent }
    };
    let own = Arc::clone(tool);
    let install = Trial::test("install", move || check_install(&own).map_err(Failed::from));
    let python = Trial::test("python_package", || python_package().map_err(Failed::from));
    let python_missing = (!have_program("python3")).then(|| "needs python3".to_owned());
    let dist = Trial::test("dist", || check_dist().map_err(Failed::from));
    let is_made = suites::target_directory().join("packages/SHA256SUMS").exists();
    let dist_missing = (!is_made).then(|| "needs `make dist`".to_owned());
    let mut trials = vec![
        unless_missing(dist, dist_missing.or_else(|| missing(&["busybox", "dpkg", "readelf", "unshare"]))),
        unless_missing(install, missing(&["make", "gcc", "g++", "pkg-config", "readelf"])),
        unless_missing(python, python_missing),
    ];
    for guest in LiveGuest::all()?.into_iter().filter(LiveGuest::is_plain) {
        let (name, lacks) = (guest.name.clone(), guest.missing());
        let outside = guest.clone();
        let trial = Trial::test(format!("outside::{name}"), move || {
            outside.build().and_then(|built| built.check_outside()).map_err(Failed::from)
        });
        trials.push(unless_missing(trial, lacks.clone()));
        // One of each language.
        if name.to_lowercase().starts_with("counter") {
            let own = Arc::clone(tool);
            let trial = Trial::test(format!("recorded::{name}"), move || {
                guest.build().and_then(|built| built.check_recorded(&own)).map_err(Failed::from)
            });
            trials.push(unless_missing(trial, lacks.or_else(|| missing(&[]))));
        }
    }
    Ok(trials)
}

fn main() -> ExitCode {
    run_suite(trials)
}
