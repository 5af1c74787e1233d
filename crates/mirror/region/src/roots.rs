//! The beginning of a region: what it is, and the names by which a program finds its data.

use crate::barrier::put;
use crate::error::Error;

/// Names that a region can have.
pub const ROOTS_MAX: usize = 64;
/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 47;
/// Words of a name with the 0 behind it.
const NAME_WORDS: usize = 6;
const MAGIC: u64 = u64::from_le_bytes(*b"rvregion");

#[repr(C)]
struct Root {
    name: [u64; NAME_WORDS],
    /// The value: usually an address in the region.
    value: u64,
    /// 1: the entry is valid.
    valid: u64,
}

#[repr(C)]
struct Layout {
    magic: u64,
    reserved: u64,
    roots: [Root; ROOTS_MAX],
}

/// Bytes that roots take.
pub const BYTES: usize = size_of::<Layout>();

/// The roots of the open region.
pub struct Roots {
    at: usize,
}

fn words_of(name: &str) -> Result<[u64; NAME_WORDS], Error> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.bytes().any(|byte| byte == 0) {
        return Err(Error::NoPlaceForRoot(name.to_owned()));
    }
    let mut bytes = [0; NAME_WORDS * 8];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Ok(std::array::from_fn(|word| u64::from_le_bytes(std::array::from_fn(|byte| bytes[word * 8 + byte]))))
}

impl Roots {
    /// Those at an address of the region.
    ///
    /// # Safety
    /// [`BYTES`] of the open region are there, used by this only.
    pub unsafe fn at(at: usize) -> Roots {
        Roots { at }
    }

    /// Begins a new region.
    pub fn begin(&mut self) {
        // SAFETY: the first word of the layout, which is ours.
        unsafe { put(self.at, MAGIC) };
    }

    /// True if the region was begun.
    pub fn is_begun(&self) -> bool {
        self.word(self.at) == MAGIC
    }

    fn word(&self, address: usize) -> u64 {
        // SAFETY: called with addresses of the layout's words only.
        unsafe { (address as *const u64).read_volatile() }
    }

    fn entry(&self, index: usize) -> usize {
        self.at + core::mem::offset_of!(Layout, roots) + index * size_of::<Root>()
    }

    fn is_valid(&self, entry: usize) -> bool {
        self.word(entry + core::mem::offset_of!(Root, valid)) == 1
    }

    fn find(&self, name: &[u64; NAME_WORDS]) -> Option<usize> {
        (0..ROOTS_MAX).map(|index| self.entry(index)).find(|&entry| {
            self.is_valid(entry) && (0..NAME_WORDS).all(|word| self.word(entry + word * 8) == name[word])
        })
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<u64> {
        let entry = self.find(&words_of(name).ok()?)?;
        Some(self.word(entry + core::mem::offset_of!(Root, value)))
    }

    /// Gives a name a value. A checkpoint has the old one or the new one.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), Error> {
        let words = words_of(name)?;
        let value_at = core::mem::offset_of!(Root, value);
        if let Some(entry) = self.find(&words) {
            // SAFETY: a word of a root.
            unsafe { put(entry + value_at, value) };
            return Ok(());
        }
        let free = (0..ROOTS_MAX).map(|index| self.entry(index)).find(|&entry| !self.is_valid(entry));
        let entry = free.ok_or_else(|| Error::NoPlaceForRoot(name.to_owned()))?;
        // SAFETY: words of a root that is not valid yet; it is when the last of them is there.
        unsafe {
            words.iter().enumerate().for_each(|(index, word)| put(entry + index * 8, *word));
            put(entry + value_at, value);
            put(entry + core::mem::offset_of!(Root, valid), 1);
        }
        Ok(())
    }
}
