//! Replay under the debugger: what the other processes of a group wrote to the memory that
//! they share, for copies of the process that is debugged, which go without them.
//!
//! One process of the debugged lane goes with the others: the *lead*. Where it holds the token
//! back it says which pages they wrote meanwhile, and what is there now: an *import*. The first
//! copy that comes there keeps what of it is new to it, and takes that in; later ones take in
//! what was kept. The lead goes on when a copy wants an import, and is a few ahead then.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Pages that are noted one by one between two imports.
pub const WRITTEN_PAGES_MAX: usize = 1 << 15;
/// Places of the table that finds one that is noted: twice as many.
const WRITTEN_PLACES: usize = 2 * WRITTEN_PAGES_MAX;

/// Imports that the lead replica has said and no copy has kept.
pub const IMPORTS_AHEAD: usize = 8;

/// See the module. Counts are of the debugged lane's imports from its beginning on.
#[repr(C)]
pub struct Imports {
    /// Not zero: copies go without the others.
    pub wants: AtomicU32,
    /// Imports that copies want.
    pub wanted: AtomicU32,
    /// Imports that the lead replica has said; a futex word.
    pub said: AtomicU32,
    /// Imports that are kept; a futex word.
    pub kept: AtomicU32,
    /// Not zero: there will be no more, an [`imports_end`].
    pub over: AtomicU32,
    /// Bytes of those that are said, at their number modulo this many.
    pub said_bytes: [AtomicU64; IMPORTS_AHEAD],
    /// What was written since the last import.
    pub written: WrittenPages,
}

/// Why there are no more imports. Kept in [`Imports::over`].
pub mod imports_end {
    /// The lead replica's log is over.
    pub const LOG_ENDED: u32 = 1;
    /// The lead replica cannot go on, for whatever reason.
    pub const LOST: u32 = 2;
}

/// Pages of shared memory that somebody wrote. Only who holds the token uses it.
#[repr(C)]
pub struct WrittenPages {
    /// Not zero: any page may have been written.
    any: AtomicU32,
    count: AtomicU32,
    pages: [AtomicU64; WRITTEN_PAGES_MAX],
    /// Where a page is in `pages`, plus one, at the first free place from its hash on.
    places: [AtomicU32; WRITTEN_PLACES],
}

impl WrittenPages {
    /// A page of the file with this inode. Of two files that look alike each has it.
    pub const fn page_of(inode: u64, page: u64) -> u64 {
        inode << 32 | (page & 0xffff_ffff)
    }

    /// Notes a page, once.
    pub fn note(&self, page: u64) {
        if self.any.load(Ordering::Relaxed) != 0 {
            return;
        }
        let count = self.count.load(Ordering::Relaxed);
        let mut place = (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % WRITTEN_PLACES;
        while let Some(known) = self.places[place].load(Ordering::Relaxed).checked_sub(1) {
            if self.pages[known as usize % WRITTEN_PAGES_MAX].load(Ordering::Relaxed) == page {
                return;
            }
            place = (place + 1) % WRITTEN_PLACES;
        }
        let Some(slot) = self.pages.get(count as usize) else { return self.note_any() };
        slot.store(page, Ordering::Relaxed);
        self.places[place].store(count + 1, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
    }

    /// Notes that any page may have been written.
    pub fn note_any(&self) {
        self.any.store(1, Ordering::Relaxed);
    }

    /// Calls `each` with what is noted, and forgets it. False: it may have been any page.
    pub fn take(&self, each: &mut dyn FnMut(u64)) -> bool {
        let any = self.any.swap(0, Ordering::Relaxed) != 0;
        let count = self.count.swap(0, Ordering::Relaxed);
        if count == 0 {
            return !any;
        }
        for page in self.pages[..(count as usize).min(WRITTEN_PAGES_MAX)].iter().filter(|_| !any) {
            each(page.load(Ordering::Relaxed));
        }
        for place in &self.places {
            place.store(0, Ordering::Relaxed);
        }
        !any
    }
}

/// What an import says of a file that stands for shared memory: these words, and then bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportPiece {
    /// See [`import_kind`].
    pub kind: u64,
    pub identity: [u64; 2],
    /// Where in the file.
    pub offset: u64,
    pub bytes: u64,
}

/// What a piece of an import says.
pub mod import_kind {
    /// These bytes are there, which follow.
    pub const BYTES: u64 = 1;
    /// Zeros are there.
    pub const ZEROS: u64 = 2;
    /// The file ends at the offset.
    pub const END: u64 = 3;
}

/// Names of the files of imports, in the folder of the files that stand for shared memory: what
/// is kept of all of them, where each ends there (8 bytes), and one that was said, with its number
/// modulo [`IMPORTS_AHEAD`] for the `#`.
pub const KEPT_IMPORTS: &[u8] = b"/imports";
pub const IMPORT_ENDS: &[u8] = b"/import-ends";
pub const SAID_IMPORT: &[u8] = b"/import-#";
