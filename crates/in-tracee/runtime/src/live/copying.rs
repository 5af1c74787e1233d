//! Copying from a shadow what differs, by the page tables of both.

use linux_abi::general as nr;

use core::sync::atomic::Ordering;

use lane_protocol::Checkpoint;

use super::{area, checkpoint, mappings};
use crate::{kernel, memory, report, written_pages};

const PAGE_BYTES: u64 = 4096;
/// Pages that are looked at at a time.
const CHUNK_PAGES: usize = 512;
/// Pieces that one call copies.
const COPIES_MAX: usize = 512;
/// Bytes that are compared at a time.
pub const COMPARED_BYTES: usize = 0x4_0000;

/// Which pages are copied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Those that may differ.
    Differing,
    /// Those that are there, whatever backs them.
    All,
    /// All that the shadow has, after a comparison.
    Compare,
}

/// The page tables of now and of then, as the kernel shows them.
pub struct Pagemaps {
    now: i32,
    then: i32,
    /// Nobody else shares pages with us, so that a page that both have is the same.
    alone: bool,
}

const PRESENT: u64 = 3 << 62;
const OF_FILE: u64 = 1 << 61;
const EXCLUSIVE: u64 = 1 << 56;

impl Pagemaps {
    /// Of this process and of a checkpoint's shadow.
    pub fn open(slot: &Checkpoint) -> Pagemaps {
        let shadow = slot.shadow.load(Ordering::Acquire);
        let open = |path: *const u8| {
            let flags = u64::from(nr::O_RDONLY | nr::O_CLOEXEC);
            kernel::call(nr::__NR_open, [path as u64, flags, 0, 0, 0, 0]) as i32
        };
        let mut path = [0u8; 40];
        let mut digits = [0u8; 12];
        report::join(&mut path, &[b"/proc/", report::decimal(shadow as u64, &mut digits), b"/pagemap"]);
        let alone = checkpoint::is_alone_since(slot);
        Pagemaps { now: open(c"/proc/thread-self/pagemap".as_ptr().cast()), then: open(path.as_ptr()), alone }
    }

    /// Closes both.
    pub fn close(&self) {
        for fd in [self.now, self.then] {
            if fd >= 0 {
                kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
            }
        }
    }

    fn read(fd: i32, start: u64, pages: usize, to: &mut [u64; CHUNK_PAGES]) -> bool {
        let bytes = pages as u64 * 8;
        let arguments = [fd as u64, to.as_mut_ptr() as u64, bytes, start / PAGE_BYTES * 8, 0, 0];
        kernel::call(nr::__NR_pread64, arguments) as u64 == bytes
    }

    /// Calls `each` with the entries of then and now of each page that either has.
    /// Without page maps, all pages count as there.
    fn for_each(&self, start: u64, end: u64, each: &mut dyn FnMut(u64, u64, u64)) {
        let (mut now, mut then) = ([0u64; CHUNK_PAGES], [0u64; CHUNK_PAGES]);
        let mut at = start;
        while at < end {
            let pages = (((end - at) / PAGE_BYTES) as usize).min(CHUNK_PAGES);
            if !Self::read(self.now, at, pages, &mut now) || !Self::read(self.then, at, pages, &mut then) {
                now[..pages].fill(PRESENT);
                then[..pages].fill(PRESENT);
            }
            let mut any = false;
            for index in 0..pages {
                if (now[index] | then[index]) & PRESENT != 0 {
                    any = true;
                    each(at + index as u64 * PAGE_BYTES, then[index], now[index]);
                }
            }
            at += pages as u64 * PAGE_BYTES;
            if !any && at < end {
                // Reserved memory is long and empty.
                let next = |fd| written_pages::next_populated(fd, at, end).unwrap_or(at);
                at = next(self.now).min(next(self.then));
            }
        }
    }

    /// What has to be done with a page.
    fn judge(&self, then: u64, now: u64) -> Judgement {
        let own = |entry: u64| entry & PRESENT != 0 && entry & OF_FILE == 0;
        match (own(then), own(now)) {
            (false, false) => Judgement::Same,
            (false, true) => Judgement::Drop,
            (true, false) => Judgement::Copy,
            _ if self.alone && (then | now) & EXCLUSIVE == 0 => Judgement::Same,
            _ if self.alone => Judgement::Copy,
            _ => Judgement::Compare,
        }
    }

