//! Copying a file's content and hashing it on the way.
//!
//! Invariant: work and memory are proportional to what is in a file, not to its length. Holes are not
//! read, and in long contents they are not hashed either.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::FileHash;

const BLOCK_BYTES: usize = 4096;
/// Bytes of a part: long contents are hashed and packed by parts.
pub(crate) const PART_BYTES: usize = 1 << 20;
/// Longest content that is hashed as it is, in bytes.
pub(crate) const SHORT_BYTES_MAX: u64 = 64 << 20;
/// Bytes ahead of a part in a content's list of parts: its place in the content.
pub(crate) const PLACE_BYTES: u64 = 8;
const ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// Makes `to`, which is empty, hold the content of `from`, and returns its hash
/// and length. Shares the blocks where the file system can (FICLONE); otherwise
/// blocks of zeros become holes.
///
/// `from` may be a descriptor that the recorded program shares: it is read by
/// position only, so that the program's own offset never moves.
pub(crate) fn copy_content(from: &File, to: &File) -> io::Result<(FileHash, u64)> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return hash_and_length(to);
    }
    let mut hasher = ContentHasher::new(from.metadata()?.len());
    let len = read_parts(from, hasher.skips_holes(), |place, part| {
        hasher.add(place, part);
        write_sparse(to, place, part)
    })?;
    // A hole at the end needs the length; blocks were written by position.
    to.set_len(len)?;
    Ok((hasher.finish(), len))
}

/// The hash of a file's content.
pub(crate) fn hash_content(file: &File) -> io::Result<FileHash> {
    Ok(hash_and_length(file)?.0)
}

fn hash_and_length(file: &File) -> io::Result<(FileHash, u64)> {
    let mut hasher = ContentHasher::new(file.metadata()?.len());
    let len = read_parts(file, hasher.skips_holes(), |place, part| {
        hasher.add(place, part);
        Ok(())
    })?;
    Ok((hasher.finish(), len))
}

/// The hasher of a long content's list of parts, so that no list is taken for a short content.
pub(crate) fn long_hasher(len: u64) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new_derive_key("retrovane: parts of a long content");
    hasher.update(&len.to_le_bytes());
    hasher
}

/// Hashes a content by its parts. A content of at most [`SHORT_BYTES_MAX`] bytes has the BLAKE3 of its
/// bytes. A longer one has that of its length and, for each part of [`PART_BYTES`] bytes that is not
/// zero all over, its place and its bytes: BLAKE3 of a terabyte of zeros takes minutes.
struct ContentHasher {
    hasher: blake3::Hasher,
    is_long: bool,
}

impl ContentHasher {
    fn new(len: u64) -> ContentHasher {
        let is_long = len > SHORT_BYTES_MAX;
        let hasher = if is_long { long_hasher(len) } else { blake3::Hasher::new() };
        ContentHasher { hasher, is_long }
    }

    fn skips_holes(&self) -> bool {
        self.is_long
    }

    fn add(&mut self, place: u64, part: &[u8]) {
        if self.is_long {
            if is_zero(part) {
                return;
            }
            self.hasher.update(&place.to_le_bytes());
        }
        self.hasher.update(part);
    }

    fn finish(self) -> FileHash {
        *self.hasher.finalize().as_bytes()
    }
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(BLOCK_BYTES).all(|block| block == &ZEROS[..block.len()])
}

/// Hands over the content by its parts, in order; those in holes only if `skips_holes` is false.
/// Returns its length.
fn read_parts(
    from: &File,
    skips_holes: bool,
    mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut reader = PartReader::of(from, skips_holes)?;
    while let Some((place, part)) = reader.next_part()? {
        take(place, part)?;
    }
    Ok(reader.place)
}

/// Reads a file by its parts.
struct PartReader<'a> {
    file: &'a File,
    skips_holes: bool,
    holes: Holes,
    buffer: Vec<u8>,
    /// Where the next part begins; at last, the content's length.
    place: u64,
}

