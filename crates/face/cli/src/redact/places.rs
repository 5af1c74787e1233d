//! The places of a trace's log that are masked.
//!
//! A value may lie in several blobs, and in the results of several calls: what a call passed is searched together
//! with the end of what the same descriptor passed before. Blocks that the log refers to (the block cache) are masked
//! where they stand for the first time. What a stream that is masked brought is masked where a process passes it on,
//! too, and where another one gets it. No place moves, and no length changes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use events::{Event, Kind, Tag};
use linux_abi::general as raw;
use trace_store::TraceReader;

use super::contents::{Contents, Of, PIECE_BYTES};
use super::secrets::Secrets;
use super::streams::{Passing, Walk, passes};
use super::wanted::Wanted;
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
    /// What streams that are masked brought.
    pub contents: Contents,
    /// Bytes of it that processes passed on.
    pub passed_on: u64,
    /// Paths and arguments that hold some of it.
    pub named: u64,
}

/// A block of the cache: where it stands, and what it holds.
type Block = (u32, u64, Rc<Vec<u8>>);

/// Bytes that belong together, and where they stand.
#[derive(Default, Clone)]
struct Joined {
    bytes: Vec<u8>,
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy)]
struct Piece {
    /// Beginning in the joined bytes.
    start: usize,
    lane: u32,
    /// Place in its log.
    at: u64,
    /// Of what was sent: place of its tag.
    tag_at: Option<u64>,
}

impl Joined {
    fn add(&mut self, lane: u32, at: u64, tag_at: Option<u64>, data: &[u8]) {
        self.pieces.push(Piece { start: self.bytes.len(), lane, at, tag_at });
        self.bytes.extend_from_slice(data);
    }

    /// The parts of a range: each with its piece, and where it begins and ends in the joined bytes.
    fn parts(&self, range: Range<usize>) -> impl Iterator<Item = (Piece, Range<usize>)> {
        let ends = self.pieces.iter().skip(1).map(|next| next.start).chain([self.bytes.len()]);
        self.pieces.iter().zip(ends).filter_map(move |(piece, end)| {
            let part = range.start.max(piece.start)..range.end.min(end);
            (!part.is_empty()).then_some((*piece, part))
        })
    }

    /// Its last bytes.
    fn tail(&self, bytes: usize) -> Joined {
        let mut tail = Joined::default();
        for (piece, part) in self.parts(self.bytes.len().saturating_sub(bytes)..self.bytes.len()) {
            let at = piece.at + (part.start - piece.start) as u64;
            tail.add(piece.lane, at, piece.tag_at, &self.bytes[part]);
        }
        tail
    }
}

/// The walk through one lane.
struct LaneWalk<'a> {
    lane: u32,
    secrets: &'a Secrets,
    /// What was masked; `None`: it is gathered.
    contents: Option<&'a Contents>,
    places: &'a mut Places,
    cache: HashMap<u16, Block>,
    /// What descriptors passed last, by number and way.
    passed: HashMap<(i32, bool), Joined>,
    /// The event at hand: what it passes, of which descriptor and way, and how many bytes of input are left to be filled.
    passing: Option<Passing>,
    key: Option<(i32, bool)>,
    left_bytes: u64,
    /// The event at hand may pass on what was masked.
    passes_on: Option<Of>,
}

impl Places {
    /// Finds them.
    pub fn of(
        trace: &TraceReader,
        walk: &Walk,
        wanted: &Wanted,
        secrets: &Secrets,
    ) -> Result<Places, CommandError> {
        let mut gathered = Places::default();
        if walk.calls.values().flat_map(BTreeMap::values).any(|passing| passing.is_input) {
            gathered.walk(trace, walk, secrets, None)?;
        }
        let mut contents = std::mem::take(&mut gathered.contents);
        contents.add_files(trace, &gathered, wanted)?;
        contents.finish();
        let mut places = Places::default();
        places.walk(trace, walk, secrets, Some(&contents))?;
        Ok(Places { contents, ..places })
    }

    /// Goes through all events, and searches them, or gathers what is masked.
    fn walk(
        &mut self,
        trace: &TraceReader,
        walk: &Walk,
        secrets: &Secrets,
        contents: Option<&Contents>,
    ) -> Result<(), CommandError> {
        let mut begun: HashMap<u32, HashMap<u16, Block>> = HashMap::new();
        for (position, _) in in_tree_order(trace.lanes()) {
            let lane = trace.lanes()[position].lane;
            let mut lane_walk = LaneWalk {
                lane,
                secrets,
                contents,
                places: self,
                cache: begun.remove(&lane).unwrap_or_default(),
                passed: HashMap::new(),
                passing: None,
                key: None,
                left_bytes: 0,
                passes_on: None,
            };
            let calls = walk.calls.get(&lane);
            let given = walk.given.get(&lane);
            let (mut reader, mut chunk, mut offset, mut index) = (trace.lane(lane)?, Vec::new(), 0, 0);
            while reader.next_chunk(&mut chunk)?.is_some() {
                let mut at = 0;
                while at < chunk.len() {
                    let (event, len_bytes) = Event::parse(&chunk[at..])
                        .map_err(|source| CommandError::BadEvents { lane, events: index, source })?;
                    if event.kind != Kind::Data {
                        let is_given = given.is_some_and(|given| given.contains(&index));
                        lane_walk.begin(&event, calls.and_then(|calls| calls.get(&index)).copied(), is_given);
                        index += 1;
                    }
                    lane_walk.event(&event, offset + at as u64, &chunk[at..at + len_bytes], &mut begun);
                    at += len_bytes;
                }
                offset += chunk.len() as u64;
            }
        }
        Ok(())
    }

