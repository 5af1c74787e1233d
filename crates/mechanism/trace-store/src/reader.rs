//! Reading a trace.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::compress::ChunkDecompressor;
use crate::contents::{ChunkPlace, Contents, FileEntry, LaneInfo, TraceFile};
use crate::disk;
use crate::error::{Doing, StoreError};
use crate::meta::{Closing, Meta, Summary, Totals};
use crate::record::{
    BadHeader, FILE_HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, RecordKind, is_read, meta_fits,
    parse_file_header, payload_fits,
};
use crate::scan::{Log, Scan, parse_closing, scan};
use crate::writer::{EVENTS_NAME, FILES_NAME, META_NAME};
use crate::{hash_hex, index};

/// Longest `trace.json`, in bytes. Arguments can take 6 MiB on Linux, and up to
/// four times that as JSON.
const META_BYTES_MAX: u64 = 32 << 20;

/// Why a trace ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutWhy {
    /// It is being recorded at this moment.
    Recording,
    /// The log ends after a whole record: the recorder was killed.
    NotFinished,
    /// The log ends inside a record: the recorder was killed, or the file was
    /// truncated.
    Incomplete,
    /// The last bytes never reached the disk: the host crashed.
    Torn,
}

/// Where and why a trace ends early. What lies before is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    pub why: CutWhy,
    /// Bytes of the log that can be used.
    pub offset: u64,
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = match self.why {
            CutWhy::Recording => "it is still being recorded",
            CutWhy::NotFinished => "the recorder ended before it finished the trace",
            CutWhy::Incomplete => "the log ends in the middle of a record",
            CutWhy::Torn => "the last bytes never reached the disk",
        };
        write!(f, "the trace is cut after byte {}: {why}", self.offset)
    }
}

/// An open trace.
#[derive(Debug)]
pub struct TraceReader {
    dir: PathBuf,
    path: Arc<Path>,
    file: Arc<File>,
    len: u64,
    meta: Meta,
    contents: Arc<Contents>,
    summary: Option<Summary>,
    cut: Option<Cut>,
}

impl TraceReader {
    /// Opens the trace in this directory. A complete trace is opened by its
    /// index; its chunks are verified as they are read. One that was cut is read
    /// and verified from its beginning.
    ///
    /// # Errors
    /// [`StoreError::NotATrace`], [`StoreError::Version`],
    /// [`StoreError::Damaged`], [`StoreError::Io`].
    pub fn open(dir: &Path) -> Result<TraceReader, StoreError> {
        let Opened { path, file, len, meta, header } = open_parts(dir)?;
        let log = Log { file: &file, path: &path, len };
        let Scan { contents, closing, mut cut } = match header {
            None => Scan {
                contents: Contents::default(),
                closing: None,
                cut: Some(Cut { why: CutWhy::Incomplete, offset: 0 }),
            },
            Some(()) => match end_record(log)? {
                Some(end) => read_by_index(log, &end)?,
                None => scan(log, &mut |_| ())?,
            },
        };
        if let Some(cut) = &mut cut
            && disk::is_locked(&file, &path)
        {
            cut.why = CutWhy::Recording;
        }
        Ok(TraceReader {
            dir: dir.to_owned(),
            path: path.into(),
            file: Arc::new(file),
            len,
            meta,
            contents: Arc::new(contents),
            summary: closing.map(|closing| closing.summary),
            cut,
        })
    }

    /// What a writer needs that goes on with the trace; what is cut away behind `Cut::offset` is
    /// none of the contents.
    pub(crate) fn into_parts(self) -> (Meta, Contents, Option<Cut>) {
        (self.meta, Arc::unwrap_or_clone(self.contents), self.cut)
    }

    /// What was recorded.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// How the recording ended; `None` in a trace that was cut.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// The lanes in the order of their begin.
    pub fn lanes(&self) -> &[LaneInfo] {
        &self.contents.lanes
    }

    /// What is known of a lane.
    pub fn lane_info(&self, lane: u32) -> Option<&LaneInfo> {
        self.contents.position(lane).map(|position| &self.contents.lanes[position])
    }

    /// Where each chunk is in the log, and its lane.
    pub(crate) fn chunk_places(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let of_lanes = self.contents.lanes.iter().zip(&self.contents.chunks);
        of_lanes.flat_map(|(info, chunks)| chunks.iter().map(|place| (place.offset, info.lane)))
    }

