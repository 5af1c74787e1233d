//! Files and directories that only their owner may read.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Doing, StoreError};

/// True if the path leads to this open file.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(there)) => place(open) == place(there),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Makes one directory, mode 0700.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes a directory and those above it, mode 0700; it may exist.
pub(crate) fn make_dirs(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new().mode(0o700).recursive(true).create(path).doing("create", path)
}

/// Makes a directory, or takes over one that exists and is empty.
pub(crate) fn make_empty_dir(path: &Path) -> Result<(), StoreError> {
    match make_dir(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(StoreError::io("create", path, error)),
    }
    if fs::read_dir(path).doing("read", path)?.next().is_some() {
        return Err(StoreError::NotEmpty { path: path.to_owned() });
    }
    fs::set_permissions(path, Permissions::from_mode(0o700)).doing("set the permissions of", path)
}

/// Creates a file that must not exist, mode 0600, for reading and writing.
pub(crate) fn create_file(path: &Path) -> Result<File, StoreError> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path).doing("create", path)
}

/// Reads a whole file of at most `bytes_max` bytes; `None` if it is longer.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = open_regular(path)?.take(bytes_max + 1).read_to_end(&mut bytes)? as u64;
    Ok((read <= bytes_max).then_some(bytes))
}

/// Opens a regular file for reading. A fifo or a device in a trace that came
/// from somewhere else is refused rather than waited for.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(no_wait).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

/// Opens a regular file that is there, for reading and writing.
pub(crate) fn open_to_change(path: &Path) -> Result<File, StoreError> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let opened = OpenOptions::new().read(true).write(true).custom_flags(flags.bits() as i32).open(path);
    let file = opened.doing("open", path)?;
    if !file.metadata().doing("read", path)?.is_file() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        return Err(StoreError::io("open", path, source));
    }
    Ok(file)
}

/// Writes a whole file under a temporary name in the same directory and gives it
/// its name when it is whole.
pub(crate) fn write_whole(path: &Path, parts: &[&[u8]]) -> Result<(), StoreError> {
    let temporary = Temporary::beside(path)?;
    for part in parts {
        (&temporary.file).write_all(part).doing("write", path)?;
    }
    temporary.rename_to(path)
}

/// A file with a temporary name; removed unless it gets its real one.
pub(crate) struct Temporary {
    pub file: File,
    pub path: PathBuf,
    renamed: bool,
}

/// How temporary files are called; `prune` removes what a crash left of them.
pub(crate) const TEMPORARY_PREFIX: &str = ".tmp-";

impl Temporary {
    /// Creates one in the directory of `path`.
    pub fn beside(path: &Path) -> Result<Temporary, StoreError> {
        let path = path.with_file_name(temporary_name());
        Ok(Temporary { file: create_file(&path)?, path, renamed: false })
    }

    /// Gives the file its name, in place of whatever had that name.
    pub fn rename_to(mut self, path: &Path) -> Result<(), StoreError> {
        fs::rename(&self.path, path).doing("name", path)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.renamed {
            // What cannot be removed stays behind and harms nobody.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A name that no other process or thread uses at the same time.
pub(crate) fn temporary_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    format!("{TEMPORARY_PREFIX}{}-{nanos:x}-{count}", std::process::id())
}

/// Locks the file for this process's open description; false if another holds it.
pub(crate) fn try_lock(file: &File, path: &Path, exclusive: bool) -> Result<bool, StoreError> {
    let operation = if exclusive {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        // A file system without locks (some network ones): nobody can hold any.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP | rustix::io::Errno::NOLCK) => Ok(true),
        Err(errno) => Err(StoreError::io("lock", path, errno.into())),
    }
}

/// Like [`try_lock`], again and again for that time.
pub(crate) fn lock_within(
    file: &File,
    path: &Path,
    exclusive: bool,
    patience: Duration,
) -> Result<bool, StoreError> {
    let since = Instant::now();
    loop {
        if try_lock(file, path, exclusive)? {
            return Ok(true);
        }
        if since.elapsed() >= patience {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// True while another process holds the file's exclusive lock. A lock that
/// cannot be tried counts as free.
pub(crate) fn is_locked(file: &File, path: &Path) -> bool {
    let locked = matches!(try_lock(file, path, false), Ok(false));
    if !locked {
        unlock(file);
    }
    locked
}

/// Nobody has the lock any more who got it, or the file, from here.
pub(crate) fn unlock(file: &File) {
    // One that is not there cannot be given back.
    let _ = flock(file, FlockOperation::Unlock);
}

/// Opens a file for reading and writing, and makes it, mode 0600, where missing.
pub(crate) fn open_or_create(path: &Path) -> Result<File, StoreError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .doing("open", path)
}
