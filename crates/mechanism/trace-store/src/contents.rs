//! What a trace holds: its lanes, where their chunks are, and its files.
//!
//! The writer and the scanner feed the same [`Contents`], so that what the writer
//! may not do is exactly what a reader refuses.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::FileHash;
use crate::meta::Totals;
use crate::record::PATH_BYTES_MAX;

/// Parent of a lane that no recorded lane made.
pub const NO_PARENT: u32 = u32::MAX;

/// How a lane ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneEnd {
    /// The process ended with this code.
    Exited(i32),
    /// This signal ended the process.
    Killed(i32),
    /// The process vanished.
    Unknown,
    /// Recording stopped for this reason and the program went on.
    Stopped(u16),
}

/// One lane of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneInfo {
    pub lane: u32,
    /// The lane that made it, or [`NO_PARENT`].
    pub parent: u32,
    pub pid: i32,
    pub events: u64,
    pub chunks: u64,
    /// Bytes of its events.
    pub raw_bytes: u64,
    /// Bytes that they take in the file, without the chunks' headers.
    pub stored_bytes: u64,
    /// `None` where the trace was cut before.
    pub end: Option<LaneEnd>,
}

/// A file whose content the trace keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// BLAKE3 of the content.
    pub hash: FileHash,
    /// Where it was, for people.
    pub path: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// st_mode.
    pub mode: u32,
}

impl FileEntry {
    /// Where it was.
    pub fn original(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(&self.path))
    }
}

/// A kept file with the id that events name it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFile {
    pub id: u32,
    pub file: FileEntry,
}

/// Where a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkPlace {
    /// Of the record's header in the file.
    pub offset: u64,
    pub raw_bytes: u32,
    pub stored_bytes: u32,
    pub events: u64,
}

/// A small record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    Begin { lane: u32, parent: u32, pid: i32 },
    End { lane: u32, end: LaneEnd },
    File(TraceFile),
}

/// All that a trace holds, without the events themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// In the order of their begin.
    pub lanes: Vec<LaneInfo>,
    /// The chunks of each of `lanes`.
    pub chunks: Vec<Vec<ChunkPlace>>,
    pub files: Vec<TraceFile>,
    positions: HashMap<u32, usize>,
    file_ids: HashSet<u32>,
}

/// Why a record cannot follow what is there already.
pub(crate) type Misfit = &'static str;

impl Contents {
    /// Position of a lane in `lanes` and `chunks`.
    pub fn position(&self, lane: u32) -> Option<usize> {
        self.positions.get(&lane).copied()
    }

    /// The number and the first event that the lane's next chunk has.
    pub fn next_chunk(&self, lane: u32) -> Result<(u64, u64), Misfit> {
        let info = &self.lanes[self.open_position(lane)?];
        Ok((info.chunks, info.events))
    }

    /// Adds a chunk behind the lane's last one.
    pub fn add_chunk(&mut self, lane: u32, place: ChunkPlace) -> Result<(), Misfit> {
        let at = self.open_position(lane)?;
        let info = &mut self.lanes[at];
        info.events = info.events.checked_add(place.events).ok_or("too many events")?;
        info.chunks += 1;
        info.raw_bytes += u64::from(place.raw_bytes);
        info.stored_bytes += u64::from(place.stored_bytes);
        self.chunks[at].push(place);
        Ok(())
    }

    /// Whether a small record may come next.
    pub fn check(&self, entry: &Entry) -> Result<(), Misfit> {
        match entry {
            Entry::Begin { lane, .. } if self.positions.contains_key(lane) => {
                Err("the lane has begun already")
            }
            Entry::Begin { .. } => Ok(()),
            Entry::End { lane, .. } => self.open_position(*lane).map(|_| ()),
            Entry::File(file) if self.file_ids.contains(&file.id) => Err("another file has that id"),
            Entry::File(file) if file.file.path.len() > PATH_BYTES_MAX => Err("the path is too long"),
            Entry::File(_) => Ok(()),
        }
    }

    /// Adds a small record.
    pub fn add(&mut self, entry: Entry) -> Result<(), Misfit> {
        self.check(&entry)?;
        match entry {
            Entry::Begin { lane, parent, pid } => {
                self.positions.insert(lane, self.lanes.len());
                self.lanes.push(LaneInfo {
                    lane,
                    parent,
                    pid,
                    events: 0,
                    chunks: 0,
                    raw_bytes: 0,
                    stored_bytes: 0,
                    end: None,
                });
                self.chunks.push(Vec::new());
            }
            Entry::End { lane, end } => {
                let at = self.open_position(lane)?;
                self.lanes[at].end = Some(end);
            }
            Entry::File(file) => {
                self.file_ids.insert(file.id);
                self.files.push(file);
            }
        }
        Ok(())
    }

    /// Changes how a lane ended, which has ended.
    pub fn learn_end(&mut self, lane: u32, end: LaneEnd) {
        let known = self.position(lane).map(|at| &mut self.lanes[at].end);
        if let Some(known @ Some(_)) = known {
            *known = Some(end);
        }
    }

    /// Sums over all lanes.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { lanes: self.lanes.len() as u64, ..Totals::default() };
        for info in &self.lanes {
            totals.events = totals.events.saturating_add(info.events);
            totals.chunks += info.chunks;
            totals.raw_bytes += info.raw_bytes;
            totals.stored_bytes += info.stored_bytes;
        }
        totals
    }

    fn open_position(&self, lane: u32) -> Result<usize, Misfit> {
        let at = self.position(lane).ok_or("the lane has not begun")?;
        if self.lanes[at].end.is_some() {
            return Err("the lane has ended already");
        }
        Ok(at)
    }
}
