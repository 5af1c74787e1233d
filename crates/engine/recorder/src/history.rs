//! What a live session remembers: the log of each lane, in memory, by position.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::Path;

use events::{Event, Kind, Tag};
use trace_store::{
    ChunkCompressor, ChunkDecompressor, FileEntry, LaneEnd, Meta, StoreError, Summary, TraceWriter,
};

use crate::log_bytes::{count_in, end_of, events_in, measure};

/// Of what may be in memory a chunk takes this part at most, so that what falls off is about what is too
/// much, but no less than so many bytes.
const CHUNKS_IN_LIMIT: u64 = 32;
const CHUNK_BYTES_MIN: u64 = 16 * 1024;

/// A piece of a lane's log: whole events.
struct Chunk {
    /// Position of its first byte.
    start: u64,
    raw_bytes: usize,
    compressed: bool,
    bytes: Vec<u8>,
}

impl Chunk {
    fn new(compressor: &mut ChunkCompressor, start: u64, raw: &[u8]) -> Chunk {
        let mut bytes = Vec::new();
        let compressed = compressor.store(raw, &mut bytes);
        bytes.shrink_to_fit();
        Chunk { start, raw_bytes: raw.len(), compressed, bytes }
    }

    fn raw(start: u64, mut bytes: Vec<u8>) -> Chunk {
        bytes.shrink_to_fit();
        Chunk { start, raw_bytes: bytes.len(), compressed: false, bytes }
    }

    /// Position behind its last byte.
    fn end(&self) -> u64 {
        self.start + self.raw_bytes as u64
    }
}

/// The log of a lane.
struct LaneHistory {
    parent: u32,
    pid: i32,
    end: Option<LaneEnd>,
    chunks: VecDeque<Chunk>,
    /// Position behind the last byte.
    position: u64,
    /// Its oldest part fell off.
    lost: bool,
    /// How often it was cut.
    cuts: u64,
}

/// The logs of all lanes, and what else a trace of them needs.
pub(crate) struct History {
    lanes: BTreeMap<u32, LaneHistory>,
    files: BTreeMap<u32, FileEntry>,
    compressor: ChunkCompressor,
    decompressor: ChunkDecompressor,
    stored_bytes: u64,
    /// Bytes after which a chunk ends with the event at hand.
    chunk_bytes: usize,
    /// A process that is about to die, and of which signal.
    dying: Option<(i32, i32)>,
}

impl History {
    /// `bytes_max`: what of the logs is kept.
    pub fn new(bytes_max: Option<u64>) -> std::io::Result<History> {
        let part = bytes_max.map_or(u64::MAX, |bytes| (bytes / CHUNKS_IN_LIMIT).max(CHUNK_BYTES_MIN));
        Ok(History {
            chunk_bytes: usize::try_from(part).unwrap_or(usize::MAX),
            lanes: BTreeMap::new(),
            files: BTreeMap::new(),
            compressor: ChunkCompressor::new()?,
            decompressor: ChunkDecompressor::new()?,
            stored_bytes: 0,
            dying: None,
        })
    }

    pub fn begin_lane(&mut self, lane: u32, parent: u32, pid: i32) {
        let history = LaneHistory {
            parent,
            pid,
            end: None,
            chunks: VecDeque::new(),
            position: 0,
            lost: false,
            cuts: 0,
        };
        self.lanes.insert(lane, history);
    }

    pub fn end_lane(&mut self, lane: u32, end: LaneEnd) {
        if let Some(history) = self.lanes.get_mut(&lane) {
            history.end = Some(end);
        }
    }

    pub fn add_file(&mut self, id: u32, file: &FileEntry) {
        self.files.insert(id, file.clone());
    }

    pub fn append(&mut self, lane: u32, mut raw: &[u8]) {
        let Some(history) = self.lanes.get_mut(&lane) else { return };
        while !raw.is_empty() {
            let (part, rest) = raw.split_at(bytes_of_chunk(raw, self.chunk_bytes));
            let chunk = Chunk::new(&mut self.compressor, history.position, part);
            self.stored_bytes += chunk.bytes.len() as u64;
            history.position += part.len() as u64;
            history.chunks.push_back(chunk);
            raw = rest;
        }
    }

