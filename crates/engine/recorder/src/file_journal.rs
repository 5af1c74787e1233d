//! What a process changed in regular files since its checkpoints: a log of old bytes, old
//! sizes and old names, which a rollback undoes from its end.
//!
//! Invariant: a part of it belongs to the checkpoint that was the newest when it was
//! written, and holds all that was changed until the next one.
//!
//! Deliberately absent: contents that stores through a shared mapping change (the process
//! restores those, with its memory); owners, modes and attributes that were changed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::file_places::{Absent, Identity, Place, identity_of};
use crate::file_undo::{Copies, Refused, Way};

/// Bytes that are compared, kept or put back at a time.
const PIECE_BYTES: u64 = 1 << 16;

/// A file that was changed. Only to be read: who has one open for writing would keep
/// others from executing it.
pub(crate) struct Handle {
    pub file: File,
    pub identity: Identity,
    pub shown: PathBuf,
    /// What it came back for, which had another number that nothing else gets.
    pub old: Option<Arc<File>>,
}

impl Handle {
    pub fn new(file: File, identity: Identity, shown: PathBuf) -> Handle {
        Handle { file, identity, shown, old: None }
    }

    /// The same file, to be written to.
    pub fn reopened(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

/// A step back.
pub(crate) enum Entry {
    /// Bytes of the store, or zeros.
    Bytes {
        handle: Arc<Handle>,
        offset: u64,
        bytes: u64,
        stored_at: Option<u64>,
    },
    Size {
        handle: Arc<Handle>,
        size: u64,
        times: fs::FileTimes,
    },
    Gone {
        place: Place,
        identity: Identity,
        absent: Absent,
        /// Open, so that nothing else gets its number; a link does the same.
        old: Option<Arc<File>>,
    },
    Renamed {
        from: Place,
        to: Place,
        identity: Identity,
    },
    Made {
        place: Place,
        identity: Identity,
    },
}

/// What is known of a file in one part.
struct Kept {
    handle: Arc<Handle>,
    /// When the part began to know it.
    size: u64,
    /// Ranges of it that are kept: start and end.
    ranges: BTreeMap<u64, u64>,
}

impl Kept {
    /// What of a range is not kept yet; it is from now on.
    fn add(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut at = start;
        let (mut first, mut last) = (start, end);
        let touching: Vec<(u64, u64)> = self
            .ranges
            .range(..=end)
            .rev()
            .take_while(|(_, to)| **to >= start)
            .map(|(a, b)| (*a, *b))
            .collect();
        for (from, to) in touching.into_iter().rev() {
            if from > at {
                gaps.push((at, from));
            }
            at = at.max(to);
            first = first.min(from);
            last = last.max(to);
            self.ranges.remove(&from);
        }
        if at < end {
            gaps.push((at, end));
        }
        self.ranges.insert(first, last);
        gaps
    }
}

/// What changed while one checkpoint was the newest.
pub(crate) struct Part {
    /// The checkpoint's position in the log.
    since: u64,
    pub entries: Vec<Entry>,
    kept: HashMap<Identity, Kept>,
    /// Files that were made: nothing of them has to be kept.
    made: HashSet<Identity>,
    pub store: Option<File>,
    stored_bytes: u64,
    /// What could not be kept, a line each.
    lost: Vec<String>,
    /// Descriptors that files were changed by.
    descriptors: HashSet<u32>,
}

/// The changes of one process.
pub(crate) struct Journal {
    dir: PathBuf,
    parts: Vec<Part>,
    /// Files that were removed and came back as copies.
    copies: Copies,
    /// Directories of places that are noted: a descriptor for each, however many are in it.
    dirs: HashMap<Identity, Weak<File>>,
}

/// Numbers names in the session's folder.
static NEXT_NAME: AtomicU64 = AtomicU64::new(0);

/// A new name in the session's folder.
fn new_name(dir: &Path) -> PathBuf {
    dir.join(format!("before-{}", NEXT_NAME.fetch_add(1, Ordering::Relaxed)))
}

impl Part {
    pub fn new(since: u64) -> Part {
        Part {
            since,
            entries: Vec::new(),
            kept: HashMap::new(),
            made: HashSet::new(),
            store: None,
            stored_bytes: 0,
            lost: Vec::new(),
            descriptors: HashSet::new(),
        }
    }

    /// Keeps a file's size, and its bytes from `offset` to `end` that are not kept.
    pub fn keep_bytes(&mut self, dir: &Path, handle: &Arc<Handle>, offset: u64, end: u64) -> io::Result<()> {
        if self.made.contains(&handle.identity) {
            return Ok(());
        }
        let metadata = handle.file.metadata()?;
        let size = metadata.len();
        if !self.kept.contains_key(&handle.identity) {
            let times =
                fs::FileTimes::new().set_modified(metadata.modified()?).set_accessed(metadata.accessed()?);
            self.entries.push(Entry::Size { handle: Arc::clone(handle), size, times });
            let kept = Kept { handle: Arc::clone(handle), size, ranges: BTreeMap::new() };
            self.kept.insert(handle.identity, kept);
        }
        let kept = self.kept.get_mut(&handle.identity).expect("it was inserted");
        let end = end.min(size).min(kept.size);
        let gaps = if offset < end { kept.add(offset, end) } else { Vec::new() };
        for (from, to) in gaps {
            let mut at = from;
            while at < to {
                let bytes = (to - at).min(PIECE_BYTES);
                self.keep_piece(dir, handle, at, bytes)?;
                at += bytes;
            }
        }
        Ok(())
    }

    fn keep_piece(&mut self, dir: &Path, handle: &Arc<Handle>, offset: u64, bytes: u64) -> io::Result<()> {
        let mut piece = vec![0; bytes as usize];
        handle.file.read_exact_at(&mut piece, offset)?;
        let stored_at = if piece.iter().all(|byte| *byte == 0) { None } else { Some(self.stored_bytes) };
        if let Some(place) = stored_at {
            if self.store.is_none() {
                self.store = Some(private_file(dir)?);
            }
            let store = self.store.as_ref().expect("it was made");
            store.write_all_at(&piece, place)?;
            self.stored_bytes += bytes;
        }
        self.entries.push(Entry::Bytes { handle: Arc::clone(handle), offset, bytes, stored_at });
        Ok(())
    }

    /// Keeps what a name means, which is about to go.
    pub fn keep_name(&mut self, dir: &Path, place: &Place) -> io::Result<()> {
        let metadata = match fs::symlink_metadata(place.path()) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let identity = identity_of(&metadata);
        if metadata.nlink() == 1 && self.made.remove(&identity) {
            // It is neither there before nor after.
            return Ok(());
        }
        let absent = Absent::keep(place, &metadata, &new_name(dir))?;
        let old = match absent {
            Absent::Linked(_) => None,
            Absent::Copied(..) | Absent::Link(_) | Absent::Dir(_) => Some(Arc::new(place.open_path()?)),
        };
        self.entries.push(Entry::Gone { place: place.clone(), identity, absent, old });
        Ok(())
    }
}

/// A file that nobody else can reach.
fn private_file(dir: &Path) -> io::Result<File> {
    let path = new_name(dir);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}

impl Journal {
    pub fn new(dir: &Path) -> Journal {
        Journal { dir: dir.to_owned(), parts: Vec::new(), copies: Copies::new(), dirs: HashMap::new() }
    }

    /// The part of the newest checkpoint.
    fn part(&mut self, newest: u64) -> &mut Part {
        if self.parts.last().is_none_or(|part| part.since < newest) {
            self.parts.push(Part::new(newest));
        }
        self.parts.last_mut().expect("one was made")
    }

    /// Bytes of an open file are about to change.
    pub fn before_range(
        &mut self,
        newest: u64,
        file: File,
        shown: PathBuf,
        offset: u64,
        bytes: u64,
    ) -> io::Result<()> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(());
        }
        let identity = identity_of(&metadata);
        let known = self.parts.iter().rev().find_map(|part| part.kept.get(&identity));
        let handle = match known {
            Some(kept) => Arc::clone(&kept.handle),
            None => Arc::new(Handle::new(file, identity, shown)),
        };
        let dir = self.dir.clone();
        self.part(newest).keep_bytes(&dir, &handle, offset, offset.saturating_add(bytes))
    }

