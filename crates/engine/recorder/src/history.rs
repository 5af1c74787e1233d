//! What a live session remembers: the log of each lane, in memory, by position.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use events::{Event, Kind};
use trace_store::{
    ChunkCompressor, ChunkDecompressor, FileEntry, LaneEnd, Meta, StoreError, Summary, TraceWriter,
};

use crate::lane_log::end_of;

/// A piece of a lane's log: whole events.
struct Chunk {
    /// Position of its first byte.
    start: u64,
    raw_bytes: usize,
    events: u64,
    compressed: bool,
    bytes: Vec<u8>,
}

impl Chunk {
    fn new(compressor: &mut ChunkCompressor, start: u64, events: u64, raw: &[u8]) -> Chunk {
        let mut bytes = Vec::new();
        let compressed = compressor.store(raw, &mut bytes);
        bytes.shrink_to_fit();
        Chunk { start, raw_bytes: raw.len(), events, compressed, bytes }
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
}

/// The logs of all lanes, and what else a trace of them needs.
pub(crate) struct History {
    lanes: BTreeMap<u32, LaneHistory>,
    files: BTreeMap<u32, FileEntry>,
    compressor: ChunkCompressor,
    decompressor: ChunkDecompressor,
    stored_bytes: u64,
}

impl History {
    pub fn new() -> std::io::Result<History> {
        Ok(History {
            lanes: BTreeMap::new(),
            files: BTreeMap::new(),
            compressor: ChunkCompressor::new()?,
            decompressor: ChunkDecompressor::new()?,
            stored_bytes: 0,
        })
    }

