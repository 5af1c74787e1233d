//! Writing a trace while the program runs.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::compress::{ChunkCompressor, Pressure};
use crate::contents::{Contents, Entry, FileEntry, LaneEnd, LaneInfo, TraceFile};
use crate::disk;
use crate::error::{Doing, StoreError};
use crate::index;
use crate::meta::{Closing, Meta, Summary, Totals};
use crate::reader::TraceReader;
use crate::record::{
    CHUNK_BYTES_MAX, COMPRESSED, FILE_HEADER_BYTES, FORMAT_VERSION, RECORD_HEADER_BYTES, RecordHeader,
    RecordKind, encode_entry, file_header, payload_sum,
};

/// Name of the description in a trace's directory.
pub(crate) const META_NAME: &str = "trace.json";
/// Name of the log in a trace's directory.
pub(crate) const EVENTS_NAME: &str = "events.rvt";
/// Name of the directory of kept files in a trace's directory.
pub(crate) const FILES_NAME: &str = "files";

/// Name of the recorder's memory in a trace's directory, while it records and where it was killed.
pub const RINGS_NAME: &str = "rings";

/// A trace that is to be written on.
pub enum Resumed {
    /// It was cut: it goes on behind its last whole record.
    Cut { writer: Box<TraceWriter>, meta: Box<Meta> },
    /// It is complete.
    Whole,
    /// Somebody writes it at this moment.
    BeingRecorded,
}

/// Writes one trace. Dropped without [`TraceWriter::finish`], it leaves a trace
/// that is cut after its last whole record, as a crash would.
///
/// Records are written in place behind the last whole one. A write that fails
/// half-way (a full disk) is therefore never part of the trace.
pub struct TraceWriter {
    file: File,
    path: PathBuf,
    /// End of the last whole record.
    end: u64,
    contents: Contents,
    /// Lanes that lost a chunk: appending more would leave a hole in their log.
    broken: HashSet<u32>,
    compressor: ChunkCompressor,
    record: Vec<u8>,
    /// When the recording started.
    started: SystemTime,
}

impl TraceWriter {
    /// Starts a trace in a directory that does not exist, or is empty. Makes it
    /// readable by its owner only, with an empty directory for kept files.
    ///
    /// The log comes first and `trace.json` last: a directory with a
    /// `trace.json` is a trace.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`], [`StoreError::DiskFull`], [`StoreError::Io`].
    pub fn create(dir: &Path, meta: &Meta) -> Result<TraceWriter, StoreError> {
        disk::make_empty_dir(dir)?;
        let files_dir = dir.join(FILES_NAME);
        disk::make_dir(&files_dir).doing("create", &files_dir)?;

        let meta_path = dir.join(META_NAME);
        let json = serde_json::to_vec_pretty(&Meta { format: FORMAT_VERSION, ..meta.clone() })
            .map_err(|error| StoreError::io("describe", &meta_path, error.into()))?;
        let path = dir.join(EVENTS_NAME);
        let file = disk::create_file(&path)?;
        // Held as long as the recorder lives: it tells a trace that is being
        // recorded from one whose recorder was killed.
        disk::try_lock(&file, &path, true)?;
        file.write_all_at(&file_header(payload_sum(&json)), 0).doing("write", &path)?;
        disk::write_whole(&meta_path, &[&json])?;

        let compressor = ChunkCompressor::new().doing("compress", &path)?;
        Ok(TraceWriter {
            file,
            path,
            end: FILE_HEADER_BYTES as u64,
            contents: Contents::default(),
            broken: HashSet::new(),
            compressor,
            record: Vec::new(),
            started: meta.started_at(),
        })
    }

    /// Goes on with a trace whose recorder is gone, behind its last whole record.
    ///
    /// # Errors
    /// As for reading a trace; [`StoreError::Io`] where it may not be written.
    pub fn resume(dir: &Path) -> Result<Resumed, StoreError> {
        let path = dir.join(EVENTS_NAME);
        let file = disk::open_to_change(&path)?;
        if !disk::try_lock(&file, &path, true)? {
            return Ok(Resumed::BeingRecorded);
        }
        let (meta, contents, cut) = TraceReader::open(dir)?.into_parts();
        let Some(cut) = cut else { return Ok(Resumed::Whole) };
        if cut.offset < FILE_HEADER_BYTES as u64 {
            return Err(StoreError::Damaged { path, offset: 0, what: "it ends inside of its header" });
        }
        let compressor = ChunkCompressor::new().doing("compress", &path)?;
        let writer = Box::new(TraceWriter {
            file,
            path,
            end: cut.offset,
            contents,
            broken: HashSet::new(),
            compressor,
            record: Vec::new(),
            started: meta.started_at(),
        });
        Ok(Resumed::Cut { writer, meta: Box::new(meta) })
    }