    /// The kept files.
    pub fn files(&self) -> &[TraceFile] {
        &self.contents.files
    }

    /// Sums over all lanes.
    pub fn totals(&self) -> Totals {
        self.contents.totals()
    }

    /// Where and why the trace ends early, if it does.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// The trace's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The files that it is, but for the kept ones; others beside them are computed from these.
    pub fn own_files(&self) -> [PathBuf; 2] {
        [EVENTS_NAME, META_NAME].map(|name| self.dir.join(name))
    }

    /// True if it was unpacked from a pack: whoever made that may have made its code, too.
    pub fn came_in_pack(&self) -> bool {
        self.dir.join(crate::pack::MARK_NAME).symlink_metadata().is_ok()
    }

    /// The sources that came with it in its pack.
    pub fn sources(&self) -> Vec<crate::SourceFile> {
        crate::sources::beside(&self.dir)
    }

    /// The directory of the kept files, each named by its hash in hex.
    pub fn files_dir(&self) -> PathBuf {
        self.dir.join(FILES_NAME)
    }

    /// True for a content that the trace does not hold: it only says where it was.
    pub fn is_referred(&self, hash: &crate::FileHash) -> bool {
        let path = self.files_dir().join(hash_hex(hash));
        std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
    }

    /// Where a kept file's content is.
    ///
    /// # Errors
    /// [`StoreError::MissingFile`] if it is not there or has another size; [`StoreError::ReferredFile`].
    pub fn file_path(&self, file: &FileEntry) -> Result<PathBuf, StoreError> {
        let path = self.files_dir().join(hash_hex(&file.hash));
        match std::fs::metadata(&path) {
            Ok(found) if found.is_file() && found.len() == file.size => Ok(path),
            Ok(_) | Err(_) if self.is_referred(&file.hash) => {
                Err(self.referred(&file.hash, "its length has changed, or it is gone"))
            }
            Ok(_) | Err(_) => Err(StoreError::MissingFile { hash: file.hash, path: file.original() }),
        }
    }

    /// Starts to read a lane's log from its beginning. Readers are independent of
    /// each other and of this object, and may be sent to other threads.
    ///
    /// # Errors
    /// [`StoreError::NoSuchLane`].
    pub fn lane(&self, lane: u32) -> Result<LaneReader, StoreError> {
        let position = self.contents.position(lane).ok_or(StoreError::NoSuchLane { lane })?;
        Ok(LaneReader {
            path: Arc::clone(&self.path),
            file: Arc::clone(&self.file),
            len: self.len,
            contents: Arc::clone(&self.contents),
            lane,
            position,
            next: 0,
            next_event: 0,
            stored: Vec::new(),
            decompressor: ChunkDecompressor::new().doing("decompress", &self.path)?,
            logged: 0,
        })
    }

    /// Reads the whole log and verifies every checksum, and the index against the
    /// log. `progress` is told the bytes done and the bytes in all.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], [`StoreError::Io`].
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), StoreError> {
        if self.len < FILE_HEADER_BYTES as u64 {
            return Ok(());
        }
        let log = Log { file: &self.file, path: &self.path, len: self.len };
        scan(log, &mut |done| progress(done, self.len)).map(|_| ())
    }
}

/// The parts of a trace before its records.
struct Opened {
    path: PathBuf,
    file: File,
    len: u64,
    meta: Meta,
    /// `None` if the log ends inside the file's header.
    header: Option<()>,
}

