//! The pair of files on a real disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::slots::{SlotFile, pair};

/// A file of the pair. It is locked while it is open.
pub struct DiskFile {
    path: PathBuf,
    /// Through the page cache: for reading and for the mapping of recovery.
    pub cached: File,
    /// Past it, where the file system can do that.
    direct: Option<File>,
}

impl DiskFile {
    /// Opens both, or makes them.
    pub fn open_pair(path: &Path) -> Result<[DiskFile; 2], Error> {
        let [first, second] = pair(path);
        let files = [DiskFile::open(first)?, DiskFile::open(second)?];
        // New names are durable when their folder is. One that was there may be of a process that did not
        // come so far, but then it has no checkpoint yet.
        if files.iter().any(|file| file.cached.metadata().is_ok_and(|found| found.len() == 0)) {
            let folder =
                path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .map_err(|error| Error::disk("cannot sync", folder, &error))?;
        }
        Ok(files)
    }

    fn open(path: PathBuf) -> Result<DiskFile, Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let cached = options.open(&path).map_err(|error| Error::disk("cannot open", &path, &error))?;
        // SAFETY: the call changes the lock of our own file only.
        let is_locked = || unsafe { libc::flock(cached.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        let begun = Instant::now();
        while !is_locked() {
            if begun.elapsed() > LOCK_WAIT {
                return Err(Error::InUse { path });
            }
            std::thread::sleep(LOCK_WAIT / 50);
        }
        close_in_children(cached.as_raw_fd());
        let direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(&path).ok();
        Ok(DiskFile { path, cached, direct })
    }
}

/// How long a lock is waited for: the memory of a process that was killed, which holds its files, is there as long as somebody
/// reads in /proc what it has mapped.
const LOCK_WAIT: Duration = Duration::from_millis(500);

/// The descriptors that hold the locks.
static LOCKED: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];

/// A lock is held as long as any process has the descriptor: a child of fork(2) that lives longer would keep the
/// region from being opened again.
fn close_in_children(descriptor: i32) {
    extern "C" fn in_child() {
        for place in &LOCKED {
            let descriptor = place.swap(-1, SeqCst);
            if descriptor >= 0 {
                // SAFETY: the thread that uses it is the parent's.
                unsafe { libc::close(descriptor) };
            }
        }
    }
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler makes system calls only.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    let free = LOCKED.iter().find(|place| place.compare_exchange(-1, descriptor, SeqCst, SeqCst).is_ok());
    debug_assert!(free.is_some(), "a region has two files");
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        let descriptor = self.cached.as_raw_fd();
        for place in &LOCKED {
            // Before the number can be another file's. A child does not find it there, and leaves its parent's lock.
            if place.compare_exchange(descriptor, -1, SeqCst, SeqCst).is_ok() {
                // A child that was just made may not have closed it yet.
                // SAFETY: the call changes the lock of our own file only.
                unsafe { libc::flock(descriptor, libc::LOCK_UN) };
            }
        }
    }
}

impl SlotFile for DiskFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(direct) = &self.direct {
            match direct.write_all_at(bytes, offset) {
                // The file system opens such files and then refuses: it is asked no more.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.direct = None,
                other => return other,
            }
        }
        self.cached.write_all_at(bytes, offset)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.cached.read_exact_at(bytes, offset)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.cached.sync_data()
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.cached.metadata()?.len())
    }

    fn reset(&mut self, bytes: u64) -> io::Result<()> {
        self.cached.set_len(0)?;
        self.cached.set_len(bytes)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl AsRawFd for DiskFile {
    fn as_raw_fd(&self) -> i32 {
        self.cached.as_raw_fd()
    }
}
