//! The lists of mappings that proc(5) has (`maps`, `smaps`), without the runtime's region:
//! programs that look where there is room (sanitizers), or for their own memory, see what
//! they would see without us. The kernel's vDSO is not shown either, which is there for the runtime
//! alone; ours has its name.
//!
//! Positions count in the list as it is shown, and are kept here; the kernel is read from
//! where the last read ended, since it makes all that comes before for any other place.
//!
//! Deliberately absent: descriptors that were duplicated, inherited by an image, or come
//! from another process; and copies inside the kernel (sendfile). Those show all.

use linux_abi::errno::EINVAL;
use linux_abi::general as nr;

use crate::code::{clocks, own_vdso};
use crate::ground::memory::{self, in_region};
use crate::ground::owned::Owned;
use crate::ground::{kernel, maps};
use crate::state::block::process;
use crate::state::call_state::{HEAD_BYTES, MapList, Reached};

/// What is read from the kernel at a time, at most.
const BUFFER_BYTES: usize = 16 * 1024;
/// The name of our own vDSO in the list, for which the kernel has none, and the column it stands in.
const NAME: &[u8] = b"[vdso]\n";
const NAME_COLUMN: usize = 73;
static BUFFER: Owned<[u8; BUFFER_BYTES]> = Owned::new([0; BUFFER_BYTES]);

impl Default for MapList {
    fn default() -> MapList {
        MapList { fd: 0, position: 0, reached: Reached::START }
    }
}

impl Reached {
    const START: Reached = Reached {
        shown: 0,
        real: 0,
        head: [0; HEAD_BYTES],
        head_bytes: 0,
        head_waits: false,
        in_line: false,
        hidden: false,
        named: None,
    };
}

/// The descriptor reaches such a list.
pub fn note(fd: u64) {
    let known = &mut process().lists_of_maps;
    if let Some(free) = known.list.iter_mut().find(|known| known.fd == 0) {
        *free = MapList { fd: fd as u32 + 1, ..MapList::default() };
        known.count += 1;
    }
}

/// Reads from such a list, or moves in it; `None`: the call is something else. The caller
/// holds the token.
#[cold]
pub fn execute(number: u64, args: &[u64; 6]) -> Option<i64> {
    let [fd, buffer, count, offset, ..] = *args;
    let (vectored, positioned) = match number as u32 {
        nr::__NR_read => (false, false),
        nr::__NR_pread64 => (false, true),
        nr::__NR_readv => (true, false),
        nr::__NR_preadv => (true, true),
        nr::__NR_lseek => (false, false),
        _ => return None,
    };
    let process = &mut *process();
    let list = process.lists_of_maps.list.iter_mut().find(|list| list.fd == fd as u32 + 1)?;
    if number as u32 == nr::__NR_lseek {
        return Some(list.seek(args[1], args[2]));
    }
    let position = if positioned { offset } else { list.position };
    i64::try_from(position).ok()?;
    let mut pieces = |index: usize| match vectored {
        true => memory::vector_piece(buffer, count, index),
        false => (index == 0).then_some((buffer, count)),
    };
    let bytes = list.reached.read(fd, position, &mut pieces)?;
    if !positioned {
        list.position = position + bytes;
    }
    Some(bytes as i64)
}

impl MapList {
    fn seek(&mut self, offset: u64, whence: u64) -> i64 {
        const SEEK_SET: u64 = 0;
        const SEEK_CUR: u64 = 1;
        let position = match whence {
            SEEK_SET => offset as i64,
            SEEK_CUR => (self.position as i64).wrapping_add(offset as i64),
            _ => -1,
        };
        if position < 0 {
            return -i64::from(EINVAL);
        }
        self.position = position as u64;
        position
    }
}