fn open_parts(dir: &Path) -> Result<Opened, StoreError> {
    let (meta_path, path) = (dir.join(META_NAME), dir.join(EVENTS_NAME));
    let missing = |error: io::Error, path: &Path, why| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            StoreError::NotATrace { path: dir.to_owned(), why }
        }
        _ => StoreError::io("read", path, error),
    };
    let json = disk::read_bounded(&meta_path, META_BYTES_MAX)
        .map_err(|error| missing(error, &meta_path, "it has no trace.json"))?
        .ok_or(StoreError::NotATrace { path: dir.to_owned(), why: "its trace.json is too large" })?;
    let file = disk::open_regular(&path).map_err(|error| missing(error, &path, "it has no events.rvt"))?;
    let len = file.metadata().doing("read", &path)?.len();

    let log = Log { file: &file, path: &path, len };
    let mut bytes = [0; FILE_HEADER_BYTES];
    let header = if len < FILE_HEADER_BYTES as u64 {
        None
    } else {
        file.read_exact_at(&mut bytes, 0).doing("read", &path)?;
        Some(parse_file_header(&bytes).map_err(|bad| log.bad_header(0, bad))?)
    };
    if header.is_some_and(|meta_sum| !meta_fits(&json, meta_sum)) {
        return Err(other_version(&json, &meta_path).unwrap_or(StoreError::Damaged {
            path: meta_path,
            offset: 0,
            what: "it is not what the recorder wrote",
        }));
    }
    if let Some(error) = other_version(&json, &meta_path) {
        return Err(error);
    }
    let meta = serde_json::from_slice(&json).map_err(|_| {
        other_version(&json, &meta_path).unwrap_or(StoreError::Damaged {
            path: meta_path.clone(),
            offset: 0,
            what: "it does not describe a trace",
        })
    })?;
    Ok(Opened { path, file, len, meta, header: header.map(|_| ()) })
}

/// The error for a `trace.json` that a version wrote whose traces are not read, if one did.
fn other_version(json: &[u8], path: &Path) -> Option<StoreError> {
    #[derive(serde::Deserialize)]
    struct Format {
        format: u32,
    }
    let found = serde_json::from_slice::<Format>(json).ok()?.format;
    (!is_read(found)).then(|| StoreError::version(path, found))
}

/// The record that ends a complete trace: its last bytes.
fn end_record(log: Log<'_>) -> Result<Option<RecordHeader>, StoreError> {
    let Some(offset) = log.len.checked_sub(RECORD_HEADER_BYTES as u64) else {
        return Ok(None);
    };
    if offset < FILE_HEADER_BYTES as u64 {
        return Ok(None);
    }
    Ok(log.header(offset)?.ok().filter(|header| header.kind == RecordKind::End && header.stored_bytes == 0))
}

/// Reads the record at `offset`, which ends before the end record. Returns the
/// offset after it.
fn read_record(
    log: Log<'_>,
    offset: u64,
    kind: RecordKind,
    payload: &mut Vec<u8>,
) -> Result<u64, StoreError> {
    let records_end = log.len - RECORD_HEADER_BYTES as u64;
    let room = records_end.saturating_sub(offset);
    if offset < FILE_HEADER_BYTES as u64 || room < RECORD_HEADER_BYTES as u64 {
        return Err(log.damaged(offset, "the index is not where it should be"));
    }
    let header = log.header(offset)?.map_err(|bad| log.bad_header(offset, bad))?;
    if header.kind != kind || header.record_bytes() > room {
        return Err(log.damaged(offset, "the index is not whole"));
    }
    if !log.payload(offset, &header, payload)? {
        return Err(log.damaged(offset, "the checksum of the index is wrong"));
    }
    Ok(offset + header.record_bytes())
}

fn read_closing(log: Log<'_>, end: &RecordHeader) -> Result<Closing, StoreError> {
    let mut payload = Vec::new();
    let after = read_record(log, end.first_event, RecordKind::Summary, &mut payload)?;
    if after != log.len - RECORD_HEADER_BYTES as u64 {
        return Err(log.damaged(after, "there are bytes between the summary and the end"));
    }
    parse_closing(&payload).map_err(|what| log.damaged(end.first_event, what))
}

fn read_by_index(log: Log<'_>, end: &RecordHeader) -> Result<Scan, StoreError> {
    let closing = read_closing(log, end)?;
    let (index_offset, summary_offset) = (end.number, end.first_event);
    let (mut bytes, mut payload) = (Vec::new(), Vec::new());
    let mut at = index_offset;
    while at < summary_offset {
        at = read_record(log, at, RecordKind::Index, &mut payload)?;
        bytes.extend_from_slice(&payload);
    }
    let contents = index::parse(&bytes, index_offset)
        .filter(|_| at == summary_offset)
        .ok_or_else(|| log.damaged(index_offset, "the index contradicts itself"))?;
    Ok(Scan { contents, closing: Some(closing), cut: None })
}

