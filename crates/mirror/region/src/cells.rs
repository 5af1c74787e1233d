//! Cells of a region for safe Rust, which need no compiler pass.

use crate::barrier::{Operation, modify};
use crate::error::Error;
use crate::protocol;
use crate::region::Region;

/// A number in a region. Every change is made in the mirror too; threads may share it.
#[repr(transparent)]
pub struct Word(core::cell::UnsafeCell<u64>);

// SAFETY: all accesses are atomic.
unsafe impl Sync for Word {}

impl Word {
    fn address(&self) -> usize {
        self.0.get() as usize
    }

    /// The number.
    pub fn get(&self) -> u64 {
        protocol::load(self.address(), 8)
    }

    /// Stores another one; returns the old.
    pub fn set(&self, value: u64) -> u64 {
        self.modify(Operation::Exchange, value)
    }

    /// Adds, wrapping around; returns the old number.
    pub fn add(&self, value: u64) -> u64 {
        self.modify(Operation::Add, value)
    }

    /// Stores a number if another is there; returns what was.
    pub fn compare_exchange(&self, expected: u64, new: u64) -> u64 {
        // SAFETY: as in `modify`.
        unsafe { protocol::compare_exchange(self.address(), 8, expected, new) }
    }

    fn modify(&self, operation: Operation, value: u64) -> u64 {
        // SAFETY: cells are made by `words` only: aligned, in the region, which they do not outlive.
        unsafe { modify(self.address(), 8, operation, value) }
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
