//! The server: cursors that stay open, and questions that are put to them one after the other.
//!
//! Invariant: a question is answered as by a debugger that was opened for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::subject::Subject;
use super::{LINE_BYTES_MAX, READY, Reply, Request, folder, stays};
use crate::settings::Settings;
use crate::verbs::cursor::{Beginning, Cursor, Limit};
use crate::verbs::{Arguments, VerbError};

/// Debuggers that one server keeps.
const CURSORS_MAX: usize = 2;
/// How often it looks whether it is to end.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// So long a question may take to be sent.
const SENT_WITHIN: Duration = Duration::from_secs(2);
/// Seconds that the way back to where the last question was asked may take.
const BACK_S: u64 = 20;

/// Answer questions about a trace for a while (started by `query`).
#[derive(Args, Debug)]
#[command(hide = true, after_help = "Example:\n  retrovane serve-questions DIRECTORY")]
pub struct ServeQuestionsArguments {
    trace: PathBuf,
}

/// Answers what comes on standard input, and then what comes to the socket, until nobody asks any more.
pub fn run(arguments: &ServeQuestionsArguments, settings: &Settings) -> ExitCode {
    // A terminal's keys are for who asks.
    let _ = rustix::process::setsid();
    let Ok(first) = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::FAILURE;
    };
    let Some(subject) = Subject::of(&arguments.trace, settings) else { return ExitCode::FAILURE };
    let mut server = Server { trace: arguments.trace.clone(), settings, subject, cursors: Vec::new() };
    // Another one may have come first: then this answers what it was started for, and ends.
    let listening = folder().and_then(|folder| Listening::at(server.subject.socket(&folder)));
    server.serve(&first);
    drop(first);
    if let Some(listening) = listening {
        server.stay(&listening);
    }
    ExitCode::SUCCESS
}

/// A socket, which is gone with its server.
struct Listening {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl Listening {
    fn at(path: PathBuf) -> Option<Listening> {
        let listener = UnixListener::bind(&path).ok()?;
        let inode = path.symlink_metadata().ok()?.ino();
        let listening = Listening { listener, path, inode };
        std::fs::set_permissions(&listening.path, PermissionsExt::from_mode(0o600)).ok()?;
        listening.listener.set_nonblocking(true).ok()?;
        Some(listening)
    }

    /// Whether it is still the one that is found there.
    fn is_found(&self) -> bool {
        self.path.symlink_metadata().is_ok_and(|about| about.ino() == self.inode)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if self.is_found() {
            let _ = std::fs::remove_file(&self.path);
        }
        // It goes with the last of them.
        let _ = self.path.parent().map(std::fs::remove_dir);
    }
}

/// A debugger on one process of the trace.
struct Open {
    pid: Option<u64>,
    /// Whether the process was chosen because it crashed.
    of_crash: bool,
    cursor: Cursor,
    /// Positions of places that were asked for by name.
    places: Vec<(String, Value)>,
}

struct Server<'a> {
    trace: PathBuf,
    settings: &'a Settings,
    subject: Subject,
    /// The one that was used last comes last.
    cursors: Vec<Open>,
}

