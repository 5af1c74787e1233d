//! The session's memory as a file beside the trace.
//!
//! What processes logged and nobody has written to the trace yet lies in their rings. In a file
//! the rings outlive every process: also those that end program and recorder together leave
//! it, and the next command takes it over.
//!
//! Invariant: what is touched has its room on the disk before, as a store to a page for which there
//! is none ends the process (SIGBUS).
//!
//! Deliberately absent: file systems over a network or in user space, whose mapped files
//! may differ between hosts, or be slow to fault. A memfd stands for the file there.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use lane_protocol::{
    FILE_BYTES, FILE_DATA, FILE_SESSION, FILE_TEXT, SEGMENT_BYTES, SESSION_MAGIC, Session, segment_offset,
};

use crate::error::InjectError;
use crate::image::{RuntimeImage, runtime_image};
use crate::limits::FileSizeLimit;
use crate::session_memory::SessionMemory;

/// Magic numbers of statfs(2): ext2 to ext4, XFS, Btrfs, F2FS, bcachefs, tmpfs, overlayfs.
const LOCAL: [i64; 7] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0xca45_1a4e, 0x0102_1994, 0x794c_7630];

/// A new file for a session's memory. Removed again if it cannot be used.
pub(crate) struct SessionFile;

impl SessionFile {
    /// Makes the file, with room for what every session uses; `None` where it would not do.
    pub fn create(path: &Path, image: &RuntimeImage) -> Option<File> {
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(path).ok()?;
        let reserved = [
            (FILE_TEXT, image.text_bytes),
            (FILE_DATA, image.data.iter().map(|(at, bytes)| at + bytes.len() as u64).max().unwrap_or(1)),
            (FILE_SESSION, size_of::<Session>() as u64),
            (segment_offset(0), SEGMENT_BYTES),
        ];
        let has_room = || reserved.iter().all(|(start, bytes)| allocate(&file, *start, *bytes));
        if is_local(&file) && has_room() && may_execute(&file) {
            return Some(file);
        }
        // One that stays is empty, and does no harm.
        let _ = std::fs::remove_file(path);
        None
    }
}

fn is_local(file: &File) -> bool {
    // SAFETY: zero is a valid structure, and the call fills it.
    unsafe {
        let mut about: libc::statfs = std::mem::zeroed();
        libc::fstatfs(file.as_raw_fd(), &raw mut about) == 0 && LOCAL.contains(&about.f_type)
    }
}

fn allocate(file: &impl AsRawFd, start: u64, bytes: u64) -> bool {
    // SAFETY: changes the file only.
    unsafe { libc::fallocate(file.as_raw_fd(), 0, start as libc::off_t, bytes as libc::off_t) == 0 }
}

/// Whether code may be mapped from the file, which mounts may forbid (noexec).
fn may_execute(file: &File) -> bool {
    const PAGE_BYTES: usize = 4096;
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: a new mapping at a place of the kernel's choice, which nobody touches.
    unsafe {
        let mapped = libc::mmap(
            std::ptr::null_mut(),
            PAGE_BYTES,
            protection,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            FILE_TEXT as libc::off_t,
        );
        mapped != libc::MAP_FAILED && libc::munmap(mapped, PAGE_BYTES) == 0
    }
}

impl SessionMemory {
    /// Opens the memory that a session has left, whose recorder is gone.
    ///
    /// # Errors
    /// [`InjectError::Memory`] if it cannot be opened or mapped, [`InjectError::RuntimeImage`] if
    /// another build of this tool made it.
    pub fn open(path: &Path) -> Result<SessionMemory, InjectError> {
        let file = File::options().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path);
        let file = file.map_err(InjectError::Memory)?;
        let about = file.metadata().map_err(InjectError::Memory)?;
        if !about.is_file() || about.len() != FILE_BYTES || !is_of_this_build(&file)? {
            return Err(InjectError::RuntimeImage("another build of retrovane made it".into()));
        }
        let mut memory =
            Self::map(OwnedFd::from(file), FileSizeLimit::raise()).map_err(InjectError::Memory)?;
        memory.set_file(path);
        Ok(memory)
    }

    /// Turns readahead off: pages around what is touched hold nothing, and are many.
    pub(crate) fn read_no_more_than_is_touched(&self) {
        let (start, bytes) = self.mapping();
        // SAFETY: advice on a mapping of ours, of which nothing depends.
        unsafe {
            libc::madvise(start, bytes, libc::MADV_RANDOM);
        }
    }

    /// Removes the name of the session's file, if it has one: what is in it was taken over.
    pub fn remove_file(&self) {
        if let Some(path) = self.file_path() {
            // One that stays is looked at again, and holds nothing new.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Where the memory is a file: makes room for a range of it. True if it may be touched.
    pub(crate) fn reserve(&self, start: u64, bytes: u64) -> bool {
        self.file_path().is_none() || bytes == 0 || allocate(self.memfd(), start, bytes)
    }
}

/// Whether the file has the layout that this build knows, and its runtime.
fn is_of_this_build(file: &File) -> Result<bool, InjectError> {
    let read = |offset, bytes: &mut [u8]| -> io::Result<bool> {
        file.read_exact_at(bytes, offset).map(|()| true).or_else(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Ok(false),
            _ => Err(error),
        })
    };
    let mut magic = [0; 8];
    let is_read = read(FILE_SESSION, &mut magic).map_err(InjectError::Memory)?;
    if !is_read || u64::from_le_bytes(magic) != SESSION_MAGIC {
        return Ok(false);
    }
    for (offset, bytes) in runtime_image()?.text {
        let mut found = vec![0; bytes.len()];
        if !read(FILE_TEXT + offset, &mut found).map_err(InjectError::Memory)? || found != bytes {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_of_a_session_is_refused() {
        let path = std::env::temp_dir().join(format!(".retrovane-session-{}", std::process::id()));
        let file = SessionFile::create(&path, &runtime_image().expect("the build script made it"));
        std::fs::write(&path, b"something else").expect("it can be written");
        assert!(matches!(SessionMemory::open(&path), Err(InjectError::RuntimeImage(_))));
        drop(file);
        std::fs::remove_file(&path).expect("it is there");
        assert!(matches!(SessionMemory::open(&path), Err(InjectError::Memory(_))));
    }
}
