//! The bytes of `events.rvt`: the file's header, and records.
//!
//! Everything after the file's header is a sequence of records: 64 bytes of
//! header, then `stored_bytes` of payload. The header's checksum covers the
//! payload's, and is seeded with the record's offset, so that a record is valid
//! in its own place only.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::FileHash;
use crate::contents::{ChunkPlace, Entry, FileEntry, LaneEnd, TraceFile};

/// Version of the format that is written, and the latest that is read.
pub const FORMAT_VERSION: u32 = 14;
/// The earliest that is read: what came since has only been added.
pub(crate) const OLDEST_VERSION: u32 = 7;

/// True for the versions of the format that are read.
pub(crate) fn is_read(version: u32) -> bool {
    (OLDEST_VERSION..=FORMAT_VERSION).contains(&version)
}

/// Most bytes of events in one chunk, and most bytes of any record's payload.
pub const CHUNK_BYTES_MAX: usize = 8 << 20;
/// Longest path of a kept file, in bytes (PATH_MAX).
pub(crate) const PATH_BYTES_MAX: usize = 4096;

/// Length of the file's header, in bytes.
pub(crate) const FILE_HEADER_BYTES: usize = 32;
/// Length of a record's header, in bytes.
pub(crate) const RECORD_HEADER_BYTES: usize = 64;

pub(crate) const FILE_MAGIC: [u8; 8] = *b"RVTRACE\n";
const RECORD_MAGIC: [u8; 4] = *b"rvr\x01";

/// Flag of a record: the payload is zstd-compressed.
pub(crate) const COMPRESSED: u8 = 1;

/// True if a checksum is right. Fuzzing looks behind the checksums.
fn agree(computed: u64, found: u64) -> bool {
    computed == found || cfg!(fuzzing)
}

/// Checksum of a payload, and of `trace.json`.
pub(crate) fn payload_sum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// True if the payload is the one that the header speaks of.
pub(crate) fn payload_fits(header: &RecordHeader, payload: &[u8]) -> bool {
    agree(payload_sum(payload), header.payload_sum)
}

/// True if `trace.json` is the one that the file's header speaks of.
pub(crate) fn meta_fits(json: &[u8], meta_sum: u64) -> bool {
    agree(payload_sum(json), meta_sum)
}

