//! The places of a trace's log that are masked.
//!
//! A value may lie in several blobs, and in the results of several calls: what a call passed is searched together
//! with the end of what the same descriptor passed before. Blocks that the log refers to (the block cache) are masked
//! where they stand for the first time. No place moves, and no length changes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use events::{Event, Kind, Tag};
use linux_abi::general as raw;
use trace_store::TraceReader;

use super::secrets::Secrets;
use super::streams::{Passing, Walk};
use crate::exit::CommandError;
use crate::info::in_tree_order;
use crate::lane_events::word32;

/// Of what a program sends the log has so much.
const SENT_BYTES: usize = 48;
/// Place of the tag in a blob's header, which ends where the data begin.
const TAG_BEFORE_DATA: u64 = 4;

/// What stands at a place instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    Bytes(Vec<u8>),
    /// So many bytes are the mask, ends of lines excepted.
    Fill(u64),
}

/// All places, by lane and bytes of its log.
#[derive(Default)]
pub struct Places {
    pub edits: HashMap<u32, BTreeMap<u64, Vec<Edit>>>,
    /// How often each secret was found.
    pub found: BTreeMap<usize, u64>,
    /// Bytes of each stream.
    pub bytes: BTreeMap<usize, u64>,
    /// Kept files of which streams that are masked read parts.
    pub files: HashSet<u32>,
}

/// A block of the cache: where it stands, and what it holds.
type Block = (u32, u64, Rc<Vec<u8>>);

/// Bytes that belong together, and where they stand.
#[derive(Default, Clone)]
struct Joined {
    bytes: Vec<u8>,
    /// Beginning in `bytes`, lane, place in its log.
    pieces: Vec<(usize, u32, u64)>,
}

impl Joined {
    fn add(&mut self, lane: u32, at: u64, data: &[u8]) {
        self.pieces.push((self.bytes.len(), lane, at));
        self.bytes.extend_from_slice(data);
    }

    /// Its last bytes.
    fn tail(&self, bytes: usize) -> Joined {
        let from = self.bytes.len().saturating_sub(bytes);
        let mut tail = Joined::default();
        for (index, &(start, lane, at)) in self.pieces.iter().enumerate() {
            let end = self.pieces.get(index + 1).map_or(self.bytes.len(), |next| next.0);
            if end > from {
                let skipped = from.saturating_sub(start);
                tail.add(lane, at + skipped as u64, &self.bytes[start + skipped..end]);
            }
        }
        tail
    }
}

/// The walk through one lane.
struct LaneWalk<'a> {
    lane: u32,
    secrets: &'a Secrets,
    places: &'a mut Places,
    cache: HashMap<u16, Block>,
    /// What descriptors passed last, by number and way.
    passed: HashMap<(i32, bool), Joined>,
    /// The event at hand: what it passes, of which descriptor and way, and how many bytes of input are left to be filled.
    passing: Option<Passing>,
    key: Option<(i32, bool)>,
    left_bytes: u64,
}

impl Places {
    /// Finds them.
    pub fn of(trace: &TraceReader, walk: &Walk, secrets: &Secrets) -> Result<Places, CommandError> {
        let mut places = Places::default();
        let mut begun: HashMap<u32, HashMap<u16, Block>> = HashMap::new();
        for (position, _) in in_tree_order(trace.lanes()) {
            let lane = trace.lanes()[position].lane;
            let mut lane_walk = LaneWalk {
                lane,
                secrets,
                places: &mut places,
                cache: begun.remove(&lane).unwrap_or_default(),
                passed: HashMap::new(),
                passing: None,
                key: None,
                left_bytes: 0,
            };
            let calls = walk.calls.get(&lane);
            let (mut reader, mut chunk, mut offset, mut index) = (trace.lane(lane)?, Vec::new(), 0, 0);
            while reader.next_chunk(&mut chunk)?.is_some() {
                let mut at = 0;
                while at < chunk.len() {
                    let (event, len_bytes) = Event::parse(&chunk[at..])
                        .map_err(|source| CommandError::BadEvents { lane, events: index, source })?;
                    if event.kind != Kind::Data {
                        lane_walk.begin(&event, calls.and_then(|calls| calls.get(&index)).copied());
                        index += 1;
                    }
                    lane_walk.event(&event, offset + at as u64, &chunk[at..at + len_bytes], &mut begun);
                    at += len_bytes;
                }
                offset += chunk.len() as u64;
            }
        }
        Ok(places)
    }

    fn add(&mut self, lane: u32, at: u64, edit: Edit) {
        self.edits.entry(lane).or_default().entry(at).or_default().push(edit);
    }
}

