//! Names of traces in the home directory, and their housekeeping.
//!
//! A trace that has no name given is `PROGRAM-N`; `latest` is a symbolic link to
//! the one recorded last. Nothing here touches a directory that is no trace.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::computed::Computed;
use crate::contents::LaneEnd;
use crate::disk;
use crate::error::{Doing, StoreError};
use crate::file_store::{FileStore, STORE_NAME};
use crate::keyframes;
use crate::reader::glance;
use crate::record::{FILE_HEADER_BYTES, FILE_MAGIC};
use crate::writer::{EVENTS_NAME, FILES_NAME, META_NAME};

/// Name of the link to the trace recorded last.
const LATEST_NAME: &str = "latest";
/// Longest part of a trace's name that comes from the program, in bytes.
const STEM_BYTES_MAX: usize = 100;

/// How long others cannot record while kept files are removed, and how long they then can.
const PRUNED_AT_ONCE: Duration = Duration::from_millis(500);
const LET_IN: Duration = Duration::from_millis(20);

/// One trace of a home directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceListing {
    pub name: String,
    pub path: PathBuf,
    /// When the recording started, RFC 3339 in UTC; empty if unknown.
    pub when: String,
    /// The same in nanoseconds since 1970; 0 if unknown.
    pub when_unix_ns: u64,
    /// The program and its arguments; empty if unknown.
    pub command: Vec<OsString>,
    /// End of the first lane; `None` if the trace is cut.
    pub exit: Option<LaneEnd>,
    /// Events of all lanes; `None` if the trace is cut, since only reading it all
    /// would tell.
    pub events: Option<u64>,
    /// Bytes that only this trace takes: its log, and kept files that no other
    /// trace and no store links.
    pub size_bytes: u64,
    /// It has no end: the recorder still runs, or was killed.
    pub cut: bool,
    /// It is being recorded at this moment.
    pub recording: bool,
    /// Why it cannot be opened, if so.
    pub problem: Option<String>,
}

/// Makes the directory of a new trace: the home directory's next free
/// `PROGRAM-N`. Two recorders never get the same.
///
/// # Errors
/// [`StoreError::Io`], [`StoreError::DiskFull`].
pub fn new_dir(home: &Path, program_name: &str) -> Result<PathBuf, StoreError> {
    disk::make_dirs(home)?;
    let stem = stem(program_name);
    let taken = |entry: fs::DirEntry| -> Option<u64> {
        entry.file_name().to_str()?.strip_prefix(&stem)?.strip_prefix('-')?.parse().ok()
    };
    let last = fs::read_dir(home).doing("read", home)?.flatten().filter_map(taken).max();
    let mut number = last.map_or(0, |last| last.saturating_add(1));
    loop {
        let dir = home.join(format!("{stem}-{number}"));
        match disk::make_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < u64::MAX => number += 1,
            Err(error) => return Err(StoreError::io("create", &dir, error)),
        }
    }
}

/// The part of a trace's name that the program gives: the last component of its
/// path, with nothing that a shell or a file system would take amiss.
fn stem(program_name: &str) -> String {
    let base = program_name.rsplit('/').next().unwrap_or_default();
    let tame = |char: char| if char.is_ascii_alphanumeric() || "._+".contains(char) { char } else { '_' };
    let stem: String = base.chars().take(STEM_BYTES_MAX).map(tame).collect();
    match stem.trim_start_matches('.') {
        "" => "trace".to_owned(),
        visible => visible.to_owned(),
    }
}

