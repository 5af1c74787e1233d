//! A future of a lab as the keeper has it: a process, and a socket to it.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use lab::{GoOn, Taken};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::lab::futures::Event;
use crate::lab::start::Run;

/// How long a future has to end by itself.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What a future is told, an object of JSON a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Told {
    /// It goes on from where it stands.
    Go(GoOn),
    /// Another one is the present.
    Leave,
}

/// What a future says, an object of JSON a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Said {
    /// It stands.
    Stands(Taken),
    /// The present has taken a checkpoint.
    Took(usize),
    /// No process of its nodes is left.
    Left,
}

/// A future that is not the one of `lab run` itself.
pub struct Future {
    process: Child,
    socket: UnixStream,
    /// The checkpoint where it stands, or will.
    pub number: usize,
    pub stands: Option<Taken>,
    /// It is the present, or was.
    pub is_lived: bool,
}

impl Future {
    /// Starts one in its folder; what it says is told under its number.
    pub fn start(
        run: &Run,
        dir: &Path,
        number: usize,
        future: usize,
        tell: &Sender<Event>,
    ) -> std::io::Result<Future> {
        let (socket, theirs) = UnixStream::pair()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--home").arg(&run.home).args(run.quiet.then_some("--quiet"));
        command.args(["lab", "future"]).arg(dir).stdin(Stdio::from(OwnedFd::from(theirs)));
        // A terminal's signals are for `lab run`, which hands them on.
        let process = command.process_group(0).spawn()?;
        // What is written is read by the future alone.
        drop(command);
        let (listens, tell) = (BufReader::new(socket.try_clone()?), tell.clone());
        std::thread::spawn(move || {
            for line in listens.lines().map_while(Result::ok) {
                if let Ok(said) = serde_json::from_str(&line) {
                    // A keeper that has ended needs nothing.
                    let _ = tell.send(Event::Said(future, said));
                }
            }
            let _ = tell.send(Event::Gone(future));
        });
        Ok(Future { process, socket, number, stands: None, is_lived: false })
    }

    /// Tells it something.
    pub fn say(&self, told: &Told) {
        say(&self.socket, told);
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        // One that has ended already is said to have by its socket.
        let _ = kill(Pid::from_raw(self.process.id() as i32), signal);
    }

    /// Waits for its end, which is asked for if `early`; gives its code.
    pub fn end(mut self, early: bool) -> Option<u8> {
        if early {
            // It ends when nobody is there who could tell it anything.
            let _ = self.socket.shutdown(std::net::Shutdown::Both);
        }
        let begin = Instant::now();
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) => return status.code().and_then(|code| u8::try_from(code).ok()),
                Ok(None) if begin.elapsed() < WAIT_MAX => std::thread::sleep(Duration::from_millis(2)),
                Ok(None) | Err(_) => {
                    // It has ended meanwhile, or does now.
                    let _ = self.process.kill();
                    let _ = self.process.wait();
                    return None;
                }
            }
        }
    }
}

/// Says something to the other end, in a line.
pub fn say(mut socket: &UnixStream, what: &impl Serialize) {
    if let Ok(text) = serde_json::to_string(what) {
        // A future that has ended is said to have by its socket; a keeper that has, has ended its futures, too.
        let _ = socket.write_all(format!("{text}\n").as_bytes());
    }
}
