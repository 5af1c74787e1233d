//! One test's directory and trace, the tool, and checks of what the tool says.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use suites::{Live, Outcome, RUN_TIME_MAX, Scratch, TestResult, Tool, User, make_file, run};

/// A program that prints, says that it is ready with its pid, then waits for
/// its end to be brought about.
pub const WAITING: &str =
    "for i in $(seq 200); do echo line $i; done; echo ready $$; read -r _ < gate; echo after";

/// A program with some of everything, that ends with code 5.
pub const ORDINARY: &str = "for i in $(seq 300); do echo $i $RANDOM; done | tail -50; date +%N; ls -l /proc/self/fd | wc -l; \
                        echo to stderr >&2; exit 5";

/// One test's directory and the tool.
pub struct Bench<'a> {
    pub tool: &'a Tool,
    pub scratch: Scratch,
    pub run: PathBuf,
    pub trace: PathBuf,
}

impl<'a> Bench<'a> {
    pub fn new(tool: &'a Tool, label: &str) -> Result<Bench<'a>, String> {
        let scratch = Scratch::new(label)?;
        let run = scratch.fresh_directory("run")?;
        scratch.fresh_directory("home")?;
        let trace = scratch.join("trace");
        Ok(Bench { tool, scratch, run, trace })
    }

    pub fn tool_command(&self, user: User, args: &[&str]) -> std::process::Command {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let mut command = self.tool.command(user, &self.scratch.join("home"), &args);
        command.current_dir(&self.run);
        command
    }

    pub fn call(&self, args: &[&str]) -> Result<Outcome, String> {
        let outcome = run(self.tool_command(User::Current, args), RUN_TIME_MAX)?;
        no_panic(&outcome)?;
        Ok(outcome)
    }

    /// A program in C, built with these flags, in the folder that programs run in.
    pub fn compiled(&self, name: &str, source: &Path, flags: &[&str]) -> Result<PathBuf, String> {
        let program = self.run.join(name);
        let mut compiler = std::process::Command::new("gcc");
        compiler.args(["-Wall", "-Werror"]).arg("-o").arg(&program).arg(source).args(flags);
        make_file(compiler)?;
        Ok(program)
    }

    pub fn record_command(&self, script: &str) -> std::process::Command {
        self.tool_command(User::Current, &["record", "-o", path(&self.trace), "--", "bash", "-c", script])
    }

    pub fn record(&self, script: &str) -> Result<Outcome, String> {
        run(self.record_command(script), RUN_TIME_MAX)
    }

    pub fn replay(&self) -> Result<Outcome, String> {
        self.call(&["replay", path(&self.trace)])
    }

    /// Starts the waiting program under the recorder, up to its wait.
    pub fn start_waiting(&self) -> Result<(Live, String), String> {
        let gate = self.run.join("gate");
        let made = std::process::Command::new("mkfifo").arg(&gate).status();
        if !made.is_ok_and(|status| status.success()) {
            return Err("cannot make a fifo".into());
        }
        let mut live = Live::start(self.record_command(WAITING))?;
        let pid = live.wait_for_line("ready ")?;
        Ok((live, pid))
    }
}

pub fn path(path: &Path) -> &str {
    path.to_str().expect("scratch paths are plain text")
}

pub fn check(condition: bool, what: &str, outcome: &Outcome) -> TestResult {
    if condition {
        Ok(())
    } else {
        Err(format!(
            "{what}\nexit code {}\nstdout: {}\nstderr: {}",
            outcome.code,
            outcome.stdout_text().chars().take(1000).collect::<String>(),
            outcome.stderr_text().chars().take(2000).collect::<String>()
        ))
    }
}

pub fn check_status(ok: bool, what: &str) -> TestResult {
    if ok { Ok(()) } else { Err(what.to_owned()) }
}

pub fn no_panic(outcome: &Outcome) -> TestResult {
    check(!outcome.stderr_text().contains("panicked"), "the tool panicked", outcome)
}

/// The tool speaks of all these words on stderr.
pub fn says(outcome: &Outcome, words: &[&str]) -> TestResult {
    let text = outcome.stderr_text().to_lowercase();
    words
        .iter()
        .try_for_each(|word| check(text.contains(word), &format!("stderr does not say {word:?}"), outcome))
}

/// The files of the trace, the largest first.
pub fn trace_files(trace: &Path) -> Result<Vec<PathBuf>, String> {
    let mut directories = vec![trace.to_path_buf()];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).map_err(|error| error.to_string())?;
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            let metadata = entry.metadata().map_err(|error| error.to_string())?;
            if metadata.is_dir() {
                directories.push(entry.path());
            } else {
                files.push((metadata.len(), entry.path()));
            }
        }
    }
    files.sort_by_key(|file| std::cmp::Reverse(file.0));
    Ok(files.into_iter().map(|(_, path)| path).collect())
}