    /// The place, with the descriptor of others in its directory.
    fn shared(&mut self, place: Place) -> Place {
        let known = self.dirs.get(&place.dir_identity()).and_then(Weak::upgrade);
        match known {
            Some(dir) => place.by(dir),
            None => {
                self.dirs.retain(|_, dir| dir.strong_count() != 0);
                self.dirs.insert(place.dir_identity(), Arc::downgrade(place.dir()));
                place
            }
        }
    }

    /// A name is about to go.
    pub fn before_unlink(&mut self, newest: u64, place: Place) -> io::Result<()> {
        let place = self.shared(place);
        let dir = self.dir.clone();
        self.part(newest).keep_name(&dir, &place)
    }

    /// A name is about to become another.
    pub fn before_rename(&mut self, newest: u64, from: Place, to: Place) -> io::Result<()> {
        let (from, to) = (self.shared(from), self.shared(to));
        let Some(identity) = from.identity() else { return Ok(()) };
        if to.identity() == Some(identity) {
            // Both are names of one file: nothing is done (rename(2)).
            return Ok(());
        }
        let dir = self.dir.clone();
        let part = self.part(newest);
        part.keep_name(&dir, &to)?;
        part.entries.push(Entry::Renamed { from, to, identity });
        Ok(())
    }

    /// A name was made.
    pub fn made(&mut self, newest: u64, place: Place) {
        let place = self.shared(place);
        if let Ok(metadata) = fs::symlink_metadata(place.path()) {
            let identity = identity_of(&metadata);
            let part = self.part(newest);
            part.entries.push(Entry::Made { place, identity });
            // Another name for a file that was there is none that was made.
            if metadata.is_file() && metadata.nlink() == 1 {
                part.made.insert(identity);
            }
        }
    }

