//! One program run three times: natively, recorded, replayed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::TestResult;
use crate::leftovers::Leftovers;
use crate::outcome::{Outcome, compare, without_nondeterminism};
use crate::run::{RUN_TIME_MAX, User, plain_environment, run, tail};
use crate::scratch::Scratch;
use crate::tool::{Mode, Tool};

/// A program, what it finds, and how it should end.
#[derive(Clone)]
pub struct Case<'a> {
    pub user: User,
    pub argv: Vec<OsString>,
    /// Fills the fresh directory before each of the two real runs.
    pub prepare: &'a dyn Fn(&Path) -> TestResult,
    /// The expected exit code, if known beforehand.
    pub code: Option<i32>,
    /// Applied to stdout and stderr before native and recorded are compared.
    pub normalise: &'a dyn Fn(&[u8]) -> Vec<u8>,
    /// Files that are gone before the replay, besides the run's directory.
    pub removed_before_replay: Vec<PathBuf>,
    /// Given to `retrovane record`.
    pub record_options: Vec<OsString>,
    /// Where recorded runs find files that were kept before, and what is known of their code;
    /// `None`: nothing was. A replay never finds them: it has what the trace has.
    pub kept_files: Option<PathBuf>,
    /// A command that runs the tool, with its arguments; empty: none.
    pub launcher: Vec<OsString>,
    pub time_max: Duration,
}

impl Case<'_> {
    pub fn new(user: User, argv: Vec<OsString>) -> Case<'static> {
        Case {
            user,
            argv,
            prepare: &|_| Ok(()),
            code: None,
            normalise: &without_nondeterminism,
            removed_before_replay: Vec::new(),
            record_options: Vec::new(),
            kept_files: None,
            launcher: Vec::new(),
            time_max: RUN_TIME_MAX,
        }
    }

    fn normalised(&self, outcome: &Outcome) -> Outcome {
        Outcome {
            stdout: (self.normalise)(&outcome.stdout),
            stderr: (self.normalise)(&outcome.stderr),
            code: outcome.code,
        }
    }

    fn tool_command(&self, tool: &Tool, home: &Path, args: &[OsString]) -> Command {
        let Some((launcher, own)) = self.launcher.split_first() else {
            return tool.command(self.user, home, args);
        };
        let mut command = self.user.command(launcher);
        command.args(own).arg(&tool.binary).args(args);
        plain_environment(&mut command, home);
        command
    }

    /// The program as it runs without the tool.
    ///
    /// # Errors
    /// Why it did not run, or that it ended in another way than it should.
    pub fn native(&self, scratch: &Scratch) -> Result<Outcome, String> {
        let directory = scratch.fresh_directory("run")?;
        let _leftovers = Leftovers::of(&directory);
        (self.prepare)(&directory)?;
        let mut command = self.user.command(&self.argv[0]);
        command.args(&self.argv[1..]).current_dir(&directory);
        plain_environment(&mut command, &scratch.fresh_directory("home")?);
        let native = run(command, self.time_max).map_err(|error| format!("native run: {error}"))?;
        match self.code {
            Some(code) if native.code != code => Err(format!(
                "the native run ended with {} instead of {code}\nstdout: {}\nstderr: {}",
                native.code,
                tail(&native.stdout),
                tail(&native.stderr)
            )),
            Some(_) | None => Ok(native),
        }
    }

    fn recorded(&self, tool: &Tool, scratch: &Scratch, trace: &Path) -> Result<Outcome, String> {
        let directory = scratch.fresh_directory("run")?;
        (self.prepare)(&directory)?;
        let mut args: Vec<OsString> = vec!["record".into(), "-q".into(), "-o".into(), trace.into()];
        args.extend(self.record_options.iter().cloned());
        args.push("--".into());
        args.extend(self.argv.iter().cloned());
        let mut command = self.tool_command(tool, &scratch.fresh_directory("home")?, &args);
        command.current_dir(&directory);
        if let Some(kept_files) = &self.kept_files {
            command.env("RETROVANE_HOME", kept_files);
        }
        run(command, self.time_max).map_err(|error| format!("record: {error}"))
    }

    fn replayed(&self, tool: &Tool, scratch: &Scratch, trace: &Path) -> Result<Outcome, String> {
        let args = ["replay".into(), "-q".into(), trace.into()];
        let mut command = self.tool_command(tool, &scratch.fresh_directory("home")?, &args);
        command.current_dir(scratch.fresh_directory("elsewhere")?);
        run(command, self.time_max).map_err(|error| format!("replay: {error}"))
    }
}

/// Native and recorded agree but for marked lines; replayed is recorded exactly.
pub fn check_case(tool: &Tool, scratch: &Scratch, case: &Case<'_>) -> TestResult {
    let native = case.native(scratch)?;
    check_against(tool, scratch, case, &native)
}

/// The same, with a native run of this program by this user that was made before.
pub fn check_against(tool: &Tool, scratch: &Scratch, case: &Case<'_>, native: &Outcome) -> TestResult {
    let _leftovers = Leftovers::of(scratch.path());
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let trace = scratch.join("trace");
    let recorded = case.recorded(tool, scratch, &trace)?;
    compare("native", &case.normalised(native), "recorded", &case.normalised(&recorded))?;
    scratch.fresh_directory("run")?;
    for path in &case.removed_before_replay {
        fs::remove_file(path).map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
    }
    let replayed = case.replayed(tool, scratch, &trace)?;
    compare("recorded", &recorded, "replayed", &replayed)
}
