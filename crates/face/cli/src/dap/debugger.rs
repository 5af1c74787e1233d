//! The gdb behind an editor, in which `gdb/editor.py` answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::messages::Messages;
use crate::gdb;
use crate::in_gdb::{self, LOOK_EVERY, Script};
use crate::verbs::VerbError;
use crate::verbs::cursor::Limit;

const EDITOR: &str = include_str!("../../../../../gdb/editor.py");
/// So long a server may take to end behind its gdb.
const SERVER_ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Movements that end by themselves only where something stops them.
const LONG: [&str; 3] = ["continue", "reverseContinue", "configurationDone"];
const MOVEMENTS: [&str; 7] = ["next", "stepIn", "stepOut", "stepBack", "goto", "evaluate", "restartFrame"];

/// Dropping it ends the debugger, and the program with it.
pub struct Debugger {
    process: Child,
    folder: PathBuf,
    stream: UnixStream,
    moves: Arc<Moves>,
    /// Who reads what it, its server and the program write: they end with the last of those.
    readers: Vec<JoinHandle<()>>,
}

/// What of a movement is known here.
#[derive(Default)]
struct Moves {
    /// A movement was asked for, and has not ended.
    are_any: AtomicBool,
    /// gdb is in it, and takes an interrupt for it.
    has_begun: AtomicBool,
    /// It goes on until something stops it, and may be interrupted for other requests.
    are_long: AtomicBool,
    /// The number of the last request that was answered: they are answered in their order.
    answered: AtomicU64,
    has_ended: AtomicBool,
}

impl Moves {
    fn note_request(&self, command: &str) {
        let is_long = LONG.contains(&command);
        if is_long || MOVEMENTS.contains(&command) {
            self.are_long.store(is_long, Ordering::Release);
            self.are_any.store(true, Ordering::Release);
        }
    }

    /// What the script says to us alone; false: it is for the editor.
    fn note_state(&self, message: &Value) -> bool {
        let begins = match message["type"].as_str() {
            Some("moves") => true,
            Some("stands") => false,
            Some(_) | None => return false,
        };
        self.has_begun.store(begins, Ordering::Release);
        true
    }

    fn note_answer(&self, message: &Value) {
        if let Some(number) = message["request_seq"].as_u64() {
            self.answered.fetch_max(number, Ordering::AcqRel);
        }
        let has_stopped = matches!(message["event"].as_str(), Some("stopped" | "terminated"));
        let has_failed = message["type"] == "response" && message["success"] == false;
        let is_value = message["command"] == "evaluate";
        if has_stopped || has_failed || is_value {
            self.are_any.store(false, Ordering::Release);
        }
    }
}

impl Debugger {
    /// Starts what `command_for` gives for the path of the script.
    pub fn start(
        command_for: &dyn Fn(&std::path::Path) -> Command,
        begins_at_entry: bool,
        limit: &Limit<'_>,
        messages: &Arc<Messages>,
    ) -> Result<Debugger, VerbError> {
        let folder = gdb::private_folder().map_err(|error| VerbError::Refused(error.to_string()))?;
        let mut readers = Vec::new();
        let started = Script::write(&folder, EDITOR).and_then(|script| {
            let mut command = command_for(&script.path);
            command.env("RETROVANE_SAID", folder.join("said"));
            command.env("RETROVANE_STOPS", if begins_at_entry { "1" } else { "0" });
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let said = Arc::<Mutex<String>>::default();
            let started = script.start(command, "RETROVANE_EDITOR", limit, &mut |process| {
                readers.extend(pass_on(process.stdout.take(), "stdout", messages, &said));
                readers.extend(pass_on(process.stderr.take(), "stderr", messages, &said));
            })?;
            started.ok_or_else(|| {
                let said = said.lock().unwrap_or_else(PoisonError::into_inner);
                VerbError::Ended(in_gdb::last_of(&said))
            })
        });
        let (process, stream) = match started {
            Ok(started) => started,
            Err(error) => {
                let _ = std::fs::remove_dir_all(&folder);
                return Err(error);
            }
        };
        let mut debugger = Debugger { process, folder, stream, moves: Arc::default(), readers };
        debugger.listen(messages)?;
        Ok(debugger)
    }