    pub fn begin_lane(&mut self, lane: u32, parent: u32, pid: i32) {
        let history = LaneHistory { parent, pid, end: None, chunks: VecDeque::new(), position: 0 };
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

    pub fn append(&mut self, lane: u32, events: u64, raw: &[u8]) {
        let Some(history) = self.lanes.get_mut(&lane) else { return };
        let chunk = Chunk::new(&mut self.compressor, history.position, events, raw);
        self.stored_bytes += chunk.bytes.len() as u64;
        history.position += raw.len() as u64;
        history.chunks.push_back(chunk);
    }

    /// The log from a position on, up to the end of some chunk; `None` at the end,
    /// or where the log does not reach back so far.
    pub fn read(&mut self, lane: u32, position: u64) -> Option<Vec<u8>> {
        let history = self.lanes.get(&lane)?;
        let index = history.chunks.partition_point(|chunk| chunk.start + chunk.raw_bytes as u64 <= position);
        let chunk = history.chunks.get(index).filter(|chunk| chunk.start <= position)?;
        let raw = restore(&mut self.decompressor, chunk)?;
        Some(raw[(position - chunk.start) as usize..].to_vec())
    }

    /// True if something that the lane logged behind the position was dropped. What has not
    /// come here yet was not.
    pub fn has_dropped(&self, lane: u32, position: u64) -> bool {
        self.lanes.get(&lane).is_some_and(|history| {
            let first = history.chunks.front().map_or(history.position, |chunk| chunk.start);
            position < first
        })
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

    /// Forgets a lane's log from a position on, which lies between two events.
    pub fn cut(&mut self, lane: u32, position: u64) {
        let Some(history) = self.lanes.get_mut(&lane) else { return };
        history.end = None;
        while let Some(chunk) = history.chunks.pop_back() {
            self.stored_bytes -= chunk.bytes.len() as u64;
            if chunk.start >= position {
                continue;
            }
            let kept_bytes = ((position - chunk.start) as usize).min(chunk.raw_bytes);
            if let Some(mut raw) = restore(&mut self.decompressor, &chunk) {
                raw.truncate(kept_bytes);
                let events = events_in(&raw).filter(|event| event.kind != Kind::Data).count() as u64;
                let rest = Chunk::new(&mut self.compressor, chunk.start, events, &raw);
                self.stored_bytes += rest.bytes.len() as u64;
                history.chunks.push_back(rest);
            }
            break;
        }
        history.position = position;
    }

    /// Forgets the oldest chunks of ended lanes and of the lane with most of them, until
    /// the logs take no more than so much. A lane that lost its start cannot be saved.
    pub fn keep_below(&mut self, bytes_max: u64) {
        while self.stored_bytes > bytes_max {
            let ended = self.lanes.iter().find(|(_, history)| history.end.is_some()).map(|(lane, _)| *lane);
            if let Some(lane) = ended
                && let Some(history) = self.lanes.remove(&lane)
            {
                self.stored_bytes -= history.chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum::<u64>();
                continue;
            }
            let fullest = self.lanes.values_mut().max_by_key(|history| history.chunks.len());
            let Some(chunk) = fullest.and_then(|history| history.chunks.pop_front()) else { return };
            self.stored_bytes -= chunk.bytes.len() as u64;
        }
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
        for (id, file) in &self.files {
            let name = trace_store::hash_hex(&file.hash);
            let target = dir.join("files").join(&name);
            let source = files_dir.join(&name);
            if std::fs::hard_link(&source, &target).is_err() {
                std::fs::copy(&source, &target).map_err(|error| StoreError::io("keep", &target, error))?;
            }
            writer.add_file(*id, file)?;
        }
        let mut events = 0;
        for (lane, history) in &self.lanes {
            writer.begin_lane(*lane, history.parent, history.pid)?;
            if history.chunks.front().is_none_or(|chunk| chunk.start != 0) {
                continue;
            }
            let mut last = Vec::new();
            for chunk in &history.chunks {
                if let Some(raw) = restore(&mut self.decompressor, chunk) {
                    writer.append(*lane, chunk.events, &raw)?;
                    events += chunk.events;
                    last = raw;
                }
            }
            // A process may stand at the fault that it will die of.
            let is_fault = |event: &Event| event.kind == Kind::Fault;
            let fatal = || events_in(&last).last().filter(is_fault).and_then(|event| end_of(&event));
            if let Some(end) = history.end.or_else(fatal) {
                writer.end_lane(*lane, end)?;
            }
        }
        writer.finish(summary)?;
        Ok(events)
    }

    /// True if all lanes reach back to their beginnings.
    pub fn is_whole(&self) -> bool {
        self.lanes.values().all(|history| history.chunks.front().is_none_or(|chunk| chunk.start == 0))
    }
}

fn restore(decompressor: &mut ChunkDecompressor, chunk: &Chunk) -> Option<Vec<u8>> {
    if !chunk.compressed {
        return Some(chunk.bytes.clone());
    }
    let mut raw = Vec::new();
    decompressor.restore(&chunk.bytes, chunk.raw_bytes, &mut raw).then_some(raw)
}

/// The events of a part of a log, as far as it holds whole ones.
pub(crate) fn events_in(raw: &[u8]) -> impl Iterator<Item = Event<'_>> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let (event, len_bytes) = Event::parse(rest).ok()?;
        rest = &rest[len_bytes..];
        Some(event)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::header;

    fn event(number: u16) -> Vec<u8> {
        [header(Kind::Syscall, 0, number, 16).to_le_bytes(), u64::from(number).to_le_bytes()].concat()
    }

    fn history() -> History {
        let mut history = History::new().expect("a compressor");
        history.begin_lane(0, u32::MAX, 7);
        for first in [0, 4] {
            let raw: Vec<u8> = (first..first + 4).flat_map(event).collect();
            history.append(0, 4, &raw);
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
        history.append(0, 1, &event(9));
        assert_eq!(history.read(0, 80).map(|raw| raw[2]), Some(9));
    }

    #[test]
    fn the_oldest_goes_first() {
        let mut history = history();
        history.keep_below(history.stored_bytes - 1);
        assert!(!history.reaches(0, 0) && history.reaches(0, 64) && !history.is_whole());
    }

    #[test]
    fn what_is_still_to_come_was_not_dropped() {
        let mut history = history();
        assert!(!history.has_dropped(0, 0) && !history.has_dropped(0, 1000) && !history.has_dropped(1, 0));
        history.keep_below(history.stored_bytes - 1);
        assert!(history.has_dropped(0, 63) && !history.has_dropped(0, 64) && !history.has_dropped(0, 1000));
        history.keep_below(0);
        assert!(history.has_dropped(0, 127) && !history.has_dropped(0, 128));
    }
}
