//! What programs wrote in a sandbox, and how that is undone.
//!
//! What is written lies in the layers in memory ([`super::mounts`]); they are looked at, and changed through
//! the directories that they lie over. A file keeps its inode where it is still there: who has it open
//! finds it as it was. Deliberately absent: /dev/shm and /run, and times of files.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where layers are, in the /dev of the sandbox.
pub(super) const LAYERS: &str = "/dev/.layers";
/// In a layer's directory: the path that it lies over.
pub(super) const OVER: &str = "over";
/// Longer files are compared by their length and times.
const COMPARED_BYTES_MAX: u64 = 1 << 20;

/// What a layer has at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Directory,
    File {
        content: Vec<u8>,
        mode: u32,
    },
    /// Length, modification and change in nanoseconds.
    LongFile([i64; 3]),
    Link(PathBuf),
    /// What is below the layer does not show.
    Hidden,
    /// A socket, a fifo.
    Other,
}

/// What all layers had at some time: by the path that programs use, the one below, and what was there.
#[derive(Debug, Clone, Default)]
pub struct Written {
    entries: BTreeMap<PathBuf, (PathBuf, Entry)>,
}

impl Written {
    /// As it is now, without these paths.
    ///
    /// # Errors
    /// Of the file system. Outside of a sandbox there is nothing.
    pub fn now(without: &[PathBuf]) -> io::Result<Written> {
        let mut entries = BTreeMap::new();
        let layers = match fs::read_dir(LAYERS) {
            Ok(layers) => layers,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Written::default()),
            Err(error) => return Err(error),
        };
        for layer in layers {
            let layer = layer?.path();
            let Ok(over) = fs::read_link(layer.join(OVER)) else { continue };
            look(&layer.join("upper"), &layer.join("lower"), &over, &mut entries)?;
        }
        entries.retain(|path, _| !without.contains(path));
        Ok(Written { entries })
    }

    /// Makes everything be as it was then, but for these paths. True if something was not.
    ///
    /// # Errors
    /// Of the file system, and if a long file has changed.
    pub fn restore(&self, without: &[PathBuf]) -> io::Result<bool> {
        let now = Written::now(without)?;
        let mut changed = false;
        // What is new goes, what is deepest first.
        for (path, (below, entry)) in now.entries.iter().rev() {
            let before = self.entries.get(path).map(|(_, entry)| entry);
            if before == Some(entry) || before.is_none() && *entry == Entry::Directory && below.is_dir() {
                continue;
            }
            changed = true;
            match before {
                None if below.symlink_metadata().is_err() => match entry {
                    Entry::Directory => fs::remove_dir(path)?,
                    _ => fs::remove_file(path)?,
                },
                None => put_back(path, below, entry)?,
                Some(before) => put(path, before, entry)?,
            }
        }
        for (path, (_, entry)) in &self.entries {
            if !now.entries.contains_key(path) && !without.contains(path) {
                changed = true;
                put(path, entry, &Entry::Hidden)?;
            }
        }
        Ok(changed)
    }
}

fn look(
    upper: &Path,
    lower: &Path,
    over: &Path,
    into: &mut BTreeMap<PathBuf, (PathBuf, Entry)>,
) -> io::Result<()> {
    for entry in fs::read_dir(upper)? {
        let entry = entry?;
        let name = entry.file_name();
        let facts = entry.metadata()?;
        let kind = facts.file_type();
        let found = if kind.is_dir() {
            look(&entry.path(), &lower.join(&name), &over.join(&name), into)?;
            Entry::Directory
        } else if kind.is_symlink() {
            Entry::Link(fs::read_link(entry.path())?)
        } else if kind.is_char_device() && facts.rdev() == 0 {
            Entry::Hidden
        } else if kind.is_file() && facts.len() <= COMPARED_BYTES_MAX {
            Entry::File { content: fs::read(entry.path())?, mode: facts.permissions().mode() & 0o7777 }
        } else if kind.is_file() {
            let nanoseconds =
                |seconds: i64, more: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(more);
            Entry::LongFile([
                facts.len() as i64,
                nanoseconds(facts.mtime(), facts.mtime_nsec()),
                nanoseconds(facts.ctime(), facts.ctime_nsec()),
            ])
        } else {
            Entry::Other
        };
        into.insert(over.join(&name), (lower.join(&name), found));
    }
    Ok(())
}

/// Gives a path what lies below the layer there.
fn put_back(path: &Path, below: &Path, now: &Entry) -> io::Result<()> {
    let facts = below.symlink_metadata()?;
    if facts.is_file() {
        remove_unless_file(path, now)?;
        fs::write(path, fs::read(below)?)?;
        return fs::set_permissions(path, facts.permissions());
    }
    if facts.is_symlink() {
        remove(path, now)?;
        return std::os::unix::fs::symlink(fs::read_link(below)?, path);
    }
    if !facts.is_dir() {
        return Err(io::Error::other(format!("{} was replaced, and is no regular file", path.display())));
    }
    remove(path, now)?;
    fs::create_dir(path)?;
    fs::set_permissions(path, facts.permissions())?;
    for entry in fs::read_dir(below)? {
        let name = entry?.file_name();
        put_back(&path.join(&name), &below.join(&name), &Entry::Hidden)?;
    }
    Ok(())
}

/// Gives a path what a layer had there.
fn put(path: &Path, entry: &Entry, now: &Entry) -> io::Result<()> {
    match entry {
        Entry::File { content, mode } => {
            remove_unless_file(path, now)?;
            fs::write(path, content)?;
            fs::set_permissions(path, Permissions::from_mode(*mode))
        }
        Entry::Link(target) => {
            remove(path, now)?;
            std::os::unix::fs::symlink(target, path)
        }
        Entry::Directory => {
            remove(path, now)?;
            fs::create_dir(path)
        }
        Entry::Hidden => remove(path, now),
        Entry::LongFile(_) | Entry::Other => {
            Err(io::Error::other(format!("{} was changed, and is too long to be put back", path.display())))
        }
    }
}

fn remove_unless_file(path: &Path, now: &Entry) -> io::Result<()> {
    match now {
        Entry::File { .. } | Entry::LongFile(_) => Ok(()),
        _ => remove(path, now),
    }
}

fn remove(path: &Path, now: &Entry) -> io::Result<()> {
    match now {
        Entry::Hidden => Ok(()),
        Entry::Directory => fs::remove_dir_all(path),
        _ => fs::remove_file(path),
    }
}
