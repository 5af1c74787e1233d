//! The mappings of a region: itself, its mirror, and what is known of its words and blocks.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};

use crate::error::Error;
use crate::layout::{BLOCK_BITS, MIRROR_DISTANCE, PAGE, whole_pages};
use crate::log;

/// Bytes that are made present by one call in the background.
pub const WARM_BYTES: usize = 256 * 1024;

/// Pages of which is asked at once whether they are there.
pub const ASKED_PAGES: usize = 4096;
/// Pages at the end that the allocator has its last words in.
const LAST_PAGES: usize = 2;
/// Bits of an entry of /proc/PID/pagemap: present, swapped, and of a file (Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_A_FILE: u64 = 1 << 61;

/// The mappings. They go away with it.
pub struct Memory {
    pub base: usize,
    pub size: usize,
    /// Of each word's bytes, a bit: they are in the mirror as they were when the checkpoint that is being copied began.
    undone: usize,
    /// Of each page, a byte: it has words of which something is undone.
    touched: usize,
    /// The owners of blocks.
    owners: usize,
    /// Which pages are there; `None` where the kernel does not say.
    present: Option<File>,
    /// Pages from the beginning on that something was ever stored to, but for the last ones of all.
    used: AtomicUsize,
}

impl Memory {
    /// New memory, none of it present.
    pub fn new(base: usize, size: usize) -> Result<Memory, Error> {
        let memory = Memory::map(base, size, None)?;
        for part in [base, base + MIRROR_DISTANCE] {
            // SAFETY: advice on memory of our own, whose content it leaves.
            unsafe { libc::madvise(part as *mut _, size, libc::MADV_HUGEPAGE) };
        }
        Ok(memory)
    }

    /// Makes all of the region and of its mirror present.
    pub fn warm_all(&self) -> Result<(), Error> {
        [self.base, self.base + MIRROR_DISTANCE].into_iter().try_for_each(|part| self.warm(part, self.size))
    }

    /// A checkpoint's memory: read from the file when it is looked at.
    pub fn of_file(base: usize, size: usize, file: i32, offset: u64) -> Result<Memory, Error> {
        Memory::map(base, size, Some((file, offset)))
    }

    fn map(base: usize, size: usize, file: Option<(i32, u64)>) -> Result<Memory, Error> {
        let present = File::open("/proc/self/pagemap").ok();
        // What is mapped goes away with it also where the next part cannot be.
        let mut memory =
            Memory { base: 0, size, undone: 0, touched: 0, owners: 0, present, used: AtomicUsize::new(0) };
        map_at(base, size, file)?;
        memory.base = base;
        map_at(base + MIRROR_DISTANCE, size, file)?;
        memory.undone = map_anywhere(size / 8)?;
        memory.touched = map_anywhere(size / PAGE)?;
        memory.owners = map_anywhere(owner_bytes(size))?;
        memory.warm(memory.touched, whole_pages(size / PAGE))?;
        memory.warm(memory.owners, owner_bytes(size))?;
        log::begin_region(size, memory.owners, memory.undone, memory.touched);
        Ok(memory)
    }

    /// Makes memory present and writable without changing it.
    fn warm(&self, start: usize, bytes: usize) -> Result<(), Error> {
        // SAFETY: populating reads and writes no content.
        let failed = unsafe { libc::madvise(start as *mut _, bytes, libc::MADV_POPULATE_WRITE) };
        // Kernels before 5.14 do not know it: the memory comes when it is first used.
        match std::io::Error::last_os_error().raw_os_error() {
            _ if failed == 0 => Ok(()),
            Some(libc::EINVAL) => Ok(()),
            _ => Err(Error::last_os("there is not enough memory for the region and its mirror")),
        }
    }

    /// Makes a piece of the region present.
    pub fn warm_piece(&self, index: usize) {
        let at = index * WARM_BYTES;
        let bytes = WARM_BYTES.min(self.size.saturating_sub(at));
        // What cannot be had now is had when it is used, or refused then.
        let _ = self.warm(self.base + at, bytes);
        let _ = self.warm(self.base + MIRROR_DISTANCE + at, bytes);
    }

    /// A page that is not what it was: who looks at it gets a signal, and no wrong data.
    pub fn withhold(&self, page: usize) {
        let at = self.base + page * PAGE;
        // SAFETY: a page of our own mapping, whose content is of no use to anybody.
        unsafe { libc::mprotect(at as *mut _, PAGE, libc::PROT_NONE) };
    }

    /// How many pages the region has.
    pub fn pages(&self) -> usize {
        self.size / PAGE
    }

    /// Copies whole words of the mirror, from an offset on.
    pub fn copy_mirror(&self, offset: usize, into: &mut [u8]) {
        assert!(offset + into.len() <= self.size && offset.is_multiple_of(8), "within the region");
        let start = self.base + MIRROR_DISTANCE + offset;
        for (index, word) in into.chunks_exact_mut(8).enumerate() {
            // SAFETY: an aligned word of the mirror, which is mapped as long as `self` lives.
            let value = unsafe { (*((start + index * 8) as *const AtomicU64)).load(Relaxed) };
            word.copy_from_slice(&value.to_ne_bytes());
        }
    }

    /// Bytes from the region's beginning on may be stored to from now on.
    #[inline]
    pub fn use_up_to(&self, bytes: usize) {
        let pages = bytes.div_ceil(PAGE);
        if self.used.load(Relaxed) < pages {
            self.used.fetch_max(pages, Relaxed);
        }
    }

