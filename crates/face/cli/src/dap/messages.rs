//! Messages of the protocol: JSON behind a header that gives its length.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, Read, Stdout, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::exit::CommandError;

/// Longest message that is read.
const BYTES_MAX: usize = 16 << 20;
/// Longest line of a header.
const HEADER_BYTES_MAX: u64 = 4096;

/// Both directions; messages to the editor are numbered in their order.
pub struct Messages {
    out: Mutex<Out>,
    log: Option<Mutex<File>>,
}

struct Out {
    stdout: Stdout,
    number: u64,
}

impl Messages {
    pub fn new(log: Option<&Path>) -> Result<Messages, CommandError> {
        let open = |path: &Path| {
            let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
            opened.map(Mutex::new).map_err(|source| CommandError::Write { path: path.to_owned(), source })
        };
        let log = log.map(open).transpose()?;
        Ok(Messages { out: Mutex::new(Out { stdout: std::io::stdout(), number: 0 }), log })
    }

    /// The next message; `None` where the input ends.
    pub fn read(&self, input: &mut dyn BufRead) -> Result<Option<Value>, CommandError> {
        let message = read(input)?;
        if let Some(message) = &message {
            self.note('<', message);
        }
        Ok(message)
    }

    /// Numbers a message and sends it. An editor that is gone is noticed where its input ends.
    pub fn send(&self, mut message: Value) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.number += 1;
        message["seq"] = Value::from(out.number);
        self.note('>', &message);
        let body = message.to_string();
        let _ = write!(out.stdout, "Content-Length: {}\r\n\r\n{body}", body.len());
        let _ = out.stdout.flush();
    }

    pub fn event(&self, name: &str, body: Value) {
        self.send(json!({"type": "event", "event": name, "body": body}));
    }

    /// Text for the user: `console`, `stdout`, `stderr`, `important`.
    pub fn say(&self, category: &str, text: &str) {
        self.event("output", json!({"category": category, "output": text}));
    }

    pub fn respond(&self, request: &Value, body: Option<Value>) {
        let mut response = response(request, true);
        if let Some(body) = body {
            response["body"] = body;
        }
        self.send(response);
    }

    pub fn refuse(&self, request: &Value, problem: &str) {
        let mut response = response(request, false);
        response["message"] = Value::from(problem);
        // The format has places for variables in braces.
        let format = problem.replace(['{', '}'], "");
        response["body"] = json!({"error": {"id": 1, "format": format, "showUser": true}});
        self.send(response);
    }

    fn note(&self, direction: char, message: &Value) {
        if let Some(log) = &self.log {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = writeln!(log, "{direction} {message}");
        }
    }
}

fn response(request: &Value, is_success: bool) -> Value {
    json!({
        "type": "response", "request_seq": request["seq"], "command": request["command"], "success": is_success,
    })
}

fn read(input: &mut dyn BufRead) -> Result<Option<Value>, CommandError> {
    let failed = |source| CommandError::Try { doing: "read a message of the editor", source };
    let wrong = |what: &str| {
        CommandError::Usage(format!(
            "this is no message of the Debug Adapter Protocol: {what}; an editor starts this"
        ))
    };
    let mut length = None;
    loop {
        let mut line = String::new();
        let read = input.take(HEADER_BYTES_MAX).read_line(&mut line).map_err(failed)?;
        if read == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| wrong("its header has no name"))?;
        if name.eq_ignore_ascii_case("Content-Length") {
            length = value.trim().parse::<usize>().ok().filter(|bytes| *bytes <= BYTES_MAX);
        }
    }
    let mut body = vec![0; length.ok_or_else(|| wrong("its header gives no length"))?];
    input.read_exact(&mut body).map_err(failed)?;
    serde_json::from_slice(&body).map(Some).map_err(|error| wrong(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_by_their_length() {
        let mut input =
            &b"Content-Length: 9\r\nContent-Type: x\r\n\r\n{\"seq\":1}content-length: 2\r\n\r\n{}"[..];
        assert_eq!(read(&mut input).expect("a message"), Some(json!({"seq": 1})));
        assert_eq!(read(&mut input).expect("a message"), Some(json!({})));
        assert_eq!(read(&mut input).expect("an end"), None);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for wrong in
            ["\r\n{}", "Content-Length: 99999999999\r\n\r\n", "hello\r\n\r\n", "Content-Length: 2\r\n\r\n]]"]
        {
            assert!(read(&mut wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(read(&mut "Content-Length: 5\r\n\r\n{}".as_bytes()).is_err());
    }
}
