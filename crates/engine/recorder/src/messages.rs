//! What one call received: pieces of input, with what came beside them.
//!
//! The structures in memory were the program's: lengths are not to be trusted.

use crate::logged_calls::Call;
use crate::numbers::{MSG_NOT_TAKEN, RECVFROM, RECVMMSG, RECVMSG};

/// struct msghdr of recvmsg(2).
const HEADER_BYTES: u64 = 56;
/// struct mmsghdr of recvmmsg(2).
const MESSAGE_BYTES: u64 = 64;
/// struct cmsghdr of cmsg(3), without what follows.
const CONTROL_HEADER_BYTES: usize = 16;
/// Level and type of descriptors that are passed (`SOL_SOCKET`, `SCM_RIGHTS`).
const DESCRIPTORS: [u32; 2] = [1, 1];

/// Input that came at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    pub bytes: Vec<u8>,
    /// The address that it came from, and what came beside it but for descriptors (cmsg(3)).
    name: Vec<u8>,
    control: Vec<u8>,
    /// `msg_flags`.
    flags: u32,
    /// Descriptors came with it.
    pub had_descriptors: bool,
}

impl Piece {
    pub fn of(bytes: Vec<u8>) -> Piece {
        Piece { bytes, ..Piece::default() }
    }

    /// What stands before the bytes in a record for the process, if anything has to.
    pub fn head(&self) -> Option<Vec<u8>> {
        if self.name.is_empty() && self.control.is_empty() && self.flags == 0 {
            return None;
        }
        let lengths = [self.name.len(), self.control.len()];
        let mut head: Vec<u8> = lengths.iter().flat_map(|length| (*length as u32).to_le_bytes()).collect();
        head.extend(u64::from(self.flags).to_le_bytes());
        for part in [&self.name, &self.control] {
            head.extend(part);
            head.resize(head.len().next_multiple_of(8), 0);
        }
        Some(head)
    }
}

/// What a call that reads has read.
pub(crate) fn pieces_of(call: &Call) -> Vec<Piece> {
    match call.number {
        RECVFROM if call.args[3] & MSG_NOT_TAKEN != 0 => Vec::new(),
        RECVMSG if call.args[2] & MSG_NOT_TAKEN != 0 => Vec::new(),
        RECVMMSG if call.args[3] & MSG_NOT_TAKEN != 0 => Vec::new(),
        RECVFROM => {
            let name = if call.args[4] == 0 { Vec::new() } else { blob(call, call.args[4]) };
            vec![Piece { name, ..Piece::of(call.input()) }]
        }
        RECVMSG => vec![message(call, call.args[1], 0, call.memory.len())],
        RECVMMSG => messages(call),
        _ => vec![Piece::of(call.input())],
    }
}

/// What the kernel wrote at an address.
fn blob(call: &Call, address: u64) -> Vec<u8> {
    let found = call.memory.iter().find(|(at, _)| *at == address);
    found.map(|(_, bytes)| bytes.clone()).unwrap_or_default()
}