/// Makes `latest` point to this trace.
///
/// # Errors
/// [`StoreError::Io`].
pub fn set_latest(home: &Path, dir: &Path) -> Result<(), StoreError> {
    // Relative where it can be, so that the home directory can be moved.
    let target = match dir.strip_prefix(home) {
        Ok(inside) => inside.to_owned(),
        Err(_) => std::path::absolute(dir).doing("find", dir)?,
    };
    let (latest, temporary) = (home.join(LATEST_NAME), home.join(disk::temporary_name()));
    std::os::unix::fs::symlink(target, &temporary).doing("create", &temporary)?;
    fs::rename(&temporary, &latest).doing("name", &latest).inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// Finds a trace: the latest, a name in the home directory, or a path.
///
/// # Errors
/// [`StoreError::NoTraces`], [`StoreError::NoSuchTrace`], [`StoreError::NotATrace`].
pub fn resolve(home: &Path, name: Option<&str>) -> Result<PathBuf, StoreError> {
    let Some(name) = name else {
        let latest = home.join(LATEST_NAME);
        if let Ok(target) = fs::canonicalize(&latest)
            && is_trace(&target)
        {
            return Ok(target);
        }
        // The latest one was removed: the one before it is the latest now.
        let newest = list(home)?.into_iter().next();
        return newest
            .map(|listing| listing.path)
            .ok_or_else(|| StoreError::NoTraces { home: home.to_owned() });
    };
    let named = home.join(name);
    if is_plain(name) && is_trace(&named) {
        return fs::canonicalize(&named).doing("find", &named);
    }
    let path = Path::new(name);
    if is_trace(path) {
        return Ok(path.to_owned());
    }
    if crate::pack::is_pack(path) {
        return Err(StoreError::NotATrace {
            path: path.to_owned(),
            why: "it is a pack: `retrovane replay --run` unpacks it",
        });
    }
    if let Some(error) = refused(path).or_else(|| refused(&named).filter(|_| is_plain(name))) {
        return Err(error);
    }
    if path.exists() {
        return Err(StoreError::NotATrace {
            path: path.to_owned(),
            why: "it has no trace.json and events.rvt",
        });
    }
    Err(StoreError::NoSuchTrace { name: name.to_owned(), home: home.to_owned() })
}

/// The traces of a home directory, the newest first. Reads of each its
/// description and its summary only; one that cannot be opened is listed with
/// what is wrong with it.
///
/// # Errors
/// [`StoreError::Io`] if the home directory cannot be read.
pub fn list(home: &Path) -> Result<Vec<TraceListing>, StoreError> {
    let entries = match fs::read_dir(home) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.doing("read", home)?,
    };
    let mut traces = Vec::new();
    for entry in entries {
        let entry = entry.doing("read", home)?;
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let path = entry.path();
        if is_dir && is_trace(&path) {
            traces.push(listing(entry.file_name().to_string_lossy().into_owned(), path));
        }
    }
    traces.sort_by(|a, b| (b.when_unix_ns, &b.name).cmp(&(a.when_unix_ns, &a.name)));
    Ok(traces)
}

fn listing(name: String, path: PathBuf) -> TraceListing {
    let size_bytes = own_bytes(&path);
    match glance(&path) {
        Ok(glance) => TraceListing {
            name,
            path,
            when: glance.meta.started,
            when_unix_ns: glance.meta.started_unix_ns,
            command: glance.meta.command,
            exit: glance.closing.as_ref().map(|closing| closing.summary.exit),
            events: glance.closing.as_ref().map(|closing| closing.totals.events),
            size_bytes,
            cut: glance.closing.is_none(),
            recording: glance.recording,
            problem: None,
        },
        Err(error) => TraceListing {
            name,
            path,
            when: String::new(),
            when_unix_ns: 0,
            command: Vec::new(),
            exit: None,
            events: None,
            size_bytes,
            cut: false,
            recording: false,
            problem: Some(error.to_string()),
        },
    }
}

fn own_bytes(dir: &Path) -> u64 {
    let bytes = |path: &Path| fs::symlink_metadata(path).map_or(0, |found| found.len());
    let files = fs::read_dir(dir.join(FILES_NAME)).into_iter().flatten().flatten();
    let unshared = files.filter_map(|entry| entry.metadata().ok()).filter(|found| found.nlink() == 1);
    bytes(&dir.join(META_NAME))
        + bytes(&dir.join(EVENTS_NAME))
        + unshared.map(|found| found.len()).sum::<u64>()
        + Computed::ALL.iter().map(|which| bytes(&dir.join(which.name()))).sum::<u64>()
        + keyframes::bytes_of_all(dir)
}

