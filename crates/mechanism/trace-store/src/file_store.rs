//! The content of mapped and executed files, kept once for all traces.
//!
//! A content is named by its hash (`content_copy.rs`) and never changes. A store that is open
//! holds a shared lock, so that [`crate::traces::prune`] removes nothing between
//! [`FileStore::keep`] and [`FileStore::link_into`].
//!
//! Deliberately absent: fsync. A content that a power failure emptied has the
//! wrong length and is then kept again.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_64;

use crate::content_copy::{copy_content, hash_content};
use crate::disk::{self, Temporary};
use crate::error::{Doing, StoreError};
use crate::key_index::KeyIndex;
use crate::verified::VERIFIED_NAME;
use crate::{FileHash, hash_hex};

/// Name of the store in the home directory.
pub(crate) const STORE_NAME: &str = "files";
const LOCK_NAME: &str = "lock";
/// A recording waits so long for somebody else's pruning.
const PRUNED_WITHIN: Duration = Duration::from_secs(10);
/// By the version of the contents' names.
pub(crate) const INDEX_NAME: &str = "index-2";

/// Longest side file, in bytes.
const SIDE_BYTES_MAX: u64 = 256 << 20;
const SIDE_MAGIC: [u8; 8] = *b"rvside\x00\x01";

/// A key is not remembered while the file's times are this young: a later change
/// could leave the same times, which some file systems keep to 2 s only.
const SETTLED_NS: u64 = 3_000_000_000;

/// What tells that a file is unchanged. All as in `struct stat`, times in
/// nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileKey {
    pub device: u64,
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    pub mtime_ns: u64,
    pub ctime_ns: u64,
}

impl FileKey {
    /// The key of an open file.
    ///
    /// # Errors
    /// That of fstat.
    pub fn of(file: &File) -> io::Result<FileKey> {
        Ok(FileKey::from_metadata(&file.metadata()?))
    }

    fn from_metadata(found: &fs::Metadata) -> FileKey {
        let nanos = |seconds: i64, nanos: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos) as u64;
        FileKey {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            mtime_ns: nanos(found.mtime(), found.mtime_nsec()),
            ctime_ns: nanos(found.ctime(), found.ctime_nsec()),
        }
    }

    /// True if the times are so old that a later change gives others.
    pub fn has_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        u128::from(self.mtime_ns.max(self.ctime_ns)) + u128::from(SETTLED_NS) < now
    }
}

/// What [`FileStore::keep`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    pub hash: FileHash,
    /// The content was kept before and the file was not read.
    pub was_known: bool,
}

/// What [`FileStore::remove_unlinked`] did.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    pub files: u64,
    pub bytes: u64,
    /// Nothing is left to be looked at.
    pub is_all: bool,
}

/// The store of one home directory. Can be used by several threads.
pub struct FileStore {
    dir: PathBuf,
    index: Mutex<KeyIndex>,
    /// Held shared as long as the store is open.
    _lock: File,
}

impl FileStore {
    /// Opens the store in this home directory, and makes both where they are
    /// missing.
    ///
    /// # Errors
    /// [`StoreError::Io`]; [`StoreError::InUse`] while the store is pruned.
    pub fn open(home: &Path) -> Result<FileStore, StoreError> {
        FileStore::open_locked(home, false)
    }

    /// Opens the store for pruning: nobody else has it open.
    pub(crate) fn open_alone(home: &Path) -> Result<FileStore, StoreError> {
        FileStore::open_locked(home, true)
    }

    fn open_locked(home: &Path, alone: bool) -> Result<FileStore, StoreError> {
        let dir = home.join(STORE_NAME);
        disk::make_dirs(&dir)?;
        let lock_path = dir.join(LOCK_NAME);
        let lock = disk::open_or_create(&lock_path)?;
        let patience = if alone { Duration::ZERO } else { PRUNED_WITHIN };
        if !disk::lock_within(&lock, &lock_path, alone, patience)? {
            return Err(StoreError::InUse { path: dir });
        }
        let index = Mutex::new(KeyIndex::open(&dir.join(INDEX_NAME))?);
        Ok(FileStore { dir, index, _lock: lock })
    }

