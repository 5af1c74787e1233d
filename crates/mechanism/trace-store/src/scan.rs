//! Reading a log from its first record to its last, without the index.
//!
//! A recorder that is killed, or a host that loses power, leaves a log that ends
//! early: everything before is good, and the trace is *cut*. Anything else that
//! is not as it was written is damage, and refused.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::contents::Contents;
use crate::error::{Doing, StoreError};
use crate::index;
use crate::meta::Closing;
use crate::reader::{Cut, CutWhy};
use crate::record::{
    BadHeader, FILE_HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, RecordKind, parse_entry, payload_fits,
};

/// A log that is being read, and its length when it was opened.
#[derive(Clone, Copy)]
pub(crate) struct Log<'a> {
    pub file: &'a File,
    pub path: &'a Path,
    pub len: u64,
}

impl Log<'_> {
    pub fn damaged(&self, offset: u64, what: &'static str) -> StoreError {
        StoreError::Damaged { path: self.path.to_owned(), offset, what }
    }

    pub fn bad_header(&self, offset: u64, bad: BadHeader) -> StoreError {
        match bad {
            BadHeader::Version(found) => StoreError::version(self.path, found),
            BadHeader::What(what) => self.damaged(offset, what),
        }
    }

    /// Reads the record's header at `offset`. The caller knows that the bytes are
    /// there.
    pub fn header(&self, offset: u64) -> Result<Result<RecordHeader, BadHeader>, StoreError> {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        self.file.read_exact_at(&mut bytes, offset).doing("read", self.path)?;
        Ok(RecordHeader::parse(&bytes, offset))
    }

    /// Reads the payload of the record at `offset` into `payload`; false if its
    /// checksum is wrong. The caller knows that the bytes are there.
    pub fn payload(
        &self,
        offset: u64,
        header: &RecordHeader,
        payload: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        payload.resize(header.stored_bytes as usize, 0);
        self.file.read_exact_at(payload, offset + RECORD_HEADER_BYTES as u64).doing("read", self.path)?;
        Ok(payload_fits(header, payload))
    }

    /// True if the log holds nothing but zeros from `offset` on: what a file
    /// system leaves of writes that a power failure cut off.
    fn is_zero_from(&self, offset: u64) -> Result<bool, StoreError> {
        let mut block = [0; 64 << 10];
        let mut at = offset;
        while at < self.len {
            let bytes = usize::try_from(self.len - at).unwrap_or(usize::MAX).min(block.len());
            self.file.read_exact_at(&mut block[..bytes], at).doing("read", self.path)?;
            if block[..bytes].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += bytes as u64;
        }
        Ok(true)
    }
}

/// What a scan found.
pub(crate) struct Scan {
    pub contents: Contents,
    pub closing: Option<Closing>,
    /// `None`: the trace is complete.
    pub cut: Option<Cut>,
}

/// Reads all records of a log whose file header is good. Each checksum is
/// verified; `progress` is told the offset after each record.
///
/// # Errors
/// [`StoreError::Damaged`] where bytes are wrong and more follow.
pub(crate) fn scan(log: Log<'_>, progress: &mut dyn FnMut(u64)) -> Result<Scan, StoreError> {
    let mut scanner = Scanner::default();
    let mut payload = Vec::new();
    let mut at = FILE_HEADER_BYTES as u64;
    let why = loop {
        if at == log.len {
            break (scanner.stage != Stage::Ended).then_some(CutWhy::NotFinished);
        }
        if scanner.stage == Stage::Ended {
            return Err(log.damaged(at, "there are bytes after the end of the trace"));
        }
        if log.len - at < RECORD_HEADER_BYTES as u64 {
            break Some(CutWhy::Incomplete);
        }
        let header = match log.header(at)? {
            Ok(header) => header,
            Err(_) if log.is_zero_from(at)? => break Some(CutWhy::Torn),
            Err(bad) => return Err(log.bad_header(at, bad)),
        };
        if header.record_bytes() > log.len - at {
            break Some(CutWhy::Incomplete);
        }
        if !log.payload(at, &header, &mut payload)? {
            if log.is_zero_from(at + header.record_bytes())? {
                break Some(CutWhy::Torn);
            }
            return Err(log.damaged(at, "the checksum of a record is wrong"));
        }
        scanner.take(at, &header, &payload).map_err(|what| log.damaged(at, what))?;
        at += header.record_bytes();
        progress(at);
    };
    Ok(Scan {
        contents: scanner.contents,
        closing: scanner.closing,
        cut: why.map(|why| Cut { why, offset: at }),
    })
}

/// Which records may come next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Log,
    Index,
    Summary,
    Ended,
}

#[derive(Default)]
struct Scanner {
    stage: Stage,
    contents: Contents,
    index_offset: u64,
    index: Vec<u8>,
    summary_offset: u64,
    closing: Option<Closing>,
}

impl Scanner {
    /// Takes the next record, or says why it cannot be there.
    fn take(&mut self, at: u64, header: &RecordHeader, payload: &[u8]) -> Result<(), &'static str> {
        match (header.kind, self.stage) {
            (RecordKind::Chunk, Stage::Log) => {
                let expected = self.contents.next_chunk(header.lane)?;
                if expected != (header.number, header.first_event) {
                    return Err("a chunk of the lane is missing before this one");
                }
                self.contents.add_chunk(header.lane, header.place(at))
            }
            (RecordKind::BeginLane | RecordKind::EndLane | RecordKind::File, Stage::Log) => {
                let entry =
                    parse_entry(header.kind, header.lane, payload).ok_or("a record makes no sense")?;
                self.contents.add(entry)
            }
            (RecordKind::Index, Stage::Log | Stage::Index) => {
                if self.stage == Stage::Log {
                    self.index_offset = at;
                }
                self.stage = Stage::Index;
                self.index.extend_from_slice(payload);
                Ok(())
            }
            (RecordKind::Summary, Stage::Index) => {
                let contents = index::parse(&self.index, self.index_offset);
                if contents.as_ref() != Some(&self.contents) {
                    return Err("the index contradicts the log");
                }
                self.stage = Stage::Summary;
                self.summary_offset = at;
                self.closing = Some(parse_closing(payload)?);
                Ok(())
            }
            (RecordKind::End, Stage::Summary) => {
                self.stage = Stage::Ended;
                if (header.number, header.first_event) == (self.index_offset, self.summary_offset) {
                    Ok(())
                } else {
                    Err("the end does not point to the index")
                }
            }
            (_, Stage::Log | Stage::Index | Stage::Summary | Stage::Ended) => {
                Err("a record is where none of its kind can be")
            }
        }
    }
}

/// Reads the payload of the summary's record.
pub(crate) fn parse_closing(payload: &[u8]) -> Result<Closing, &'static str> {
    serde_json::from_slice(payload).map_err(|_| "the summary makes no sense")
}
