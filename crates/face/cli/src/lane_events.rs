//! The events of a lane, read from a trace one whole event at a time.
//!
//! An event is taken together with the data events that go on with it, and its
//! blobs with them; of a long blob only the beginning is kept, so that a read of
//! a gigabyte costs no gigabyte here.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use events::{DecodeError, Event, FILTERED, Kind, Tag};
use trace_store::{LaneEnd, LaneReader, TraceFile, TraceReader, hash_hex};

use crate::exit::CommandError;

/// What is kept of a blob, in bytes.
const KEPT_BYTES_MAX: usize = 64 * 1024;
/// The same for the memory of a new image, which holds its arguments.
const KEPT_OF_BIRTH_BYTES_MAX: usize = 4 << 20;
/// Slots of the block cache, as many as a tag's upper half can name.
const CACHE_SLOTS: usize = 1 << 16;
/// Most bytes of the block cache that are kept here.
const CACHE_BYTES_MAX: usize = 64 << 20;

/// One blob of a [`WholeEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobView<'a> {
    pub address: u64,
    pub tag: Tag,
    /// Its length in the log, in bytes.
    pub total_bytes: u64,
    /// Its beginning.
    pub data: &'a [u8],
}

#[derive(Debug, Clone)]
struct KeptBlob {
    address: u64,
    tag: Tag,
    total_bytes: u64,
    start: usize,
    end: usize,
}

/// An event with everything that belongs to it. Reused from event to event.
#[derive(Debug)]
pub struct WholeEvent {
    /// Index in its lane.
    pub index: u64,
    pub kind: Kind,
    pub flags: u8,
    pub code: u16,
    /// When it was logged, in milliseconds since the recording started.
    pub logged: Option<u32>,
    body: Vec<u8>,
    blobs: Vec<KeptBlob>,
    bytes: Vec<u8>,
    /// The file of the trace of which it read a part.
    pub read_file: Option<u32>,
    /// What is kept of each blob, in bytes.
    kept_bytes_max: usize,
}

impl Default for WholeEvent {
    fn default() -> WholeEvent {
        WholeEvent {
            index: 0,
            kind: Kind::Data,
            flags: 0,
            code: 0,
            logged: None,
            body: Vec::new(),
            blobs: Vec::new(),
            bytes: Vec::new(),
            read_file: None,
            kept_bytes_max: KEPT_BYTES_MAX,
        }
    }
}

impl WholeEvent {
    /// One that keeps blobs whole, up to this many bytes.
    pub fn keeping(kept_bytes_max: usize) -> WholeEvent {
        WholeEvent { kept_bytes_max, ..WholeEvent::default() }
    }

