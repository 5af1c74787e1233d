//! A place in a recording, held by a debugger of its own.
//!
//! The debugger is gdb on our server, as `replay` opens it; in it `gdb/verbs.py` answers requests
//! over a Unix socket in a private folder. Dropping a cursor ends all of that.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use replayer::Sandbox;
use serde_json::{Value, json};
use trace_store::TraceReader;

use super::{Arguments, VerbError};
use crate::crash_place::{CrashPlace, Moment};
use crate::gdb;
use crate::in_gdb::{self, LOOK_EVERY, Script};
use crate::settings;

const VERBS: &str = include_str!("../../../../../gdb/verbs.py");
/// So long a debugger may take to leave what it does when it is told to.
const GIVE_UP_WITHIN: Duration = Duration::from_secs(20);
/// Longest answer that is read.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Where a cursor begins.
pub struct Beginning<'a> {
    pub trace: &'a Path,
    pub pid: Option<u64>,
    pub at: &'a str,
}

pub struct Cursor {
    debugger: Child,
    folder: PathBuf,
    stream: BufReader<UnixStream>,
    /// What arrived of the next answer.
    read: Vec<u8>,
    /// Sources that were read for the answers.
    sources: BTreeSet<PathBuf>,
    trace: PathBuf,
    /// Whose past it is.
    process: Option<i32>,
    /// Where it stands, as the last answer says.
    position: Value,
    /// What was answered last of what takes long and leaves the cursor where it is: where that was, the question, the answer.
    last: Option<(Value, Arguments, Value)>,
}

impl Cursor {
    /// Opens a debugger; gives where it stands, too.
    pub fn open(beginning: &Beginning<'_>, limit: Limit<'_>) -> Result<(Cursor, Value), VerbError> {
        let folder = gdb::private_folder().map_err(|error| VerbError::Refused(error.to_string()))?;
        match start(beginning, &folder, &limit) {
            Ok((debugger, stream)) => {
                let stream = BufReader::new(stream);
                let mut cursor = Cursor {
                    debugger,
                    folder,
                    stream,
                    read: Vec::new(),
                    sources: BTreeSet::new(),
                    trace: beginning.trace.to_owned(),
                    process: None,
                    position: Value::Null,
                    last: None,
                };
                let place = cursor.answer(&limit)?;
                Ok((cursor, place))
            }
            Err(error) => {
                let _ = std::fs::remove_dir_all(&folder);
                Err(error)
            }
        }
    }

    /// The answer to one verb. A request that fails leaves the position as it was.
    pub fn ask(&mut self, verb: &str, arguments: &Arguments, limit: Limit<'_>) -> Result<Value, VerbError> {
        const STAYS: &str = "writes";
        if verb == STAYS
            && let Some((position, question, answer)) = &self.last
            && *position == self.position
            && question == arguments
        {
            return Ok(answer.clone());
        }
        let at_panic = self.panic_for(verb, arguments);
        let request = json!({"verb": verb, "arguments": at_panic.as_ref().unwrap_or(arguments)});
        let sent = writeln!(self.stream.get_mut(), "{request}");
        sent.map_err(|_| VerbError::Ended(said_last(&self.folder)))?;
        let answer = self.answer(&limit)?;
        if let Some(problem) = answer.get("error").and_then(Value::as_str) {
            return Err(VerbError::Refused(problem.to_owned()));
        }
        if verb == STAYS {
            self.last = Some((self.position.clone(), arguments.clone(), answer.clone()));
        }
        Ok(answer)
    }

    /// Where the crash is that the debugger would not know, as no signal tells of it.
    fn panic_for(&self, verb: &str, arguments: &Arguments) -> Option<Arguments> {
        if verb != "go" || arguments.get("to") != Some(&Value::from("crash")) {
            return None;
        }
        let trace = TraceReader::open(&self.trace).ok()?;
        let to = match CrashPlace::of(&trace, Some(self.process?)).ok()??.moment {
            Moment::Panic(event) => event.to_string(),
            Moment::EndOfGo => "end".to_owned(),
            Moment::End => return None,
        };
        Some(Arguments::from_iter([("to".to_owned(), Value::from(to))]))
    }

    fn answer(&mut self, limit: &Limit<'_>) -> Result<Value, VerbError> {
        let in_time = self.answer_within(limit)?;
        if let Some(answer) = in_time.as_ref().filter(|_| !limit.is_given_up()) {
            self.position = answer["position"].clone();
            let process = answer["process"].as_i64().and_then(|pid| i32::try_from(pid).ok());
            self.process = process.or(self.process);
            return Ok(answer.clone());
        }
        let patience =
            Limit { until: Instant::now() + GIVE_UP_WITHIN, give_up: &AtomicBool::new(false), ..*limit };
        let late = match in_time {
            Some(answer) => answer,
            None => {
                // gdb leaves what it does, and the position of before comes back.
                let _ = kill(Pid::from_raw(self.debugger.id() as i32), Signal::SIGINT);
                self.answer_within(&patience)?.ok_or_else(does_not_leave)?
            }
        };
        // It may have ended just then, or stopped on its way.
        if late["error"].is_null() && !self.position.is_null() && late["position"] != self.position {
            let back = json!({"verb": "go", "arguments": {"to": self.position}});
            writeln!(self.stream.get_mut(), "{back}")
                .map_err(|_| VerbError::Ended(said_last(&self.folder)))?;
            self.answer_within(&patience)?.ok_or_else(does_not_leave)?;
        }
        Err(limit.error())
    }