    /// Waits until the script is ready, and passes on what it says from then on.
    fn listen(&mut self, messages: &Arc<Messages>) -> Result<(), VerbError> {
        let source = self.stream.try_clone();
        let source = source.map_err(|source| VerbError::Try { doing: "talk to the debugger", source })?;
        let mut lines = BufReader::new(source);
        let mut first = String::new();
        if !matches!(lines.read_line(&mut first), Ok(bytes) if bytes != 0) {
            let said = std::fs::read(self.folder.join("said")).unwrap_or_default();
            return Err(VerbError::Ended(in_gdb::last_of(&String::from_utf8_lossy(&said))));
        }
        let (messages, moves) = (Arc::clone(messages), Arc::clone(&self.moves));
        std::thread::spawn(move || {
            for line in lines.lines() {
                let Ok(line) = line else { break };
                if let Ok(message) = serde_json::from_str::<Value>(&line)
                    && !moves.note_state(&message)
                {
                    moves.note_answer(&message);
                    messages.send(message);
                }
            }
            messages.event("terminated", json!({}));
        });
        Ok(())
    }

    /// Hands a request on; false if nobody is there. A program that runs is interrupted for it: the
    /// script answers, and lets it run on unless it is to stand.
    pub fn ask(&self, request: &Value) -> bool {
        let command = request["command"].as_str().unwrap_or_default();
        let is_moving = self.moves.are_any.load(Ordering::Acquire);
        if !is_moving {
            self.moves.note_request(command);
        }
        let is_sent = writeln!(&self.stream, "{request}").is_ok();
        if is_moving && (command == "pause" || self.moves.are_long.load(Ordering::Acquire)) {
            self.interrupt_for(request["seq"].as_u64().unwrap_or(0));
        }
        is_sent
    }

    /// Interrupts the program until a request is answered: gdb forgets an interrupt that comes while it
    /// starts a movement, and leaves the program at a second one that comes in the same exchange with
    /// its server (`remote_serial_quit_handler`).
    fn interrupt_for(&self, request: u64) {
        const AGAIN: Duration = Duration::from_secs(1);
        let (moves, gdb) = (Arc::clone(&self.moves), Pid::from_raw(self.process.id() as i32));
        std::thread::spawn(move || {
            let is_wanted = || {
                moves.are_any.load(Ordering::Acquire)
                    && moves.answered.load(Ordering::Acquire) < request
                    && !moves.has_ended.load(Ordering::Acquire)
            };
            let mut sent: Option<Instant> = None;
            while is_wanted() {
                std::thread::sleep(LOOK_EVERY);
                let is_due = sent.is_none_or(|sent| sent.elapsed() > AGAIN);
                if is_due && moves.has_begun.load(Ordering::Acquire) {
                    let _ = kill(gdb, Signal::SIGINT);
                    sent = Some(Instant::now());
                }
            }
        });
    }
}

impl Drop for Debugger {
    fn drop(&mut self) {
        self.moves.has_ended.store(true, Ordering::Release);
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        if self.moves.are_any.load(Ordering::Acquire) {
            let _ = kill(Pid::from_raw(self.process.id() as i32), Signal::SIGINT);
        }
        in_gdb::end(&mut self.process);
        // The server ends the program when it has noticed that.
        let until = Instant::now() + SERVER_ENDS_WITHIN;
        while Instant::now() < until && !self.readers.iter().all(JoinHandle::is_finished) {
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Shows what a process writes as output of the program, and keeps the last of it for an error.
pub fn pass_on(
    from: Option<impl Read + Send + 'static>,
    category: &'static str,
    messages: &Arc<Messages>,
    said: &Arc<Mutex<String>>,
) -> Option<JoinHandle<()>> {
    const KEPT_BYTES: usize = 4096;
    let mut from = from?;
    let (messages, said) = (Arc::clone(messages), Arc::clone(said));
    Some(std::thread::spawn(move || {
        let (mut buffer, mut rest) = (vec![0; 1 << 14], Vec::new());
        while let Ok(bytes) = from.read(&mut buffer)
            && bytes != 0
        {
            rest.extend_from_slice(&buffer[..bytes]);
            // A character may be cut; what never becomes one is shown as such.
            let whole = match std::str::from_utf8(&rest) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                Ok(_) | Err(_) => rest.len(),
            };
            let text = String::from_utf8_lossy(&rest[..whole]).into_owned();
            rest.drain(..whole);
            if text.is_empty() {
                continue;
            }
            messages.say(category, &text);
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            if said.len() > KEPT_BYTES {
                said.clear();
            }
            said.push_str(&text);
        }
    }))
}