/// What a listing shows of a trace, read without its index.
pub(crate) struct Glance {
    pub meta: Meta,
    /// `None`: the trace is cut.
    pub closing: Option<Closing>,
    pub recording: bool,
}

/// Reads a trace's description and its summary only.
pub(crate) fn glance(dir: &Path) -> Result<Glance, StoreError> {
    let Opened { path, file, len, meta, header } = open_parts(dir)?;
    let log = Log { file: &file, path: &path, len };
    let end = if header.is_some() { end_record(log)? } else { None };
    let closing = end.map(|end| read_closing(log, &end)).transpose()?;
    let recording = closing.is_none() && disk::is_locked(&file, &path);
    Ok(Glance { meta, closing, recording })
}

/// Reads one lane's chunks in their order.
pub struct LaneReader {
    path: Arc<Path>,
    file: Arc<File>,
    len: u64,
    contents: Arc<Contents>,
    lane: u32,
    /// Of the lane in the contents.
    position: usize,
    next: usize,
    next_event: u64,
    stored: Vec<u8>,
    decompressor: ChunkDecompressor,
    logged: u32,
}

impl LaneReader {
    /// When the chunk that was read last was logged, in milliseconds since the recording started:
    /// the newest of its events happened at most 50 ms before. `None` where that is not known.
    pub fn logged(&self) -> Option<u32> {
        self.logged.checked_sub(1)
    }

    /// Replaces `into` by the events of the next chunk, and returns how many they
    /// are; `None` at the end of the log.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] or [`StoreError::Io`]: `into` is empty, and the
    /// next call tries the same chunk again.
    pub fn next_chunk(&mut self, into: &mut Vec<u8>) -> Result<Option<u64>, StoreError> {
        into.clear();
        let Some(place) = self.contents.chunks[self.position].get(self.next).copied() else {
            return Ok(None);
        };
        if let Err(error) = self.read(place, into) {
            into.clear();
            return Err(error);
        }
        self.next += 1;
        // The sum over the lane was checked when its contents were made.
        self.next_event += place.events;
        Ok(Some(place.events))
    }

    /// Passes over chunks that end within the first `bytes` of the log, from where it
    /// stands, and returns how many bytes those are.
    pub fn skip(&mut self, bytes: u64) -> u64 {
        let mut skipped = 0;
        while let Some(place) = self.contents.chunks[self.position].get(self.next)
            && skipped + u64::from(place.raw_bytes) <= bytes
        {
            skipped += u64::from(place.raw_bytes);
            self.next += 1;
            self.next_event += place.events;
        }
        skipped
    }

    /// Index in the lane of the next chunk's first event.
    pub fn next_event(&self) -> u64 {
        self.next_event
    }

    fn read(&mut self, place: ChunkPlace, into: &mut Vec<u8>) -> Result<(), StoreError> {
        let log = Log { file: &self.file, path: &self.path, len: self.len };
        let damaged = |what| log.damaged(place.offset, what);
        // The contents guarantee that the record lies in the file and that its
        // length is bounded; its bytes may still be anything.
        self.stored.resize(RECORD_HEADER_BYTES + place.stored_bytes as usize, 0);
        self.file.read_exact_at(&mut self.stored, place.offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("the file became shorter"),
            _ => StoreError::io("read", &self.path, error),
        })?;
        let (header, payload) =
            self.stored.split_first_chunk().ok_or_else(|| damaged("the record has no header"))?;
        let header = RecordHeader::parse(header, place.offset)
            .map_err(|bad: BadHeader| log.bad_header(place.offset, bad))?;
        let expected = (RecordKind::Chunk, self.lane, self.next as u64, self.next_event, place);
        let found = (header.kind, header.lane, header.number, header.first_event, header.place(place.offset));
        if found != expected {
            return Err(damaged("the index speaks of another chunk"));
        }
        self.logged = header.logged;
        if !payload_fits(&header, payload) {
            return Err(damaged("the checksum of a chunk is wrong"));
        }
        if !header.is_compressed() {
            into.extend_from_slice(payload);
        } else if !self.decompressor.restore(payload, header.raw_bytes as usize, into) {
            return Err(damaged("a chunk cannot be decompressed"));
        }
        Ok(())
    }
}
