//! What can go wrong, and what to do about it.

use std::io;
use std::path::PathBuf;

/// Why a call of the mirror failed. The region and the last checkpoint are unharmed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process has a region already.
    #[error("this process has a region open already: close it first, there is one for each process")]
    AlreadyOpen,
    /// The size is none that a region can have.
    #[error("a region cannot have {0} bytes: give from 64 KiB to 1 TiB")]
    BadSize(usize),
    /// The files hold a region of another size.
    #[error("{path} holds a region of {found} bytes, not {wanted}: open it with its own size, or with 0")]
    OtherSize { path: PathBuf, found: u64, wanted: u64 },
    /// The files were written by another version.
    #[error("{path} has format {found}, this library reads {wanted}: use the library that wrote it")]
    OtherVersion { path: PathBuf, found: u32, wanted: u32 },
    /// The file is none of ours.
    #[error("{path} is not a file of a region: name another one, or move it away")]
    WrongFile { path: PathBuf },
    /// No whole checkpoint is there.
    #[error(
        "{path} and its twin hold no whole checkpoint ({why}): restore them, or move them away to begin anew"
    )]
    NoWholeCheckpoint { path: PathBuf, why: &'static str },
    /// Another process has the files open.
    #[error("{path} is in use by another process: end it, or name another file")]
    InUse { path: PathBuf },
    /// Something else is mapped where the region was.
    #[error("the region belongs at {base:#x}, where this process has other memory: map that elsewhere")]
    BaseInUse { base: usize },
    /// The allocator has no block of this size.
    #[error("the region has no free block of {0} bytes: free something, or make it with a larger size")]
    OutOfMemory(usize),
    /// There is no place for another root, or its name is too long.
    #[error("the root {0:?} has no place: names have up to 47 bytes, and a region has 64 of them")]
    NoPlaceForRoot(String),
    /// A checkpoint is under way, and only an immediate one was wanted.
    #[error("a checkpoint is under way: wait for it, or ask again at the next safe moment")]
    Busy,
    /// The checkpoint was not written.
    #[error("{what} {path}: {text}; the last checkpoint is unharmed{}", advice(*errno))]
    Disk { what: &'static str, path: PathBuf, errno: i32, text: String },
    /// A page of the recovered checkpoint is not as it was written.
    #[error(
        "{path} is damaged: the page at {address:#x} is not as checkpoint {generation} wrote it. No checkpoint is taken any \
         more, and the one before is unharmed: close the region, and open it with all pages compared first (`verify`, \
         rv_mirror_open_verified)"
    )]
    Damaged { path: PathBuf, address: usize, generation: u64 },
    /// The time that was given is over.
    #[error("it is not known yet: wait longer")]
    TimedOut,
    /// The region was closed before.
    #[error("the region is closed")]
    Closed,
    /// The process is a child of the one that opened the region.
    #[error("this process is a child of the one that opened the region: only that one takes checkpoints")]
    Child,
    /// What is stored without a barrier is known with the check only.
    #[error(
        "stores without a barrier are not looked for: set RETROVANE_MIRROR_CHECK=1 in the environment of the program, which is slower \
         then"
    )]
    NoCheck,
    /// The kernel refused something else.
    #[error("{what}: {text}")]
    Os { what: &'static str, errno: i32, text: String },
}

fn advice(errno: i32) -> &'static str {
    match errno {
        libc::ENOSPC | libc::EDQUOT => ": make room, and the next one is written",
        libc::EIO => ": the disk fails, copy the files elsewhere",
        _ => "",
    }
}

impl Error {
    /// The kernel's last error of this thread.
    pub(crate) fn last_os(what: &'static str) -> Error {
        let error = io::Error::last_os_error();
        Error::Os { what, errno: error.raw_os_error().unwrap_or(0), text: error.to_string() }
    }

    pub(crate) fn disk(what: &'static str, path: &std::path::Path, error: &io::Error) -> Error {
        let errno = error.raw_os_error().unwrap_or(0);
        Error::Disk { what, path: path.to_owned(), errno, text: error.to_string() }
    }

    /// The number of the C interface, below 0.
    pub fn code(&self) -> i32 {
        match self {
            Error::AlreadyOpen => -1,
            Error::BadSize(_) => -2,
            Error::OtherSize { .. } => -3,
            Error::OtherVersion { .. } => -4,
            Error::WrongFile { .. } => -5,
            Error::NoWholeCheckpoint { .. } => -6,
            Error::InUse { .. } => -7,
            Error::BaseInUse { .. } => -8,
            Error::OutOfMemory(_) => -10,
            Error::NoPlaceForRoot(_) => -11,
            Error::Busy => -12,
            Error::Disk { .. } => -13,
            Error::TimedOut => -14,
            Error::Closed => -15,
            Error::Os { .. } => -16,
            Error::Child => -17,
            Error::Damaged { .. } => -18,
            Error::NoCheck => -19,
        }
    }
}
