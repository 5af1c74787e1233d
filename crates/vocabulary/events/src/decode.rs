//! Reading events from bytes that nobody vouches for.

use crate::header::Header;
use crate::{
    ARG_COUNT_MASK, BLOB_HEADER_BYTES, EVENT_BYTES_MAX, FATAL, HEADER_BYTES, IN_PLACE, Instruction, Kind,
    MORE, SETS_REGISTERS, TICKET, Tag, padded,
};

/// Why bytes are not an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end inside of the event: more may come.
    Truncated,
    /// The first byte names no kind.
    UnknownKind(u8),
    /// The header's length is impossible.
    BadLength(u32),
    /// The body or a blob does not fit into the event.
    BadBody,
}

impl core::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            DecodeError::Truncated => write!(f, "the log ends inside an event"),
            DecodeError::UnknownKind(kind) => write!(f, "unknown kind of event {kind}"),
            DecodeError::BadLength(len) => write!(f, "impossible event length {len}"),
            DecodeError::BadBody => write!(f, "an event's body does not fit its length"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// One event, borrowed from the log.
#[derive(Debug, Clone, Copy)]
pub struct Event<'log> {
    pub kind: Kind,
    pub flags: u8,
    pub code: u16,
    /// Everything after the header.
    pub body: &'log [u8],
}

/// A blob inside an event.
#[derive(Debug, Clone, Copy)]
pub struct Blob<'log> {
    pub address: u64,
    pub tag: Tag,
    /// Upper half of the tag's word.
    pub extra: u16,
    pub data: &'log [u8],
}

/// Body of an instruction event: registers before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstructionBody {
    pub instruction: Instruction,
    /// rax and rcx as the instruction found them (the leaf of cpuid).
    pub inputs: [u64; 2],
    /// rax, rbx, rcx, rdx, and flags where the instruction sets them.
    pub outputs: [u64; 5],
}

/// One mapping of a new image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapRecord {
    pub start: u64,
    pub end: u64,
    /// PROT_* bits.
    pub protection: u32,
    /// Bit 0: grows down (the stack).
    pub flags: u32,
    /// Id of the kept file, or `u32::MAX` for memory without one.
    pub file: u32,
    pub file_offset: u64,
}

/// Body of a birth: where the image starts and what is mapped.
#[derive(Debug, Clone, Copy)]
pub struct BirthBody<'log> {
    pub entry: u64,
    pub stack_pointer: u64,
    /// Start of the program break.
    pub break_start: u64,
    maps: &'log [u8],
    /// Path of the executed file.
    pub path: &'log [u8],
}

