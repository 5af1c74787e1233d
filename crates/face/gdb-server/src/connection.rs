//! The client's end: bytes in, packets out.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use crate::packet::{self, Incoming};

/// Why serving ended before the client said so.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the connection to the debugger broke: {0}")]
    Connection(#[from] io::Error),
    #[error("what came in is not gdb's protocol")]
    NotTheProtocol,
    #[error(transparent)]
    Timeline(#[from] timeline::TimelineError),
}

/// A connected client.
pub struct Connection {
    inner: RefCell<Inner>,
}

struct Inner {
    stream: UnixStream,
    bytes: Vec<u8>,
    acknowledges: bool,
    closed: bool,
}

impl Connection {
    pub fn new(stream: UnixStream) -> Connection {
        let inner = Inner { stream, bytes: Vec::new(), acknowledges: true, closed: false };
        Connection { inner: RefCell::new(inner) }
    }

    /// The next packet; `None` once the client is gone.
    ///
    /// # Errors
    /// [`ServeError`]
    pub fn receive(&self) -> Result<Option<Vec<u8>>, ServeError> {
        let inner = &mut *self.inner.borrow_mut();
        loop {
            match packet::parse(&inner.bytes) {
                Incoming::Nothing if inner.closed => return Ok(None),
                Incoming::Nothing => inner.read()?,
                Incoming::Skip(bytes) => drop(inner.bytes.drain(..bytes)),
                // Nothing runs.
                Incoming::Interrupt => drop(inner.bytes.drain(..1)),
                Incoming::TooLong => return Err(ServeError::NotTheProtocol),
                Incoming::Packet(bytes, body) => {
                    inner.bytes.drain(..bytes);
                    if inner.acknowledges {
                        inner.write(if body.is_some() { b"+" } else { b"-" })?;
                    }
                    if let Some(body) = body {
                        return Ok(Some(body));
                    }
                }
            }
        }
    }

    /// Sends a packet. To a client that is gone, nothing: whoever receives or asks what it
    /// wants next learns that.
    ///
    /// # Errors
    /// [`ServeError::Connection`]
    pub fn send(&self, body: &[u8]) -> Result<(), ServeError> {
        Ok(self.inner.borrow_mut().write(&packet::frame(body))?)
    }

    /// From now on packets are not acknowledged.
    pub fn stop_acknowledging(&self) {
        self.inner.borrow_mut().acknowledges = false;
    }

    /// True if the client wants what is going on to stop, or is gone. To be asked
    /// while something goes on.
    pub fn wants_stop(&self) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        // A time limit would be rounded up to the kernel's tick, some milliseconds.
        let looked = inner.stream.set_nonblocking(true).and_then(|()| inner.read());
        if !inner.closed && (looked.is_err() || inner.stream.set_nonblocking(false).is_err()) {
            inner.closed = true;
        }
        inner.closed || inner.bytes.contains(&0x03)
    }

    /// Forgets an interrupt that has been obeyed.
    pub fn forget_interrupt(&self) {
        self.inner.borrow_mut().bytes.retain(|&byte| byte != 0x03);
    }
}

impl Inner {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.stream.write_all(bytes) {
            // What it sent before it hung up may still be there to be read, and to be done.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                Ok(())
            }
            other => other,
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let mut part = [0; 4096];
        match self.stream.read(&mut part) {
            Ok(0) => self.closed = true,
            Ok(count) => self.bytes.extend_from_slice(&part[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => self.closed = true,
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