    /// True if any page of the range may differ.
    pub fn differ(&self, start: u64, end: u64) -> bool {
        let mut differs = false;
        self.for_each(start, end, &mut |_, then, now| {
            differs |= self.judge(then, now) != Judgement::Same;
        });
        differs
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Judgement {
    Same,
    /// It was empty, or as its file has it.
    Drop,
    Copy,
    Compare,
}

/// Pieces of memory to be copied from the shadow.
struct Copies {
    shadow: i32,
    pieces: [[u64; 2]; COPIES_MAX],
    count: usize,
}

impl Copies {
    fn add(&mut self, page: u64) {
        if let Some(last) = self.pieces[..self.count].last_mut()
            && last[0] + last[1] == page
        {
            last[1] += PAGE_BYTES;
            return;
        }
        if self.count == COPIES_MAX {
            self.flush();
        }
        self.pieces[self.count] = [page, PAGE_BYTES];
        self.count += 1;
    }

    fn flush(&mut self) {
        let total: u64 = self.pieces[..self.count].iter().map(|piece| piece[1]).sum();
        let pieces = self.pieces.as_ptr() as u64;
        let count = self.count as u64;
        self.count = 0;
        if total == 0 {
            return;
        }
        let arguments = [self.shadow as u64, pieces, count, pieces, count, 0];
        if kernel::call(nr::__NR_process_vm_readv, arguments) as u64 != total {
            report::die("the memory of a checkpoint could not be read");
        }
    }
}

/// Pages in a row that are compared with the shadow's.
struct Compared {
    shadow: i32,
    start: u64,
    bytes: u64,
}

impl Compared {
    fn add(&mut self, page: u64) {
        if self.bytes != 0 && (self.start + self.bytes != page || self.bytes == COMPARED_BYTES as u64) {
            self.flush();
        }
        if self.bytes == 0 {
            self.start = page;
        }
        self.bytes += PAGE_BYTES;
    }

    fn flush(&mut self) {
        let buffer = area().compared.as_ptr() as u64;
        if !mappings::fetch(self.shadow, buffer, self.start, self.bytes) {
            report::die("the memory of a checkpoint could not be read");
        }
        for done in (0..self.bytes).step_by(PAGE_BYTES as usize) {
            if !is_same_page(self.start + done, buffer + done) {
                memory::copy(self.start + done, buffer + done, PAGE_BYTES);
            }
        }
        self.bytes = 0;
    }
}

/// Compares two pages, of which the first may not be there.
fn is_same_page(page: u64, other: u64) -> bool {
    if memory::read::<u8>(page).is_none() {
        return false;
    }
    // SAFETY: the first can be read, as was just tried; the second is ours.
    let (one, other) = unsafe {
        let words = PAGE_BYTES as usize / 8;
        let words_at = |at: u64| core::slice::from_raw_parts(at as *const u64, words);
        (words_at(page), words_at(other))
    };
    one == other
}

/// Makes a range as it was then, but for what may not be written now.
pub fn copy(start: u64, end: u64, shadow: i32, pagemaps: &Pagemaps, how: How) {
    let mut copies = Copies { shadow, pieces: [[0; 2]; COPIES_MAX], count: 0 };
    let mut compared = Compared { shadow, start: 0, bytes: 0 };
    pagemaps.for_each(start, end, &mut |page, then, now| {
        let judgement = match how {
            How::Differing => pagemaps.judge(then, now),
            How::All if then & PRESENT != 0 => Judgement::Copy,
            How::Compare if then & PRESENT != 0 => Judgement::Compare,
            How::All | How::Compare => Judgement::Same,
        };
        match judgement {
            Judgement::Same => {}
            Judgement::Copy => copies.add(page),
            Judgement::Drop => {
                const MADV_DONTNEED: u64 = 4;
                kernel::call(nr::__NR_madvise, [page, PAGE_BYTES, MADV_DONTNEED, 0, 0, 0]);
            }
            Judgement::Compare => compared.add(page),
        }
    });
    compared.flush();
    copies.flush();
}