    /// Keeps the content of an open regular file. `key` is what the caller knows
    /// of it; a file with a known key is not read again.
    ///
    /// Writes through a shared mapping do not change a file's times at once:
    /// such a file can pass for unchanged.
    ///
    /// # Errors
    /// [`StoreError::Changing`] if the file is not, or does not stay, what the key
    /// says; [`StoreError::NotRegular`]; [`StoreError::DiskFull`]; [`StoreError::Io`].
    pub fn keep(&self, file: &File, key: FileKey) -> Result<Kept, StoreError> {
        check_unchanged(file, key)?;
        if let Some(hash) = self.find(&key)? {
            return Ok(Kept { hash, was_known: true });
        }
        let temporary = Temporary::beside(&self.dir.join(INDEX_NAME))?;
        let (hash, bytes) = copy_content(file, &temporary.file).doing("keep a file in", &temporary.path)?;
        check_unchanged(file, key)?;
        if bytes != key.size {
            return Err(StoreError::Changing { inode: key.inode, size: key.size });
        }
        if !self.holds(&hash, bytes) {
            let path = self.content_path(&hash);
            if let Some(parent) = path.parent() {
                disk::make_dirs(parent)?;
            }
            temporary.rename_to(&path)?;
        }
        if key.has_settled() {
            self.index().add(key, hash)?;
        }
        Ok(Kept { hash, was_known: false })
    }

    /// True if the content of this file needs no copying.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the index cannot be read.
    pub fn knows(&self, key: &FileKey) -> Result<bool, StoreError> {
        Ok(self.find(key)?.is_some())
    }

    fn find(&self, key: &FileKey) -> Result<Option<FileHash>, StoreError> {
        Ok(self.index().find(key)?.filter(|hash| self.holds(hash, key.size)))
    }

    /// Puts a kept content into a trace, as `trace_files_dir/<hash in hex>`: by a
    /// hard link, else by a copy. It may be there already.
    ///
    /// # Errors
    /// [`StoreError::MissingFile`] if the store does not hold it, else
    /// [`StoreError::DiskFull`] or [`StoreError::Io`].
    pub fn link_into(&self, hash: &FileHash, trace_files_dir: &Path) -> Result<(), StoreError> {
        let (from, to) = (self.content_path(hash), trace_files_dir.join(hash_hex(hash)));
        match fs::hard_link(&from, &to) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            // Another file system, too many links, links forbidden: or the content
            // is missing, which opening it tells.
            Err(_) => {}
        }
        let missing = || StoreError::MissingFile { hash: *hash, path: from.clone() };
        let content = disk::open_regular(&from).map_err(|error| match error.kind() {
            ErrorKind::NotFound => missing(),
            _ => StoreError::io("read", &from, error),
        })?;
        let temporary = Temporary::beside(&to)?;
        let (found, _) = copy_content(&content, &temporary.file).doing("copy a file to", &to)?;
        if found != *hash {
            return Err(StoreError::Damaged {
                path: from,
                offset: 0,
                what: "the content does not have its hash",
            });
        }
        temporary.rename_to(&to)
    }

    /// The hash of the content of an open regular file, of which nothing is kept; a file with a known
    /// key is not read again.
    ///
    /// # Errors
    /// As for [`FileStore::keep`].
    pub fn digest(&self, file: &File, key: FileKey) -> Result<FileHash, StoreError> {
        check_unchanged(file, key)?;
        if let Some(hash) = self.index().find(&key)? {
            return Ok(hash);
        }
        let hash = hash_content(file).doing("read", Path::new("a file to refer to"))?;
        check_unchanged(file, key)?;
        if key.has_settled() {
            self.index().add(key, hash)?;
        }
        Ok(hash)
    }

    /// Puts a reference to a file that is not kept into a trace: a symbolic link of the content's name.
    /// It may be there already.
    ///
    /// # Errors
    /// [`StoreError::Io`]
    pub fn refer_into(hash: &FileHash, original: &Path, trace_files_dir: &Path) -> Result<(), StoreError> {
        let to = trace_files_dir.join(hash_hex(hash));
        match std::os::unix::fs::symlink(original, &to) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            linked => linked.doing("make", &to),
        }
    }

    /// Where a kept content is.
    pub fn content_path(&self, hash: &FileHash) -> PathBuf {
        let hex = hash_hex(hash);
        self.dir.join(&hex[..2]).join(hex)
    }

    /// Reads what [`FileStore::side_write`] wrote for this content under this
    /// name; `None` if there is nothing, or nothing whole.
    pub fn side_read(&self, hash: &FileHash, name: &str) -> Option<Vec<u8>> {
        let mut bytes = disk::read_bounded(&self.side_path(hash, name).ok()?, SIDE_BYTES_MAX).ok()??;
        let (magic, rest) = bytes.split_first_chunk()?;
        let (sum, data) = rest.split_first_chunk()?;
        if *magic != SIDE_MAGIC || u64::from_le_bytes(*sum) != xxh3_64(data) {
            return None;
        }
        bytes.drain(..16);
        Some(bytes)
    }

    /// Keeps something that was computed from a content, beside it. `name` is of
    /// lower-case letters, digits and `-`; let it name the version of the data.
    ///
    /// # Errors
    /// [`StoreError::BadName`], [`StoreError::DiskFull`], [`StoreError::Io`].
    pub fn side_write(&self, hash: &FileHash, name: &str, data: &[u8]) -> Result<(), StoreError> {
        let path = self.side_path(hash, name)?;
        if let Some(parent) = path.parent() {
            disk::make_dirs(parent)?;
        }
        disk::write_whole(&path, &[&SIDE_MAGIC, &xxh3_64(data).to_le_bytes(), data])
    }

    fn side_path(&self, hash: &FileHash, name: &str) -> Result<PathBuf, StoreError> {
        let possible = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(possible) {
            let why = "it must be of 1 to 64 lower-case letters, digits and `-`";
            return Err(StoreError::BadName { name: name.to_owned(), why });
        }
        let mut path = self.content_path(hash).into_os_string();
        path.push(".");
        path.push(name);
        Ok(path.into())
    }

    fn holds(&self, hash: &FileHash, size: u64) -> bool {
        fs::symlink_metadata(self.content_path(hash))
            .is_ok_and(|found| found.is_file() && found.len() == size)
    }

    fn index(&self) -> MutexGuard<'_, KeyIndex> {
        // What the index knows is checked on use, whatever a panic left in it.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the contents that no trace links, and forgets them, from the directory of this number on,
    /// which becomes that of the first one that is left when the time is over. Only for a store that
    /// nobody else has open.
    pub(crate) fn remove_unlinked(
        &self,
        next: &mut usize,
        time_max: Duration,
    ) -> Result<Removed, StoreError> {
        let began = Instant::now();
        let mut removed = Removed::default();
        for (number, shard) in self.shards()?.iter().enumerate().skip(*next) {
            let (files, bytes) = remove_unlinked_in(shard)?;
            removed.files += files;
            removed.bytes += bytes;
            *next = number + 1;
            if began.elapsed() >= time_max {
                return Ok(removed);
            }
        }
        for entry in fs::read_dir(&self.dir).doing("read", &self.dir)? {
            let entry = entry.doing("read", &self.dir)?;
            if entry.file_name().to_string_lossy().starts_with(disk::TEMPORARY_PREFIX) {
                fs::remove_file(entry.path()).doing("remove", &entry.path())?;
            }
        }
        // What is linked from now on has other times, and is checked again.
        match fs::remove_file(self.dir.join(VERIFIED_NAME)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(StoreError::io("remove", &self.dir.join(VERIFIED_NAME), error));
            }
            Ok(()) | Err(_) => {}
        }
        self.index().rewrite(|hash| self.content_path(hash).exists())?;
        Ok(Removed { is_all: true, ..removed })
    }

    /// The directories of contents, in order.
    fn shards(&self) -> Result<Vec<PathBuf>, StoreError> {
        let mut shards = Vec::new();
        for entry in fs::read_dir(&self.dir).doing("read", &self.dir)? {
            let path = entry.doing("read", &self.dir)?.path();
            if path.file_name().is_some_and(|name| name.len() == 2) && path.is_dir() {
                shards.push(path);
            }
        }
        shards.sort();
        Ok(shards)
    }
}