    /// Something could not be kept.
    pub fn lost(&mut self, newest: u64, shown: &Path, error: &io::Error) {
        self.part(newest).lose(shown, error);
    }

    /// Forgets what no checkpoint needs any more; `oldest`: `None` if there is none.
    pub fn forget_before(&mut self, oldest: Option<u64>) {
        self.parts.retain(|part| oldest.is_some_and(|oldest| part.since >= oldest));
        if self.parts.is_empty() {
            self.copies.clear();
        }
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Puts everything back as it was at a checkpoint; gives lines of what is not. Where
    /// that fails all is as before.
    pub fn undo_since(&mut self, position: u64) -> Result<Vec<String>, Refused> {
        let first = self.parts.partition_point(|part| part.since < position);
        let mut way = Way::new(&self.dir, &self.copies);
        for part in self.parts[first..].iter().rev() {
            way.notes.extend(part.lost.iter().cloned());
            if let Err(refused) = way.undo(part) {
                // What it writes was there a moment ago.
                let there = way.inverse;
                return match Way::new(&self.dir, &self.copies).undo(&there) {
                    Ok(()) => Err(refused),
                    Err(second) => {
                        let text = format!("{}; then {}", refused.text, second.text);
                        Err(Refused { text, ..refused })
                    }
                };
            }
        }
        let (notes, copies) = (way.notes, way.copies);
        self.copies = copies;
        self.parts.truncate(first);
        Ok(notes)
    }

    /// A file is changed by way of a descriptor.
    pub fn note_descriptor(&mut self, newest: u64, fd: u32) {
        self.part(newest).descriptors.insert(fd);
    }

    /// True if a descriptor was one of a file when that was changed.
    pub fn was_file(&self, position: u64, fd: u32) -> bool {
        self.parts.iter().any(|part| part.since >= position && part.descriptors.contains(&fd))
    }

    /// What a rollback would find, a line each.
    pub fn notes_since(&self, position: u64) -> Vec<String> {
        let parts = self.parts.iter().filter(|part| part.since >= position);
        parts.flat_map(|part| part.lost.iter().cloned()).collect()
    }
}

impl Part {
    fn lose(&mut self, shown: &Path, error: &io::Error) {
        let line = format!("{}: could not be kept ({error}): what is changed in it stays", shown.display());
        if !self.lost.contains(&line) {
            self.lost.push(line);
        }
    }
}

#[cfg(test)]
mod tests;
