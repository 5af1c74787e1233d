//! A connection to the display.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use x11rb_protocol::connect::Connect;
use x11rb_protocol::parse_display::{ConnectAddress, ParsedDisplay, parse_display};
use x11rb_protocol::protocol::xproto::Setup;
use x11rb_protocol::xauth::{Family, get_auth};

use crate::error::Error;
use crate::packets::{Packet, PacketStream, Request, half, word};

/// Requests that are looked up after the next question.
const REMEMBERED_MAX: usize = 4096;

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn try_clone(&self) -> std::io::Result<Stream> {
        Ok(match self {
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
        })
    }

    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.write_all(bytes),
            Stream::Tcp(stream) => stream.write_all(bytes),
        }
    }
}

/// A request that the display did not do.
#[derive(Debug)]
pub struct Refusal {
    pub what: String,
    pub code: u8,
    /// What the sender knows it by.
    pub tag: u16,
}

/// A connection to the display. Replies come in the order of the requests; events are thrown away.
pub struct Server {
    stream: Stream,
    pub setup: Setup,
    packets: Receiver<Packet>,
    sequence: u16,
    /// Names of requests that were sent, by their numbers.
    sent: HashMap<u16, (String, u16)>,
    refusals: Vec<Refusal>,
    majors: HashMap<Vec<u8>, Option<u8>>,
    ids: u32,
}

impl Server {
    /// Connects to a display; without a name to the environment's.
    ///
    /// # Errors
    /// [`Error::NoDisplay`], [`Error::Connect`]
    pub fn connect(name: Option<&str>) -> Result<Server, Error> {
        let parsed = parse_display(name).map_err(|_| Error::NoDisplay)?;
        let shown = format!("{}:{}", parsed.host, parsed.display);
        let failed = |why: String| Error::Connect { name: shown.clone(), why };
        let (mut stream, family, address) = open(&parsed).map_err(|error| failed(error.to_string()))?;
        let setup = greet(&mut stream, family, address, parsed.display).map_err(&failed)?;
        if setup.roots.is_empty() {
            return Err(failed("it has no screen".to_owned()));
        }
        let (sender, packets) = channel();
        let mut reading = stream.try_clone()?;
        thread::Builder::new().name("display".to_owned()).spawn(move || {
            let mut cut = PacketStream::begun();
            let mut buffer = vec![0; 64 << 10];
            while let Ok(bytes @ 1..) = reading.read(&mut buffer) {
                cut.add(&buffer[..bytes]);
                while let Some(packet) = cut.next() {
                    if packet.event().is_none() && sender.send(packet).is_err() {
                        return;
                    }
                }
            }
        })?;
        let mut server = Server {
            stream,
            setup,
            packets,
            sequence: 0,
            sent: HashMap::new(),
            refusals: Vec::new(),
            majors: HashMap::new(),
            ids: 0,
        };
        if let Some(major) = server.extension(b"BIG-REQUESTS")? {
            server.ask("BigReqEnable", &Request { major, detail: 0, body: Vec::new() })?;
        }
        Ok(server)
    }

    /// A number for a resource of our own.
    pub fn new_id(&mut self) -> u32 {
        self.ids += 1;
        self.setup.resource_id_base | self.ids & self.setup.resource_id_mask
    }

    /// Sends a request.
    ///
    /// # Errors
    /// [`Error::Lost`]
    pub fn send(&mut self, what: &str, request: &Request) -> Result<(), Error> {
        self.send_tagged(what, 0, request)
    }

    /// The same, with a number by which a [`Refusal`] names it.
    ///
    /// # Errors
    /// [`Error::Lost`]
    pub fn send_tagged(&mut self, what: &str, tag: u16, request: &Request) -> Result<(), Error> {
        self.stream.write_all(&request.to_bytes())?;
        self.sequence = self.sequence.wrapping_add(1);
        self.sent.insert(self.sequence, (what.to_owned(), tag));
        if self.sent.len() >= REMEMBERED_MAX { self.settle() } else { Ok(()) }
    }

    /// Sends a request, and waits for its reply.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Closed`], [`Error::Lost`]
    pub fn ask(&mut self, what: &'static str, request: &Request) -> Result<Vec<u8>, Error> {
        self.stream.write_all(&request.to_bytes())?;
        self.sequence = self.sequence.wrapping_add(1);
        loop {
            let packet = self.packets.recv().map_err(|_| Error::Closed)?;
            let is_it = packet.sequence() == self.sequence;
            if packet.is_reply() && is_it {
                self.sent.clear();
                return Ok(packet.bytes);
            }
            if packet.is_error() {
                let code = packet.bytes[1];
                if is_it {
                    return Err(Error::Refused { what, code });
                }
                let sent = self.sent.remove(&packet.sequence());
                let (what, tag) = sent.unwrap_or_else(|| ("a request".to_owned(), 0));
                self.refusals.push(Refusal { what, code, tag });
            }
        }
    }

