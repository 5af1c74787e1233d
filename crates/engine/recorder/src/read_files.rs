//! Files that processes read: each is copied once, on another core, so that what is read of it later
//! needs no place in the log.
//!
//! Deliberately absent: waiting for it. Until a content is there, the bytes that are read are logged.

use std::collections::HashSet;
use std::fs::File;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use trace_store::FileKey;

use crate::keeper::Keeper;

/// A file is copied once this part of it was read: who looks at a little of each of many long files
/// wants no copies of them.
const READ_PART: u64 = 4;

/// Magic numbers (statfs(2)) of file systems whose files' times tell of each change: ext4, XFS, Btrfs, F2FS,
/// OverlayFS, ZFS, bcachefs, SquashFS, EROFS.
const TIMELY: [u64; 9] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x794c_7630,
    0x2fc1_2fc1,
    0xca45_1a4e,
    0x7371_7368,
    0xe0f5_e1e2,
];

/// Copies files into the store, one after the other. Dropping it waits for the one at hand.
pub(crate) struct Copier {
    /// Those that were offered, copied or not.
    offered: Mutex<HashSet<FileKey>>,
    files: Option<Sender<(File, FileKey)>>,
    thread: Option<JoinHandle<()>>,
}

impl Copier {
    pub fn start(keeper: Arc<Keeper>) -> Copier {
        let (files, to_copy) = channel::<(File, FileKey)>();
        let thread = injector::start_thread("copier", move || {
            for (file, key) in to_copy {
                // What cannot be kept is logged as it is read.
                let _ = keeper.store().keep(&file, key);
            }
        });
        Copier { offered: Mutex::new(HashSet::new()), files: Some(files), thread: Some(thread) }
    }

    /// True for a file whose times tell of each later change.
    pub fn is_safe(file: &File, key: &FileKey) -> bool {
        let is_timely = rustix::fs::fstatfs(file).is_ok_and(|found| TIMELY.contains(&(found.f_type as u64)));
        is_timely && key.has_settled()
    }

    /// Copies the file if that is worth it, unless it was offered before.
    pub fn offer(&self, file: File, key: FileKey, read_bytes: u64) {
        let is_worth_it = key.size / READ_PART <= read_bytes;
        if !is_worth_it || !Copier::is_safe(&file, &key) {
            return;
        }
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        if offered.insert(key)
            && let Some(files) = &self.files
        {
            // Where nobody copies any more, all is logged.
            let _ = files.send((file, key));
        }
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        self.files = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so on stderr.
            let _ = thread.join();
        }
    }
}