    /// The lanes so far.
    pub fn lanes(&self) -> &[LaneInfo] {
        &self.contents.lanes
    }

    /// What is known of a lane.
    pub fn lane_info(&self, lane: u32) -> Option<LaneInfo> {
        self.contents.position(lane).map(|position| self.contents.lanes[position].clone())
    }

    /// When the log changed last.
    pub fn changed(&self) -> Option<SystemTime> {
        self.file.metadata().and_then(|about| about.modified()).ok()
    }

    /// Chooses how hard the following chunks are compressed.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the compressor does not take the level.
    pub fn set_pressure(&mut self, pressure: Pressure) {
        self.compressor.set_pressure(pressure);
    }

    /// Announces a lane. `parent` is [`crate::NO_PARENT`] if no recorded lane made it.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if the lane has begun already, or as for any write.
    pub fn begin_lane(&mut self, lane: u32, parent: u32, pid: i32) -> Result<(), StoreError> {
        self.append_entry(Entry::Begin { lane, parent, pid }, |what| StoreError::Refused { lane, what })
    }

    /// Says how a lane ended; nothing can be appended to it afterwards.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if the lane is not open, or as for any write.
    pub fn end_lane(&mut self, lane: u32, end: LaneEnd) -> Result<(), StoreError> {
        self.append_entry(Entry::End { lane, end }, |what| StoreError::Refused { lane, what })
    }

    /// How a lane ended becomes known after its end: the index will say it. A trace
    /// that is cut before its index does not.
    pub fn learn_end(&mut self, lane: u32, end: LaneEnd) {
        self.contents.learn_end(lane, end);
    }

    /// Names a kept file that events refer to by `id`. Its content is put into
    /// the trace by [`crate::FileStore::link_into`].
    ///
    /// # Errors
    /// [`StoreError::RefusedFile`] if the id is taken or the path longer than
    /// 4096 bytes, or as for any write.
    pub fn add_file(&mut self, id: u32, file: &FileEntry) -> Result<(), StoreError> {
        let entry = Entry::File(TraceFile { id, file: file.clone() });
        self.append_entry(entry, |what| StoreError::RefusedFile { id, what })
    }

    /// Appends one chunk: `events` whole events, `bytes` long, at most
    /// [`CHUNK_BYTES_MAX`]. Nothing happens if there are no bytes.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`] or [`StoreError::Io`]: the chunk is not in the
    /// trace, and the lane takes no more of them. [`StoreError::Refused`] if the
    /// lane is not open, has lost a chunk, or the chunk is too large.
    pub fn append(&mut self, lane: u32, events: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.append_chunk(lane, events, bytes, 0)
    }

    /// As [`append`](TraceWriter::append), for a chunk that has just been logged: it keeps the time.
    ///
    /// # Errors
    /// As for [`append`](TraceWriter::append).
    pub fn append_now(&mut self, lane: u32, events: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let since = self.started.elapsed().unwrap_or_default().as_millis();
        self.append_chunk(lane, events, bytes, u32::try_from(since).map_or(0, |ms| ms.saturating_add(1)))
    }

    /// As [`append`](TraceWriter::append), for a chunk of another trace: with what is known of its time.
    pub(crate) fn append_logged(
        &mut self,
        lane: u32,
        events: u64,
        bytes: &[u8],
        logged: Option<u32>,
    ) -> Result<(), StoreError> {
        self.append_chunk(lane, events, bytes, logged.map_or(0, |ms| ms.saturating_add(1)))
    }