    /// The pages that may differ from the mirror.
    pub fn used_pages(&self) -> [Range<usize>; 2] {
        let last = self.pages() - LAST_PAGES;
        [0..self.used.load(Relaxed).min(last), last..self.pages()]
    }

    /// Bits of pages, from one on: whether they may differ from the mirror. Those that nobody has stored to since the region was opened
    /// are not there, or are the file's.
    pub fn stored_to(&self, first: usize, count: usize) -> Vec<bool> {
        let mut entries = vec![0u8; count * 8];
        let at = (self.base / PAGE + first) as u64 * 8;
        let known = self.present.as_ref().is_some_and(|file| file.read_exact_at(&mut entries, at).is_ok());
        let is_own = |entry: &[u8]| {
            let entry = u64::from_ne_bytes(entry.try_into().expect("eight bytes"));
            entry & SWAPPED != 0 || entry & (PRESENT | OF_A_FILE) == PRESENT
        };
        if known { entries.chunks_exact(8).map(is_own).collect() } else { vec![true; count] }
    }

    /// An aligned word of the region, which threads store to.
    pub fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && (self.base..self.base + self.size).contains(&at));
        // SAFETY: mapped as long as `self` lives.
        unsafe { &*(at as *const AtomicU64) }
    }

    /// The same one of the mirror, which only the checkpointer looks at.
    pub fn mirrored(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && (self.base..self.base + self.size).contains(&at));
        // SAFETY: as for `word`.
        unsafe { &*((at + MIRROR_DISTANCE) as *const AtomicU64) }
    }

    /// Which bytes of a word are as of the checkpoint's beginning already.
    pub fn undone(&self, at: usize) -> &AtomicU8 {
        debug_assert!((self.base..self.base + self.size).contains(&at));
        // SAFETY: as for `word`.
        unsafe { &*((self.undone + (at - self.base) / 8) as *const AtomicU8) }
    }

    /// Notes whether words of a page are undone.
    pub fn set_touched(&self, page: usize, is_touched: bool) {
        debug_assert!(page < self.pages());
        // SAFETY: as for `word`.
        unsafe { (*((self.touched + page) as *const AtomicU8)).store(u8::from(is_touched), Relaxed) };
    }

    /// Forgets of a page's words what is undone.
    pub fn forget_undone(&self, page: usize) {
        // SAFETY: bytes of our own mapping, which nobody else looks at.
        unsafe { ((self.undone + page * PAGE / 8) as *mut u8).write_bytes(0, PAGE / 8) };
    }

    /// Forgets it of all pages, and gives the memory back.
    pub fn forget_all_undone(&self) {
        // SAFETY: as above; its pages are zeros again.
        unsafe { libc::madvise(self.undone as *mut _, whole_pages(self.size / 8), libc::MADV_DONTNEED) };
    }

    /// True if a page is equal to its mirror now.
    pub fn is_equal(&self, page: usize) -> bool {
        let at = self.base + page * PAGE;
        // SAFETY: pages of both mappings; what threads store meanwhile makes them differ or not.
        unsafe { libc::memcmp(at as *const _, (at + MIRROR_DISTANCE) as *const _, PAGE) == 0 }
    }

    /// Addresses of a page's words that differ from the mirror now, and what the region has there.
    pub fn differing(&self, page: usize) -> impl Iterator<Item = (usize, u64)> + '_ {
        let start = self.base + page * PAGE;
        (start..start + PAGE).step_by(8).filter_map(|at| {
            let now = self.word(at).load(Relaxed);
            (now != self.mirrored(at).load(Relaxed)).then_some((at, now))
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        log::end_region();
        let unmap = |at: usize, bytes: usize| {
            if at != 0 {
                // SAFETY: mapped by `map`, and used by nobody behind the region's close.
                unsafe { libc::munmap(at as *mut _, bytes) };
            }
        };
        if self.undone != 0 {
            unmap(self.base + MIRROR_DISTANCE, self.size);
        }
        unmap(self.base, self.size);
        unmap(self.undone, whole_pages(self.size / 8));
        unmap(self.touched, whole_pages(self.size / PAGE));
        unmap(self.owners, owner_bytes(self.size));
    }
}

/// A word for each block.
fn owner_bytes(size: usize) -> usize {
    whole_pages(((size >> BLOCK_BITS) + 1) * 4)
}

fn map_anywhere(bytes: usize) -> Result<usize, Error> {
    log::map(whole_pages(bytes))
        .ok_or_else(|| Error::last_os("there is no memory for what is known of the region's words"))
}

fn map_at(start: usize, size: usize, file: Option<(i32, u64)>) -> Result<(), Error> {
    let (flags, file, offset) = match file {
        Some((file, offset)) => (libc::MAP_PRIVATE | libc::MAP_NORESERVE, file, offset as i64),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0),
    };
    // SAFETY: the address is taken only if nothing is mapped there.
    let at = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(start as *mut _, size, protection, flags | libc::MAP_FIXED_NOREPLACE, file, offset)
    };
    if at == libc::MAP_FAILED {
        let in_use = std::io::Error::last_os_error().raw_os_error() == Some(libc::EEXIST);
        return Err(match in_use {
            true => Error::BaseInUse { base: start },
            false => Error::last_os("the region cannot be mapped"),
        });
    }
    Ok(())
}