impl Reached {
    /// Copies what the list has from the position on, as far as there is room; `None`: it
    /// cannot be read, or written to where it shall go.
    fn read(&mut self, fd: u64, position: u64, pieces: Pieces) -> Option<u64> {
        if position < self.shown {
            *self = Reached::START;
        }
        let skip = position - self.shown;
        let mut target = Target { skip, room: 0, copied: 0, piece: 0, used: 0, failed: false, pieces };
        let bytes = (0..).map_while(|index| (target.pieces)(index)).map(|(_, bytes)| bytes);
        target.room = bytes.fold(skip, u64::saturating_add);
        // SAFETY: the caller holds the token.
        let buffer = unsafe { &mut *BUFFER.get() };
        while target.room > 0 && !target.failed {
            if self.head_waits {
                self.show_head(&mut target);
                continue;
            }
            // All of it has room, but for a head or a name that is complete with one byte.
            let waiting = self.head_bytes + HEAD_BYTES;
            if target.copied > HEAD_BYTES as u64 && target.room <= waiting as u64 {
                break;
            }
            let bytes = target.room.saturating_sub(waiting as u64).clamp(1, BUFFER_BYTES as u64);
            let read =
                kernel::call(nr::__NR_pread64, [fd, buffer.as_mut_ptr() as u64, bytes, self.real, 0, 0]);
            if read <= 0 {
                if read < 0 && target.copied == 0 {
                    return None;
                }
                break;
            }
            self.real += read as u64;
            self.filter(&buffer[..read as usize], &mut target);
        }
        self.shown = position + target.copied - target.skip;
        if target.failed {
            *self = Reached::START;
        }
        // What cannot be written to is an error only if nothing was read.
        (!target.failed || target.copied > 0).then_some(target.copied)
    }

    /// Shows of the kernel's text what is not the runtime's.
    fn filter(&mut self, mut text: &[u8], target: &mut Target) {
        while let Some(&byte) = text.first() {
            if self.in_line {
                let (bytes, ends) = match text.iter().position(|&byte| byte == b'\n') {
                    Some(end) => (end + 1, true),
                    None => (text.len(), false),
                };
                self.in_line = !ends;
                match self.named {
                    Some(columns) if ends => {
                        target.take(&text[..bytes - 1]);
                        self.name_line(columns + bytes - 1, target);
                    }
                    _ if !self.hidden => {
                        self.named = self.named.map(|columns| columns + bytes);
                        target.take(&text[..bytes]);
                    }
                    _ => {}
                }
                text = &text[bytes..];
                continue;
            }
            self.head[self.head_bytes] = byte;
            self.head_bytes += 1;
            text = &text[1..];
            if matches!(byte, b' ' | b':' | b'\n') || self.head_bytes == HEAD_BYTES {
                if let Some((start, end)) = maps::range_of(&self.head[..self.head_bytes]) {
                    self.hidden = in_region(start, end - start) || clocks::is_vdso(start);
                    self.named = own_vdso::is_at(start).then_some(self.head_bytes);
                }
                self.in_line = byte != b'\n';
                self.head_waits = true;
                self.show_head(target);
            }
        }
    }

    /// The line of our own vDSO has no name in the kernel's list, and so many columns.
    fn name_line(&mut self, columns: usize, target: &mut Target) {
        let blanks = NAME_COLUMN.saturating_sub(columns).min(HEAD_BYTES - NAME.len());
        self.head[..blanks].fill(b' ');
        self.head[blanks..][..NAME.len()].copy_from_slice(NAME);
        (self.head_bytes, self.head_waits, self.named) = (blanks + NAME.len(), true, None);
        self.show_head(target);
    }

    fn show_head(&mut self, target: &mut Target) {
        let shown = if self.hidden { self.head_bytes } else { target.take(&self.head[..self.head_bytes]) };
        self.head.copy_within(shown..self.head_bytes, 0);
        self.head_bytes -= shown;
        self.head_waits = self.head_bytes > 0;
    }
}

/// The program's buffers, by index.
type Pieces<'a> = &'a mut dyn FnMut(usize) -> Option<(u64, u64)>;

struct Target<'a> {
    /// Bytes of the list that come before the position.
    skip: u64,
    /// For how many bytes there is room, with those.
    room: u64,
    copied: u64,
    pieces: Pieces<'a>,
    piece: usize,
    /// Of the piece at hand.
    used: u64,
    failed: bool,
}

impl Target<'_> {
    /// Takes text; how many bytes of it had room.
    fn take(&mut self, text: &[u8]) -> usize {
        let skipped = self.skip.min(text.len() as u64);
        self.skip -= skipped;
        self.room -= skipped;
        let mut taken = skipped as usize;
        while taken < text.len() {
            let Some((address, bytes)) = (self.pieces)(self.piece) else { break };
            let rest = &text[taken..];
            let part = (bytes - self.used).min(rest.len() as u64);
            if part == 0 {
                (self.piece, self.used) = (self.piece + 1, 0);
                continue;
            }
            if !memory::copy(address + self.used, rest.as_ptr() as u64, part) {
                self.failed = true;
                break;
            }
            self.used += part;
            self.copied += part;
            self.room -= part;
            taken += part as usize;
        }
        taken
    }
}