    /// The log from a position on, up to the end of some chunk; `None` at the end,
    /// or where the log does not reach back so far.
    pub fn read(&mut self, lane: u32, position: u64) -> Option<Vec<u8>> {
        let history = self.lanes.get(&lane)?;
        let index = history.chunks.partition_point(|chunk| chunk.end() <= position);
        let chunk = history.chunks.get(index).filter(|chunk| chunk.start <= position)?;
        let raw = restore(&mut self.decompressor, chunk)?;
        Some(raw[(position - chunk.start) as usize..].to_vec())
    }

    /// True if the log reaches from the position to its end.
    pub fn reaches(&self, lane: u32, position: u64) -> bool {
        self.lanes.get(&lane).is_some_and(|history| {
            let first = history.chunks.front().map_or(history.position, |chunk| chunk.start);
            (first..=history.position).contains(&position)
        })
    }

    /// Bytes of a lane's log so far.
    pub fn position(&self, lane: u32) -> u64 {
        self.lanes.get(&lane).map_or(0, |history| history.position)
    }

    /// How often the end of a lane's log was forgotten: what followed took its place.
    pub fn cuts(&self, lane: u32) -> u64 {
        self.lanes.get(&lane).map_or(0, |history| history.cuts)
    }

    /// Forgets a lane's log from a position on, which lies between two events.
    pub fn cut(&mut self, lane: u32, position: u64) {
        let Some(history) = self.lanes.get_mut(&lane) else { return };
        history.end = None;
        history.cuts += 1;
        while history.chunks.back().is_some_and(|chunk| chunk.end() > position)
            && let Some(chunk) = history.chunks.pop_back()
        {
            self.stored_bytes -= chunk.bytes.len() as u64;
            if chunk.start >= position {
                continue;
            }
            if let Some(mut raw) = restore(&mut self.decompressor, &chunk) {
                raw.truncate((position - chunk.start) as usize);
                // The program waits: what is left is not compressed again.
                let rest = Chunk::raw(chunk.start, raw);
                self.stored_bytes += rest.bytes.len() as u64;
                history.chunks.push_back(rest);
            }
        }
        history.position = position;
    }

    /// Forgets what a lane logged before a position, as far as it can be told apart.
    pub fn drop_before(&mut self, lane: u32, position: u64) {
        let Some(history) = self.lanes.get_mut(&lane) else { return };
        while let Some(chunk) = history.chunks.front()
            && chunk.end() <= position
        {
            self.stored_bytes -= chunk.bytes.len() as u64;
            history.chunks.pop_front();
            history.lost = true;
        }
    }

    /// Forgets a lane's oldest chunk.
    pub fn drop_oldest(&mut self, lane: u32) {
        let first = self.lanes.get(&lane).and_then(|history| history.chunks.front());
        if let Some(end) = first.map(Chunk::end) {
            self.drop_before(lane, end);
        }
    }

    /// Forgets the first of the lanes that have ended; false if there is none.
    pub fn drop_ended(&mut self) -> bool {
        let ended = self.lanes.iter().find(|(_, history)| history.end.is_some()).map(|(lane, _)| *lane);
        let Some(history) = ended.and_then(|lane| self.lanes.remove(&lane)) else { return false };
        self.stored_bytes -= history.chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum::<u64>();
        true
    }

    /// Bytes of memory that the logs take.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Bytes of memory that a lane's log takes from a position on.
    pub fn stored_since(&self, lane: u32, position: u64) -> u64 {
        let Some(history) = self.lanes.get(&lane) else { return 0 };
        let since = history.chunks.iter().rev().take_while(|chunk| chunk.start >= position);
        since.map(|chunk| chunk.bytes.len() as u64).sum()
    }