/// The file's header for a `trace.json` with this checksum.
pub(crate) fn file_header(meta_sum: u64) -> [u8; FILE_HEADER_BYTES] {
    let mut bytes = [0; FILE_HEADER_BYTES];
    bytes[..8].copy_from_slice(&FILE_MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&meta_sum.to_le_bytes());
    let sum = xxh3_64(&bytes[..24]);
    bytes[24..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// What is wrong with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadHeader {
    Version(u32),
    What(&'static str),
}

/// Reads the file's header: the checksum of `trace.json`.
pub(crate) fn parse_file_header(bytes: &[u8; FILE_HEADER_BYTES]) -> Result<u64, BadHeader> {
    let mut fields = Fields(bytes);
    if fields.array() != Some(FILE_MAGIC) {
        return Err(BadHeader::What("the file does not begin like a trace"));
    }
    let version = fields.u32().unwrap_or(0);
    if version > FORMAT_VERSION {
        // Its checksum may be elsewhere: nothing after the version is known.
        return Err(BadHeader::Version(version));
    }
    let _reserved = fields.u32();
    let meta_sum = fields.u64().unwrap_or(0);
    let right = fields.u64().is_some_and(|sum| agree(xxh3_64(&bytes[..24]), sum));
    if !right {
        return Err(BadHeader::What("the checksum of the file's header is wrong"));
    }
    if !is_read(version) {
        return Err(BadHeader::Version(version));
    }
    Ok(meta_sum)
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    Chunk = 1,
    BeginLane = 2,
    EndLane = 3,
    File = 4,
    Index = 5,
    Summary = 6,
    /// Header only, the last 64 bytes of a complete trace.
    End = 7,
}

impl RecordKind {
    fn from_byte(byte: u8) -> Option<RecordKind> {
        Some(match byte {
            1 => RecordKind::Chunk,
            2 => RecordKind::BeginLane,
            3 => RecordKind::EndLane,
            4 => RecordKind::File,
            5 => RecordKind::Index,
            6 => RecordKind::Summary,
            7 => RecordKind::End,
            _ => return None,
        })
    }
}

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub kind: RecordKind,
    pub flags: u8,
    /// Lane of a chunk and of a lane's begin and end; 0 for other kinds.
    pub lane: u32,
    pub raw_bytes: u32,
    pub stored_bytes: u32,
    /// Chunk: its number in its lane. Index: number of the part. End: offset of
    /// the index.
    pub number: u64,
    /// Chunk: index in its lane of its first event. End: offset of the summary.
    pub first_event: u64,
    /// Chunk: count of its events.
    pub events: u64,
    /// Chunk: milliseconds from the start of the recording until it was written, plus 1; 0: not
    /// known.
    pub logged: u32,
    pub payload_sum: u64,
}

impl RecordHeader {
    /// The header of a record whose payload is stored as it is.
    pub fn plain(kind: RecordKind, lane: u32, payload: &[u8]) -> RecordHeader {
        let bytes = u32::try_from(payload.len()).expect("payloads are bounded by CHUNK_BYTES_MAX");
        RecordHeader {
            kind,
            flags: 0,
            lane,
            raw_bytes: bytes,
            stored_bytes: bytes,
            number: 0,
            first_event: 0,
            events: 0,
            logged: 0,
            payload_sum: payload_sum(payload),
        }
    }

    /// The header's bytes at this offset of the file.
    pub fn encode(&self, offset: u64) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[..4].copy_from_slice(&RECORD_MAGIC);
        bytes[4..6].copy_from_slice(&(FORMAT_VERSION as u16).to_le_bytes());
        bytes[6] = self.kind as u8;
        bytes[7] = self.flags;
        bytes[8..12].copy_from_slice(&self.lane.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.raw_bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.stored_bytes.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.logged.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first_event.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.events.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.payload_sum.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[..56], offset);
        bytes[56..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the header at this offset of the file, and bounds its lengths.
    pub fn parse(bytes: &[u8; RECORD_HEADER_BYTES], offset: u64) -> Result<RecordHeader, BadHeader> {
        let damaged = BadHeader::What("a record's header is damaged");
        let mut fields = Fields(bytes);
        let magic = fields.array::<4>().ok_or(damaged)?;
        let version = fields.u16().ok_or(damaged)?;
        let sum = Fields(&bytes[56..]).u64().ok_or(damaged)?;
        if magic != RECORD_MAGIC || !agree(xxh3_64_with_seed(&bytes[..56], offset), sum) {
            return Err(damaged);
        }
        if !is_read(u32::from(version)) {
            return Err(BadHeader::Version(u32::from(version)));
        }
        let [kind, flags] = fields.array::<2>().ok_or(damaged)?;
        let lane = fields.u32().ok_or(damaged)?;
        let raw_bytes = fields.u32().ok_or(damaged)?;
        let stored_bytes = fields.u32().ok_or(damaged)?;
        let logged = fields.u32().ok_or(damaged)?;
        let header = RecordHeader {
            kind: RecordKind::from_byte(kind).ok_or(BadHeader::What("a record has an unknown kind"))?,
            flags,
            lane,
            raw_bytes,
            stored_bytes,
            number: fields.u64().ok_or(damaged)?,
            first_event: fields.u64().ok_or(damaged)?,
            events: fields.u64().ok_or(damaged)?,
            logged,
            payload_sum: fields.u64().ok_or(damaged)?,
        };
        header.bounded()
    }

    fn bounded(self) -> Result<RecordHeader, BadHeader> {
        if self.raw_bytes as usize > CHUNK_BYTES_MAX || self.stored_bytes > self.raw_bytes {
            return Err(BadHeader::What("a record has an impossible length"));
        }
        if !self.is_compressed() && self.stored_bytes != self.raw_bytes {
            return Err(BadHeader::What("a record's lengths contradict each other"));
        }
        if self.flags & !COMPRESSED != 0 || (self.is_compressed() && self.kind != RecordKind::Chunk) {
            return Err(BadHeader::What("a record has unknown flags"));
        }
        Ok(self)
    }

    pub fn is_compressed(&self) -> bool {
        self.flags & COMPRESSED != 0
    }

    /// Bytes of the whole record.
    pub fn record_bytes(&self) -> u64 {
        RECORD_HEADER_BYTES as u64 + u64::from(self.stored_bytes)
    }

    /// What a chunk's header says, in the words of the index.
    pub fn place(&self, offset: u64) -> ChunkPlace {
        ChunkPlace { offset, raw_bytes: self.raw_bytes, stored_bytes: self.stored_bytes, events: self.events }
    }
}

/// The payload of a begin, end or file record.
pub(crate) fn encode_entry(entry: &Entry) -> (RecordKind, u32, Vec<u8>) {
    let mut payload = Vec::new();
    match entry {
        Entry::Begin { lane, parent, pid } => {
            payload.extend_from_slice(&parent.to_le_bytes());
            payload.extend_from_slice(&pid.to_le_bytes());
            (RecordKind::BeginLane, *lane, payload)
        }
        Entry::End { lane, end } => {
            encode_end(Some(*end), &mut payload);
            (RecordKind::EndLane, *lane, payload)
        }
        Entry::File(file) => {
            encode_file(file, &mut payload);
            (RecordKind::File, 0, payload)
        }
    }
}

/// Reads the payload of a begin, end or file record.
pub(crate) fn parse_entry(kind: RecordKind, lane: u32, payload: &[u8]) -> Option<Entry> {
    let mut fields = Fields(payload);
    let entry = match kind {
        RecordKind::BeginLane => Entry::Begin { lane, parent: fields.u32()?, pid: fields.i32()? },
        RecordKind::EndLane => Entry::End { lane, end: parse_end(&mut fields)?? },
        RecordKind::File => Entry::File(parse_file(&mut fields)?),
        RecordKind::Chunk | RecordKind::Index | RecordKind::Summary | RecordKind::End => return None,
    };
    fields.0.is_empty().then_some(entry)
}

/// 8 bytes: what ended the lane (0: it has not ended), and a value.
pub(crate) fn encode_end(end: Option<LaneEnd>, into: &mut Vec<u8>) {
    let (tag, value): (u32, i32) = match end {
        None => (0, 0),
        Some(LaneEnd::Exited(code)) => (1, code),
        Some(LaneEnd::Killed(signal)) => (2, signal),
        Some(LaneEnd::Unknown) => (3, 0),
        Some(LaneEnd::Stopped(reason)) => (4, i32::from(reason)),
    };
    into.extend_from_slice(&tag.to_le_bytes());
    into.extend_from_slice(&value.to_le_bytes());
}

/// `None` if the bytes say nothing that makes sense.
pub(crate) fn parse_end(fields: &mut Fields<'_>) -> Option<Option<LaneEnd>> {
    let (tag, value) = (fields.u32()?, fields.i32()?);
    Some(Some(match tag {
        0 => return Some(None),
        1 => LaneEnd::Exited(value),
        2 => LaneEnd::Killed(value),
        3 => LaneEnd::Unknown,
        4 => LaneEnd::Stopped(u16::try_from(value).ok()?),
        _ => return None,
    }))
}

pub(crate) fn encode_file(file: &TraceFile, into: &mut Vec<u8>) {
    let path_bytes = u32::try_from(file.file.path.len()).expect("the writer bounds paths");
    into.extend_from_slice(&file.id.to_le_bytes());
    into.extend_from_slice(&file.file.mode.to_le_bytes());
    into.extend_from_slice(&file.file.size.to_le_bytes());
    into.extend_from_slice(&file.file.hash);
    into.extend_from_slice(&path_bytes.to_le_bytes());
    into.extend_from_slice(&file.file.path);
}

pub(crate) fn parse_file(fields: &mut Fields<'_>) -> Option<TraceFile> {
    let (id, mode, size) = (fields.u32()?, fields.u32()?, fields.u64()?);
    let hash: FileHash = fields.array()?;
    let path_bytes = fields.u32()? as usize;
    if path_bytes > PATH_BYTES_MAX {
        return None;
    }
    let path = fields.take(path_bytes)?.to_vec();
    Some(TraceFile { id, file: FileEntry { hash, path, size, mode } })
}

/// Reads little-endian fields one after the other, never past the end.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
