//! The mappings of a region: itself, its mirror, and a mark for each page.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU64};

use crate::error::Error;
use crate::layout::{MIRROR_DISTANCE, PAGE, marks_of, whole_pages};
use crate::pages::Pages;

/// Bytes that are made present by one call in the background.
pub const WARM_BYTES: usize = 256 * 1024;

/// The three mappings. They go away with it.
pub struct Memory {
    pub base: usize,
    pub size: usize,
    marks: usize,
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
        let mut mapped = Vec::new();
        let unmap = |mapped: &[usize]| {
            // SAFETY: just mapped by us, and nobody knows of it yet.
            mapped.iter().for_each(|part| unsafe {
                libc::munmap(*part as *mut _, size);
            });
        };
        for part in [base, base + MIRROR_DISTANCE] {
            match map_at(part, size, file) {
                Ok(()) => mapped.push(part),
                Err(error) => {
                    unmap(&mapped);
                    return Err(error);
                }
            }
        }
        let marks = marks_of(base);
        if let Err(error) = map_at(marks, whole_pages(size / PAGE), None) {
            unmap(&mapped);
            return Err(error);
        }
        let memory = Memory { base, size, marks };
        memory.warm(marks, whole_pages(size / PAGE))?;
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

    /// Copies whole words of the mirror, from an offset on. While it is frozen, the store that a thread was about to
    /// make a second time may still come: each word is as before it or behind it.
    pub fn copy_mirror(&self, offset: usize, into: &mut [u8]) {
        assert!(offset + into.len() <= self.size && offset.is_multiple_of(8), "within the region");
        let start = self.base + MIRROR_DISTANCE + offset;
        for (index, word) in into.chunks_exact_mut(8).enumerate() {
            // SAFETY: an aligned word of the mirror, which is mapped as long as `self` lives.
            let value = unsafe { (*((start + index * 8) as *const AtomicU64)).load(Relaxed) };
            word.copy_from_slice(&value.to_ne_bytes());
        }
    }

    /// Adds the pages that are marked, and takes their marks away.
    pub fn take_marks(&self, into: &mut Pages) {
        // SAFETY: the marks are whole pages of our own; eight are looked at together, and each
        // is taken by an exchange, since threads set them meanwhile.
        let (words, bytes) = unsafe {
            let count = whole_pages(self.pages());
            (
                std::slice::from_raw_parts(self.marks as *const AtomicU64, count / 8),
                std::slice::from_raw_parts(self.marks as *const AtomicU8, count),
            )
        };
        for (index, word) in words.iter().enumerate() {
            if word.load(SeqCst) == 0 {
                continue;
            }
            for (page, mark) in bytes.iter().enumerate().skip(index * 8).take(8) {
                if mark.swap(0, SeqCst) != 0 {
                    into.insert(page);
                }
            }
        }
    }

    /// Copies a page to the mirror, word by word, while threads store to both. Returns whether
    /// anything differed.
    ///
    /// A word that a thread stores to meanwhile is left to that thread: the exchange fails, or
    /// the comparison behind it says so and the word is looked at again.
    pub fn resynchronise(&self, page: usize) -> bool {
        let start = self.base + page * PAGE;
        let mut differed = false;
        for at in (start..start + PAGE).step_by(8) {
            // SAFETY: both are aligned words of our own mappings, which threads store to: each
            // access is atomic.
            let (own, mirror) =
                unsafe { (&*(at as *const AtomicU64), &*((at + MIRROR_DISTANCE) as *const AtomicU64)) };
            loop {
                let wanted = own.load(SeqCst);
                let there = mirror.load(SeqCst);
                if wanted == there {
                    break;
                }
                differed = true;
                let exchanged = mirror.compare_exchange(there, wanted, SeqCst, SeqCst).is_ok();
                if exchanged && own.load(SeqCst) == wanted {
                    break;
                }
            }
        }
        differed
    }

    /// The first word of a page that differs from its mirror now.
    pub fn differs(&self, page: usize) -> Option<usize> {
        let start = self.base + page * PAGE;
        (start..start + PAGE).step_by(8).find(|&at| self.word_differs(at))
    }

    /// True if an aligned word of the region differs from its mirror now.
    pub fn word_differs(&self, at: usize) -> bool {
        // SAFETY: as in `resynchronise`.
        unsafe {
            (*(at as *const AtomicU64)).load(SeqCst)
                != (*((at + MIRROR_DISTANCE) as *const AtomicU64)).load(SeqCst)
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and used by nobody behind the region's close.
        unsafe {
            libc::munmap(self.base as *mut _, self.size);
            libc::munmap((self.base + MIRROR_DISTANCE) as *mut _, self.size);
            libc::munmap(self.marks as *mut _, whole_pages(self.pages()));
        }
    }
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
