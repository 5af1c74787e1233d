//! A fresh directory for each test, outside of the source tree, that every
//! user may write to, removed when the test passes.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Removed on drop unless kept.
pub struct Scratch {
    path: PathBuf,
    kept: bool,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Scratch {
    pub fn new(label: &str) -> Result<Scratch, String> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let label: String = label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let path =
            std::env::temp_dir().join(format!("retrovane-test-{}-{number}-{label}", std::process::id()));
        let scratch = Scratch { path, kept: false };
        scratch.fresh_directory("")?;
        Ok(scratch)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// An empty directory of this name, writable for everybody.
    pub fn fresh_directory(&self, name: &str) -> Result<PathBuf, String> {
        let path = if name.is_empty() { self.path.clone() } else { self.path.join(name) };
        make_fresh(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(path)
    }

    /// Removes what has this name, if it is there.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        let path = self.path.join(name);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("cannot remove {}: {error}", path.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Leaves the directory in place, for whoever looks for the cause
    /// (`RETROVANE_KEEP=1`).
    pub fn keep_if_asked(&mut self) {
        self.kept = std::env::var_os("RETROVANE_KEEP").is_some();
    }
}

fn make_fresh(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::create_dir_all(path)?;
    // World-writable like /tmp, because the program may run as another user.
    fs::set_permissions(path, Permissions::from_mode(0o777))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.kept {
            // A directory that cannot be removed harms no later test.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
