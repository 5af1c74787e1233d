//! A script of ours inside of a gdb, which talks to us over a Unix socket in a private folder.
//!
//! The gdb is one that `replay` or `debug` opens, on our server.

use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use crate::verbs::VerbError;
use crate::verbs::cursor::Limit;

/// How often it is looked whether something has come.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A script, written to the folder.
pub struct Script {
    pub path: PathBuf,
    socket: PathBuf,
    listener: UnixListener,
}

impl Script {
    pub fn write(folder: &Path, text: &str) -> Result<Script, VerbError> {
        let doing = |doing| move |source| VerbError::Try { doing, source };
        let (path, socket) = (folder.join("script.py"), folder.join("script"));
        std::fs::write(&path, text).map_err(doing("fill the private folder"))?;
        let listener = UnixListener::bind(&socket).map_err(doing("listen in the private folder"))?;
        listener.set_nonblocking(true).map_err(doing("listen in the private folder"))?;
        Ok(Script { path, socket, listener })
    }

    /// Starts a gdb that reads the script, which finds its socket in this variable, and waits until
    /// it is connected. `None`: the debugger has ended before. Its pipes are for `spawned` to read.
    pub fn start(
        &self,
        mut command: Command,
        variable: &str,
        limit: &Limit<'_>,
        spawned: &mut dyn FnMut(&mut Child),
    ) -> Result<Option<(Child, UnixStream)>, VerbError> {
        let doing = |doing| move |source| VerbError::Try { doing, source };
        command.env(variable, &self.socket);
        let mut debugger = command.spawn().map_err(doing("start the debugger"))?;
        spawned(&mut debugger);
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).map_err(doing("talk to the debugger"))?;
                    return Ok(Some((debugger, stream)));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(source) => return Err(VerbError::Try { doing: "wait for the debugger", source }),
            }
            let has_ended = !matches!(debugger.try_wait(), Ok(None));
            if has_ended || limit.is_reached() {
                let _ = debugger.kill();
                let _ = debugger.wait();
                return if has_ended { Ok(None) } else { Err(limit.error()) };
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Waits for a debugger whose socket was closed; kills it if it does not end.
pub fn end(debugger: &mut Child) {
    const WAIT_MAX: Duration = Duration::from_secs(2);
    let until = std::time::Instant::now() + WAIT_MAX;
    while std::time::Instant::now() < until && matches!(debugger.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = debugger.kill();
    let _ = debugger.wait();
}

/// The last characters of a text, for an error.
pub fn last_of(text: &str) -> String {
    const CHARS_MAX: usize = 600;
    let text = text.trim();
    let skipped = text.chars().count().saturating_sub(CHARS_MAX);
    let end: String = text.chars().skip(skipped).collect();
    if end.is_empty() { "it said nothing".to_owned() } else { end }
}
