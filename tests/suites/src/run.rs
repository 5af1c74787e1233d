//! Runs a command with a limit of time, as some user, in a known environment.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::outcome::Outcome;
use crate::tool::search_path;

/// How long one run may take before its process group is killed: far longer than any does, also
/// where others use the machine.
pub const RUN_TIME_MAX: Duration = Duration::from_secs(180);

/// Time for readers to see the end of a pipe after the group was killed.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);

/// Who runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// Whoever runs the tests.
    Current,
    /// The user `nobody` (65534), which only root can become.
    Nobody,
}

impl User {
    /// The user as it stands in a test's name.
    pub fn name(self, tests_run_as_root: bool) -> &'static str {
        match self {
            User::Current if tests_run_as_root => "root",
            User::Current => "user",
            User::Nobody => "nobody",
        }
    }

    /// The command that runs `program` as this user.
    pub fn command(self, program: &OsStr) -> Command {
        match self {
            User::Current => Command::new(program),
            User::Nobody => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--"]);
                command.arg(program);
                command
            }
        }
    }
}

/// The tool's own directory, in a home directory of tests.
pub(crate) const TRACES: &str = "traces";

/// Gives the command a small environment that is the same on every machine.
pub fn plain_environment(command: &mut Command, home: &Path) {
    command
        .env_clear()
        .env("PATH", search_path())
        .env("LANG", "C.UTF-8")
        .env("HOME", home)
        .env("RETROVANE_HOME", home.join(TRACES));
}

/// The same command, to which SIGINT comes: what a shell starts in the background ignores it,
/// and a shell that ignored a signal when it began cannot trap it.
pub fn hearing_interrupts(command: &Command) -> Command {
    let mut hearing = Command::new("env");
    hearing.arg("--default-signal=INT").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => hearing.env(name, value),
            None => hearing.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        hearing.current_dir(directory);
    }
    hearing
}

/// A run that a test watches and disturbs while it goes on.
pub struct Live {
    child: Child,
    lines: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<Vec<u8>>,
    seen: String,
}

impl Live {
    pub fn start(mut command: Command) -> Result<Live, String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = collect(child.stderr.take().expect("stderr is piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return; // Nobody listens any more.
                }
            }
        });
        Ok(Live { child, lines, stderr, seen: String::new() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of stdout that begins so, and returns its rest.
    pub fn wait_for_line(&mut self, start: &str) -> Result<String, String> {
        let deadline = Instant::now() + RUN_TIME_MAX;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self
                .lines
                .recv_timeout(left)
                .map_err(|_| format!("no line {start:?} came; stdout so far:\n{}", self.seen))?;
            self.seen.push_str(&line);
            self.seen.push('\n');
            if let Some(rest) = line.strip_prefix(start) {
                return Ok(rest.to_owned());
            }
        }
    }

    /// Sends SIGKILL to a process, or with a minus sign to a group.
    pub fn kill(target: &str) -> Result<(), String> {
        let status = Command::new("sh")
            .args(["-c", &format!("kill -KILL {target}")])
            .status()
            .map_err(|error| format!("cannot start sh: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("cannot kill {target}")) }
    }

    /// The end of the run and all that it printed.
    pub fn end(mut self) -> Result<Outcome, String> {
        let deadline = Instant::now() + RUN_TIME_MAX;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.seen.push_str(&line);
                    self.seen.push('\n');
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    kill_group(self.child.id());
                    return Err(format!("no end of stdout: {}", tail(self.seen.as_bytes())));
                }
            }
        }
        let stderr = self
            .stderr
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            .map_err(|_| "no end of stderr".to_owned())?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        Ok(Outcome { stdout: self.seen.into_bytes(), stderr, code: Outcome::code_of(status) })
    }
}

/// A run that goes on while the test does other things.
pub struct Running {
    group: u32,
    what: String,
    stdout: mpsc::Receiver<Vec<u8>>,
    stderr: mpsc::Receiver<Vec<u8>>,
    end: mpsc::Receiver<std::io::Result<ExitStatus>>,
    /// The end, if somebody has asked and it was there.
    status: Option<std::io::Result<ExitStatus>>,
}

impl Running {
    /// Starts the command as the first of a process group of its own.
    pub fn start(mut command: Command) -> Result<Running, String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let group = child.id();
        let stdout = collect(child.stdout.take().expect("stdout is piped"));
        let stderr = collect(child.stderr.take().expect("stderr is piped"));
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            // The receiver may have given up: then nobody wants the status.
            let _ = ended.send(child.wait());
        });
        Ok(Running { group, what: format!("{command:?}"), stdout, stderr, end, status: None })
    }

    pub fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.end.try_recv().ok();
        }
        self.status.is_some()
    }

    /// Kills the group, and returns the ends of what was printed.
    pub fn kill(self) -> String {
        kill_group(self.group);
        let out = self.stdout.recv_timeout(DRAIN_TIME_MAX).unwrap_or_default();
        let err = self.stderr.recv_timeout(DRAIN_TIME_MAX).unwrap_or_default();
        format!("stdout ends: {}\nstderr ends: {}", tail(&out), tail(&err))
    }

    /// The end of the run and all that it printed; when `time_max` has passed,
    /// the group is killed.
    ///
    /// The run lasts until every process that holds its output has gone, so that
    /// what daemons print is part of it.
    pub fn end(mut self, time_max: Duration) -> Result<Outcome, String> {
        let start = Instant::now();
        let left = || time_max.saturating_sub(start.elapsed());
        let end = self.status.take().or_else(|| self.end.recv_timeout(left()).ok());
        let Some(status) = end else {
            let ends = self.kill();
            return Err(format!("no end after {} s; killed.\n{ends}", time_max.as_secs()));
        };
        let status = status.map_err(|error| format!("cannot wait for {}: {error}", self.what))?;
        let (Ok(stdout), Ok(stderr)) = (self.stdout.recv_timeout(left()), self.stderr.recv_timeout(left()))
        else {
            kill_group(self.group);
            return Err(format!(
                "the program ended ({status}), but a process it left held its output for {} s",
                time_max.as_secs()
            ));
        };
        Ok(Outcome { stdout, stderr, code: Outcome::code_of(status) })
    }
}

/// Runs to the end, or kills the process group when `time_max` has passed.
pub fn run(command: Command, time_max: Duration) -> Result<Outcome, String> {
    Running::start(command)?.end(time_max)
}

/// Kills every process of the group that `run` made.
fn kill_group(group: u32) {
    // A group that is already gone is what was wanted.
    let _ = Command::new("sh").args(["-c", &format!("kill -KILL -{group}")]).stderr(Stdio::null()).status();
}

fn collect(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A pipe that fails yields what came before: the comparison sees it.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// The end of an output, for messages.
pub fn tail(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(600)..]).into_owned()
}