/// Removes from one directory the contents with one link, then the side files
/// without a content.
fn remove_unlinked_in(shard: &Path) -> Result<(u64, u64), StoreError> {
    let (mut files, mut bytes) = (0, 0);
    let entries = || -> Result<Vec<PathBuf>, StoreError> {
        let listed: io::Result<Vec<_>> =
            fs::read_dir(shard).doing("read", shard)?.map(|entry| Ok(entry?.path())).collect();
        listed.doing("read", shard)
    };
    for path in entries()?.iter().filter(|path| path.extension().is_none()) {
        let found = fs::symlink_metadata(path).doing("read", path)?;
        if found.is_file() && found.nlink() == 1 {
            fs::remove_file(path).doing("remove", path)?;
            files += 1;
            bytes += found.len();
        }
    }
    for path in entries()?.iter().filter(|path| path.extension().is_some()) {
        if !path.with_extension("").exists() {
            fs::remove_file(path).doing("remove", path)?;
        }
    }
    Ok((files, bytes))
}

fn check_unchanged(file: &File, key: FileKey) -> Result<(), StoreError> {
    let found = file
        .metadata()
        .map_err(|error| StoreError::io("read the state of", Path::new("a file to keep"), error))?;
    if !found.is_file() {
        return Err(StoreError::NotRegular { inode: key.inode });
    }
    if FileKey::from_metadata(&found) != key {
        return Err(StoreError::Changing { inode: key.inode, size: key.size });
    }
    Ok(())
}
