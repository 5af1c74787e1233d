//! What an editor's configuration opens: a program that is recorded first, a recording, or a program
//! that is live.

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::Value;
use trace_store::{TraceReader, traces};

use super::debugger::{Debugger, pass_on};
use super::messages::Messages;
use crate::in_gdb::{LOOK_EVERY, last_of};
use crate::settings::Settings;
use crate::verbs::cursor::Limit;

/// So long it is waited for what a recorder wrote last.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// The fields of a configuration that are ours.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Configuration {
    program: Option<PathBuf>,
    args: Vec<String>,
    cwd: Option<PathBuf>,
    env: HashMap<String, Option<String>>,
    /// The program's standard input.
    input: Option<PathBuf>,
    /// Record again and again until it fails, at most so often.
    hunt: u64,
    live: bool,
    trace: Option<String>,
    session: Option<String>,
    /// A process that runs.
    process_id: Option<i32>,
    process: Option<i32>,
    at: Option<String>,
    stop_on_entry: bool,
}

/// Something that is about to be opened, and may be given up.
#[derive(Clone, Default)]
pub struct Opening {
    is_given_up: Arc<AtomicBool>,
    /// The process group of what records; 0: none.
    recorder: Arc<AtomicI32>,
}

impl Opening {
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    /// Ends what records, and all that it started, until who opens has noticed.
    pub fn give_up(&self, opener: &JoinHandle<()>) {
        const WAIT_MAX: Duration = Duration::from_secs(2);
        self.is_given_up.store(true, Ordering::Release);
        let until = Instant::now() + WAIT_MAX;
        let mut signal = Signal::SIGTERM;
        while !opener.is_finished() {
            let group = self.recorder.load(Ordering::Acquire);
            if group != 0 {
                let _ = killpg(Pid::from_raw(group), signal);
            }
            if Instant::now() > until {
                signal = Signal::SIGKILL;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

pub struct Running<'a> {
    pub opening: &'a Opening,
    pub messages: &'a Arc<Messages>,
    pub settings: &'a Settings,
}

impl Running<'_> {
    /// Opens what a request wants; else why it is not.
    pub fn open(&self, request: &Value) -> Result<Debugger, String> {
        let configuration: Configuration = serde_json::from_value(request["arguments"].clone())
            .map_err(|error| format!("the configuration is wrong: {error}"))?;
        let configuration = &configuration;
        let is_launch = request["command"] == "launch";
        if let (Some(pid), None, None, None) =
            (configuration.process_id, &configuration.trace, &configuration.session, &configuration.program)
            && !is_launch
        {
            return self.debug_running(configuration, pid);
        }
        let named = (&configuration.trace, &configuration.session, &configuration.program);
        let trace = match named {
            (Some(name), None, None) => {
                self.settings.trace_dir(Some(name)).map_err(|error| error.to_string())?
            }
            (None, Some(session), None) => self.save(session)?,
            (None, None, Some(program)) if is_launch && configuration.live => {
                return self.debug(configuration, program);
            }
            (None, None, Some(program)) if is_launch => self.record(configuration, program)?,
            (None, None, None) if !is_launch && configuration.process_id.is_none() => {
                self.settings.trace_dir(None).map_err(|error| error.to_string())?
            }
            _ => {
                let text = "the configuration has one of: `program` (launch), `trace`, `session`, `processId` (attach)";
                return Err(text.to_owned());
            }
        };
        self.replay(configuration, &trace)
    }

    fn own(&self, words: &[&str]) -> Result<Command, String> {
        let own =
            std::env::current_exe().map_err(|error| format!("cannot find retrovane itself: {error}"))?;
        let mut command = Command::new(own);
        command.args(words);
        self.settings.pass_on(&mut command);
        if let Ok(home) = self.settings.home() {
            command.arg("--home").arg(home);
        }
        Ok(command)
    }

    /// Records a program to its end; the directory of the trace.
    fn record(&self, configuration: &Configuration, program: &Path) -> Result<PathBuf, String> {
        let home = self.settings.home_to_write().map_err(|error| error.to_string())?;
        let dir = traces::new_dir(&home, &program.to_string_lossy()).map_err(|error| error.to_string())?;
        let tries = configuration.hunt.to_string();
        let mut command = match configuration.hunt {
            0 => self.own(&["record"])?,
            _ => self.own(&["hunt", "--tries", &tries])?,
        };
        command.arg("-o").arg(&dir).arg("--");
        add_program(&mut command, configuration, program);
        let input = configuration.input.as_deref().unwrap_or(Path::new("/dev/null"));
        let input = std::fs::File::open(input)
            .map_err(|error| format!("the program's input {} cannot be read: {error}", input.display()))?;
        command.stdin(input);
        self.messages.say("console", &format!("recording {}\n", program.display()));
        let said = self.run(command)?;
        if TraceReader::open(&dir).is_err() {
            let _ = std::fs::remove_dir(&dir);
            return Err(format!("nothing was recorded: {}", last_of(&said)));
        }
        if let Err(error) = traces::set_latest(&home, &dir) {
            self.messages.say("console", &format!("{error}\n"));
        }
        self.messages.say("console", &format!("recorded in {}\n", dir.display()));
        Ok(dir)
    }

    /// The past of a live session as a trace.
    fn save(&self, session: &str) -> Result<PathBuf, String> {
        if session.starts_with('-') {
            return Err("`session` is a name of `retrovane ctl`, or a process id".to_owned());
        }
        let home = self.settings.home_to_write().map_err(|error| error.to_string())?;
        let dir = traces::new_dir(&home, session).map_err(|error| error.to_string())?;
        let mut command = self.own(&["ctl", session, "save"])?;
        command.arg(&dir).stdin(Stdio::null());
        let said = self.run(command)?;
        if TraceReader::open(&dir).is_err() {
            let _ = std::fs::remove_dir(&dir);
            return Err(format!("the session was not saved: {}", last_of(&said)));
        }
        Ok(dir)
    }

    /// Runs a command in a process group of its own, and shows what it writes; gives the end of that.
    fn run(&self, mut command: Command) -> Result<String, String> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let started = command.spawn();
        let mut child: Child = started.map_err(|error| format!("cannot start the recorder: {error}"))?;
        self.opening.recorder.store(child.id() as i32, Ordering::Release);
        let said = Arc::<Mutex<String>>::default();
        let readers = [
            pass_on(child.stdout.take(), "stdout", self.messages, &said),
            pass_on(child.stderr.take(), "stderr", self.messages, &said),
        ];
        let ended = child.wait();
        self.opening.recorder.store(0, Ordering::Release);
        ended.map_err(|error| format!("cannot wait for the recorder: {error}"))?;
        if self.opening.is_given_up() {
            return Err("given up, as was asked".to_owned());
        }
        // What it wrote last may still be on its way; a process that it left behind may keep the pipe.
        let until = Instant::now() + WRITTEN_WITHIN;
        while Instant::now() < until && !readers.iter().flatten().all(JoinHandle::is_finished) {
            std::thread::sleep(LOOK_EVERY);
        }
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(said.clone())
    }

    fn replay(&self, configuration: &Configuration, trace: &Path) -> Result<Debugger, String> {
        let at = configuration.at.as_deref().unwrap_or("start");
        if at.starts_with('-') {
            return Err("`at` is start, end, crash or a position".to_owned());
        }
        let mut words =
            vec!["replay".to_owned(), "--gdb".to_owned(), "--batch".to_owned(), format!("--at={at}")];
        words.extend(configuration.process.map(|pid| format!("--pid={pid}")));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let base = self.own(&words)?;
        let begins = configuration.stop_on_entry || at != "start";
        let add = |command: &mut Command| {
            command.arg("--").arg(trace);
        };
        self.start(&base, &add, begins)
    }

    fn debug(&self, configuration: &Configuration, program: &Path) -> Result<Debugger, String> {
        let input = configuration.input.as_deref().unwrap_or(Path::new("/dev/null"));
        let mut base = self.own(&["debug", "--batch"])?;
        base.arg("--input").arg(input);
        let add = |command: &mut Command| {
            command.arg("--");
            add_program(command, configuration, program);
        };
        self.start(&base, &add, configuration.stop_on_entry)
    }

    /// A process that runs already stops where it is.
    fn debug_running(&self, configuration: &Configuration, pid: i32) -> Result<Debugger, String> {
        let pid = pid.to_string();
        let base = self.own(&["debug", "--batch", "--attach", &pid])?;
        self.start(&base, &|_| {}, configuration.stop_on_entry)
    }

    fn start(
        &self,
        base: &Command,
        operands: &dyn Fn(&mut Command),
        begins_at_entry: bool,
    ) -> Result<Debugger, String> {
        /// Going to where one begins may replay much of the recording.
        const SECONDS_MAX: u64 = 24 * 3600;
        let limit = Limit::new(SECONDS_MAX, &self.opening.is_given_up, self.settings.sandbox);
        let command_for = |script: &Path| {
            let mut command = Command::new(base.get_program());
            command.args(base.get_args()).arg("--ex").arg(format!("source {}", script.display()));
            operands(&mut command);
            command
        };
        Debugger::start(&command_for, begins_at_entry, &limit, self.messages)
            .map_err(|error| error.to_string())
    }
}

fn add_program(command: &mut Command, configuration: &Configuration, program: &Path) {
    command.arg(program).args(&configuration.args);
    if let Some(folder) = &configuration.cwd {
        command.current_dir(folder);
    }
    for (name, value) in &configuration.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}
