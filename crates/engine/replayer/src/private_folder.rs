//! Folders for the time of a replay, which their owner alone can enter. Those of a replay that was
//! killed go with the next one's beginning: a lock says whose owner is still there.

use std::fs::{DirEntry, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use tempfile::TempDir;

const PREFIX: &str = "retrovane-replay-";

/// Removed when dropped.
pub struct PrivateFolder {
    folder: TempDir,
    /// Locked as long as this is there.
    _lock: File,
}

impl PrivateFolder {
    /// In memory, if there is such a place with room. Containers have 64 MB there, or less.
    pub fn in_memory() -> io::Result<PrivateFolder> {
        const MEMORY: &str = "/dev/shm";
        const FREE_BYTES_MIN: u64 = 256 << 20;
        let free_bytes =
            rustix::fs::statvfs(MEMORY).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
        if free_bytes < FREE_BYTES_MIN {
            return PrivateFolder::on_disk();
        }
        PrivateFolder::new(Path::new(MEMORY)).or_else(|_| PrivateFolder::on_disk())
    }

    /// Where the system has its temporary files.
    pub fn on_disk() -> io::Result<PrivateFolder> {
        PrivateFolder::new(&std::env::temp_dir())
    }

    fn new(place: &Path) -> io::Result<PrivateFolder> {
        remove_left(place);
        loop {
            let folder = tempfile::Builder::new()
                .prefix(PREFIX)
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(place)?;
            // Who looks for what was left may be faster: nobody waits for that one.
            let lock = match open(folder.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_there(&lock)? => return Ok(PrivateFolder { folder, _lock: lock }),
                Ok(()) | Err(Errno::WOULDBLOCK) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes our user's folders here whose owners are gone. What is in the way stays: it is nobody's
/// concern at the moment.
fn remove_left(place: &Path) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            let _ = remove_if_left(&entry);
        }
    }
}

fn remove_if_left(entry: &DirEntry) -> io::Result<()> {
    if entry.metadata()?.uid() != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let lock = open(&entry.path())?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    std::fs::remove_dir_all(entry.path())
}

fn open(folder: &Path) -> io::Result<File> {
    const JUST_FOLDERS: i32 = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(JUST_FOLDERS).open(folder)
}

fn is_there(folder: &File) -> io::Result<bool> {
    Ok(folder.metadata()?.nlink() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_replay_left_is_removed_by_the_next_one() {
        let place = tempfile::tempdir().expect("a directory");
        let in_use = PrivateFolder::new(place.path()).expect("a folder");
        let left = place.path().join(format!("{PREFIX}left"));
        let others = place.path().join("retrovane");
        for folder in [&left, &others] {
            std::fs::create_dir(folder).expect("a directory");
            std::fs::write(folder.join("file"), "secret").expect("a file");
        }
        let next = PrivateFolder::new(place.path()).expect("another folder");
        assert!(!left.exists());
        assert!(others.exists() && in_use.path().exists() && next.path().exists());
        assert_eq!(next.path().metadata().expect("its owner").mode() & 0o777, 0o700);
    }
}
