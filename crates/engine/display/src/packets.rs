//! Cuts the two directions of a connection into requests, and into replies, events and errors.

use crate::error::Error;

/// More than a server of today takes in one request (16 MiB with BIG-REQUESTS).
const REQUEST_BYTES_MAX: usize = 64 << 20;

/// A request of the recorded program.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub major: u8,
    /// The second byte: an argument, or the minor number.
    pub detail: u8,
    /// What is behind the length.
    pub body: Vec<u8>,
}

impl Request {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = self.body.len().div_ceil(4) + 1;
        let mut bytes = vec![self.major, self.detail];
        match u16::try_from(words) {
            Ok(words) => bytes.extend(words.to_le_bytes()),
            Err(_) => {
                bytes.extend([0, 0]);
                bytes.extend((words as u32 + 1).to_le_bytes());
            }
        }
        bytes.extend_from_slice(&self.body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }
}

/// The little-endian word of four bytes there.
pub fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// The same of two bytes.
pub fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// What the program sent, as it comes.
#[derive(Debug, Default)]
pub struct RequestStream {
    bytes: Vec<u8>,
    has_begun: bool,
}

impl RequestStream {
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole request.
    ///
    /// # Errors
    /// [`Error::NoX11`]
    pub fn next(&mut self) -> Result<Option<Request>, Error> {
        if !self.has_begun && !self.begin()? {
            return Ok(None);
        }
        let Some(short) = half(&self.bytes, 2) else { return Ok(None) };
        let (header, words) = match short {
            0 => match word(&self.bytes, 4) {
                Some(words) => (8, words as usize),
                None => return Ok(None),
            },
            words => (4, usize::from(words)),
        };
        let len_bytes = words.saturating_mul(4);
        if !(header..=REQUEST_BYTES_MAX).contains(&len_bytes) {
            return Err(Error::NoX11("a request's length"));
        }
        if self.bytes.len() < len_bytes {
            return Ok(None);
        }
        let body = self.bytes[header..len_bytes].to_vec();
        let request = Request { major: self.bytes[0], detail: self.bytes[1], body };
        self.bytes.drain(..len_bytes);
        Ok(Some(request))
    }

    /// Passes over the greeting, which says who the program is; false where it is not whole yet.
    fn begin(&mut self) -> Result<bool, Error> {
        match self.bytes.first() {
            None => return Ok(false),
            Some(b'l') => {}
            Some(b'B') => return Err(Error::NoX11("it is of another byte order than this machine's")),
            Some(_) => return Err(Error::NoX11("its first byte")),
        }
        let (Some(name), Some(data)) = (half(&self.bytes, 6), half(&self.bytes, 8)) else { return Ok(false) };
        let padded = |bytes: u16| usize::from(bytes).next_multiple_of(4);
        let len_bytes = 12 + padded(name) + padded(data);
        if self.bytes.len() < len_bytes {
            return Ok(false);
        }
        self.bytes.drain(..len_bytes);
        self.has_begun = true;
        Ok(true)
    }
}

/// What the server sent: a reply, an event or an error; the first one is the answer to the greeting.
#[derive(Debug)]
pub struct Packet {
    pub bytes: Vec<u8>,
    pub is_greeting: bool,
}

impl Packet {
    pub fn is_error(&self) -> bool {
        !self.is_greeting && self.bytes[0] == 0
    }

    pub fn is_reply(&self) -> bool {
        !self.is_greeting && self.bytes[0] == 1
    }

    /// The kind of event, without who sent it.
    pub fn event(&self) -> Option<u8> {
        (!self.is_greeting && self.bytes[0] > 1).then_some(self.bytes[0] & 0x7f)
    }

    /// Number of the last request that the server had done.
    pub fn sequence(&self) -> u16 {
        half(&self.bytes, 2).unwrap_or(0)
    }
}

/// What the server sent, as it comes.
#[derive(Debug, Default)]
pub struct PacketStream {
    bytes: Vec<u8>,
    has_begun: bool,
}

impl PacketStream {
    /// Behind the greeting.
    pub fn begun() -> PacketStream {
        PacketStream { bytes: Vec::new(), has_begun: true }
    }

    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole packet.
    pub fn next(&mut self) -> Option<Packet> {
        const GENERIC_EVENT: u8 = 35;
        let first = *self.bytes.first()?;
        let len_bytes = match (self.has_begun, first & 0x7f) {
            (false, _) => 8 + usize::from(half(&self.bytes, 6)?) * 4,
            (true, 1 | GENERIC_EVENT) => {
                (word(&self.bytes, 4)? as usize).saturating_mul(4).saturating_add(32)
            }
            (true, _) => 32,
        };
        if self.bytes.len() < len_bytes {
            return None;
        }
        let packet = Packet { bytes: self.bytes.drain(..len_bytes).collect(), is_greeting: !self.has_begun };
        self.has_begun = true;
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(stream: &mut RequestStream, bytes: &[u8], step: usize) -> Vec<Request> {
        let mut found = Vec::new();
        for part in bytes.chunks(step) {
            stream.add(part);
            while let Some(request) = stream.next().expect("requests") {
                found.push(request);
            }
        }
        found
    }

    #[test]
    fn requests_are_cut_wherever_they_arrive() {
        let mut bytes = b"l\0\x0b\0\0\0\x03\0\x02\0\0\0abc\0xy\0\0".to_vec();
        let sent = [
            Request { major: 8, detail: 0, body: vec![1, 2, 3, 4] },
            Request { major: 43, detail: 0, body: Vec::new() },
            Request { major: 72, detail: 2, body: vec![7; 300_000] },
        ];
        bytes.extend(sent.iter().flat_map(Request::to_bytes));
        for step in [1, 7, 4096, bytes.len()] {
            assert_eq!(requests(&mut RequestStream::default(), &bytes, step), sent, "{step}");
        }
    }

    #[test]
    fn what_is_no_x11_is_said() {
        for wrong in [&b"GET / HTTP/1.0\r\n\r\n"[..], b"B\0\0\x0b\0\0\0\0\0\0\0\0"] {
            let mut stream = RequestStream::default();
            stream.add(wrong);
            assert!(stream.next().is_err(), "{wrong:?}");
        }
        let mut stream = RequestStream::default();
        stream.add(b"l\0\x0b\0\0\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0");
        assert!(stream.next().is_err(), "a long request that is shorter than its header");
    }

    #[test]
    fn packets_are_cut_by_their_kinds() {
        let mut stream = PacketStream::default();
        let mut bytes = vec![1, 0, 11, 0, 0, 0, 1, 0, 9, 9, 9, 9];
        let reply = |words: u8| {
            let mut reply = vec![1, 0, 5, 0, words, 0, 0, 0];
            reply.resize(32 + usize::from(words) * 4, 0);
            reply
        };
        bytes.extend(reply(2));
        bytes.extend([&[0x92, 0, 6, 0][..], &[0; 28]].concat());
        bytes.extend([&[0, 3, 7, 0][..], &[0; 28]].concat());
        stream.add(&bytes[..40]);
        assert!(stream.next().is_some_and(|packet| packet.is_greeting));
        assert!(stream.next().is_none());
        stream.add(&bytes[40..]);
        let rest: Vec<Packet> = std::iter::from_fn(|| stream.next()).collect();
        assert!(rest[0].is_reply() && rest[0].sequence() == 5);
        assert_eq!(rest[1].event(), Some(18));
        assert!(rest[2].is_error() && rest[2].sequence() == 7);
        assert_eq!(rest.len(), 3);
    }
}
