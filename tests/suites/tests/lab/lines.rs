//! What a lab says while it runs; nobody waits for it without limit.

use std::io::{BufRead, BufReader};
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use suites::RUN_TIME_MAX;

/// Lines of a pipe.
pub struct Lines {
    lines: Receiver<String>,
}

impl Lines {
    pub fn of(stdout: ChildStdout) -> Lines {
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if tell.send(line + "\n").is_err() {
                    return;
                }
            }
        });
        Lines { lines }
    }

    /// The next line; none at the pipe's end.
    pub fn next(&self) -> Result<Option<String>, String> {
        match self.lines.recv_timeout(RUN_TIME_MAX) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(format!("nothing was said for {RUN_TIME_MAX:?}")),
        }
    }

    /// All until the pipe's end, which is there when nobody is left who could write to it.
    pub fn rest(&self) -> Result<String, String> {
        let mut said = String::new();
        while let Some(line) = self.next()? {
            said += &line;
        }
        Ok(said)
    }
}