impl LaneWalk<'_> {
    fn begin(&mut self, event: &Event<'_>, passing: Option<Passing>) {
        self.passing = passing;
        let fd = event.arg(0) as i32;
        self.key = (event.kind == Kind::Syscall).then_some(()).and_then(|()| match u32::from(event.code) {
            raw::__NR_read | raw::__NR_readv | raw::__NR_recvfrom | raw::__NR_recvmsg => Some((fd, true)),
            raw::__NR_write | raw::__NR_writev | raw::__NR_sendto => Some((fd, false)),
            _ => None,
        });
        // Names and control data of a message are none of its bytes.
        self.left_bytes = match u32::from(event.code) {
            raw::__NR_recvmsg if event.result() >= 0 => event.result() as u64,
            _ => u64::MAX,
        };
    }

    /// One event, or one that goes on with another; `bytes` is all of it, which begins `place` bytes into the log.
    fn event(
        &mut self,
        event: &Event<'_>,
        place: u64,
        bytes: &[u8],
        begun: &mut HashMap<u32, HashMap<u16, Block>>,
    ) {
        let at_of = |data: &[u8]| place + (data.as_ptr() as u64).wrapping_sub(bytes.as_ptr() as u64);
        let fixed = &event.body[..event.fixed_bytes()];
        self.search(self.lane, at_of(fixed), fixed);
        let mut joined = self.key.and_then(|key| self.passed.remove(&key)).unwrap_or_default();
        let carried = joined.bytes.len();
        for blob in event.blobs() {
            let (at, word) = (at_of(blob.data), |from: usize| word32(blob.data, from).unwrap_or(u32::MAX));
            match blob.tag {
                Tag::Cached => {
                    let block = u16::try_from(word(0)).ok().and_then(|slot| self.cache.get(&slot)).cloned();
                    if let Some((lane, at, data)) = block {
                        let data = &data[..data.len().min(word(4) as usize)];
                        self.pass(lane, at, data, true);
                        joined.add(lane, at, data);
                    }
                    continue;
                }
                Tag::MemoryToCache => {
                    self.cache.insert(blob.extra, (self.lane, at, Rc::new(blob.data.to_vec())));
                }
                Tag::Child => {
                    begun.insert(word(0), self.cache.clone());
                }
                Tag::FilePart if self.passing.is_some_and(|passing| passing.is_input) => {
                    self.places.files.insert(word(0));
                }
                _ => {}
            }
            match blob.tag {
                Tag::Memory | Tag::MemoryToCache => self.pass(self.lane, at, blob.data, true),
                Tag::Sent => self.sent(at, blob.data),
                _ => {}
            }
            self.search(self.lane, at, blob.data);
            if matches!(blob.tag, Tag::Memory | Tag::MemoryToCache | Tag::Sent) {
                joined.add(self.lane, at, blob.data);
            }
        }
        self.search_joined(&joined, carried);
        if let Some(key) = self.key {
            self.passed.insert(key, joined.tail(self.secrets.bytes_max().saturating_sub(1)));
        }
    }

    /// Bytes of a stream that is masked.
    fn pass(&mut self, lane: u32, at: u64, data: &[u8], is_input: bool) {
        let Some(passing) = self.passing.filter(|passing| passing.is_input == is_input) else { return };
        let bytes = self.left_bytes.min(data.len() as u64);
        self.left_bytes -= bytes;
        if bytes != 0 {
            *self.places.bytes.entry(passing.stream).or_default() += bytes;
            self.places.add(lane, at, Edit::Fill(bytes));
        }
    }

    /// The beginning of what was sent. Where it is masked without the rest of the value being known it is a text for
    /// people from here on, which replay does not compare.
    fn sent(&mut self, at: u64, data: &[u8]) {
        let begun = self.secrets.begun_at_end(data).filter(|_| data.len() == SENT_BYTES);
        let is_passing = self.passing.is_some_and(|passing| !passing.is_input);
        if is_passing || begun.is_some() {
            let tag = (Tag::Text as u16).to_le_bytes().to_vec();
            self.places.add(self.lane, at - TAG_BEFORE_DATA, Edit::Bytes(tag));
        }
        if is_passing {
            self.pass(self.lane, at, data, false);
        } else if let Some(begun) = begun {
            self.places.add(self.lane, at + begun.start as u64, Edit::Bytes(begun.mask));
        }
    }

    fn search(&mut self, lane: u32, at: u64, data: &[u8]) {
        for found in self.secrets.find(data) {
            *self.places.found.entry(found.secret).or_default() += 1;
            self.places.add(lane, at + found.start as u64, Edit::Bytes(found.mask));
        }
    }

    /// What lies in several pieces.
    fn search_joined(&mut self, joined: &Joined, carried: usize) {
        if joined.pieces.len() < 2 {
            return;
        }
        for found in self.secrets.find(&joined.bytes) {
            let end = found.start + found.mask.len();
            let first = joined.pieces.partition_point(|piece| piece.0 <= found.start) - 1;
            let is_in_one = joined.pieces.get(first + 1).is_none_or(|next| end <= next.0);
            if is_in_one || end <= carried {
                continue;
            }
            *self.places.found.entry(found.secret).or_default() += 1;
            for (index, &(start, lane, at)) in joined.pieces.iter().enumerate().skip(first) {
                let piece_end = joined.pieces.get(index + 1).map_or(joined.bytes.len(), |next| next.0);
                let (from, to) = (found.start.max(start), end.min(piece_end));
                if from < to {
                    let mask = found.mask[from - found.start..to - found.start].to_vec();
                    self.places.add(lane, at + (from - start) as u64, Edit::Bytes(mask));
                }
            }
        }
    }
}