/// The message whose header is at `place`, among the blobs from `first` to `end`.
fn message(call: &Call, place: u64, first: usize, end: usize) -> Piece {
    let blobs = &call.memory[first..end];
    let header = blobs.iter().find(|(at, bytes)| *at == place && bytes.len() as u64 >= HEADER_BYTES);
    let Some((_, header)) = header else { return Piece::default() };
    let word = |index: usize| {
        let bytes = header[index * 8..index * 8 + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(bytes)
    };
    let (name_at, control_at) = (word(0), word(4));
    let mut piece = Piece { flags: word(6) as u32, ..Piece::default() };
    for (at, bytes) in blobs {
        if *at == name_at {
            piece.name.clone_from(bytes);
        } else if *at == control_at {
            (piece.control, piece.had_descriptors) = without_descriptors(bytes);
        } else if !(place..place + MESSAGE_BYTES).contains(at) {
            piece.bytes.extend(bytes);
        }
    }
    piece
}

/// Each message's blobs come in a row, its length last.
fn messages(call: &Call) -> Vec<Piece> {
    let (mut pieces, mut first) = (Vec::new(), 0);
    for index in 0..call.result.unsigned_abs() {
        let place = call.args[1].saturating_add(index * MESSAGE_BYTES);
        let length_at = place.saturating_add(HEADER_BYTES);
        let Some(behind) = call.memory[first..].iter().position(|(at, _)| *at == length_at) else { break };
        pieces.push(message(call, place, first, first + behind));
        first += behind + 1;
    }
    pieces
}

/// Messages of cmsg(3) but for those with descriptors; whether there were any.
fn without_descriptors(control: &[u8]) -> (Vec<u8>, bool) {
    let (mut kept, mut had, mut rest) = (Vec::new(), false, control);
    while let Some((head, _)) = rest.split_at_checked(CONTROL_HEADER_BYTES) {
        let length = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
        let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let fits = |length: &usize| (CONTROL_HEADER_BYTES..=rest.len()).contains(length);
        let Some(length) = usize::try_from(length).ok().filter(fits) else { break };
        let padded = length.next_multiple_of(8).min(rest.len());
        if [number(8), number(12)] == DESCRIPTORS {
            had = true;
        } else {
            kept.extend(&rest[..padded]);
        }
        rest = &rest[padded..];
    }
    (kept, had)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::MSG_PEEK;

    fn header(name: u64, control: u64, flags: u32) -> Vec<u8> {
        let words = [name, 16, 0x2000, 1, control, 0, u64::from(flags)];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn control(level: u32, kind: u32, bytes: &[u8]) -> Vec<u8> {
        let mut control = (16 + bytes.len() as u64).to_le_bytes().to_vec();
        control.extend(level.to_le_bytes());
        control.extend(kind.to_le_bytes());
        control.extend(bytes);
        control.resize(control.len().next_multiple_of(8), 0);
        control
    }

    fn call(number: u16, result: i64, args: [u64; 6], memory: Vec<(u64, Vec<u8>)>) -> Call {
        Call { number, result, args, memory, child: None }
    }

    #[test]
    fn a_message_has_its_address_and_what_came_beside_it_but_no_descriptors() {
        let beside = [control(1, 2, &[7; 12]), control(1, 1, &[3, 0, 0, 0])].concat();
        let memory = vec![
            (0x100, b"address of 16 b.".to_vec()),
            (0x2000, b"text".to_vec()),
            (0x300, beside),
            (0x1000, header(0x100, 0x300, 0x80)),
        ];
        let pieces = pieces_of(&call(RECVMSG, 4, [5, 0x1000, 0, 0, 0, 0], memory));
        let [piece] = &pieces[..] else { panic!("{pieces:?}") };
        assert_eq!((&piece.bytes[..], &piece.name[..]), (&b"text"[..], &b"address of 16 b."[..]));
        assert_eq!(piece.control, control(1, 2, &[7; 12]));
        assert!(piece.had_descriptors);
        assert_eq!(piece.head().map(|head| head.len()), Some(16 + 16 + 32));
    }

    #[test]
    fn messages_are_told_apart() {
        let memory = vec![
            (0x2000, b"one".to_vec()),
            (0x1000, header(0, 0, 0)),
            (0x1038, 3u32.to_le_bytes().to_vec()),
            (0x2000, b"second".to_vec()),
            (0x1040, header(0, 0, 0)),
            (0x1078, 6u32.to_le_bytes().to_vec()),
        ];
        let pieces = pieces_of(&call(RECVMMSG, 2, [5, 0x1000, 8, 0, 0, 0], memory));
        assert_eq!(pieces, [Piece::of(b"one".to_vec()), Piece::of(b"second".to_vec())]);
        assert_eq!(pieces[0].head(), None);
    }

    #[test]
    fn what_is_only_looked_at_is_not_taken() {
        let memory = vec![(0x2000, b"one".to_vec()), (0x1000, header(0, 0, 0))];
        assert!(pieces_of(&call(RECVMSG, 3, [5, 0x1000, MSG_PEEK, 0, 0, 0], memory)).is_empty());
    }

    #[test]
    fn lengths_that_make_no_sense_end_the_list() {
        let bytes = [&control(1, 2, &[1; 8])[..], &u64::MAX.to_le_bytes(), &[0; 8]].concat();
        assert_eq!(without_descriptors(&bytes), (control(1, 2, &[1; 8]), false));
    }
}
