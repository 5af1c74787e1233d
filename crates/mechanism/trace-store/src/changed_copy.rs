//! A copy of a trace in which bytes are others, each in its place: for packs from which something is left out.
//!
//! Invariant: the copy has the same lanes, events, lengths and times. Kept files that stay as they are are links to
//! those of the trace, so that a copy is for packing, and not for keeping.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::contents::{FileEntry, TraceFile};
use crate::disk;
use crate::error::{Doing, StoreError};
use crate::meta::{Meta, Summary};
use crate::reader::TraceReader;
use crate::writer::{FILES_NAME, TraceWriter};
use crate::{FileHash, hash_hex};

/// What becomes of the parts of a trace.
pub trait Changes {
    /// Its description.
    fn description(&mut self, meta: &mut Meta);
    /// What the user is told of the recording.
    fn summary(&mut self, summary: &mut Summary);
    /// Whole events of a lane, which begin behind `offset` bytes of its log.
    fn events(&mut self, lane: u32, offset: u64, bytes: &mut [u8]);
    /// Where a kept file was.
    fn path(&mut self, path: &mut [u8]);
    /// Another content of the same length for a kept file; `None`: it stays. The content is at `path`.
    ///
    /// # Errors
    /// As for reading.
    fn content(&mut self, file: &TraceFile, path: &Path) -> std::io::Result<Option<Vec<u8>>>;
}

/// Writes the copy into a directory that does not exist, or is empty.
///
/// # Errors
/// As for reading and writing a trace.
pub fn copy_changed(
    trace: &TraceReader,
    into_dir: &Path,
    changes: &mut dyn Changes,
) -> Result<(), StoreError> {
    let mut meta = trace.meta().clone();
    changes.description(&mut meta);
    let mut writer = TraceWriter::create(into_dir, &meta)?;
    let mut hashes = HashMap::new();
    for kept in trace.files() {
        let hash = copy_content(trace, kept, into_dir, changes, &mut hashes)?;
        let mut entry = FileEntry { hash, ..kept.file.clone() };
        changes.path(&mut entry.path);
        writer.add_file(kept.id, &entry)?;
    }
    for info in trace.lanes() {
        writer.begin_lane(info.lane, info.parent, info.pid)?;
    }
    copy_events(trace, &mut writer, changes)?;
    for info in trace.lanes() {
        if let Some(end) = info.end {
            writer.end_lane(info.lane, end)?;
        }
    }
    // Of a trace that is cut the copy is cut, too.
    if let Some(summary) = trace.summary() {
        let mut summary = summary.clone();
        changes.summary(&mut summary);
        writer.finish(&summary)?;
    }
    Ok(())
}

/// The chunks in the order in which they were written.
fn copy_events(
    trace: &TraceReader,
    writer: &mut TraceWriter,
    changes: &mut dyn Changes,
) -> Result<(), StoreError> {
    let mut places: Vec<(u64, u32)> = trace.chunk_places().collect();
    places.sort_unstable();
    let mut readers = HashMap::new();
    let mut bytes = Vec::new();
    for (_, lane) in places {
        let (reader, offset) = match readers.entry(lane) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(new) => new.insert((trace.lane(lane)?, 0)),
        };
        let Some(events) = reader.next_chunk(&mut bytes)? else { continue };
        changes.events(lane, *offset, &mut bytes);
        writer.append_logged(lane, events, &bytes, reader.logged())?;
        *offset += bytes.len() as u64;
    }
    Ok(())
}

/// Puts a content into the copy, and returns its hash there.
fn copy_content(
    trace: &TraceReader,
    kept: &TraceFile,
    into_dir: &Path,
    changes: &mut dyn Changes,
    hashes: &mut HashMap<FileHash, FileHash>,
) -> Result<FileHash, StoreError> {
    if let Some(hash) = hashes.get(&kept.file.hash) {
        return Ok(*hash);
    }
    let path = trace.file_path(&kept.file)?;
    let place = |hash: &FileHash| -> PathBuf { into_dir.join(FILES_NAME).join(hash_hex(hash)) };
    let hash = match changes.content(kept, &path).doing("read", &path)? {
        Some(content) => {
            let hash = *blake3::hash(&content).as_bytes();
            let to = place(&hash);
            if !to.exists() {
                disk::write_whole(&to, &[&content])?;
            }
            hash
        }
        None => {
            let to = place(&kept.file.hash);
            let whole = std::fs::canonicalize(&path).doing("read", &path)?;
            symlink(whole, &to).doing("create", &to)?;
            kept.file.hash
        }
    };
    hashes.insert(kept.file.hash, hash);
    Ok(hash)
}