    /// Waits until all that was sent is done.
    ///
    /// # Errors
    /// As those of [`Server::ask`].
    pub fn settle(&mut self) -> Result<(), Error> {
        const GET_INPUT_FOCUS: u8 = 43;
        let request = Request { major: GET_INPUT_FOCUS, detail: 0, body: Vec::new() };
        self.ask("GetInputFocus", &request).map(|_| ())
    }

    /// What was refused since this was asked last.
    pub fn refusals(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.refusals)
    }

    /// Number of an extension, if it is there.
    ///
    /// # Errors
    /// As those of [`Server::ask`].
    pub fn extension(&mut self, name: &[u8]) -> Result<Option<u8>, Error> {
        const QUERY_EXTENSION: u8 = 98;
        if let Some(known) = self.majors.get(name) {
            return Ok(*known);
        }
        let reply = self.ask(
            "QueryExtension",
            &Request { major: QUERY_EXTENSION, detail: 0, body: counted_text(name) },
        )?;
        let major = (reply.get(8) == Some(&1)).then(|| reply.get(9).copied()).flatten();
        self.majors.insert(name.to_vec(), major);
        Ok(major)
    }

    /// Number of an atom, which is made if it is not there.
    ///
    /// # Errors
    /// As those of [`Server::ask`].
    pub fn atom(&mut self, name: &[u8]) -> Result<u32, Error> {
        const INTERN_ATOM: u8 = 16;
        let request = Request { major: INTERN_ATOM, detail: 0, body: counted_text(name) };
        let reply = self.ask("InternAtom", &request)?;
        Ok(word(&reply, 8).unwrap_or(0))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The thread that reads ends with the connection; where it is gone by now, so is that one.
        let _ = match &self.stream {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// A text behind its length.
fn counted_text(text: &[u8]) -> Vec<u8> {
    let mut body = (text.len() as u16).to_le_bytes().to_vec();
    body.extend([0, 0]);
    body.extend_from_slice(text);
    body.resize(body.len().next_multiple_of(4), 0);
    body
}

/// Length of a name that a request has at its beginning, and the name.
pub fn named(body: &[u8]) -> Option<&[u8]> {
    let bytes = usize::from(half(body, 0)?);
    body.get(4..4 + bytes)
}

fn open(parsed: &ParsedDisplay) -> std::io::Result<(Stream, Family, Vec<u8>)> {
    let mut failure = None;
    for address in parsed.connect_instruction() {
        let opened = match address {
            ConnectAddress::Socket(path) => UnixStream::connect(path).map(Stream::Unix),
            ConnectAddress::Hostname(host, port) => TcpStream::connect((host, port)).map(Stream::Tcp),
            _ => continue,
        };
        match opened {
            Ok(Stream::Unix(stream)) => return Ok((Stream::Unix(stream), Family::LOCAL, host_name())),
            Ok(Stream::Tcp(stream)) => {
                stream.set_nodelay(true)?;
                let (family, address) = match stream.peer_addr()?.ip() {
                    ip if ip.is_loopback() => (Family::LOCAL, host_name()),
                    std::net::IpAddr::V4(ip) => (Family::INTERNET, ip.octets().to_vec()),
                    std::net::IpAddr::V6(ip) => (Family::INTERNET6, ip.octets().to_vec()),
                };
                return Ok((Stream::Tcp(stream), family, address));
            }
            // That of the first way says most: the others are for displays that are elsewhere.
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| std::io::Error::other("there is no way to it")))
}

/// By which local displays are named in the file of authorities.
fn host_name() -> Vec<u8> {
    std::fs::read("/proc/sys/kernel/hostname").map(|name| name.trim_ascii_end().to_vec()).unwrap_or_default()
}

fn greet(stream: &mut Stream, family: Family, address: Vec<u8>, display: u16) -> Result<Setup, String> {
    // Without a file of authorities there is none: most virtual displays want none.
    let authority = get_auth(family, &address, display).ok().flatten().unwrap_or_default();
    let (mut connect, greeting) = Connect::with_authorization(authority.0, authority.1);
    stream.write_all(&greeting).map_err(|error| error.to_string())?;
    loop {
        let bytes = stream.read(connect.buffer()).map_err(|error| error.to_string())?;
        if bytes == 0 {
            return Err("it ended the connection".to_owned());
        }
        if connect.advance(bytes) {
            return connect.into_setup().map_err(|error| error.to_string());
        }
    }
}