/// Removes a trace of the home directory, by its name, or another, by its path. Kept files that no other trace needs
/// are freed by [`prune`].
///
/// # Errors
/// [`StoreError::BadName`] for what is no plain name, [`StoreError::NoSuchTrace`],
/// [`StoreError::InUse`] while it is recorded, [`StoreError::Io`].
pub fn remove(home: &Path, name: &str) -> Result<(), StoreError> {
    // What a link leads to is not meant.
    let is_own = |dir: &Path| fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir()) && is_trace(dir);
    let named = home.join(name);
    let dir = match is_plain(name) && is_own(&named) {
        true => named,
        false if is_own(Path::new(name)) => PathBuf::from(name),
        false if is_plain(name) => {
            return Err(refused(&named).unwrap_or_else(|| StoreError::NoSuchTrace {
                name: name.to_owned(),
                home: home.to_owned(),
            }));
        }
        false => {
            let why = "it is neither a trace in the home directory nor the directory of one";
            return Err(StoreError::BadName { name: name.to_owned(), why });
        }
    };
    discard(&dir)?;
    // A link that leads nowhere now.
    let latest = home.join(LATEST_NAME);
    if fs::symlink_metadata(&latest).is_ok_and(|found| found.is_symlink()) && !latest.exists() {
        fs::remove_file(&latest).doing("remove", &latest)?;
    }
    Ok(())
}

/// Removes a trace, wherever it is, or what a recorder that was killed had begun of one. Kept files that no other
/// trace needs are freed by [`prune`].
///
/// # Errors
/// [`StoreError::NotATrace`], [`StoreError::InUse`] while it is recorded,
/// [`StoreError::Io`].
pub fn discard(dir: &Path) -> Result<(), StoreError> {
    if !is_trace(dir) && !is_begun(dir) {
        return Err(StoreError::NotATrace {
            path: dir.to_owned(),
            why: "it has no trace.json and events.rvt",
        });
    }
    let events = dir.join(EVENTS_NAME);
    if disk::open_regular(&events).is_ok_and(|file| disk::is_locked(&file, &events)) {
        return Err(StoreError::InUse { path: dir.to_owned() });
    }
    fs::remove_dir_all(dir).doing("remove", dir)
}

/// What [`prune`] removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    pub files: u64,
    pub bytes: u64,
}

/// Removes the kept files that no trace links. Whoever wants to record meanwhile is let in after a
/// moment, and what is left stays until the next time.
///
/// # Errors
/// [`StoreError::InUse`] while anybody has the store open, [`StoreError::Io`].
pub fn prune(home: &Path) -> Result<Pruned, StoreError> {
    prune_by_parts(home, PRUNED_AT_ONCE)
}

fn prune_by_parts(home: &Path, part: Duration) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned { files: 0, bytes: 0 };
    let mut next = 0;
    loop {
        let store = match FileStore::open_alone(home) {
            Err(StoreError::InUse { .. }) if next > 0 => return Ok(pruned),
            opened => opened?,
        };
        let removed = store.remove_unlinked(&mut next, part)?;
        pruned.files += removed.files;
        pruned.bytes += removed.bytes;
        if removed.is_all {
            return Ok(pruned);
        }
        drop(store);
        std::thread::sleep(LET_IN);
    }
}

/// True if a trace in the home directory can have this name: what the directory has of its own, links
/// and the store of kept files, has others.
pub fn can_be_named(name: &str) -> bool {
    is_plain(name)
        && !name.starts_with('.')
        && ![LATEST_NAME, STORE_NAME].contains(&name)
        && name.chars().all(|char| !char.is_control())
}