    /// `None` if the limit was reached first.
    fn answer_within(&mut self, limit: &Limit<'_>) -> Result<Option<Value>, VerbError> {
        loop {
            match self.stream.read_until(b'\n', &mut self.read) {
                Ok(0) => return Err(VerbError::Ended(said_last(&self.folder))),
                Ok(_) if self.read.ends_with(b"\n") => {
                    let answer = serde_json::from_slice(&self.read);
                    self.read.clear();
                    let mut answer: Value = answer.map_err(|error| VerbError::Refused(error.to_string()))?;
                    self.note_sources(&mut answer);
                    return Ok(Some(answer));
                }
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(source) => return Err(VerbError::Try { doing: "read an answer", source }),
            }
            if self.read.len() > LINE_BYTES_MAX {
                return Err(VerbError::Ended("its answer is too long".to_owned()));
            }
            if limit.is_reached() {
                return Ok(None);
            }
        }
    }

    /// Where it stands, as the last answer says.
    pub fn position(&self) -> &Value {
        &self.position
    }

    /// The sources that were read for its answers since this was asked last.
    pub fn take_sources(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.sources).into_iter().collect()
    }

    /// Takes out what an answer says of them.
    fn note_sources(&mut self, answer: &mut Value) {
        let read = answer.as_object_mut().and_then(|answer| answer.remove("sources_read"));
        let paths = read.as_ref().and_then(Value::as_array).into_iter().flatten();
        self.sources.extend(paths.filter_map(Value::as_str).map(PathBuf::from));
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let _ = self.stream.get_ref().shutdown(std::net::Shutdown::Both);
        in_gdb::end(&mut self.debugger);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What bounds a request: how long it may take, whether it is still wanted, and the sandbox of what
/// it replays.
#[derive(Clone, Copy)]
pub struct Limit<'a> {
    until: Instant,
    seconds: u64,
    give_up: &'a AtomicBool,
    sandbox: Sandbox,
}

impl<'a> Limit<'a> {
    pub fn new(seconds: u64, give_up: &'a AtomicBool, sandbox: Sandbox) -> Limit<'a> {
        Limit { until: Instant::now() + Duration::from_secs(seconds), seconds, give_up, sandbox }
    }

    /// Tells a command of ours, which answers the request, of the sandbox.
    pub fn pass_on(&self, command: &mut Command) {
        settings::pass_on(self.sandbox, command);
    }

    pub fn is_reached(&self) -> bool {
        Instant::now() >= self.until || self.is_given_up()
    }

    /// Nobody wants the answer any more.
    fn is_given_up(&self) -> bool {
        self.give_up.load(Ordering::Acquire)
    }

    /// Why there is no answer, once it is reached.
    pub fn error(&self) -> VerbError {
        match self.is_given_up() {
            true => VerbError::Refused("given up, as was asked".to_owned()),
            false => VerbError::TooLong(self.seconds),
        }
    }
}

fn does_not_leave() -> VerbError {
    VerbError::Ended("it did not leave what it does; open another cursor".to_owned())
}

/// Starts the debugger, and waits until it asks what is wanted.
fn start(
    beginning: &Beginning<'_>,
    folder: &Path,
    limit: &Limit<'_>,
) -> Result<(Child, UnixStream), VerbError> {
    let doing = |doing| move |source| VerbError::Try { doing, source };
    let script = Script::write(folder, VERBS)?;
    let said = File::create(said_path(folder)).map_err(doing("fill the private folder"))?;
    let said_too = said.try_clone().map_err(doing("fill the private folder"))?;
    let own = std::env::current_exe().map_err(doing("find retrovane itself"))?;
    let mut command = Command::new(own);
    limit.pass_on(&mut command);
    command.args(["replay", "--gdb", "--batch", "--at", beginning.at]);
    if let Some(pid) = beginning.pid {
        command.args(["--pid", &pid.to_string()]);
    }
    command.arg("--ex").arg(format!("source {}", script.path.display()));
    command.arg(beginning.trace);
    command.stdin(Stdio::null()).stdout(said).stderr(said_too);
    let started = script.start(command, "RETROVANE_VERBS", limit, &mut |_| {})?;
    let (debugger, stream) = started.ok_or_else(|| VerbError::Ended(said_last(folder)))?;
    stream.set_read_timeout(Some(LOOK_EVERY)).map_err(doing("talk to the debugger"))?;
    Ok((debugger, stream))
}

fn said_path(folder: &Path) -> PathBuf {
    folder.join("said")
}

/// The end of what the debugger printed.
fn said_last(folder: &Path) -> String {
    let bytes = std::fs::read(said_path(folder)).unwrap_or_default();
    in_gdb::last_of(&String::from_utf8_lossy(&bytes))
}