/// Bytes of one [`MapRecord`] in the log.
pub const MAP_RECORD_BYTES: usize = 40;
/// Bytes of a birth's body before its maps.
pub const BIRTH_FIXED_BYTES: usize = 32;

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl<'log> Event<'log> {
    /// Reads the event at the start of `log` and returns it with its length in
    /// bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] when the bytes end inside the event, else what
    /// is wrong with them.
    pub fn parse(log: &'log [u8]) -> Result<(Event<'log>, usize), DecodeError> {
        let header = Header::read(log).ok_or(DecodeError::Truncated)?;
        let kind = header.kind().ok_or(DecodeError::UnknownKind(header.0 as u8))?;
        let len = header.bytes() as u32;
        let len_bytes = len as usize;
        if !(HEADER_BYTES..=EVENT_BYTES_MAX).contains(&len_bytes) || !len_bytes.is_multiple_of(8) {
            return Err(DecodeError::BadLength(len));
        }
        let body = log.get(HEADER_BYTES..len_bytes).ok_or(DecodeError::Truncated)?;
        let event = Event { kind, flags: header.flags(), code: header.code(), body };
        if event.fixed_bytes() > body.len() {
            return Err(DecodeError::BadBody);
        }
        let mut blobs = event.blobs();
        for _ in &mut blobs {}
        if blobs.damaged || event.is_in_place() && event.arg_count() == 0 {
            return Err(DecodeError::BadBody);
        }
        Ok((event, len_bytes))
    }

    /// True if data events follow that belong to this one.
    pub fn has_more(&self) -> bool {
        matches!(self.kind, Kind::Syscall | Kind::Birth | Kind::Data) && self.flags & MORE != 0
    }

    /// Number of logged arguments of a system call.
    pub fn arg_count(&self) -> usize {
        (self.flags & ARG_COUNT_MASK).min(6) as usize
    }

    /// See [`IN_PLACE`].
    fn is_in_place(&self) -> bool {
        self.kind == Kind::Syscall && self.flags & IN_PLACE != 0
    }

    /// True if nothing comes behind it in its lane.
    pub fn ends_lane(&self) -> bool {
        match self.kind {
            Kind::Exit | Kind::Stop => true,
            Kind::Fault => self.flags & FATAL != 0,
            Kind::Syscall
            | Kind::Data
            | Kind::Signal
            | Kind::Instruction
            | Kind::Trampoline
            | Kind::Birth
            | Kind::Checksum
            | Kind::Preemption
            | Kind::Token
            | Kind::Store
            | Kind::Change
            | Kind::Edit => false,
        }
    }

    /// Result of a system call, exit code of an exit.
    pub fn result(&self) -> i64 {
        if self.is_in_place() { 0 } else { word(self.body, 0).unwrap_or(0) as i64 }
    }

    /// Argument of a system call; zero where it was not logged.
    pub fn arg(&self, index: usize) -> u64 {
        let result_bytes = if self.is_in_place() { 0 } else { 8 };
        if index < self.arg_count() { word(self.body, result_bytes + 8 * index).unwrap_or(0) } else { 0 }
    }

    /// The 64-bit word at this index of the body.
    pub fn body_word(&self, index: usize) -> Option<u64> {
        word(self.body, index * 8)
    }

    /// Bytes of the body before the blobs.
    pub fn fixed_bytes(&self) -> usize {
        match self.kind {
            Kind::Syscall if self.is_in_place() => 8 * self.arg_count(),
            Kind::Syscall => 8 + 8 * self.arg_count(),
            Kind::Data | Kind::Stop | Kind::Store => 0,
            Kind::Token => {
                if self.flags & TICKET != 0 {
                    16
                } else {
                    0
                }
            }
            Kind::Exit => 8,
            Kind::Signal => 128,
            Kind::Fault => 8 + 128 + 24,
            Kind::Trampoline | Kind::Checksum | Kind::Change => 16,
            Kind::Instruction => 56,
            Kind::Birth => {
                let maps = half(self.body, 24).unwrap_or(u32::MAX) as usize;
                let path = half(self.body, 28).unwrap_or(u32::MAX) as usize;
                maps.saturating_mul(MAP_RECORD_BYTES)
                    .saturating_add(padded(path.min(EVENT_BYTES_MAX)))
                    .saturating_add(BIRTH_FIXED_BYTES)
            }
            Kind::Preemption => 160,
            Kind::Edit => {
                if self.flags & SETS_REGISTERS != 0 {
                    144
                } else {
                    0
                }
            }
        }
    }

    /// The blobs of the event.
    pub fn blobs(&self) -> Blobs<'log> {
        let rest = self.body.get(self.fixed_bytes()..).unwrap_or(&[]);
        let in_place = self.is_in_place().then(|| self.arg(self.arg_count().saturating_sub(1)));
        Blobs { rest, in_place, damaged: false }
    }

    /// The body of a birth.
    pub fn birth(&self) -> Option<BirthBody<'log>> {
        if self.kind != Kind::Birth {
            return None;
        }
        let map_bytes = half(self.body, 24)? as usize * MAP_RECORD_BYTES;
        let path_bytes = half(self.body, 28)? as usize;
        let maps_end = BIRTH_FIXED_BYTES + map_bytes;
        Some(BirthBody {
            entry: word(self.body, 0)?,
            stack_pointer: word(self.body, 8)?,
            break_start: word(self.body, 16)?,
            maps: self.body.get(BIRTH_FIXED_BYTES..maps_end)?,
            path: self.body.get(maps_end..maps_end + path_bytes)?,
        })
    }

    /// The body of an instruction event.
    pub fn instruction(&self) -> Option<InstructionBody> {
        if self.kind != Kind::Instruction {
            return None;
        }
        let at = |index: usize| word(self.body, index * 8);
        Some(InstructionBody {
            instruction: Instruction::from_code(self.code)?,
            inputs: [at(0)?, at(1)?],
            outputs: [at(2)?, at(3)?, at(4)?, at(5)?, at(6)?],
        })
    }
}

impl<'log> BirthBody<'log> {
    /// The mappings of the image, in the order of their addresses.
    pub fn maps(&self) -> impl Iterator<Item = MapRecord> + 'log {
        self.maps.chunks_exact(MAP_RECORD_BYTES).filter_map(|bytes| {
            Some(MapRecord {
                start: word(bytes, 0)?,
                end: word(bytes, 8)?,
                protection: half(bytes, 16)?,
                flags: half(bytes, 20)?,
                file: half(bytes, 24)?,
                file_offset: word(bytes, 32)?,
            })
        })
    }
}

/// Iterator over an event's blobs.
#[derive(Debug, Clone)]
pub struct Blobs<'log> {
    rest: &'log [u8],
    /// All of it is memory at this address.
    in_place: Option<u64>,
    damaged: bool,
}

impl<'log> Iterator for Blobs<'log> {
    type Item = Blob<'log>;

    fn next(&mut self) -> Option<Blob<'log>> {
        if self.rest.is_empty() {
            return None;
        }
        if let Some(address) = self.in_place {
            let data = core::mem::take(&mut self.rest);
            return Some(Blob { address, tag: Tag::Memory, extra: 0, data });
        }
        let parsed = (|| {
            let address = word(self.rest, 0)?;
            let len_bytes = half(self.rest, 8)? as usize;
            let tag_word = half(self.rest, 12)?;
            let tag = Tag::from_word(tag_word & 0xffff)?;
            let data = self.rest.get(BLOB_HEADER_BYTES..BLOB_HEADER_BYTES.checked_add(len_bytes)?)?;
            let rest = self.rest.get(BLOB_HEADER_BYTES + padded(len_bytes)..)?;
            Some((Blob { address, tag, extra: (tag_word >> 16) as u16, data }, rest))
        })();
        match parsed {
            Some((blob, rest)) => {
                self.rest = rest;
                Some(blob)
            }
            None => {
                self.damaged = true;
                self.rest = &[];
                None
            }
        }
    }
}