    /// The lane of a process, the last if there were several.
    pub fn lane_of(&self, pid: i32) -> Option<u32> {
        self.lanes.iter().rev().find(|(_, history)| history.pid == pid).map(|(lane, _)| *lane)
    }

    /// What is told of a lane: its parent, its process, its end.
    pub fn facts(&self, lane: u32) -> Option<(u32, i32, Option<LaneEnd>)> {
        self.lanes.get(&lane).map(|history| (history.parent, history.pid, history.end))
    }

    /// Lanes that there are.
    pub fn lanes(&self) -> Vec<u32> {
        self.lanes.keys().copied().collect()
    }

    /// True if the lane reaches back to its beginning.
    pub fn is_lane_whole(&self, lane: u32) -> bool {
        self.lanes.get(&lane).is_some_and(|history| !history.lost)
    }

    /// True if what a lane logged before the position fell off, and some after it too.
    pub fn has_lost(&self, lane: u32, position: u64) -> bool {
        self.lanes.get(&lane).is_some_and(|history| {
            history.lost && history.chunks.front().map_or(history.position, |chunk| chunk.start) > position
        })
    }

    /// The lanes of the processes that a lane made from a position on.
    pub fn made_since(&mut self, lane: u32, position: u64) -> BTreeSet<u32> {
        let mut made = BTreeSet::new();
        let mut at = position;
        while let Some(log) = self.read(lane, at) {
            at += log.len() as u64;
            for event in events_in(&log) {
                let children = event.blobs().filter(|blob| blob.tag == Tag::Child);
                made.extend(
                    children
                        .filter_map(|blob| Some(u32::from_le_bytes(blob.data.get(..4)?.try_into().ok()?))),
                );
            }
        }
        made
    }

    /// A process is about to die of a signal, and what leads there is saved.
    pub fn note_dying(&mut self, dying: Option<(i32, i32)>) {
        self.dying = dying;
    }

    /// Writes all that there is as a trace.
    pub fn save(
        &mut self,
        dir: &Path,
        meta: &Meta,
        files_dir: &Path,
        summary: &Summary,
    ) -> Result<u64, StoreError> {
        let mut writer = TraceWriter::create(dir, meta)?;
        self.write_files(&mut writer, dir, files_dir)?;
        let mut events = 0;
        for lane in self.lanes() {
            let Some((parent, pid, _)) = self.facts(lane) else { continue };
            writer.begin_lane(lane, parent, pid)?;
            if self.is_lane_whole(lane) {
                events += self.write_lane(&mut writer, lane, lane, 0)?;
            }
        }
        writer.finish(summary)?;
        Ok(events)
    }

    /// Puts all kept files into a trace.
    pub fn write_files(
        &self,
        writer: &mut TraceWriter,
        dir: &Path,
        files_dir: &Path,
    ) -> Result<(), StoreError> {
        for (id, file) in &self.files {
            let name = trace_store::hash_hex(&file.hash);
            let target = dir.join("files").join(&name);
            let source = files_dir.join(&name);
            match std::fs::hard_link(&source, &target) {
                // Another of the files has the same content. It is this very one: a copy would
                // begin by cutting it.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(_) => {
                    std::fs::copy(&source, &target)
                        .map_err(|error| StoreError::io("keep", &target, error))?;
                }
                Ok(()) => {}
            }
            writer.add_file(*id, file)?;
        }
        Ok(())
    }

    /// Writes a lane's log from a position on, and its end, as that of the lane `to`, which
    /// was begun. Gives the number of events.
    pub fn write_lane(
        &mut self,
        writer: &mut TraceWriter,
        lane: u32,
        to: u32,
        position: u64,
    ) -> Result<u64, StoreError> {
        let mut events = 0;
        let mut at = position;
        let mut last = Vec::new();
        while let Some(raw) = self.read(lane, at) {
            at += raw.len() as u64;
            let count = count_in(&raw);
            writer.append(to, count, &raw)?;
            events += count;
            last = raw;
        }
        // A process may stand at the fault that it will die of.
        let is_fault = |event: &Event| event.kind == Kind::Fault;
        let fatal = || events_in(&last).last().filter(is_fault).and_then(|event| end_of(&event));
        let (pid, end) = self.facts(lane).map_or((0, None), |(_, pid, end)| (pid, end));
        let dying = self.dying.filter(|dying| dying.0 == pid).map(|dying| LaneEnd::Killed(dying.1));
        if let Some(end) = end.or_else(fatal).or(dying) {
            writer.end_lane(to, end)?;
        }
        Ok(events)
    }
}

