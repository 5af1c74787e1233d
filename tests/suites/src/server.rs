//! A small HTTP server in the test's own process: outside of the recording,
//! and gone when the replay runs.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Serves until the test process ends; answers are the same for each request.
pub struct Server {
    port: u16,
}

impl Server {
    pub fn start() -> Result<Server, String> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .map_err(|error| format!("cannot listen on loopback: {error}"))?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || answer(stream));
            }
        });
        Ok(Server { port })
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

/// One request for each connection: the path decides the length of the body.
fn answer(mut stream: TcpStream) {
    let Ok(reading) = stream.try_clone() else {
        return;
    };
    let mut lines = BufReader::new(reading).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    if lines.by_ref().take_while(|line| !line.is_empty()).count() > 100 {
        return;
    }
    let body = if request.contains("/large") {
        "0123456789abcdef\n".repeat(100_000)
    } else {
        format!("you asked for: {request}\n")
    };
    let status = if request.contains("/absent") { "404 Not Found" } else { "200 OK" };
    // A client that went away is its own affair.
    let _ = write!(
        stream,
        "HTTP/1.0 {status}\r\nContent-Length: {}\r\nContent-Type: text/plain\r\n\r\n{body}",
        body.len()
    );
}