/// The error for a directory that may not be looked into: somebody else's.
fn refused(dir: &Path) -> Option<StoreError> {
    let error = fs::metadata(dir.join(META_NAME)).err()?;
    (error.kind() == ErrorKind::PermissionDenied).then(|| StoreError::io("look into", dir, error))
}

/// True if the directory looks like a trace.
fn is_trace(dir: &Path) -> bool {
    [META_NAME, EVENTS_NAME]
        .iter()
        .all(|name| fs::metadata(dir.join(name)).is_ok_and(|found| found.is_file()))
}

/// True if there is nothing but what a recorder makes before `trace.json`.
fn is_begun(dir: &Path) -> bool {
    let is_of_it = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
        let name = name.to_string_lossy();
        name == EVENTS_NAME || name == FILES_NAME || name.starts_with(disk::TEMPORARY_PREFIX)
    };
    let events = dir.join(EVENTS_NAME);
    let has_header_alone = fs::metadata(&events).is_ok_and(|found| found.len() == FILE_HEADER_BYTES as u64);
    has_header_alone
        && fs::read(&events).is_ok_and(|bytes| bytes.starts_with(&FILE_MAGIC))
        && fs::read_dir(dir).is_ok_and(|mut entries| entries.all(is_of_it))
}

/// True for one component that is no way up.
fn is_plain(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileKey;

    const CONTENTS: u64 = 20;

    fn store_with_contents(home: &Path) -> FileStore {
        let store = FileStore::open(home).expect("a new store opens");
        for number in 0..CONTENTS {
            let path = home.join(number.to_string());
            fs::write(&path, number.to_string().repeat(100)).expect("a file can be written");
            let file = fs::File::open(&path).expect("it is there");
            let key = FileKey::of(&file).expect("it has one");
            store.keep(&file, key).expect("it is kept");
        }
        store
    }

    #[test]
    fn pruning_by_parts_removes_as_much() {
        let home = tempfile::tempdir().expect("a directory can be made");
        drop(store_with_contents(home.path()));
        let pruned = prune_by_parts(home.path(), Duration::ZERO).expect("nobody uses it");
        assert_eq!(pruned.files, CONTENTS);
        assert_eq!(prune_by_parts(home.path(), Duration::ZERO).expect("nor now").files, 0);
    }

    #[test]
    fn what_a_killed_recorder_began_is_removed_and_nothing_else() {
        let home = tempfile::tempdir().expect("a directory can be made");
        let dir = home.path().join("begun");
        fs::create_dir_all(dir.join(FILES_NAME)).expect("it can be made");
        fs::write(dir.join(".tmp-1-2-0"), "").expect("it can be written");
        fs::write(dir.join(EVENTS_NAME), crate::record::file_header(0)).expect("it can be written");
        fs::write(dir.join("mine"), "").expect("it can be written");
        assert!(matches!(discard(&dir), Err(StoreError::NotATrace { .. })));
        fs::remove_file(dir.join("mine")).expect("it is there");
        discard(&dir).expect("nothing else is there");
        assert!(!dir.exists());
    }

    #[test]
    fn who_records_is_let_in_between_the_parts() {
        let home = tempfile::tempdir().expect("a directory can be made");
        let store = store_with_contents(home.path());
        let kept: Vec<PathBuf> = (0..CONTENTS)
            .map(|number| blake3::hash(number.to_string().repeat(100).as_bytes()).into())
            .map(|hash| store.content_path(&hash))
            .collect();
        drop(store);
        let pruned = std::thread::scope(|scope| {
            let pruning = scope.spawn(|| prune_by_parts(home.path(), Duration::ZERO));
            while kept.iter().all(|path| path.exists()) {
                std::thread::yield_now();
            }
            let _store = FileStore::open(home.path()).expect("it opens while somebody prunes");
            pruning.join().expect("it does not panic").expect("it is no error")
        });
        assert!((1..CONTENTS).contains(&pruned.files), "{} were removed", pruned.files);
    }
}