    fn add(&mut self, lane: u32, at: u64, edit: Edit) {
        self.edits.entry(lane).or_default().entry(at).or_default().push(edit);
    }
}

impl LaneWalk<'_> {
    fn begin(&mut self, event: &Event<'_>, passing: Option<Passing>, is_given: bool) {
        self.passing = passing;
        let is_call = event.kind == Kind::Syscall;
        self.passes_on = match passes(event.code.into()).filter(|_| is_call && passing.is_none()) {
            Some(false) => Some(Of::Written),
            Some(true) if is_given => Some(Of::Given),
            _ => None,
        };
        let fd = event.arg(0) as i32;
        self.key = is_call.then_some(()).and_then(|()| match u32::from(event.code) {
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
                        joined.add(lane, at, None, data);
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
            match blob.tag {
                Tag::Memory | Tag::MemoryToCache => joined.add(self.lane, at, None, blob.data),
                Tag::Sent => joined.add(self.lane, at, Some(at - TAG_BEFORE_DATA), blob.data),
                Tag::Text => self.places.named += u64::from(self.is_named(blob.data)),
                _ => {}
            }
        }
        self.search_joined(&joined, carried);
        self.search_passed_on(&joined, carried);
        if let Some(key) = self.key {
            let bytes = self.secrets.bytes_max().max(2 * PIECE_BYTES);
            self.passed.insert(key, joined.tail(bytes - 1));
        }
    }

    /// Bytes of a stream that is masked.
    fn pass(&mut self, lane: u32, at: u64, data: &[u8], is_input: bool) {
        let Some(passing) = self.passing.filter(|passing| passing.is_input == is_input) else { return };
        let bytes = self.left_bytes.min(data.len() as u64);
        self.left_bytes -= bytes;
        if bytes != 0 {
            if is_input && self.contents.is_none() {
                self.places.contents.add(passing.stream, self.lane, &data[..bytes as usize]);
            }
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
            self.places.add(self.lane, at - TAG_BEFORE_DATA, Edit::Bytes(text_tag()));
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
            if end <= carried || joined.parts(found.start..end).count() < 2 {
                continue;
            }
            *self.places.found.entry(found.secret).or_default() += 1;
            for (piece, part) in joined.parts(found.start..end) {
                let mask = found.mask[part.start - found.start..part.end - found.start].to_vec();
                let at = piece.at + (part.start - piece.start) as u64;
                self.places.add(piece.lane, at, Edit::Bytes(mask));
            }
        }
    }

    /// What was masked, where a process passes it on: to a file, a pipe, another process. What was written is a text for
    /// people from here on; what was given is what the one who wrote it writes in the masked replay.
    fn search_passed_on(&mut self, joined: &Joined, carried: usize) {
        let (Some(contents), Some(of)) = (self.contents, self.passes_on) else { return };
        let is_cut = joined.bytes.len() - carried == SENT_BYTES;
        // By itself, and with what came before.
        let own = contents.find(&joined.bytes[carried..], of, is_cut).into_iter();
        let own = own.map(|range| range.start + carried..range.end + carried);
        let both = contents.find(&joined.bytes, of, is_cut).into_iter().filter(|_| carried != 0);
        let mut ranges: Vec<Range<usize>> = own.chain(both).filter(|range| range.end > carried).collect();
        ranges.sort_by_key(|range| range.start);
        let mut counted = carried;
        for range in ranges {
            self.places.passed_on += range.end.saturating_sub(range.start.max(counted)) as u64;
            counted = counted.max(range.end);
            for (piece, part) in joined.parts(range) {
                let at = piece.at + (part.start - piece.start) as u64;
                if let Some(tag_at) = piece.tag_at {
                    self.places.add(piece.lane, tag_at, Edit::Bytes(text_tag()));
                }
                self.places.add(piece.lane, at, Edit::Fill(part.len() as u64));
            }
        }
    }

    fn is_named(&self, text: &[u8]) -> bool {
        self.contents.is_some_and(|contents| !contents.find(text, Of::Given, false).is_empty())
    }
}

fn text_tag() -> Vec<u8> {
    (Tag::Text as u16).to_le_bytes().to_vec()
}
