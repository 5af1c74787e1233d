//! Recording: which files somebody has mapped, and what was written to such files by calls: who
//! has one mapped sees it in memory, and its log has to say so (mmap(2)).
//!
//! Invariant: a part is read whole or not at all. Deliberately absent: locks. Who writes may be
//! killed.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::numbered_words::NumberedWords;

/// Parts that are kept.
const PARTS: usize = 1024;
/// Marks that files share, as a multiple of 32.
pub(crate) const MARKS: usize = 1 << 16;

/// See the module. Zeros are a valid beginning.
#[repr(C, align(64))]
pub struct WrittenFiles {
    /// How many parts were written so far.
    count: AtomicU64,
    /// Numbered from 1 on.
    parts: [NumberedWords<6>; PARTS],
    marks: [AtomicU32; MARKS / 32],
    /// Three of each file that was written since: what somebody has mapped is hardly ever taken for
    /// one of these by chance.
    written: [AtomicU32; MARKS / 32],
}

/// What a call wrote to a file, or where it moved its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrittenPart {
    /// Of who wrote it.
    pub lane: u32,
    /// Device and inode.
    pub identity: [u64; 2],
    /// Bytes of the file since then.
    pub size: u64,
    pub from: u64,
    pub bytes: u64,
}

/// What there is of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    Part(WrittenPart),
    /// Whoever writes it is not done.
    NotYet,
    /// Too many came behind it.
    Gone,
}

/// The mark of a file, which others may have, too.
pub fn mark_of(identity: [u64; 2]) -> u16 {
    let mixed = (identity[0].rotate_left(32) ^ identity[1]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 48) as u16
}

/// Marks of a file that hardly any other has all of.
pub(crate) fn spread_marks(identity: [u64; 2]) -> [u16; 3] {
    // The finalizer of MurmurHash3, in which every bit of the input changes half of the output's.
    let mut mixed = identity[0].rotate_left(32) ^ identity[1];
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        mixed = (mixed ^ mixed >> 33).wrapping_mul(factor);
    }
    mixed ^= mixed >> 33;
    [mixed as u16, (mixed >> 16) as u16, (mixed >> 32) as u16]
}

pub(crate) fn set(marks: &[AtomicU32], mark: u16) {
    let (word, bit) = (&marks[usize::from(mark) / 32], 1 << (mark % 32));
    // Most are set already.
    if word.load(Ordering::Relaxed) & bit == 0 {
        word.fetch_or(bit, Ordering::Release);
    }
}

#[inline]
pub(crate) fn is_set(marks: &[AtomicU32], mark: u16) -> bool {
    marks[usize::from(mark) / 32].load(Ordering::Acquire) & 1 << (mark % 32) != 0
}

impl Default for WrittenFiles {
    fn default() -> WrittenFiles {
        WrittenFiles::new()
    }
}

impl WrittenFiles {
    pub fn new() -> WrittenFiles {
        WrittenFiles {
            count: AtomicU64::new(0),
            parts: core::array::from_fn(|_| NumberedWords::new()),
            marks: [const { AtomicU32::new(0) }; MARKS / 32],
            written: [const { AtomicU32::new(0) }; MARKS / 32],
        }
    }

    /// Somebody has mapped the file.
    pub fn mark(&self, identity: [u64; 2]) {
        set(&self.marks, mark_of(identity));
    }

    /// True if somebody has, or had, mapped a file of this mark.
    #[inline]
    pub fn is_marked(&self, mark: u16) -> bool {
        is_set(&self.marks, mark)
    }

    /// True if a part was added of this file, or of several that have its marks.
    pub fn is_written(&self, identity: [u64; 2]) -> bool {
        spread_marks(identity).iter().all(|&mark| is_set(&self.written, mark))
    }

    /// How many parts were written.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Adds a part.
    pub fn add(&self, part: &WrittenPart) {
        for mark in spread_marks(part.identity) {
            set(&self.written, mark);
        }
        let number = self.count.fetch_add(1, Ordering::AcqRel);
        let words =
            [u64::from(part.lane), part.identity[0], part.identity[1], part.size, part.from, part.bytes];
        self.parts[number as usize % PARTS].write(number + 1, words);
    }

    /// The part of a number below `count`.
    pub fn part(&self, number: u64) -> Written {
        if self.count().saturating_sub(number) > PARTS as u64 {
            return Written::Gone;
        }
        let place = &self.parts[number as usize % PARTS];
        match place.read(number + 1) {
            Some([lane, device, inode, size, from, bytes]) => {
                Written::Part(WrittenPart { lane: lane as u32, identity: [device, inode], size, from, bytes })
            }
            None if self.count().saturating_sub(number) > PARTS as u64 => Written::Gone,
            None => Written::NotYet,
        }
    }
}