impl Server<'_> {
    /// Waits for questions.
    fn stay(&mut self, listening: &Listening) {
        let stays = stays();
        let mut until = Instant::now() + stays;
        while Instant::now() < until && listening.is_found() {
            let mut waited = [PollFd::new(&listening.listener, PollFlags::IN)];
            let _ = poll(&mut waited, Some(&LOOK_EVERY));
            match listening.listener.accept() {
                Ok((stream, _)) => {
                    if !self.is_current() {
                        return;
                    }
                    self.serve(&stream);
                    until = Instant::now() + stays;
                }
                Err(_) if !self.subject.stands() => return,
                Err(_) => {}
            }
        }
    }

    fn is_current(&self) -> bool {
        Subject::of(&self.trace, self.settings).is_some_and(|now| now.text == self.subject.text)
    }

    /// One question.
    fn serve(&mut self, stream: &UnixStream) {
        let Some(request) = read(stream) else { return };
        if request.subject != self.subject.text {
            return;
        }
        let give_up = Arc::new(AtomicBool::new(false));
        let watching = watch(stream, &give_up);
        let limit = Limit::new(request.seconds, &give_up, self.settings.sandbox);
        let (reply, asked_at) = match self.answer(&request, limit) {
            Ok((answer, sources, at)) => (Reply::Answer(answer, sources), Some(at)),
            Err(VerbError::Ended(why)) => (Reply::Ended(why), None),
            Err(VerbError::TooLong(seconds)) => (Reply::TooLong(seconds), None),
            Err(error @ (VerbError::Refused(_) | VerbError::Try { .. })) => {
                (Reply::Refused(error.to_string()), None)
            }
        };
        if let Ok(text) = serde_json::to_string(&reply) {
            let mut stream = stream;
            let _ = writeln!(stream, "{text}");
        }
        let _ = stream.shutdown(std::net::Shutdown::Both);
        if let Some(watching) = watching {
            let _ = watching.join();
        }
        // The next question is likely to be asked where this one was.
        let never = AtomicBool::new(false);
        if let (Some(at), Some(open)) = (asked_at, self.cursors.last_mut()) {
            let _ = open.go(&at, Limit::new(BACK_S, &never, self.settings.sandbox));
        }
    }

    /// The answer, the sources that were read for it, and where it was asked.
    fn answer(
        &mut self,
        request: &Request,
        limit: Limit<'_>,
    ) -> Result<(Value, Vec<PathBuf>, String), VerbError> {
        let (mut open, at) = match self.take(request, limit) {
            Some(found) => found,
            None => self.open(request, limit)?,
        };
        let answer = open.cursor.ask(&request.verb, &request.arguments, limit);
        let sources = open.cursor.take_sources();
        if !matches!(answer, Err(VerbError::Ended(_))) {
            self.cursors.push(open);
        }
        answer.map(|answer| (answer, sources, at))
    }

    /// A debugger that is open on the process that is meant, gone to the place that is meant.
    fn take(&mut self, request: &Request, limit: Limit<'_>) -> Option<(Open, String)> {
        let crash = |at: &Option<String>| at.as_deref().is_none_or(|at| at == "crash");
        let found = |open: &Open| {
            open.pid == request.pid && (open.pid.is_some() || open.of_crash == crash(&request.at))
        };
        let number = self.cursors.iter().position(found)?;
        let mut open = self.cursors.remove(number);
        let at = request.at.clone().unwrap_or_else(|| open.usual_place());
        open.go(&at, limit).ok()?;
        Some((open, at))
    }

    fn open(&mut self, request: &Request, limit: Limit<'_>) -> Result<(Open, String), VerbError> {
        while self.cursors.len() >= CURSORS_MAX {
            self.cursors.remove(0);
        }
        let open = |at: &str| Cursor::open(&Beginning { trace: &self.trace, pid: request.pid, at }, limit);
        let (at, opened) = match request.at.as_deref() {
            Some(at) => (at, open(at)),
            None => match open("crash") {
                Ok(opened) => ("crash", Ok(opened)),
                Err(_) => ("end", open("end")),
            },
        };
        let (cursor, place) = opened?;
        let of_crash = request.at.is_none() || at == "crash";
        let places = vec![(at.to_owned(), place["position"].clone())];
        Ok((Open { pid: request.pid, of_crash, cursor, places }, at.to_owned()))
    }
}

impl Open {
    /// Where it is asked if nobody says where.
    fn usual_place(&self) -> String {
        let knows_end = self.places.iter().any(|(name, _)| name == "end");
        if knows_end && !self.places.iter().any(|(name, _)| name == "crash") { "end" } else { "crash" }
            .to_owned()
    }

    /// Goes to a place.
    fn go(&mut self, at: &str, limit: Limit<'_>) -> Result<(), VerbError> {
        let known = self.places.iter().find(|(name, _)| name == at);
        if known.is_some_and(|(_, position)| position == self.cursor.position()) {
            return Ok(());
        }
        let mut to = Arguments::new();
        to.insert("to".to_owned(), json!(at));
        let place = self.cursor.ask("go", &to, limit)?;
        // gdb forgets the dynamic loader where it comes back to before that has listed itself.
        if place["frame"]["function"].is_null() {
            return Err(VerbError::Refused("one that is opened there knows more".to_owned()));
        }
        if known.is_none() {
            self.places.push((at.to_owned(), place["position"].clone()));
        }
        Ok(())
    }
}

/// The question of who has connected.
fn read(mut stream: &UnixStream) -> Option<Request> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(SENT_WITHIN)).ok()?;
    stream.write_all(READY).ok()?;
    let mut line = String::new();
    BufReader::new(stream).take(LINE_BYTES_MAX).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// Sees who asked go away before there is an answer.
fn watch(stream: &UnixStream, give_up: &Arc<AtomicBool>) -> Option<std::thread::JoinHandle<()>> {
    let (mut stream, give_up) = (stream.try_clone().ok()?, Arc::clone(give_up));
    stream.set_read_timeout(None).ok()?;
    let watching = std::thread::Builder::new().spawn(move || {
        // Nothing follows a question.
        let _ = stream.read(&mut [0]);
        give_up.store(true, Ordering::Release);
    });
    watching.ok()
}
