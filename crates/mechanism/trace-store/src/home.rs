//! Which directory holds traces and kept files where nobody says it.
//!
//! Invariant: a directory in a place that everybody may write to is used only if it is the
//! user's own and nobody else may look into it: traces are secrets.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::disk;
use crate::error::{Doing, StoreError};

/// Where users without a home directory have theirs.
const SHARED_PLACE: &str = "/var/tmp";

/// The directory of traces and kept files: RETROVANE_HOME, or `~/.local/share/retrovane`; for
/// who has no HOME, or one that cannot be written, `/var/tmp/retrovane-UID`. `None` if that
/// is somebody else's.
pub fn default_home() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(told) = set("RETROVANE_HOME") {
        return Some(told);
    }
    let usual = set("HOME").map(|home| home.join(".local/share/retrovane"));
    if let Some(usual) = usual.as_ref().filter(|usual| is_writable(usual)) {
        return Some(usual.clone());
    }
    let own = place_of_own();
    if is_private(&own) || !own.exists() && is_writable(&own) { Some(own) } else { usual }
}

/// Makes the directory that [`default_home`] gave, if it is the one for users without a home.
/// True if it is.
///
/// # Errors
/// [`StoreError::Io`]; [`StoreError::NotPrivate`] if it is somebody else's.
pub fn claim_home(home: &Path) -> Result<bool, StoreError> {
    if home != place_of_own() {
        return Ok(false);
    }
    match disk::make_dir(home) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error).doing("create", home),
        _ if !is_private(home) => Err(StoreError::NotPrivate { path: home.to_owned() }),
        _ => Ok(true),
    }
}

fn place_of_own() -> PathBuf {
    Path::new(SHARED_PLACE).join(format!("retrovane-{}", user()))
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// True if the directory can be written, or made.
fn is_writable(dir: &Path) -> bool {
    let existing = dir.ancestors().find(|path| path.symlink_metadata().is_ok());
    existing.is_some_and(|existing| {
        existing.is_dir()
            && accessat(CWD, existing, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok()
    })
}

/// True for a directory of the user's own that nobody else may look into.
fn is_private(dir: &Path) -> bool {
    dir.symlink_metadata()
        .is_ok_and(|found| found.is_dir() && found.uid() == user() && found.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_writable_if_it_can_be_made() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(is_writable(dir.path()));
        assert!(is_writable(&dir.path().join("a/b")));
        let file = dir.path().join("file");
        std::fs::write(&file, "x").expect("a file");
        assert!(!is_writable(&file));
        assert!(!is_writable(&file.join("a")));
    }

    #[test]
    fn private_is_a_directory_that_nobody_else_may_look_into() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).expect("permissions");
        assert!(is_private(dir.path()));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).expect("a link");
        assert!(!is_private(&link));
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o750)).expect("permissions");
        assert!(!is_private(dir.path()));
        assert!(!is_private(Path::new("/nonexistent")));
    }

    #[test]
    fn other_directories_are_not_claimed() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(!claim_home(dir.path()).expect("nothing was tried"));
    }
}
