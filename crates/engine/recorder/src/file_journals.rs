//! Serves processes that are about to change regular files: the journals of a session.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use injector::Lane;
use lane_protocol::{CHANGE_PATH_BYTES, ChangePath, change_kind, checkpoint_state};

use crate::file_journal::Journal;
use crate::file_places::{Place, identity_of};
use crate::file_undo::Refused;

/// The journals of all lanes.
pub(crate) struct FileJournals {
    /// The session's folder, which is its user's alone.
    dir: PathBuf,
    lanes: Mutex<HashMap<u32, Journal>>,
    /// Why the last rollback could not be done.
    refused: Mutex<Option<String>>,
}

/// Positions of the oldest and of the newest checkpoint of a lane.
fn checkpoint_range(lane: Lane) -> Option<(u64, u64)> {
    let taken =
        lane.checkpoints().iter().filter(|at| at.state.load(Ordering::Acquire) == checkpoint_state::TAKEN);
    let positions = taken.map(|at| at.position.load(Ordering::Relaxed));
    positions.fold(None, |range, position| match range {
        None => Some((position, position)),
        Some((oldest, newest)) => Some((position.min(oldest), position.max(newest))),
    })
}

/// A path that a process gave, as we see it.
fn path_of(pid: i32, given: &ChangePath) -> PathBuf {
    let bytes = (given.bytes.load(Ordering::Relaxed) as usize).min(CHANGE_PATH_BYTES);
    let mut text: Vec<u8> =
        given.words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).take(bytes).collect();
    while text.len() > 1 && text.last() == Some(&b'/') {
        text.pop();
    }
    let path = PathBuf::from(std::ffi::OsString::from_vec(text));
    let own = Path::new("/proc").join(pid.to_string());
    if let Ok(below) = path.strip_prefix("/") {
        return own.join("root").join(below);
    }
    match given.dir.load(Ordering::Relaxed) {
        libc::AT_FDCWD => own.join("cwd").join(path),
        dir => own.join("fd").join(dir.to_string()).join(path),
    }
}

/// Opens a file for reading without waiting for anybody.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

impl FileJournals {
    pub fn new(dir: &Path) -> FileJournals {
        FileJournals { dir: dir.to_owned(), lanes: Mutex::default(), refused: Mutex::default() }
    }

    /// Serves a request of a lane's process.
    pub fn serve(&self, lane: Lane) {
        let Some((oldest, newest)) = checkpoint_range(lane) else { return lane.answer(0) };
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let journal = lanes.entry(lane.ids().0).or_insert_with(|| Journal::new(&self.dir));
        journal.forget_before(Some(oldest));
        let kept = keep(lane, journal, newest);
        lane.answer(kept.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO)));
    }

    /// Forgets what no checkpoint of these lanes, the only ones there are, needs.
    pub fn forget(&self, lanes: &[Lane]) {
        let mut journals = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        journals.retain(|id, journal| {
            let oldest =
                lanes.iter().find(|lane| lane.ids().0 == *id).and_then(|lane| checkpoint_range(*lane));
            journal.forget_before(oldest.map(|(oldest, _)| oldest));
            !journal.is_empty()
        });
    }

    /// Puts back what a lane's process changed since a position of its log; an errno if
    /// that cannot be done, and nothing was. Gives lines of what is not as it was.
    pub fn undo(&self, lane: u32, position: u64) -> Result<Vec<String>, i32> {
        let mut journals = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(journal) = journals.get_mut(&lane) else { return Ok(Vec::new()) };
        match journal.undo_since(position) {
            Ok(notes) => {
                notes.iter().for_each(|note| diagnostics::tell!("retrovane: {note}"));
                Ok(notes)
            }
            Err(Refused { errno, text }) => {
                let line = format!("files cannot be put back: {text}");
                diagnostics::tell!("retrovane: {line}");
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
                Err(errno)
            }
        }
    }

    /// Why the last rollback was refused; once.
    pub fn take_refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// True if what was written to a descriptor since a position goes with a rollback.
    pub fn restores(&self, lane: u32, pid: i32, position: u64, fd: u32) -> bool {
        match fs::metadata(format!("/proc/{pid}/fd/{fd}")) {
            Ok(metadata) => metadata.is_file(),
            // It was closed.
            Err(_) => {
                let journals = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
                journals.get(&lane).is_some_and(|journal| journal.was_file(position, fd))
            }
        }
    }

    /// What a rollback to a position will not restore, a line each.
    pub fn notes(&self, lane: u32, position: u64) -> Vec<String> {
        let journals = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        journals.get(&lane).map(|journal| journal.notes_since(position)).unwrap_or_default()
    }
}

/// Keeps what one change takes away.
fn keep(lane: Lane, journal: &mut Journal, newest: u64) -> io::Result<()> {
    let change = lane.change();
    let pid = lane.pid().load(Ordering::Acquire);
    let offset = change.offset.load(Ordering::Relaxed);
    let bytes = change.bytes.load(Ordering::Relaxed);
    let opened = || {
        let fd = change.fd.load(Ordering::Relaxed);
        Path::new("/proc").join(pid.to_string()).join("fd").join(fd.to_string())
    };
    let kind = change.kind.load(Ordering::Relaxed);
    let path = match kind {
        change_kind::RANGE | change_kind::MADE_OPEN => {
            journal.note_descriptor(newest, change.fd.load(Ordering::Relaxed) as u32);
            opened()
        }
        _ => path_of(pid, &change.path),
    };
    let kept = match kind {
        change_kind::RANGE => open(&path).and_then(|file| {
            let shown = fs::read_link(&path).unwrap_or_else(|_| path.clone());
            journal.before_range(newest, file, shown, offset, bytes)
        }),
        change_kind::CUT => open(&path).and_then(|file| {
            let shown = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
            journal.before_range(newest, file, shown, offset, u64::MAX)
        }),
        change_kind::UNLINK => Place::of(&path).and_then(|place| journal.before_unlink(newest, place)),
        change_kind::RENAME => {
            before_rename(journal, newest, &path, &path_of(pid, &change.other_path), bytes)
        }
        change_kind::MADE => Place::of(&path).map(|place| journal.made(newest, place)),
        change_kind::MADE_OPEN => made_open(journal, newest, &path),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    kept.inspect_err(|error| {
        // A name that is not there cannot be removed or cut either.
        if error.kind() != io::ErrorKind::NotFound {
            let shown = fs::canonicalize(&path).unwrap_or(path);
            journal.lost(newest, &shown, error);
        }
    })
}

fn before_rename(journal: &mut Journal, newest: u64, from: &Path, to: &Path, flags: u64) -> io::Result<()> {
    if flags & u64::from(libc::RENAME_EXCHANGE) != 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    journal.before_rename(newest, Place::of(from)?, Place::of(to)?)
}

/// A file was made by opening it; where it is the descriptor tells.
fn made_open(journal: &mut Journal, newest: u64, descriptor: &Path) -> io::Result<()> {
    let place = Place::of(&fs::read_link(descriptor)?)?;
    if place.identity() == Some(identity_of(&fs::metadata(descriptor)?)) {
        journal.made(newest, place);
        return Ok(());
    }
    Err(io::ErrorKind::Unsupported.into())
}
