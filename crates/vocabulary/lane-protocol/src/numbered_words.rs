//! Words with a number, written while others read (a seqlock).
//!
//! Invariant: they are read whole or not at all: the number is stored last, and is taken away
//! before others take their place. Deliberately absent: locks, and two who write at once what
//! somebody reads. Who writes may be killed.

use core::sync::atomic::{AtomicU64, Ordering, fence};

#[repr(C)]
pub(crate) struct NumberedWords<const WORDS: usize> {
    /// 0: they are being written, or never were.
    number: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> NumberedWords<WORDS> {
    pub(crate) fn new() -> NumberedWords<WORDS> {
        NumberedWords { number: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] }
    }

    /// The number is not 0.
    pub(crate) fn write(&self, number: u64, words: [u64; WORDS]) {
        self.number.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (place, word) in self.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.number.store(number, Ordering::Release);
    }

    /// Those of this number, which is not 0.
    pub(crate) fn read(&self, number: u64) -> Option<[u64; WORDS]> {
        if self.number.load(Ordering::Acquire) != number {
            return None;
        }
        let words = core::array::from_fn(|index| self.words[index].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (self.number.load(Ordering::Relaxed) == number).then_some(words)
    }
}
