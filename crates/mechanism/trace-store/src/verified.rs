//! Whether kept files have the content that they had when they were recorded.
//!
//! A content is named by its hash, and whoever maps it believes the name: so it is checked before. What was
//! checked once is remembered by inode, size and times, beside the store of kept files, so that the next
//! replay reads nothing. A file whose bytes change below its file system keeps its times: that is noticed
//! by `pack` alone, which reads all files.

use std::collections::HashSet;
use std::path::Path;

use crate::content_copy::hash_content;
use crate::contents::FileEntry;
use crate::disk;
use crate::error::StoreError;
use crate::file_store::{FileKey, INDEX_NAME, STORE_NAME};
use crate::key_index::KeyIndex;
use crate::{FileHash, TraceReader, hash_hex};

/// Name of the index of files that were found to be what their names say, in the store's directory.
pub(crate) const VERIFIED_NAME: &str = "verified";

/// The contents that recordings found in files, as far as those have not changed since.
pub struct KnownContents(Option<KeyIndex>);

impl KnownContents {
    /// Of the recordings of a home directory. Nothing is known where that cannot be read.
    pub fn of(home: Option<&Path>) -> KnownContents {
        KnownContents(home.and_then(|home| KeyIndex::open(&home.join(STORE_NAME).join(INDEX_NAME)).ok()))
    }

    /// True if a file is known to have this content.
    pub fn have(&self, path: &Path, hash: &FileHash) -> bool {
        let key = disk::open_regular(path).and_then(|file| FileKey::of(&file)).ok();
        self.0.as_ref().zip(key).and_then(|(index, key)| index.known(&key)) == Some(*hash)
    }
}

impl TraceReader {
    /// Says that a file is not what the trace refers to.
    pub(crate) fn referred(&self, hash: &FileHash, what: &'static str) -> StoreError {
        let path = std::fs::read_link(self.files_dir().join(hash_hex(hash))).unwrap_or_default();
        StoreError::ReferredFile { path, what }
    }

    /// Checks each kept file that is there. What was checked before is looked up in `home`, if that is given.
    ///
    /// # Errors
    /// [`StoreError::ChangedFile`], or [`StoreError::ReferredFile`], for the first whose content is another one.
    pub fn verify_files(&self, home: Option<&Path>) -> Result<(), StoreError> {
        // Without it, or where it cannot be read, all files are read.
        let mut index = home.and_then(|home| KeyIndex::open(&home.join(STORE_NAME).join(VERIFIED_NAME)).ok());
        let mut seen = HashSet::new();
        for kept in self.files() {
            if seen.insert(kept.file.hash) {
                self.verify_file(&kept.file, index.as_mut())?;
            }
        }
        Ok(())
    }

    /// Compares a kept content with what stands where it was.
    ///
    /// # Errors
    /// [`StoreError::RealFile`] if that is something else.
    pub fn compare_with_original(&self, entry: &FileEntry) -> Result<(), StoreError> {
        let path = entry.original();
        let is_same = disk::open_regular(&path)
            .and_then(|file| hash_content(&file))
            .is_ok_and(|hash| hash == entry.hash);
        if is_same { Ok(()) } else { Err(StoreError::RealFile { path }) }
    }

    fn verify_file(&self, entry: &FileEntry, index: Option<&mut KeyIndex>) -> Result<(), StoreError> {
        let path = self.files_dir().join(hash_hex(&entry.hash));
        let is_referred = self.is_referred(&entry.hash);
        let file = match disk::open_regular(&path) {
            Ok(file) => file,
            Err(_) if is_referred => return Err(self.referred(&entry.hash, "it is gone, or cannot be read")),
            // What is missing is told by who needs it.
            Err(_) => return Ok(()),
        };
        let read = |error| StoreError::io("read", &path, error);
        let key = FileKey::of(&file).map_err(read)?;
        if key.size == entry.size {
            let known = index.as_ref().and_then(|index| index.known(&key));
            if known == Some(entry.hash) {
                return Ok(());
            }
            if hash_content(&file).map_err(read)? == entry.hash {
                if let Some(index) = index
                    && key.has_settled()
                {
                    // It is a cache: what is not remembered is read again.
                    let _ = index.add(key, entry.hash);
                }
                return Ok(());
            }
        }
        if is_referred {
            return Err(self.referred(&entry.hash, "its content has changed"));
        }
        Err(StoreError::ChangedFile { hash: entry.hash, path: entry.original() })
    }
}
