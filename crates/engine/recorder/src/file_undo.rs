//! Putting files back: the steps of a journal's part, from its end.

use std::collections::HashMap;
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::file_journal::{Entry, Handle, Part};
use crate::file_places::{Absent, Identity, Place};

/// Files that came back as copies, by what they were before they were removed.
pub(crate) type Copies = HashMap<Identity, Arc<Handle>>;

/// Files cannot be put back.
#[derive(Debug)]
pub(crate) struct Refused {
    pub errno: i32,
    /// Which file, and why.
    pub text: String,
}

/// One way back.
pub(crate) struct Way<'a> {
    dir: &'a Path,
    /// How to undo what was done so far.
    pub inverse: Part,
    pub copies: Copies,
    /// What is not as it was, a line each.
    pub notes: Vec<String>,
}

impl Way<'_> {
    pub fn new<'a>(dir: &'a Path, copies: &Copies) -> Way<'a> {
        Way { dir, inverse: Part::new(0), copies: copies.clone(), notes: Vec::new() }
    }

    /// Undoes all of a part, from its end.
    pub fn undo(&mut self, part: &Part) -> Result<(), Refused> {
        for entry in part.entries.iter().rev() {
            self.step(part, entry).map_err(|error| Refused {
                errno: error.raw_os_error().unwrap_or(libc::EIO),
                text: format!("{}: {error}", shown(entry).display()),
            })?;
        }
        Ok(())
    }

    fn step(&mut self, part: &Part, entry: &Entry) -> io::Result<()> {
        match entry {
            Entry::Bytes { handle, offset, bytes, stored_at } => {
                let mut then = vec![0; *bytes as usize];
                if let (Some(place), Some(store)) = (stored_at, &part.store) {
                    store.read_exact_at(&mut then, *place)?;
                }
                self.put_bytes(handle, *offset, &then)
            }
            Entry::Size { handle, size, times } => self.put_size(handle, *size, *times),
            Entry::Gone { place, identity, absent, old } => {
                self.bring_back(&self.resolved(place)?, *identity, absent, old)
            }
            Entry::Renamed { from, to, identity } => {
                self.rename_back(&self.resolved(from)?, &self.resolved(to)?, *identity)
            }
            Entry::Made { place, identity } => self.take_away(&self.resolved(place)?, *identity),
        }
    }

    /// The place, where its directory was made anew.
    fn resolved(&self, place: &Place) -> io::Result<Place> {
        match self.copies.get(&place.dir_identity()) {
            Some(copy) => {
                let dir = self.current(copy);
                place.moved_to(&dir.file, dir.identity)
            }
            None => Ok(place.clone()),
        }
    }

    /// The file that is meant by a handle of then.
    fn current(&self, handle: &Arc<Handle>) -> Arc<Handle> {
        let mut current = handle;
        while let Some(copy) = self.copies.get(&current.identity) {
            current = copy;
        }
        Arc::clone(current)
    }

    fn is_at(&self, place: &Place, identity: Identity) -> bool {
        let meant = self.copies.get(&identity).map_or(identity, |copy| self.current(copy).identity);
        place.identity() == Some(meant)
    }

    fn put_bytes(&mut self, handle: &Arc<Handle>, offset: u64, then: &[u8]) -> io::Result<()> {
        let handle = self.current(handle);
        let mut now = vec![0; then.len()];
        let there = read_there(&handle.file, &mut now, offset)?;
        // Zeros behind the end come with the size.
        if now == then {
            return Ok(());
        }
        let end = offset + then.len() as u64;
        debug_assert!(there <= then.len());
        self.inverse.keep_bytes(self.dir, &handle, offset, end)?;
        handle.reopened()?.write_all_at(then, offset)
    }

    fn put_size(&mut self, handle: &Arc<Handle>, size: u64, times: FileTimes) -> io::Result<()> {
        let handle = self.current(handle);
        let now = handle.file.metadata()?.len();
        if now != size {
            self.inverse.keep_bytes(self.dir, &handle, size, now)?;
            handle.reopened()?.set_len(size)?;
        }
        // A file of another user keeps the time of its last change.
        let _ = handle.file.set_times(times);
        Ok(())
    }

    fn bring_back(
        &mut self,
        place: &Place,
        identity: Identity,
        absent: &Absent,
        old: &Option<Arc<File>>,
    ) -> io::Result<()> {
        if self.is_at(place, identity) {
            return Ok(());
        }
        if place.identity().is_some() {
            self.notes.push(format!("{}: something else is there now, and stays", place.shown()));
            return Ok(());
        }
        absent.restore(place)?;
        let Some(new) = place.identity() else { return Ok(()) };
        self.inverse.entries.push(Entry::Made { place: place.clone(), identity: new });
        if new == identity {
            return Ok(());
        }
        let file = match absent {
            Absent::Copied(..) => {
                self.notes.push(format!(
                    "{}: is a copy; descriptors that were open then have the file that was removed",
                    place.shown()
                ));
                File::open(place.path())?
            }
            Absent::Linked(_) | Absent::Link(_) | Absent::Dir(_) => place.open_path()?,
        };
        let mut handle = Handle::new(file, new, place.shown_path().clone());
        handle.old = old.clone();
        self.copies.insert(identity, Arc::new(handle));
        Ok(())
    }

    fn rename_back(&mut self, from: &Place, to: &Place, identity: Identity) -> io::Result<()> {
        if !self.is_at(to, identity) {
            // It was not renamed after all, or went on to where nobody saw it.
            return Ok(());
        }
        if from.identity().is_some() {
            if !self.is_at(from, identity) {
                self.notes.push(format!("{}: something else is there now, and stays", from.shown()));
            }
            return Ok(());
        }
        fs::rename(to.path(), from.path())?;
        self.inverse.entries.push(Entry::Renamed { from: to.clone(), to: from.clone(), identity });
        Ok(())
    }

    fn take_away(&mut self, place: &Place, identity: Identity) -> io::Result<()> {
        if !self.is_at(place, identity) {
            return Ok(());
        }
        let path = place.path();
        self.inverse.keep_name(self.dir, place)?;
        if !fs::symlink_metadata(&path)?.is_dir() {
            return fs::remove_file(path);
        }
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                self.notes.push(format!("{}: others have put files into it: it stays", place.shown()));
                Ok(())
            }
            other => other,
        }
    }
}

/// Reads as much as there is.
fn read_there(file: &File, to: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut there = 0;
    while there < to.len() {
        match file.read_at(&mut to[there..], offset + there as u64)? {
            0 => break,
            read => there += read,
        }
    }
    Ok(there)
}

/// What an error is about.
fn shown(entry: &Entry) -> &Path {
    match entry {
        Entry::Bytes { handle, .. } | Entry::Size { handle, .. } => &handle.shown,
        Entry::Gone { place, .. } | Entry::Made { place, .. } => place.shown_path(),
        Entry::Renamed { from, .. } => from.shown_path(),
    }
}
