//! Copying a file's content and hashing it on the way.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::FileHash;

const BLOCK_BYTES: usize = 4096;
const BUFFER_BYTES: usize = 1 << 20;
const ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// Makes `to`, which is empty, hold the content of `from`, and returns its hash
/// and length. Shares the blocks where the file system can (FICLONE); otherwise
/// blocks of zeros become holes.
///
/// `from` may be a descriptor that the recorded program shares: it is read by
/// position only, so that the program's own offset never moves.
pub(crate) fn copy_content(from: &File, to: &File) -> io::Result<(FileHash, u64)> {
    let mut hasher = blake3::Hasher::new();
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        let len = read_blocks(to, |_, bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        return Ok((*hasher.finalize().as_bytes(), len));
    }
    let len = read_blocks(from, |offset, bytes| {
        hasher.update(bytes);
        write_sparse(to, offset, bytes)
    })?;
    // A hole at the end needs the length; blocks were written by position.
    to.set_len(len)?;
    Ok((*hasher.finalize().as_bytes(), len))
}

/// The hash of a file's content.
pub(crate) fn hash_content(file: &File) -> io::Result<FileHash> {
    let mut hasher = blake3::Hasher::new();
    read_blocks(file, |_, bytes| {
        hasher.update(bytes);
        Ok(())
    })?;
    Ok(*hasher.finalize().as_bytes())
}

fn read_blocks(from: &File, mut take: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut holes = Holes::of(from)?;
    let (mut offset, mut filled) = (0, 0);
    loop {
        if filled == 0 && holes.cover(offset, BUFFER_BYTES as u64) {
            buffer.fill(0);
            take(offset, &buffer)?;
            offset += BUFFER_BYTES as u64;
            continue;
        }
        let read = match from.read_at(&mut buffer[filled..], offset + filled as u64) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        filled += read;
        // Whole buffers keep the blocks of zeros aligned.
        if read == 0 || filled == buffer.len() {
            take(offset, &buffer[..filled])?;
            offset += filled as u64;
            filled = 0;
        }
        if read == 0 {
            return Ok(offset);
        }
    }
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

    /// True if these bytes are in the file and in a hole. Offsets come in rising order.
    fn cover(&mut self, offset: u64, bytes: u64) -> bool {
        let Some(asked) = &self.asked else { return false };
        if offset >= self.data_at {
            self.data_at = match rustix::fs::seek(asked, SeekFrom::Data(offset)) {
                Ok(place) => place,
                // Nothing but a hole up to the end.
                Err(Errno::NXIO) => u64::MAX,
                Err(_) => offset,
            };
        }
        offset + bytes <= self.len.min(self.data_at)
    }
}

/// Writes the runs of blocks that are not all zeros.
fn write_sparse(to: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut run = 0..0;
    for (index, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
        let start = index * BLOCK_BYTES;
        if block != &ZEROS[..block.len()] {
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
