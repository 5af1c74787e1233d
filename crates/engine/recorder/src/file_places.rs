//! Names of files, held by the directories that they are in, and what they meant.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{
    DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown, lchown, symlink,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Device and inode.
pub(crate) type Identity = (u64, u64);

pub(crate) fn identity_of(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// A name in a directory, which may be renamed meanwhile.
#[derive(Clone)]
pub(crate) struct Place {
    dir: Arc<File>,
    dir_identity: Identity,
    name: OsString,
    shown: PathBuf,
}

impl Place {
    /// The place that a path names, of which the last part need not exist.
    pub fn of(path: &Path) -> io::Result<Place> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let dir =
            OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(parent)?;
        let shown = fs::read_link(own_descriptor(&dir)).unwrap_or_default().join(&name);
        let dir_identity = identity_of(&dir.metadata()?);
        Ok(Place { dir: Arc::new(dir), dir_identity, name, shown })
    }

    /// The directory, which places in it share.
    pub fn dir(&self) -> &Arc<File> {
        &self.dir
    }

    /// The same place, by a descriptor that there is already.
    pub fn by(self, dir: Arc<File>) -> Place {
        Place { dir, ..self }
    }

    /// What the directory is.
    pub fn dir_identity(&self) -> Identity {
        self.dir_identity
    }

    /// The same name in a directory that was made in place of the other.
    pub fn moved_to(&self, dir: &File, dir_identity: Identity) -> io::Result<Place> {
        Ok(Place { dir: Arc::new(dir.try_clone()?), dir_identity, ..self.clone() })
    }

    /// Opens what is there, if only to name it.
    pub fn open_path(&self) -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(self.path())
    }

    pub fn path(&self) -> PathBuf {
        own_descriptor(&self.dir).join(&self.name)
    }

    /// For people.
    pub fn shown_path(&self) -> &PathBuf {
        &self.shown
    }

    pub fn shown(&self) -> impl std::fmt::Display + '_ {
        self.shown.display()
    }

    /// What is there now.
    pub fn identity(&self) -> Option<Identity> {
        fs::symlink_metadata(self.path()).ok().map(|metadata| identity_of(&metadata))
    }
}

fn own_descriptor(file: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}

/// What a name meant that is gone.
pub(crate) enum Absent {
    /// The file itself has another name.
    Linked(Hidden),
    /// A copy of the content.
    Copied(Hidden, Metadata),
    Link(OsString),
    Dir(Metadata),
}

/// A file in the session's folder, which goes when this is dropped.
pub(crate) struct Hidden(PathBuf);

impl Drop for Hidden {
    fn drop(&mut self) {
        // The whole folder goes at the session's end.
        let _ = fs::remove_file(&self.0);
    }
}

impl Absent {
    /// Keeps what is at a place, if needed under this name of the session's.
    pub fn keep(place: &Place, metadata: &Metadata, name: &Path) -> io::Result<Absent> {
        let path = place.path();
        if metadata.is_dir() {
            return Ok(Absent::Dir(metadata.clone()));
        }
        // Other file systems, and files of other users, cannot be linked.
        if fs::hard_link(&path, name).is_ok() {
            return Ok(Absent::Linked(Hidden(name.to_owned())));
        }
        if metadata.is_symlink() {
            return fs::read_link(path).map(|target| Absent::Link(target.into_os_string()));
        }
        if !metadata.is_file() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Absent::copy(place, metadata, name)
    }

    /// Keeps a copy of a file.
    pub fn copy(place: &Place, metadata: &Metadata, name: &Path) -> io::Result<Absent> {
        let mut from = File::open(place.path())?;
        let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(name)?;
        let hidden = Hidden(name.to_owned());
        // By reflink where the file system can.
        io::copy(&mut from, &mut to)?;
        Ok(Absent::Copied(hidden, metadata.clone()))
    }

    /// Puts it back.
    pub fn restore(&self, place: &Place) -> io::Result<()> {
        let path = place.path();
        match self {
            Absent::Linked(hidden) => fs::hard_link(&hidden.0, path),
            Absent::Link(target) => symlink(Path::new::<OsStr>(target), path),
            Absent::Dir(metadata) => {
                DirBuilder::new().mode(0o700).create(&path)?;
                let _ = lchown(&path, Some(metadata.uid()), Some(metadata.gid()));
                fs::set_permissions(&path, Permissions::from_mode(metadata.mode() & 0o7777))
            }
            Absent::Copied(hidden, metadata) => {
                let copied = copy_back(hidden, metadata, &path);
                if copied.is_err() {
                    let _ = fs::remove_file(path);
                }
                copied
            }
        }
    }
}

fn copy_back(hidden: &Hidden, metadata: &Metadata, path: &Path) -> io::Result<()> {
    let mut from = File::open(&hidden.0)?;
    let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    io::copy(&mut from, &mut to)?;
    // Only root can give a file away.
    let _ = fchown(&to, Some(metadata.uid()), Some(metadata.gid()));
    to.set_permissions(Permissions::from_mode(metadata.mode() & 0o7777))?;
    let times = fs::FileTimes::new().set_modified(metadata.modified()?).set_accessed(metadata.accessed()?);
    to.set_times(times)
}
