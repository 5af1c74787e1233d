//! What the runtime says of itself, for those who work on it: a ring of short entries, which all
//! processes of a session write and the supervisor prints.
//!
//! Invariant: an entry has its number before and behind the rest, so that one which is being written
//! over is told from a whole one. Deliberately absent: times (the numbers are an order), and any use of
//! it by the runtime.

use core::sync::atomic::{AtomicU64, Ordering, fence};

/// Entries that are kept: the last ones.
pub const LOG_ENTRIES: usize = 4096;
/// Bytes of an entry's text at most; what is longer is cut.
pub const LOG_TEXT_BYTES: usize = 24;

/// What an entry is about: a room of the runtime. Bits of [`crate::Session::runtime_log_mask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum LogSubject {
    Syscalls = 1,
    Scheduler = 2,
    Signals = 4,
    Preemption = 8,
    Code = 16,
    Checkpoint = 32,
    Debugger = 64,
    Process = 128,
}

/// All subjects, with their names.
pub const LOG_SUBJECTS: [(&str, LogSubject); 8] = [
    ("syscalls", LogSubject::Syscalls),
    ("scheduler", LogSubject::Scheduler),
    ("signals", LogSubject::Signals),
    ("preemption", LogSubject::Preemption),
    ("code", LogSubject::Code),
    ("checkpoint", LogSubject::Checkpoint),
    ("debugger", LogSubject::Debugger),
    ("process", LogSubject::Process),
];

/// The mask of a list of subjects between commas, or of `all`.
///
/// # Errors
/// The first name that is none.
pub fn log_mask(list: &str) -> Result<u32, &str> {
    let of = |name: &str| match name {
        "" => Some(0),
        "all" => Some(u32::MAX),
        _ => LOG_SUBJECTS.iter().find(|(known, _)| *known == name).map(|(_, subject)| *subject as u32),
    };
    list.split(',').map(str::trim).try_fold(0, |mask, name| Ok(mask | of(name).ok_or(name)?))
}

/// One entry, as it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// Counts from 1.
    pub number: u64,
    pub lane: u32,
    pub thread: u32,
    /// Events of the lane so far.
    pub events: u64,
    pub text: [u8; LOG_TEXT_BYTES],
    pub words: [u64; 2],
}

impl LogEntry {
    /// Its text, as far as it is one.
    pub fn text(&self) -> &str {
        let len = self.text.iter().position(|byte| *byte == 0).unwrap_or(LOG_TEXT_BYTES);
        core::str::from_utf8(&self.text[..len]).unwrap_or("?")
    }
}

/// An entry's place: its number, once it is whole; lane and thread; events; the text; the words; the number.
#[repr(C)]
struct Place([AtomicU64; 9]);

/// The ring; zeroed at first.
#[repr(C)]
pub struct RuntimeLog {
    next: AtomicU64,
    places: [Place; LOG_ENTRIES],
}

impl RuntimeLog {
    /// One without entries: all zero.
    pub const fn empty() -> RuntimeLog {
        RuntimeLog {
            next: AtomicU64::new(0),
            places: [const { Place([const { AtomicU64::new(0) }; 9]) }; LOG_ENTRIES],
        }
    }

    /// Adds an entry, in place of the oldest.
    pub fn write(&self, [lane, thread]: [u32; 2], events: u64, text: &str, words: [u64; 2]) {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let Place(place) = &self.places[(number - 1) as usize % LOG_ENTRIES];
        place[0].store(0, Ordering::Relaxed);
        place[8].store(number, Ordering::Relaxed);
        fence(Ordering::Release);
        place[1].store(u64::from(lane) | u64::from(thread) << 32, Ordering::Relaxed);
        place[2].store(events, Ordering::Relaxed);
        let mut bytes = text.bytes();
        for part in &place[3..6] {
            let eight: [u8; 8] = core::array::from_fn(|_| bytes.next().unwrap_or(0));
            part.store(u64::from_le_bytes(eight), Ordering::Relaxed);
        }
        place[6].store(words[0], Ordering::Relaxed);
        place[7].store(words[1], Ordering::Relaxed);
        place[0].store(number, Ordering::Release);
    }

    /// Entries that were ever added.
    pub fn count(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// The entry of this number, if it is whole and still there.
    pub fn read(&self, number: u64) -> Option<LogEntry> {
        let Place(place) = &self.places[number.checked_sub(1)? as usize % LOG_ENTRIES];
        if place[0].load(Ordering::Acquire) != number {
            return None;
        }
        let word = |index: usize| place[index].load(Ordering::Relaxed);
        let mut text = [0; LOG_TEXT_BYTES];
        for (index, part) in text.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *part = word(3 + index).to_le_bytes();
        }
        let who = word(1);
        let entry = LogEntry {
            number,
            lane: who as u32,
            thread: (who >> 32) as u32,
            events: word(2),
            text,
            words: [word(6), word(7)],
        };
        fence(Ordering::Acquire);
        (word(8) == number).then_some(entry)
    }
}