    fn append_chunk(&mut self, lane: u32, events: u64, bytes: &[u8], logged: u32) -> Result<(), StoreError> {
        let refused = |what| StoreError::Refused { lane, what };
        if bytes.is_empty() && events == 0 {
            return Ok(());
        }
        if bytes.len() > CHUNK_BYTES_MAX {
            return Err(refused("a chunk is larger than 8 MiB"));
        }
        if self.broken.contains(&lane) {
            return Err(refused("an earlier chunk of it could not be written"));
        }
        let (number, first_event) = self.contents.next_chunk(lane).map_err(refused)?;

        self.record.clear();
        self.record.resize(RECORD_HEADER_BYTES, 0);
        let compressed = self.compressor.store(bytes, &mut self.record);
        let plain = RecordHeader::plain(RecordKind::Chunk, lane, &self.record[RECORD_HEADER_BYTES..]);
        let header = RecordHeader {
            flags: if compressed { COMPRESSED } else { 0 },
            raw_bytes: u32::try_from(bytes.len()).expect("it was bounded above"),
            number,
            first_event,
            events,
            logged,
            ..plain
        };
        let place = header.place(self.end);
        if let Err(error) = self.write_record(&header) {
            self.broken.insert(lane);
            return Err(error);
        }
        self.contents.add_chunk(lane, place).map_err(refused)
    }

    /// Writes the index and marks the trace complete.
    ///
    /// # Errors
    /// As for any write; the trace is then readable, and cut.
    pub fn finish(mut self, summary: &Summary) -> Result<Totals, StoreError> {
        let index_offset = self.end;
        for (number, part) in (0..).zip(index::encode(&self.contents).chunks(index::PART_BYTES_MAX)) {
            let header = RecordHeader { number, ..RecordHeader::plain(RecordKind::Index, 0, part) };
            self.write_with_payload(&header, part)?;
        }
        let summary_offset = self.end;
        let totals = self.contents.totals();
        let closing = serde_json::to_vec(&Closing { summary: summary.clone(), totals })
            .map_err(|error| StoreError::io("describe", &self.path, error.into()))?;
        if closing.len() > CHUNK_BYTES_MAX {
            let source =
                std::io::Error::new(std::io::ErrorKind::InvalidInput, "the summary is larger than 8 MiB");
            return Err(StoreError::io("write", &self.path, source));
        }
        self.write_with_payload(&RecordHeader::plain(RecordKind::Summary, 0, &closing), &closing)?;
        // Half a record that failed to be written may lie behind the end.
        self.file.set_len(self.end).doing("write", &self.path)?;
        let end = RecordHeader {
            number: index_offset,
            first_event: summary_offset,
            ..RecordHeader::plain(RecordKind::End, 0, &[])
        };
        self.write_with_payload(&end, &[])?;
        // A process that is just being started may have the file for a moment still.
        disk::unlock(&self.file);
        if !disk::is_at(&self.file, &self.path) {
            return Err(StoreError::Removed { path: self.path });
        }
        Ok(totals)
    }

    /// Bytes that the log's file system has left for this user; `None` if it does not tell.
    pub fn free_bytes(&self) -> Option<u64> {
        let about = rustix::fs::fstatvfs(&self.file).ok()?;
        Some(about.f_bavail.saturating_mul(about.f_frsize))
    }

    /// Bytes of the log so far.
    pub fn written_bytes(&self) -> u64 {
        self.end
    }

    fn append_entry(
        &mut self,
        entry: Entry,
        refused: impl Fn(&'static str) -> StoreError,
    ) -> Result<(), StoreError> {
        self.contents.check(&entry).map_err(&refused)?;
        let (kind, lane, payload) = encode_entry(&entry);
        self.write_with_payload(&RecordHeader::plain(kind, lane, &payload), &payload)?;
        self.contents.add(entry).map_err(refused)
    }

    fn write_with_payload(&mut self, header: &RecordHeader, payload: &[u8]) -> Result<(), StoreError> {
        self.record.clear();
        self.record.resize(RECORD_HEADER_BYTES, 0);
        self.record.extend_from_slice(payload);
        self.write_record(header)
    }

    /// Writes `self.record`, whose first bytes are room for the header.
    fn write_record(&mut self, header: &RecordHeader) -> Result<(), StoreError> {
        assert_eq!(self.record.len() as u64, header.record_bytes(), "a header speaks of another payload");
        self.record[..RECORD_HEADER_BYTES].copy_from_slice(&header.encode(self.end));
        match self.file.write_all_at(&self.record, self.end) {
            Ok(()) => {
                self.end += self.record.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Give back the space, so that at least the end can be written.
                let _ = self.file.set_len(self.end);
                Err(StoreError::io("write", &self.path, error))
            }
        }
    }
}
