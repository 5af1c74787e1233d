//! What can go wrong with a trace, said so that a person can act on it.

use std::io;
use std::path::{Path, PathBuf};

use crate::record::{FORMAT_VERSION, OLDEST_VERSION};

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system refused an operation on a file.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// No space, no quota, or the file would become too large.
    #[error(
        "no space left to write {}: free some space (`retrovane rm` removes traces), or set RETROVANE_HOME to a larger disk",
        path.display()
    )]
    DiskFull { path: PathBuf },
    /// The directory of a new trace holds something already.
    #[error("{} is not empty: a trace is never written over something else; give another directory", path.display())]
    NotEmpty { path: PathBuf },
    /// The path is no trace.
    #[error("{} is not a trace: {why}", path.display())]
    NotATrace { path: PathBuf, why: &'static str },
    /// A later version of Retrovane wrote this.
    #[error(
        "{} has format version {found}, this retrovane reads up to {supported}: use the version that made it, or a later one",
        path.display()
    )]
    Version { path: PathBuf, found: u32, supported: u32 },
    /// An earlier version of Retrovane wrote this.
    #[error(
        "{} has format version {found}, this retrovane reads from {oldest} on: use the version that made it, or record again",
        path.display()
    )]
    TooOld { path: PathBuf, found: u32, oldest: u32 },
    /// Bytes are not what was written. Nothing after them can be trusted.
    #[error("{} is damaged at byte {offset}: {what}; record again, or take another copy of the trace", path.display())]
    Damaged { path: PathBuf, offset: u64, what: &'static str },
    /// A keyframe is not what was written, or not the user's.
    #[error("the keyframe {} cannot be used (byte {offset}: {what})", path.display())]
    BadKeyframe { path: PathBuf, offset: u64, what: &'static str },
    /// The writer was asked for something that would make the trace wrong.
    #[error("lane {lane} cannot be written: {what}")]
    Refused { lane: u32, what: &'static str },
    /// A file's id was used twice, or its path is impossible.
    #[error("file {id} cannot be added to the trace: {what}")]
    RefusedFile { id: u32, what: &'static str },
    /// The trace has no such lane.
    #[error("the trace has no lane {lane}")]
    NoSuchLane { lane: u32 },
    /// A file changed while its content was being kept.
    #[error(
        "a file changed while its content was being kept (inode {inode}, {size} bytes): its content has to be logged instead"
    )]
    Changing { inode: u64, size: u64 },
    /// The trace's files are not where they are written.
    #[error("the trace was removed, or something else put in its place, while {} was written: nothing is left of it", path.display())]
    Removed { path: PathBuf },
    /// Only regular files have content that can be kept.
    #[error("inode {inode} is not a regular file: its content cannot be kept")]
    NotRegular { inode: u64 },
    /// A kept file is gone.
    #[error("the content of {} (BLAKE3 {}) is missing: record again, or take a pack of the trace", path.display(), crate::hash_hex(hash))]
    MissingFile { hash: crate::FileHash, path: PathBuf },
    /// A kept file holds something else.
    #[error("the kept content of {} (BLAKE3 {}) was changed since it was recorded: record again, or take a pack of the trace", path.display(), crate::hash_hex(hash))]
    ChangedFile { hash: crate::FileHash, path: PathBuf },
    /// A file that the trace only refers to is another one.
    #[error("{} is not what it was when it was recorded ({what}), and the trace only refers to it (`record --input ...=refer`): put it back, or record again with `keep`", path.display())]
    ReferredFile { path: PathBuf, what: &'static str },
    /// A file that is to be real, and of which the program had memory, is another one.
    #[error("{} is not what it was when it was recorded, and the program had mapped it or read it by reference: put it back, or take it as `recorded`", path.display())]
    RealFile { path: PathBuf },
    /// No trace of that name.
    #[error("there is no trace {name:?} in {}: `retrovane list` shows what there is", home.display())]
    NoSuchTrace { name: String, home: PathBuf },
    /// Nothing was recorded yet.
    #[error("there is no trace in {} yet: make one with `retrovane record`", home.display())]
    NoTraces { home: PathBuf },
    /// A name that would lead out of its directory.
    #[error("{name:?} is not a possible name: {why}")]
    BadName { name: String, why: &'static str },
    /// A directory that others can change or read is none for traces.
    #[error(
        "{} is not yours alone: set RETROVANE_HOME to a directory of yours that can be written",
        path.display()
    )]
    NotPrivate { path: PathBuf },
    /// Somebody is using it.
    #[error("{} is in use by a recording or a replay: try again when it has ended", path.display())]
    InUse { path: PathBuf },
    /// The file is no pack, or a broken one.
    #[error("{} is not a whole pack: {what}", path.display())]
    BadPack { path: PathBuf, what: &'static str },
}

impl StoreError {
    /// What has a format of this version is not read.
    pub(crate) fn version(path: &Path, found: u32) -> StoreError {
        let path = path.to_owned();
        if found < OLDEST_VERSION {
            return StoreError::TooOld { path, found, oldest: OLDEST_VERSION };
        }
        StoreError::Version { path, found, supported: FORMAT_VERSION }
    }

    /// Wraps a system error; a full disk becomes [`StoreError::DiskFull`].
    /// An operation on a file failed.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> StoreError {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let path = path.to_owned();
        if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge) {
            return StoreError::DiskFull { path };
        }
        StoreError::Io { action, path, source }
    }
}

/// Adds to a system error what was being done to which path.
pub(crate) trait Doing<T> {
    fn doing(self, action: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, action: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::io(action, path, source))
    }
}

impl<T> Doing<T> for rustix::io::Result<T> {
    fn doing(self, action: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|errno| StoreError::io(action, path, errno.into()))
    }
}
