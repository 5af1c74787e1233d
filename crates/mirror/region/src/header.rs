//! The first page of each of a region's files, and buffers of pages.

use std::io;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::layout::PAGE;
use crate::slots::SlotFile;

/// Format of the files.
pub const VERSION: u32 = 2;
const MAGIC: [u8; 8] = *b"RVMIRROR";
/// Bytes of the header before its own checksum.
const HEADER_BYTES: usize = 48;
/// Where the header's page has a number that is another one with each checkpoint that a live session has begun to write there.
const BEGUN_AT: usize = 64;

/// What a slot's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// 0: no checkpoint yet.
    pub generation: u64,
    pub size: u64,
    pub base: u64,
    pub table_hash: u64,
}

impl Header {
    pub fn encode(&self, begun: u64) -> PageBuffer {
        let mut page = PageBuffer::zeroed(PAGE);
        let bytes = page.bytes_mut();
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let fields = [self.generation, self.size, self.base, self.table_hash];
        for (index, field) in fields.iter().enumerate() {
            bytes[16 + index * 8..][..8].copy_from_slice(&field.to_le_bytes());
        }
        let hash = xxh3_64(&bytes[..HEADER_BYTES]);
        bytes[HEADER_BYTES..][..8].copy_from_slice(&hash.to_le_bytes());
        bytes[BEGUN_AT..][..8].copy_from_slice(&begun.to_le_bytes());
        page
    }
}

/// What a file is.
pub enum Found {
    /// New, or never completed.
    Empty,
    /// A header was being written, or is damaged.
    Torn,
    Whole(Header),
}

/// Looks what a file is.
pub fn read_header<F: SlotFile>(file: &F) -> Result<Found, Error> {
    let failed = |error| Error::disk("cannot read", file.path(), &error);
    if file.bytes().map_err(failed)? < PAGE as u64 {
        let mut start = vec![0; file.bytes().map_err(failed)?.min(8) as usize];
        file.read_at(0, &mut start).map_err(failed)?;
        return if is_begun(&start) { Ok(Found::Empty) } else { Err(wrong(file)) };
    }
    let mut bytes = vec![0; PAGE];
    file.read_at(0, &mut bytes).map_err(failed)?;
    if bytes[..8] != MAGIC {
        // The first header of all may be torn, in a file that is otherwise empty.
        let is_new = is_begun(&bytes[..8]) && bytes[HEADER_BYTES + 8..].iter().all(|byte| *byte == 0);
        return if is_new { Ok(Found::Empty) } else { Err(wrong(file)) };
    }
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
    let version = number(8) as u32;
    if number(HEADER_BYTES) != xxh3_64(&bytes[..HEADER_BYTES]) {
        return Ok(Found::Torn);
    }
    if version != VERSION {
        return Err(Error::OtherVersion { path: file.path().to_owned(), found: version, wanted: VERSION });
    }
    Ok(Found::Whole(Header {
        generation: number(16),
        size: number(24),
        base: number(32),
        table_hash: number(40),
    }))
}

/// The number of the checkpoint that was last begun in a file by a live session; 0: none.
pub fn read_begun<F: SlotFile>(file: &F) -> io::Result<u64> {
    let mut page = PageBuffer::zeroed(PAGE);
    if file.bytes()? >= PAGE as u64 {
        file.read_at(0, page.bytes_mut())?;
    }
    Ok(u64::from_le_bytes(std::array::from_fn(|index| page.bytes()[BEGUN_AT + index])))
}

/// True for the beginning of a file of ours, each byte of it written or not.
fn is_begun(start: &[u8]) -> bool {
    start.iter().zip(&MAGIC).all(|(byte, ours)| *byte == 0 || byte == ours)
}

fn wrong<F: SlotFile>(file: &F) -> Error {
    Error::WrongFile { path: file.path().to_owned() }
}

/// The first page of a file with another number of a checkpoint that was begun.
pub fn with_begun<F: SlotFile>(file: &F, begun: u64) -> io::Result<PageBuffer> {
    let mut page = PageBuffer::zeroed(PAGE);
    file.read_at(0, page.bytes_mut())?;
    page.bytes_mut()[BEGUN_AT..][..8].copy_from_slice(&begun.to_le_bytes());
    Ok(page)
}

/// Bytes whose address is that of a page, as O_DIRECT wants it.
pub struct PageBuffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl PageBuffer {
    pub fn zeroed(length: usize) -> PageBuffer {
        let bytes = vec![0; length + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE);
        PageBuffer { bytes, start, length }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..][..self.length]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.length]
    }
}