fn restore(decompressor: &mut ChunkDecompressor, chunk: &Chunk) -> Option<Vec<u8>> {
    if !chunk.compressed {
        return Some(chunk.bytes.clone());
    }
    let mut raw = Vec::new();
    decompressor.restore(&chunk.bytes, chunk.raw_bytes, &mut raw).then_some(raw)
}

/// Bytes of the first events that are so long together; of all where they are shorter.
fn bytes_of_chunk(raw: &[u8], wanted: usize) -> usize {
    if raw.len() <= wanted {
        return raw.len();
    }
    let mut bytes = 0;
    while bytes < wanted {
        match measure(&raw[bytes..]) {
            Some((_, len_bytes)) => bytes += len_bytes,
            None => return raw.len(),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::Header;

    fn event(number: u16) -> Vec<u8> {
        [Header::new(Kind::Syscall, 0, number, 16).to_le_bytes(), u64::from(number).to_le_bytes()].concat()
    }

    #[test]
    fn a_chunk_is_a_part_of_the_limit_and_holds_whole_events() {
        let raw: Vec<u8> = (0..4000).flat_map(event).collect();
        let mut history = History::new(Some(0)).expect("a compressor");
        history.begin_lane(0, u32::MAX, 7);
        history.append(0, &raw);
        let chunks = &history.lanes[&0].chunks;
        let lengths: Vec<usize> = chunks.iter().map(|chunk| chunk.raw_bytes).collect();
        assert_eq!(lengths, [16384, 16384, 16384, 14848]);
        assert_eq!(history.read(0, 16384).map(|read| read.len()), Some(16384));
        assert_eq!(history.position(0), raw.len() as u64);
    }

    fn history() -> History {
        let mut history = History::new(None).expect("a compressor");
        history.begin_lane(0, u32::MAX, 7);
        for first in [0, 4] {
            let raw: Vec<u8> = (first..first + 4).flat_map(event).collect();
            history.append(0, &raw);
        }
        history
    }

    #[test]
    fn a_log_is_read_from_any_position() {
        let mut history = history();
        assert_eq!(history.read(0, 16).map(|raw| raw.len()), Some(48));
        assert_eq!(history.read(0, 64).map(|raw| raw[2]), Some(4));
        assert!(history.read(0, 128).is_none());
        assert!(history.read(1, 0).is_none());
    }

    #[test]
    fn what_is_cut_is_gone_and_the_rest_is_whole() {
        let mut history = history();
        history.cut(0, 80);
        assert_eq!(history.read(0, 64).map(|raw| raw.len()), Some(16));
        assert!(history.read(0, 80).is_none());
        assert!(history.reaches(0, 80) && !history.reaches(0, 81));
        history.append(0, &event(9));
        assert_eq!(history.read(0, 80).map(|raw| raw[2]), Some(9));
    }

    #[test]
    fn the_oldest_goes_first() {
        let mut history = history();
        assert!(history.is_lane_whole(0) && history.stored_since(0, 64) < history.stored_bytes());
        history.drop_before(0, 63);
        assert!(history.is_lane_whole(0));
        history.drop_before(0, 64);
        assert!(history.has_lost(0, 63) && !history.has_lost(0, 64) && !history.is_lane_whole(0));
        assert_eq!(history.stored_since(0, 64), history.stored_bytes());
        history.drop_oldest(0);
        assert!(history.has_lost(0, 64) && history.stored_bytes() == 0);
    }
}