    /// The event without its blobs.
    pub fn event(&self) -> Event<'_> {
        Event { kind: self.kind, flags: self.flags, code: self.code, body: &self.body }
    }

    /// Its blobs, in the order of the log.
    pub fn blobs(&self) -> impl Iterator<Item = BlobView<'_>> {
        self.blobs.iter().map(|blob| BlobView {
            address: blob.address,
            tag: blob.tag,
            total_bytes: blob.total_bytes,
            data: &self.bytes[blob.start..blob.end],
        })
    }

    /// The first blob with this tag.
    pub fn blob(&self, tag: Tag) -> Option<BlobView<'_>> {
        self.blobs().find(|blob| blob.tag == tag)
    }

    /// The memory that the kernel wrote at this address.
    pub fn memory(&self, address: u64) -> Option<BlobView<'_>> {
        self.blobs().find(|blob| blob.address == address && blob.tag == Tag::Memory)
    }

    /// The lane of the process that the call made.
    pub fn child_lane(&self) -> Option<u32> {
        self.blob(Tag::Child).and_then(|blob| word32(blob.data, 0))
    }

    /// Class and place in the order of all outputs, if the call wrote to the
    /// recorded standard output or error.
    pub fn output(&self) -> Option<(u32, u64)> {
        let data = self.blob(Tag::Output)?.data;
        Some((word32(data, 0)?, u64::from_le_bytes(data.get(8..16)?.try_into().ok()?)))
    }

    /// True for a system call that a seccomp filter of the program's own held back.
    pub fn is_filtered(&self) -> bool {
        self.kind == Kind::Syscall && self.flags & FILTERED == FILTERED
    }

    /// True for a system call with this flag.
    pub fn has_flag(&self, flag: u8) -> bool {
        self.kind == Kind::Syscall && self.flags & flag != 0
    }

    fn begin(&mut self, event: &Event<'_>, index: u64, cache: &mut BlockCache, files: &mut KeptFiles) {
        self.index = index;
        (self.kind, self.flags, self.code) = (event.kind, event.flags, event.code);
        self.body.clear();
        self.body.extend_from_slice(&event.body[..event.fixed_bytes()]);
        self.blobs.clear();
        self.bytes.clear();
        self.read_file = None;
        self.add_blobs(event, cache, files);
    }

    fn add_blobs(&mut self, event: &Event<'_>, cache: &mut BlockCache, files: &mut KeptFiles) {
        let kept_max = match self.kind {
            Kind::Birth => KEPT_OF_BIRTH_BYTES_MAX.max(self.kept_bytes_max),
            _ => self.kept_bytes_max,
        };
        for blob in event.blobs() {
            let part;
            let (tag, data, total_bytes) = match blob.tag {
                Tag::FilePart => {
                    let (bytes, begin) = files.part(blob.data, kept_max);
                    self.read_file = word32(blob.data, 0);
                    part = begin;
                    (Tag::Memory, part.as_slice(), bytes)
                }
                Tag::MemoryToCache => {
                    cache.put(blob.extra, blob.data);
                    (Tag::Memory, blob.data, blob.data.len() as u64)
                }
                Tag::Cached => {
                    let (slot, bytes) = (word32(blob.data, 0), word32(blob.data, 4));
                    (Tag::Memory, cache.get(slot.unwrap_or(0)), u64::from(bytes.unwrap_or(0)))
                }
                Tag::Memory
                | Tag::Text
                | Tag::Sent
                | Tag::FileRef
                | Tag::Output
                | Tag::Child
                | Tag::Vectors
                | Tag::FileSize
                | Tag::Thread
                | Tag::Actions
                | Tag::ThreadState
                | Tag::ResumeState
                | Tag::SharedMap
                | Tag::Zeros
                | Tag::Part
                | Tag::Real
                | Tag::Ranges
                | Tag::Words => (blob.tag, blob.data, blob.data.len() as u64),
            };
            // A blob that was too long for one event goes on where it ended.
            let goes_on = event.kind == Kind::Data
                && self.blobs.last().is_some_and(|last| {
                    last.tag == tag
                        && last.total_bytes > 0
                        && last.address.wrapping_add(last.total_bytes) == blob.address
                });
            if !goes_on {
                let start = self.bytes.len();
                self.blobs.push(KeptBlob { address: blob.address, tag, total_bytes: 0, start, end: start });
            }
            if let Some(last) = self.blobs.last_mut() {
                let kept = last.end - last.start;
                // Bytes that do not follow the kept ones directly would lie.
                let more = if kept as u64 == last.total_bytes { data.len().min(kept_max - kept) } else { 0 };
                self.bytes.extend_from_slice(&data[..more]);
                last.end += more;
                last.total_bytes += total_bytes;
            }
        }
    }
}

