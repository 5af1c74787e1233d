//! What streams that are masked brought, to be found where processes pass it on.
//!
//! It is found in pieces, since who reads a text may write any part of it. Deliberately absent: other encodings, in
//! which only values are searched for ([`super::secrets`]).

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use trace_store::TraceReader;

use super::places::Places;
use super::wanted::Wanted;
use crate::exit::CommandError;
use crate::policy::StreamKind;

/// A piece of what was masked is known by so many bytes.
pub const PIECE_BYTES: usize = 6;
/// What a program is given must hold so many in a row: it goes on with what is masked there.
const GIVEN_BYTES_MIN: usize = 8;
/// A shorter line says nothing.
const LINE_BYTES_MIN: usize = 3;
/// Pieces with fewer different bytes are found everywhere.
const DIFFERENT_BYTES_MIN: usize = 3;
/// More is not followed.
const FOLLOWED_BYTES_MAX: usize = 8 << 20;

/// Whose bytes are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// What a process wrote, as far as the log has it.
    Written,
    /// What a process was given, or a path.
    Given,
}

/// All that was masked, in the order in which it was read.
#[derive(Default)]
pub struct Contents {
    /// By stream and lane.
    read: BTreeMap<(usize, u32), Vec<u8>>,
    bytes: usize,
    /// Not all of it is known.
    pub is_cut: bool,
    /// Pieces, sorted.
    pieces: Vec<u64>,
    /// Lines that are shorter.
    lines: HashSet<Vec<u8>>,
}

impl Contents {
    /// A part of a stream that was read.
    pub fn add(&mut self, stream: usize, lane: u32, data: &[u8]) {
        let room = FOLLOWED_BYTES_MAX - self.bytes;
        self.is_cut |= room < data.len();
        let data = &data[..data.len().min(room)];
        self.bytes += data.len();
        self.read.entry((stream, lane)).or_default().extend_from_slice(data);
    }

    /// Kept files that are masked.
    ///
    /// # Errors
    /// As for reading.
    pub fn add_files(
        &mut self,
        trace: &TraceReader,
        places: &Places,
        wanted: &Wanted,
    ) -> Result<(), CommandError> {
        let name = |file: &trace_store::TraceFile| file.file.original().to_string_lossy().into_owned();
        let is_masked = |file: &&trace_store::TraceFile| {
            wanted.has_stream(StreamKind::File, &name(file)) || places.files.contains(&file.id)
        };
        let mut files: Vec<_> = trace.files().iter().filter(is_masked).collect();
        // Of many as many as there is room for.
        files.sort_by_key(|file| file.file.size);
        for file in files {
            if file.file.size > (FOLLOWED_BYTES_MAX - self.bytes) as u64 {
                self.is_cut = true;
                break;
            }
            let path = trace.file_path(&file.file)?;
            let content = std::fs::read(&path).map_err(|source| CommandError::Read { path, source })?;
            self.add(usize::MAX, file.id, &content);
        }
        Ok(())
    }

    /// Makes it ready to be searched for.
    pub fn finish(&mut self) {
        for bytes in std::mem::take(&mut self.read).into_values() {
            self.pieces.extend(bytes.windows(PIECE_BYTES).filter(|piece| tells(piece)).map(number));
            let lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
            let short = lines.filter(|line| (LINE_BYTES_MIN..PIECE_BYTES).contains(&line.len()));
            self.lines.extend(short.map(<[u8]>::to_vec));
        }
        self.pieces.sort_unstable();
        self.pieces.dedup();
    }

    /// Which of these bytes are of what was masked. `is_cut`: the log has only the beginning of what was written.
    pub fn find(&self, bytes: &[u8], of: Of, is_cut: bool) -> Vec<Range<usize>> {
        if of == Of::Written && self.lines.contains(bytes.trim_ascii()) {
            return std::iter::once(0..bytes.len()).collect();
        }
        let mut found: Vec<Range<usize>> = Vec::new();
        for (at, piece) in bytes.windows(PIECE_BYTES).enumerate() {
            let counts = tells(piece) && (of == Of::Written || is_text(piece));
            if !counts || self.pieces.binary_search(&number(piece)).is_err() {
                continue;
            }
            match found.last_mut() {
                Some(last) if last.end >= at => last.end = at + PIECE_BYTES,
                _ => found.push(at..at + PIECE_BYTES),
            }
        }
        if of == Of::Given {
            found.retain(|range| range.len() >= GIVEN_BYTES_MIN);
        } else if is_cut && found.last().is_none_or(|last| last.end < bytes.len()) {
            found.extend(self.begun_at_end(bytes));
        }
        found
    }

    /// The bytes at the end with which a piece begins.
    fn begun_at_end(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let begins = |len: &usize| {
            let Some(begun) = bytes.len().checked_sub(*len).map(|at| &bytes[at..]) else { return false };
            let first = self.pieces.partition_point(|&piece| piece < number(begun));
            self.pieces.get(first).is_some_and(|&piece| piece.to_be_bytes().starts_with(begun))
        };
        let len = (LINE_BYTES_MIN..PIECE_BYTES).rev().find(begins)?;
        Some(bytes.len() - len..bytes.len())
    }
}

/// Bytes in the order of their numbers.
fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(word)
}

fn tells(piece: &[u8]) -> bool {
    let is_new = |&(at, byte): &(usize, &u8)| !piece[..at].contains(byte);
    piece.iter().enumerate().filter(is_new).count() >= DIFFERENT_BYTES_MIN
}

/// Counters and addresses are not.
fn is_text(piece: &[u8]) -> bool {
    piece.iter().filter(|byte| **byte == 0).count() < 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(range: Range<usize>) -> Vec<Range<usize>> {
        std::iter::once(range).collect()
    }

    fn of(content: &[u8]) -> Contents {
        let mut contents = Contents::default();
        // As who reads byte by byte does.
        for byte in content {
            contents.add(0, 0, &[*byte]);
        }
        contents.finish();
        contents
    }

    #[test]
    fn pieces_are_found_wherever_they_begin() {
        let contents = of(b"the password is sesame-0815\npin\n4711\n");
        assert_eq!(contents.find(b"<sesame-08>", Of::Written, false), one(1..10));
        assert_eq!(contents.find(b"log: word is sesame", Of::Given, false), one(5..19));
        assert!(contents.find(b"sesame", Of::Given, false).is_empty(), "too short for a program");
        assert!(contents.find(b"nothing of it", Of::Written, false).is_empty());
        assert_eq!(contents.find(b"4711\n", Of::Written, false), one(0..5));
    }

    #[test]
    fn what_the_log_cuts_is_found_by_its_beginning() {
        let contents = of(b"sesame-0815");
        assert_eq!(contents.find(b"a long line before sesa", Of::Written, true), one(19..23));
        assert!(contents.find(b"a long line before sesa", Of::Written, false).is_empty());
    }

    #[test]
    fn counters_are_not_what_was_masked() {
        let contents = of(&[1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
        assert!(contents.find(&[1, 0, 0, 0, 0, 0, 0, 0], Of::Written, false).is_empty());
        assert!(contents.find(&[0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0], Of::Given, false).is_empty());
    }
}
