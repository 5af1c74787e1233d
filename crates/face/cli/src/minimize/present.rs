//! Files that are there, or not: a circumstance in which a program fails.
//!
//! Deliberately absent: directories, and what belongs to the system or to an interpreter.

use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A file of the sandbox that can go and come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentFile {
    pub path: PathBuf,
    content: Vec<u8>,
    mode: u32,
}

impl PresentFile {
    /// The file as it stands now; `None` where there is no regular file that could be put back.
    pub fn of(path: PathBuf) -> Option<PresentFile> {
        let facts = std::fs::symlink_metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
        let content = std::fs::read(&path).ok()?;
        Some(PresentFile { path, content, mode: facts.permissions().mode() & 0o7777 })
    }

    /// It is there, or not.
    ///
    /// # Errors
    /// Of the file system.
    pub fn put(&self, is_there: bool) -> std::io::Result<()> {
        match (self.path.symlink_metadata().is_ok(), is_there) {
            (true, false) => std::fs::remove_file(&self.path),
            (false, true) => {
                std::fs::write(&self.path, &self.content)?;
                std::fs::set_permissions(&self.path, Permissions::from_mode(self.mode))
            }
            (true, true) | (false, false) => Ok(()),
        }
    }

    /// Its line in the list of files.
    pub fn line(&self) -> Vec<u8> {
        [self.path.as_os_str().as_bytes(), b"\n"].concat()
    }
}
