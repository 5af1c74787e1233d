//! Which content the file with some key had: so that an unchanged file is not
//! read again.
//!
//! A text file to which every recorder appends lines, each with one write and a
//! checksum of its own. It is a cache: a line that makes no sense is skipped, and
//! what it said is found out again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::FileHash;
use crate::disk;
use crate::error::{Doing, StoreError};
use crate::file_store::FileKey;

/// Most bytes of the index that are read: a quarter of a million files. What is
/// behind is not found, and `prune` shortens the index.
const READ_BYTES_MAX: u64 = 64 << 20;

/// The index, open.
pub(crate) struct KeyIndex {
    file: File,
    path: PathBuf,
    known: HashMap<FileKey, FileHash>,
    /// Bytes of the file that are in `known`.
    read_bytes: u64,
}

impl KeyIndex {
    pub fn open(path: &Path) -> Result<KeyIndex, StoreError> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .doing("open", path)?;
        let mut index = KeyIndex { file, path: path.to_owned(), known: HashMap::new(), read_bytes: 0 };
        index.read_new()?;
        Ok(index)
    }

    /// The hash of the content that a file with this key had.
    pub fn find(&mut self, key: &FileKey) -> Result<Option<FileHash>, StoreError> {
        if let Some(hash) = self.known.get(key) {
            return Ok(Some(*hash));
        }
        self.read_new()?;
        Ok(self.known.get(key).copied())
    }

    /// The same, without a look at what others have added since it was opened.
    pub fn known(&self, key: &FileKey) -> Option<FileHash> {
        self.known.get(key).copied()
    }

    /// Adds a file.
    pub fn add(&mut self, key: FileKey, hash: FileHash) -> Result<(), StoreError> {
        self.file.write_all(line(&key, &hash).as_bytes()).doing("write", &self.path)?;
        self.known.insert(key, hash);
        Ok(())
    }

    /// Writes the index anew with the files that satisfy `keep`. Only while
    /// nobody else has it open.
    pub fn rewrite(&mut self, keep: impl Fn(&FileHash) -> bool) -> Result<(), StoreError> {
        self.known.retain(|_, hash| keep(hash));
        let text: String = self.known.iter().map(|(key, hash)| line(key, hash)).collect();
        disk::write_whole(&self.path, &[text.as_bytes()])
    }

    /// Reads what was appended since the last time, by this process or others.
    fn read_new(&mut self) -> Result<(), StoreError> {
        let len = self.file.metadata().doing("read", &self.path)?.len().min(READ_BYTES_MAX);
        if len <= self.read_bytes {
            return Ok(());
        }
        let mut bytes = vec![0; usize::try_from(len - self.read_bytes).unwrap_or(0)];
        match self.file.read_exact_at(&mut bytes, self.read_bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            read => read.doing("read", &self.path)?,
        }
        // A line without its end may be one that is being written.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for (key, hash) in bytes[..whole].split(|byte| *byte == b'\n').filter_map(parse) {
            self.known.insert(key, hash);
        }
        self.read_bytes += whole as u64;
        Ok(())
    }
}

fn line(key: &FileKey, hash: &FileHash) -> String {
    let FileKey { device, inode, size, mtime_ns, ctime_ns } = key;
    let text = format!("1 {device:x} {inode:x} {size:x} {mtime_ns:x} {ctime_ns:x} {}", crate::hash_hex(hash));
    format!("{text} {:016x}\n", xxh3_64(text.as_bytes()))
}

fn parse(line: &[u8]) -> Option<(FileKey, FileHash)> {
    let (text, sum) = std::str::from_utf8(line).ok()?.rsplit_once(' ')?;
    if u64::from_str_radix(sum, 16).ok()? != xxh3_64(text.as_bytes()) {
        return None;
    }
    let mut words = text.split(' ');
    if words.next()? != "1" {
        return None;
    }
    let mut number = || u64::from_str_radix(words.next()?, 16).ok();
    let key = FileKey {
        device: number()?,
        inode: number()?,
        size: number()?,
        mtime_ns: number()?,
        ctime_ns: number()?,
    };
    let hash = blake3::Hash::from_hex(words.next()?).ok()?;
    Some((key, *hash.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(inode: u64) -> FileKey {
        FileKey { device: 1, inode, size: 3, mtime_ns: 4, ctime_ns: u64::MAX }
    }

    #[test]
    fn lines_survive_their_neighbours_damage() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("index");
        let mut first = KeyIndex::open(&path).expect("it opens");
        first.add(key(1), [1; 32]).expect("it is written");
        first.add(key(2), [2; 32]).expect("it is written");
        first.add(key(3), [3; 32]).expect("it is written");

        let mut bytes = std::fs::read(&path).expect("it is there");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        bytes.extend_from_slice(b"\xff\xfe torn");
        std::fs::write(&path, &bytes).expect("it is writable");

        let mut damaged = KeyIndex::open(&path).expect("damage is tolerated");
        assert_eq!(damaged.find(&key(1)).expect("no error"), Some([1; 32]));
        assert_eq!(damaged.find(&key(2)).expect("no error"), None);
        assert_eq!(damaged.find(&key(3)).expect("no error"), Some([3; 32]));
    }

    #[test]
    fn what_another_recorder_adds_is_seen() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("index");
        let mut one = KeyIndex::open(&path).expect("it opens");
        let mut other = KeyIndex::open(&path).expect("it opens");
        other.add(key(7), [7; 32]).expect("it is written");
        assert_eq!(one.find(&key(7)).expect("no error"), Some([7; 32]));
    }
}
