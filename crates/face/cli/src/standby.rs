//! A debugger that stays for a while behind a question from a shell: the next one finds it open.
//!
//! The first question of a trace starts `serve-questions`, which answers it and waits for others at a Unix
//! socket, in a folder that only its user may enter. It ends when nobody has asked for a while, or when what
//! it answers for is not what it was: see [`subject`].
//!
//! Invariant: whoever finds no server that answers for the very same computes the answer without one.
//! Deliberately absent: a server for traces that are cut, as they may grow, and for packs of strangers; one for several traces.

pub mod server;
pub mod subject;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::settings::Settings;
use crate::verbs::answers::Question;
use crate::verbs::{Arguments, VerbError};
use subject::Subject;

/// The variable that says for how many seconds a server stays; 0: none is started.
const STAYS: &str = "RETROVANE_STANDBY";
const STAYS_S: u64 = 60;
const STAYS_S_MAX: u64 = 24 * 3600;
/// Servers of one user that stay at once.
const SERVERS_MAX: usize = 4;
/// So long a server that is there may take to turn to who asks; later it is quicker to open a debugger.
const TURNS_WITHIN: Duration = Duration::from_millis(300);
/// The same for one that was just started.
const BEGINS_WITHIN: Duration = Duration::from_secs(5);
/// What a server says first: it is about to read the question.
const READY: &[u8] = b"ready\n";
/// Longest line that is read.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// A question, as it is sent.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    /// What is asked about, and by whom, in every respect.
    subject: String,
    verb: String,
    arguments: Arguments,
    pid: Option<u64>,
    at: Option<String>,
    seconds: u64,
}

/// What comes back.
#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    Answer(Value, Vec<PathBuf>),
    Refused(String),
    Ended(String),
    TooLong(u64),
}

/// How long a server stays; zero: not at all.
fn stays() -> Duration {
    let said = std::env::var(STAYS).ok().and_then(|text| text.parse::<u64>().ok());
    Duration::from_secs(said.map_or(STAYS_S, |seconds| seconds.min(STAYS_S_MAX)))
}

/// The answer of a server, which is started where there is none, and the sources that were read for it. `None`:
/// no server answers.
pub fn ask(
    question: Question<'_>,
    trace: &Path,
    seconds: u64,
    settings: &Settings,
) -> Option<Result<(Value, Vec<PathBuf>), VerbError>> {
    if stays().is_zero() {
        return None;
    }
    let subject = Subject::of(trace, settings)?;
    let folder = folder()?;
    let (stream, turns_within) = match UnixStream::connect(subject.socket(&folder)) {
        Ok(stream) => (stream, TURNS_WITHIN),
        Err(error) => {
            if error.kind() == ErrorKind::ConnectionRefused {
                // Its server was killed.
                let _ = std::fs::remove_file(subject.socket(&folder));
            }
            if standing(&folder) >= SERVERS_MAX {
                return None;
            }
            (start(trace, settings).ok()?, BEGINS_WITHIN)
        }
    };
    stream.set_read_timeout(Some(turns_within)).ok()?;
    exchange(&stream, question, seconds, subject)
}

/// Asks, and waits for the answer.
fn exchange(
    mut stream: &UnixStream,
    question: Question<'_>,
    seconds: u64,
    subject: Subject,
) -> Option<Result<(Value, Vec<PathBuf>), VerbError>> {
    /// So much longer than the question may take one waits for the answer to that.
    const PATIENCE_S: u64 = 30;
    let request = Request {
        subject: subject.text,
        verb: question.verb.to_owned(),
        arguments: question.given.clone(),
        pid: question.pid,
        at: question.at.map(str::to_owned),
        seconds,
    };
    let mut ready = [0; READY.len()];
    stream.read_exact(&mut ready).ok().filter(|()| ready == READY)?;
    writeln!(stream, "{}", serde_json::to_string(&request).ok()?).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(seconds.saturating_add(PATIENCE_S)))).ok()?;
    let mut line = String::new();
    BufReader::new(stream).take(LINE_BYTES_MAX).read_line(&mut line).ok()?;
    Some(match serde_json::from_str(&line).ok()? {
        Reply::Answer(answer, sources) => Ok((answer, sources)),
        Reply::Refused(why) => Err(VerbError::Refused(why)),
        Reply::Ended(why) => Err(VerbError::Ended(why)),
        Reply::TooLong(seconds) => Err(VerbError::TooLong(seconds)),
    })
}

/// Starts a server; what it reads on its standard input is the first question.
fn start(trace: &Path, settings: &Settings) -> std::io::Result<UnixStream> {
    let (own_end, its_end) = UnixStream::pair()?;
    // It outlives who asks, and must not hold a pipe or a lock of theirs.
    injector::close_descriptors_at_exec();
    let mut command = Command::new(std::env::current_exe()?);
    settings.pass_on(&mut command);
    command.arg("serve-questions");
    if let Ok(home) = settings.home() {
        command.arg("--home").arg(home);
    }
    command.arg("--").arg(trace);
    command.stdin(OwnedFd::from(its_end)).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn()?;
    Ok(own_end)
}

/// The folder of the sockets; `None` where there is none that only this user may enter.
fn folder() -> Option<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = given.unwrap_or_else(std::env::temp_dir).join(format!("retrovane-standby-{own}"));
    // That it is there already is usual.
    let _ = std::fs::DirBuilder::new().mode(0o700).create(&folder);
    let about = folder.symlink_metadata().ok()?;
    (about.is_dir() && about.uid() == own && about.mode() & 0o077 == 0).then_some(folder)
}

/// How many servers there are; sockets of those that were killed are removed.
fn standing(folder: &Path) -> usize {
    let sockets = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let lives = |path: &PathBuf| match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            let _ = std::fs::remove_file(path);
            false
        }
        Ok(_) | Err(_) => true,
    };
    sockets.filter(lives).count()
}