/// The word of 32 bits at a place.
pub fn word32(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

/// The block cache of a lane, as the log fills it.
#[derive(Default)]
struct BlockCache {
    slots: Vec<Vec<u8>>,
    kept_bytes: usize,
}

impl BlockCache {
    fn put(&mut self, slot: u16, data: &[u8]) {
        if self.slots.is_empty() {
            self.slots.resize(CACHE_SLOTS, Vec::new());
        }
        let kept = &mut self.slots[usize::from(slot)];
        self.kept_bytes -= kept.len();
        kept.clear();
        if self.kept_bytes + data.len() <= CACHE_BYTES_MAX {
            kept.extend_from_slice(data);
            self.kept_bytes += data.len();
        }
    }

    fn get(&self, slot: u32) -> &[u8] {
        self.slots.get(slot as usize).map_or(&[], Vec::as_slice)
    }
}

/// The trace's files, of which events name parts.
struct KeptFiles {
    paths: HashMap<u64, PathBuf>,
    /// Those that were named.
    open: HashMap<u64, Option<File>>,
}

impl KeptFiles {
    fn of(trace: &TraceReader) -> KeptFiles {
        let dir = trace.files_dir();
        let path = |kept: &TraceFile| (u64::from(kept.id), dir.join(hash_hex(&kept.file.hash)));
        KeptFiles { paths: trace.files().iter().map(path).collect(), open: HashMap::new() }
    }

    /// The length of the part that a blob names, and its beginning: at most so many bytes, and none
    /// of a file that is not there.
    fn part(&mut self, words: &[u8], bytes_max: usize) -> (u64, Vec<u8>) {
        let word = |at: usize| Some(u64::from_le_bytes(words.get(at..at + 8)?.try_into().ok()?));
        let (Some(id), Some(offset), Some(bytes)) = (word(0), word(8), word(16)) else {
            return (0, Vec::new());
        };
        let file = self.open.entry(id).or_insert_with(|| File::open(self.paths.get(&id)?).ok());
        let mut begin = vec![0; bytes_max.min(usize::try_from(bytes).unwrap_or(bytes_max))];
        let is_read = file.as_ref().is_some_and(|file| file.read_exact_at(&mut begin, offset).is_ok());
        (bytes, if is_read { begin } else { Vec::new() })
    }
}

/// Reads a lane's events from its beginning.
pub struct LaneEvents {
    lane: u32,
    reader: LaneReader,
    /// The lane ends where its last event says so. Of a process that was killed, and of
    /// a trace that is cut, the last event may lack its end: that is no damage.
    ends_by_itself: bool,
    chunk: Vec<u8>,
    next: Vec<u8>,
    at: usize,
    index: u64,
    cache: BlockCache,
    files: KeptFiles,
    /// Bytes of the events that were read.
    position_bytes: u64,
}

impl LaneEvents {
    /// Starts to read.
    pub fn open(trace: &TraceReader, lane: u32) -> Result<LaneEvents, CommandError> {
        tracing::trace!(lane, "reading the lane");
        let end = trace.lane_info(lane).and_then(|info| info.end);
        Ok(LaneEvents {
            lane,
            reader: trace.lane(lane)?,
            ends_by_itself: matches!(end, Some(LaneEnd::Exited(_))),
            chunk: Vec::new(),
            next: Vec::new(),
            at: 0,
            index: 0,
            cache: BlockCache::default(),
            files: KeptFiles::of(trace),
            position_bytes: 0,
        })
    }

    /// Bytes of the log up to the end of the event that was read last.
    pub fn position_bytes(&self) -> u64 {
        self.position_bytes
    }

    /// Replaces `into` by the next event; false at the end of the log.
    pub fn read(&mut self, into: &mut WholeEvent) -> Result<bool, CommandError> {
        let mut is_open = false;
        loop {
            let (event, len_bytes) = match Event::parse(&self.chunk[self.at..]) {
                Ok(parsed) => parsed,
                Err(DecodeError::Truncated) => {
                    if self.refill()? {
                        continue;
                    }
                    let is_rest = is_open || self.at < self.chunk.len();
                    return if is_rest && self.ends_by_itself {
                        Err(self.bad(DecodeError::Truncated))
                    } else {
                        Ok(false)
                    };
                }
                Err(error) => return Err(self.bad(error)),
            };
            match (event.kind, is_open) {
                (Kind::Data, true) => into.add_blobs(&event, &mut self.cache, &mut self.files),
                // Data of nothing says nothing.
                (Kind::Data, false) => {
                    self.take(len_bytes);
                    continue;
                }
                (_, true) => return Err(self.bad(DecodeError::BadBody)),
                (_, false) => into.begin(&event, self.index, &mut self.cache, &mut self.files),
            }
            is_open = event.has_more();
            self.take(len_bytes);
            if !is_open {
                self.index += 1;
                into.logged = self.reader.logged();
                return Ok(true);
            }
        }
    }

    fn take(&mut self, bytes: usize) {
        self.at += bytes;
        self.position_bytes += bytes as u64;
    }

    /// Appends the next chunk to what was not read yet; false at the end.
    fn refill(&mut self) -> Result<bool, CommandError> {
        self.chunk.drain(..self.at);
        self.at = 0;
        if self.reader.next_chunk(&mut self.next)?.is_none() {
            return Ok(false);
        }
        if self.chunk.is_empty() {
            std::mem::swap(&mut self.chunk, &mut self.next);
        } else {
            self.chunk.append(&mut self.next);
        }
        Ok(true)
    }

    fn bad(&self, source: DecodeError) -> CommandError {
        CommandError::BadEvents { lane: self.lane, events: self.index, source }
    }
}