impl<'a> PartReader<'a> {
    fn of(file: &'a File, skips_holes: bool) -> io::Result<PartReader<'a>> {
        let (holes, buffer) = (Holes::of(file)?, vec![0; PART_BYTES]);
        Ok(PartReader { file, skips_holes, holes, buffer, place: 0 })
    }

    /// The next part and its place; `None` at the end.
    fn next_part(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        let in_hole = self.holes.parts_from(self.place);
        if in_hole != 0 && self.skips_holes {
            self.place += in_hole * PART_BYTES as u64;
        } else if in_hole != 0 {
            self.buffer.fill(0);
            self.place += PART_BYTES as u64;
            return Ok(Some((self.place - PART_BYTES as u64, &self.buffer)));
        }
        let filled = read_full(self.file, &mut self.buffer, self.place)?;
        let place = self.place;
        self.place += filled as u64;
        Ok((filled != 0).then(|| (place, &self.buffer[..filled])))
    }
}

/// Reads until the buffer is full or the file ends.
fn read_full(file: &File, buffer: &mut [u8], place: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], place + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Where a file holds nothing, which is not read: that would fill as much of the page cache.
struct Holes {
    /// A descriptor of its own, since asking moves the offset.
    asked: Option<File>,
    /// There is no data between the last place that was asked for and this one.
    data_at: u64,
    len: u64,
}

impl Holes {
    fn of(file: &File) -> io::Result<Holes> {
        let asked = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
        Ok(Holes { asked, data_at: 0, len: file.metadata()?.len() })
    }

    /// How many whole parts from this place on are in the file and in a hole. Places come in rising
    /// order.
    fn parts_from(&mut self, place: u64) -> u64 {
        let Some(asked) = &self.asked else { return 0 };
        if place >= self.data_at {
            self.data_at = match rustix::fs::seek(asked, SeekFrom::Data(place)) {
                Ok(place) => place,
                // Nothing but a hole up to the end.
                Err(Errno::NXIO) => u64::MAX,
                Err(_) => place,
            };
        }
        self.len.min(self.data_at).saturating_sub(place) / PART_BYTES as u64
    }
}

/// Writes the runs of blocks that are not all zeros.
pub(crate) fn write_sparse(to: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut run = 0..0;
    for (index, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
        let start = index * BLOCK_BYTES;
        if !is_zero(block) {
            if run.is_empty() {
                run.start = start;
            }
            run.end = start + block.len();
        } else if !run.is_empty() {
            to.write_all_at(&bytes[run.clone()], offset + run.start as u64)?;
            run = 0..0;
        }
    }
    if run.is_empty() { Ok(()) } else { to.write_all_at(&bytes[run.clone()], offset + run.start as u64) }
}

/// A long content's list of parts, behind its length: of each that is not zero all over its place
/// and its bytes. This is what its hash is of, and what a pack holds of it.
pub(crate) struct PartList<'a> {
    parts: PartReader<'a>,
    /// The part at hand with its place, and how much of it was read.
    at_hand: Vec<u8>,
    done: usize,
}

impl<'a> PartList<'a> {
    pub fn of(file: &'a File) -> io::Result<PartList<'a>> {
        Ok(PartList { parts: PartReader::of(file, true)?, at_hand: Vec::new(), done: 0 })
    }

    /// How many bytes it has.
    pub fn bytes_of(file: &File) -> io::Result<u64> {
        let mut bytes = 0;
        read_parts(file, true, |_, part| {
            bytes += if is_zero(part) { 0 } else { PLACE_BYTES + part.len() as u64 };
            Ok(())
        })?;
        Ok(bytes)
    }
}

impl Read for PartList<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.done == self.at_hand.len() {
            let Some((place, part)) = self.parts.next_part()? else { return Ok(0) };
            if !is_zero(part) {
                self.at_hand.clear();
                self.at_hand.extend_from_slice(&place.to_le_bytes());
                self.at_hand.extend_from_slice(part);
                self.done = 0;
            }
        }
        let bytes = into.len().min(self.at_hand.len() - self.done);
        into[..bytes].copy_from_slice(&self.at_hand[self.done..][..bytes]);
        self.done += bytes;
        Ok(bytes)
    }
}

/// Writes a content of which this is the list of parts, and returns the content's hash. `None`: it is
/// no list of such a content.
pub(crate) fn write_parts(from: &mut impl Read, len: u64, to: &File) -> io::Result<Option<FileHash>> {
    let mut hasher = long_hasher(len);
    let mut part = vec![0; PART_BYTES];
    let mut next = 0;
    loop {
        let mut place = [0; PLACE_BYTES as usize];
        match from.read(&mut place[..1])? {
            0 => break,
            _ => from.read_exact(&mut place[1..])?,
        }
        let offset = u64::from_le_bytes(place);
        if offset % PART_BYTES as u64 != 0 || offset < next || offset >= len {
            return Ok(None);
        }
        let part = &mut part[..(len - offset).min(PART_BYTES as u64) as usize];
        from.read_exact(part)?;
        if is_zero(part) {
            return Ok(None);
        }
        hasher.update(&place);
        hasher.update(part);
        write_sparse(to, offset, part)?;
        next = offset + part.len() as u64;
    }
    to.set_len(len)?;
    Ok(Some(*hasher.finalize().as_bytes()))
}
