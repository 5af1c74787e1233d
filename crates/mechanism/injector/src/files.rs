//! The table of kept files in the session's header.

use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;

use lane_protocol::{FILE_PROBES, KeptFile, file_slot, file_state};

use crate::futex::futex_wake;
use crate::session_memory::SessionMemory;

/// Values of `recipes_ready`: the recipes name all sites; or something in the file
/// may read time without being among them.
const READY: u32 = 1;
const READY_INCOMPLETE: u32 = 2;

/// What tells one content of a file from another, without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileKey {
    pub device: u64,
    pub inode: u64,
    pub size_bytes: u64,
    pub mtime_ns: u64,
    pub ctime_ns: u64,
}

impl FileKey {
    /// The key of what `stat` describes.
    pub fn of(metadata: &std::fs::Metadata) -> FileKey {
        let nanoseconds =
            |seconds: i64, rest: i64| (seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(rest as u64);
        FileKey {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.size(),
            mtime_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Keeps files for births: finds or makes the file's id (its slot), with its
/// content kept when this returns.
pub trait KeepFile: Sync {
    /// Keeps what `path` names now; `original` is the name to remember.
    /// `Ok(None)`: it cannot be kept, so that its memory is to be logged.
    ///
    /// # Errors
    /// If the file cannot be looked at.
    fn keep(&self, path: &std::path::Path, original: &[u8]) -> io::Result<Option<u32>>;
}

/// One slot.
#[derive(Clone, Copy)]
pub struct FileSlot<'session> {
    slot: *mut KeptFile,
    _session: PhantomData<&'session ()>,
}

// SAFETY: a view of shared memory whose words are atomics, and a hash that one
// side writes before it stores the state.
unsafe impl Send for FileSlot<'_> {}
// SAFETY: as above.
unsafe impl Sync for FileSlot<'_> {}

impl<'session> FileSlot<'session> {
    /// # Safety
    /// `slot` points into the table of a session that stays mapped for `'session`.
    pub(crate) unsafe fn new(slot: *mut KeptFile) -> FileSlot<'session> {
        FileSlot { slot, _session: PhantomData }
    }

    fn state_word(&self) -> &'session std::sync::atomic::AtomicU32 {
        // SAFETY: see `new`; an atomic may be shared.
        unsafe { &(*self.slot).state }
    }

    /// See [`file_state`].
    pub fn state(&self) -> u32 {
        self.state_word().load(Ordering::Acquire)
    }

    /// The key, once the state is ASKED or later.
    pub fn key(&self) -> FileKey {
        // SAFETY: see `new`; the fields are atomics.
        unsafe {
            FileKey {
                device: (*self.slot).device.load(Ordering::Relaxed),
                inode: (*self.slot).inode.load(Ordering::Relaxed),
                size_bytes: (*self.slot).size_bytes.load(Ordering::Relaxed),
                mtime_ns: (*self.slot).mtime_ns.load(Ordering::Relaxed),
                ctime_ns: (*self.slot).ctime_ns.load(Ordering::Relaxed),
            }
        }
    }

    fn set_key(&self, key: &FileKey) {
        // SAFETY: see `new`; the fields are atomics.
        unsafe {
            (*self.slot).device.store(key.device, Ordering::Relaxed);
            (*self.slot).inode.store(key.inode, Ordering::Relaxed);
            (*self.slot).size_bytes.store(key.size_bytes, Ordering::Relaxed);
            (*self.slot).mtime_ns.store(key.mtime_ns, Ordering::Relaxed);
            (*self.slot).ctime_ns.store(key.ctime_ns, Ordering::Relaxed);
        }
    }

    /// The hash under which the content is kept.
    pub fn kept_hash(&self) -> Option<[u8; 32]> {
        // SAFETY: see `new`. The state was announced after the hash was written.
        (self.state() == file_state::KEPT).then(|| unsafe { (&raw const (*self.slot).hash).read() })
    }

    /// The content is kept under this hash.
    pub fn set_kept(&self, hash: &[u8; 32], size_bytes: u64) {
        // SAFETY: see `new`. The hash is written before the state that announces
        // it; only the supervisor, under its lock, writes hashes.
        unsafe {
            (*self.slot).size_bytes.store(size_bytes, Ordering::Relaxed);
            (&raw mut (*self.slot).hash).write(*hash);
        }
        self.set_state(file_state::KEPT);
    }

    /// The content cannot be kept.
    pub fn set_failed(&self) {
        self.set_state(file_state::FAILED);
    }

    fn set_state(&self, state: u32) {
        self.state_word().store(state, Ordering::Release);
        futex_wake(self.state_word());
    }

    /// Announces the recipes of the file's sites, and whether they are all there are.
    pub(crate) fn set_recipes(&self, first: u32, count: u32, complete: bool) {
        // SAFETY: see `new`; the fields are atomics.
        unsafe {
            (*self.slot).recipe_first.store(first, Ordering::Relaxed);
            (*self.slot).recipe_count.store(count, Ordering::Relaxed);
            (*self.slot)
                .recipes_ready
                .store(if complete { READY } else { READY_INCOMPLETE }, Ordering::Release);
            futex_wake(&(*self.slot).recipes_ready);
        }
    }
}

impl SessionMemory {
    /// The slot of the file with this key: found, or claimed and set to ASKED.
    /// `None` if the table is full. Processes do the same concurrently.
    pub fn find_or_claim_file(&self, key: &FileKey) -> Option<u32> {
        for step in 0..FILE_PROBES {
            let index = file_slot(key.device, key.inode, step);
            let slot = self.file(index).expect("the index is below the table's length");
            let mut state = slot.state();
            if state == file_state::FREE {
                let claim = slot.state_word().compare_exchange(
                    file_state::FREE,
                    file_state::CLAIMED,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                );
                if claim.is_ok() {
                    slot.set_key(key);
                    slot.set_state(file_state::ASKED);
                    return Some(index as u32);
                }
                state = slot.state();
            }
            // Whoever claimed the slot fills it in at once, unless it was killed.
            let patience = std::time::Instant::now();
            while state == file_state::CLAIMED && patience.elapsed().as_millis() < 100 {
                std::thread::yield_now();
                state = slot.state();
            }
            if state != file_state::CLAIMED && slot.key() == *key {
                return Some(index as u32);
            }
        }
        None
    }
}
