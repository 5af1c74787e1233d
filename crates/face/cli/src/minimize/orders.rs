//! What a search and its crew tell each other, over a socket.
//!
//! Each message is a kind, a length and that many bytes. Both sides are this very program, of one fork; deliberately
//! absent: versions.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use injector::Readiness;

/// What a helper is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Each try gets these of the recorded answers from now on: a place in their list.
    Answers(usize),
    /// A stream has this content from now on.
    Keep { stream: usize, content: Vec<u8> },
    /// This stream gets smaller now; its content fails as wanted. `None`: by whole runs. It is answered.
    Begin { stream: usize, readiness: Option<Readiness>, content: Vec<u8> },
    /// Try this content. It is answered.
    Try(Vec<u8>),
}

/// How a try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Passes,
    Fails,
    /// It died as the wanted failure does; where, somebody has to look.
    Dies,
}

/// What a helper answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It can make tries, which fail like this as long as nothing is changed.
    Ready(String),
    NotReady,
    Tried(Verdict),
}

const LENGTH_MAX: u64 = 1 << 32;

impl Order {
    pub fn send(&self, to: &mut UnixStream) -> io::Result<()> {
        match self {
            Order::Answers(number) => send(to, [b'a', *number as u8, 0], &[]),
            Order::Keep { stream, content } => send(to, [b'k', *stream as u8, 0], content),
            Order::Begin { stream, readiness, content } => {
                let readiness = match readiness {
                    Some(Readiness::BeforeReading) => 0,
                    Some(Readiness::BeforeAsking) => 1,
                    None => 2,
                };
                send(to, [b'b', *stream as u8, readiness], content)
            }
            Order::Try(content) => send(to, [b't', 0, 0], content),
        }
    }

    /// The next one; an error where the search is over.
    pub fn receive(from: &mut UnixStream) -> io::Result<Order> {
        let ([kind, number, how], content) = receive(from)?;
        let (number, stream) = (usize::from(number), usize::from(number));
        match kind {
            b'a' => Ok(Order::Answers(number)),
            b'k' => Ok(Order::Keep { stream, content }),
            b'b' => {
                let readiness = match how {
                    0 => Some(Readiness::BeforeReading),
                    1 => Some(Readiness::BeforeAsking),
                    _ => None,
                };
                Ok(Order::Begin { stream, readiness, content })
            }
            b't' => Ok(Order::Try(content)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl Answer {
    pub fn send(&self, to: &mut UnixStream) -> io::Result<()> {
        match self {
            Answer::Ready(text) => send(to, [b'r', 0, 0], text.as_bytes()),
            Answer::NotReady => send(to, [b'n', 0, 0], &[]),
            Answer::Tried(Verdict::Passes) => send(to, [b'v', 0, 0], &[]),
            Answer::Tried(Verdict::Fails) => send(to, [b'v', 1, 0], &[]),
            Answer::Tried(Verdict::Dies) => send(to, [b'v', 2, 0], &[]),
        }
    }

    pub fn receive(from: &mut UnixStream) -> io::Result<Answer> {
        let ([kind, number, _], content) = receive(from)?;
        match (kind, number) {
            (b'r', _) => Ok(Answer::Ready(String::from_utf8_lossy(&content).into_owned())),
            (b'n', _) => Ok(Answer::NotReady),
            (b'v', 0) => Ok(Answer::Tried(Verdict::Passes)),
            (b'v', 1) => Ok(Answer::Tried(Verdict::Fails)),
            (b'v', 2) => Ok(Answer::Tried(Verdict::Dies)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn send(to: &mut UnixStream, head: [u8; 3], content: &[u8]) -> io::Result<()> {
    to.write_all(&[&head[..], &(content.len() as u64).to_le_bytes(), content].concat())
}

fn receive(from: &mut UnixStream) -> io::Result<([u8; 3], Vec<u8>)> {
    let (mut head, mut length) = ([0; 3], [0; 8]);
    from.read_exact(&mut head)?;
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > LENGTH_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut content = vec![0; length as usize];
    from.read_exact(&mut content)?;
    Ok((head, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_what_is_received() {
        let (mut ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        let content = b"\0some\nbytes".to_vec();
        for order in [
            Order::Answers(2),
            Order::Keep { stream: 3, content: content.clone() },
            Order::Begin { stream: 1, readiness: Some(Readiness::BeforeAsking), content: content.clone() },
            Order::Begin { stream: 0, readiness: None, content: Vec::new() },
            Order::Try(content),
        ] {
            order.send(&mut ours).expect("it is sent");
            assert_eq!(Order::receive(&mut theirs).expect("it is received"), order);
        }
        for answer in [
            Answer::Ready("SIGSEGV in f".to_owned()),
            Answer::NotReady,
            Answer::Tried(Verdict::Passes),
            Answer::Tried(Verdict::Fails),
            Answer::Tried(Verdict::Dies),
        ] {
            answer.send(&mut theirs).expect("it is sent");
            assert_eq!(Answer::receive(&mut ours).expect("it is received"), answer);
        }
        drop(ours);
        assert!(Order::receive(&mut theirs).is_err());
    }
}
