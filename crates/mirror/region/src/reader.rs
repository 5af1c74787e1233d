//! Who reads the logs of threads: the checkpointer.
//!
//! Invariant: each entry is given once, and those of one log in its order, but for one that its thread had begun when a signal
//! handler wrote others: it comes when it is there. Deliberately absent: waiting for an entry.

use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use crate::layout::WINDOW;
use crate::log::{self, BEGUN, CHUNK_BYTES, Chunk, ENTRY_BYTES, Entry, FIRST, TAG_SHIFT, WITHIN};

/// An entry as its reader has it.
#[derive(Debug, Clone, Copy)]
pub struct Undo {
    /// The checkpoint that it is for.
    pub tag: u64,
    /// The word's address.
    pub address: usize,
    /// Bits for its bytes.
    pub bytes: u8,
    pub old: u64,
    pub number: u64,
}

/// Who reads the logs: one at a time, since chunks are read once.
pub static READER: Mutex<Reader> = Mutex::new(Reader { chunks: Vec::new() });

/// See [`READER`].
pub struct Reader {
    chunks: Vec<Reading>,
}

/// A chunk that is being read.
struct Reading {
    chunk: &'static Chunk,
    index: u64,
    /// The first entry that was not read.
    next: usize,
}

impl Reader {
    /// Gives all entries that are there and were not given before, in each log's order.
    pub fn read(&mut self, mut take: impl FnMut(Undo)) {
        let before = self.chunks.len();
        let mut at = BEGUN.swap(core::ptr::null_mut(), SeqCst);
        // SAFETY: chunks that were begun are mapped until they are read to their end.
        while let Some(chunk) = unsafe { at.as_ref() } {
            at = chunk.other.load(Acquire);
            let next = core::ptr::from_ref(chunk) as usize + FIRST;
            self.chunks.push(Reading { chunk, index: chunk.index.load(Acquire), next });
        }
        if self.chunks.len() != before {
            self.chunks.sort_by_key(|reading| reading.index);
        }
        self.chunks.retain_mut(|reading| {
            let is_over = reading.read(&mut take);
            if is_over {
                log::recycle(core::ptr::from_ref(reading.chunk).cast_mut());
            }
            !is_over
        });
    }
}

impl Reading {
    /// True if nothing will be written to it any more, and all was read.
    fn read(&mut self, take: &mut impl FnMut(Undo)) -> bool {
        let start = core::ptr::from_ref(self.chunk) as usize;
        // SAFETY: logs are leaked; without one, another chunk was taken in its place.
        let Some(log) = (unsafe { self.chunk.log.load(SeqCst).as_ref() }) else { return true };
        let at = log.next.load(SeqCst);
        let is_left = at & !(CHUNK_BYTES - 1) != start || at & WITHIN == 0;
        let end = if is_left { start + CHUNK_BYTES } else { at };
        // A signal handler may have written behind an entry that its thread has begun.
        let mut first_open = None;
        let mut place = self.next;
        while place < end {
            // SAFETY: an entry of a chunk that is mapped.
            let entry = unsafe { &*(place as *const Entry) };
            let head = entry.head.load(Acquire);
            if head == 0 {
                first_open = first_open.or(Some(place));
            } else {
                take(Undo {
                    tag: head >> TAG_SHIFT << TAG_SHIFT,
                    address: WINDOW + (((head << (64 - TAG_SHIFT) >> (64 - TAG_SHIFT)) >> 8) << 3) as usize,
                    bytes: head as u8,
                    old: entry.old.load(Relaxed),
                    number: entry.number.load(Relaxed),
                });
            }
            place += ENTRY_BYTES;
        }
        self.next = first_open.unwrap_or(end);
        is_left && self.next == start + CHUNK_BYTES
    }
}
