//! Cells of a region for safe Rust, which need no compiler pass.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use crate::barrier::will_write;
use crate::error::Error;
use crate::region::Region;

/// A number in a region, with the barrier before each change; threads may share it.
#[repr(transparent)]
pub struct Word(AtomicU64);

impl Word {
    /// The number, before a change.
    fn before_change(&self) -> &AtomicU64 {
        // SAFETY: cells are made by `words` only: in the region, which they do not outlive.
        unsafe { will_write(&raw const self.0 as usize, 8) };
        &self.0
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(SeqCst)
    }

    /// Stores another one; returns the old.
    pub fn set(&self, value: u64) -> u64 {
        self.before_change().swap(value, SeqCst)
    }

    /// Adds, wrapping around; returns the old number.
    pub fn add(&self, value: u64) -> u64 {
        self.before_change().fetch_add(value, SeqCst)
    }

    /// Stores a number if another is there; returns what was.
    pub fn compare_exchange(&self, expected: u64, new: u64) -> u64 {
        self.before_change().compare_exchange(expected, new, SeqCst, SeqCst).unwrap_or_else(|found| found)
    }
}

impl Region {
    /// The cells of a name: as they were recovered, or new ones with 0.
    pub fn words(&self, name: &str, count: usize) -> Result<&[Word], Error> {
        let bytes = count.checked_mul(8).ok_or(Error::OutOfMemory(usize::MAX))?;
        let at = match self.root(name) {
            Some(at) if self.usable_checked(at as usize).is_some_and(|usable| usable >= bytes) => at as usize,
            Some(_) => return Err(Error::NoPlaceForRoot(name.to_owned())),
            None => {
                let at = self.allocate(bytes, 16)?;
                for word in 0..count {
                    // SAFETY: within the new block.
                    unsafe { crate::barrier::put(at + word * 8, 0) };
                }
                self.set_root(name, at as u64)?;
                at
            }
        };
        // SAFETY: a block of the region of this size, which is not freed by safe code, and whose
        // bytes are numbers whatever they are.
        Ok(unsafe { std::slice::from_raw_parts(at as *const Word, count) })
    }
}
