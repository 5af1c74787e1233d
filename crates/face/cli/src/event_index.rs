//! All events of a trace as they are shown, and which event sent what another received: computed once, then
//! read from an index beside the trace.
//!
//! Columns of numbers and blocks of text, each compressed by itself: who looks for a text unpacks what it reads, on
//! all processors.
//!
//! Invariant: what an index holds is what one passage through the log gives. Its lengths are bounded and its numbers
//! checked before they are used; one that is damaged is made again.

mod file;
mod search;

use std::collections::{BTreeMap, HashMap};

use events::Kind;
use gdb_server::ThreadNames;
use trace_store::TraceReader;

use crate::dump::{self, Seen};
use crate::exit::CommandError;
use crate::lane_events::WholeEvent;
use crate::senders::{Arrow, Senders};
pub use search::Wanted;

/// Events whose texts are compressed together.
pub const BLOCK_EVENTS: usize = 2048;
/// Longest text of an event, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// Half of what the log is compressed with: it is read often.
const LEVEL: i32 = 1;

/// In place of a time.
pub const UNKNOWN: u32 = u32::MAX;

/// What events have in common, so that it is said once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    pub kind: Kind,
    /// Number of the call or the signal.
    pub code: u16,
    /// It wrote to the recorded standard output or error.
    pub is_output: bool,
}

/// Compressed texts of [`BLOCK_EVENTS`] events, a line each.
#[derive(Debug, Clone)]
struct Block {
    raw_bytes: usize,
    stored: Vec<u8>,
}

/// One row for each event, in the order in which `dump` shows them.
#[derive(Debug, Default)]
pub struct EventIndex {
    /// Position of the process in the trace's list.
    pub processes: Vec<u16>,
    /// Place in `sorts`.
    pub sorts_of: Vec<u16>,
    pub threads: Vec<u16>,
    /// When the event was logged at the latest, in milliseconds since the recording began; [`UNKNOWN`] where the log does not tell.
    pub times: Vec<u32>,
    /// Number of the error that a call ended with, or 0.
    pub errors: Vec<u16>,
    /// Index of the event in its process's log.
    pub events: Vec<u64>,
    pub sorts: Vec<Sort>,
    blocks: Vec<Block>,
    /// By where they lead.
    pub arrows: Vec<Arrow>,
    /// Last program of each process, by lane.
    pub programs: HashMap<u32, String>,
    /// The last names of threads ([`ThreadNames`]), by position of the process and thread.
    pub thread_names: BTreeMap<(u16, u16), String>,
}

impl EventIndex {
    /// Reads the index of a trace, or makes it, and keeps it beside the trace where it may be written there.
    ///
    /// # Errors
    /// As for reading the log; [`CommandError::Try`] where `give_up` says so.
    pub fn of(trace: &TraceReader, give_up: &dyn Fn() -> bool) -> Result<EventIndex, CommandError> {
        if let Some(index) = file::read(trace) {
            return Ok(index);
        }
        let index = EventIndex::make(trace, give_up)?;
        if let Err(error) = file::write(trace, &index) {
            tracing::debug!(%error, "the index is not kept");
        }
        Ok(index)
    }

    fn make(trace: &TraceReader, give_up: &dyn Fn() -> bool) -> Result<EventIndex, CommandError> {
        let names = trace.lanes().iter().map(|info| ThreadNames::of(info.pid)).collect();
        let mut maker = Maker { names, ..Maker::default() };
        let mut senders = Senders::new(trace);
        let programs = dump::each_event(trace, &mut |seen| {
            match seen.whole {
                Some(whole) => senders.note(seen.position, whole),
                None => {
                    let end = trace.lanes().get(seen.position).and_then(|info| info.end);
                    senders.note_end(seen.position, seen.index, end);
                }
            }
            maker.add(seen)?;
            if maker.in_block == 0 && give_up() {
                let source = std::io::ErrorKind::Interrupted.into();
                return Err(CommandError::Try { doing: "index the recording", source });
            }
            Ok(())
        })?;
        maker.end_block()?;
        Ok(EventIndex { programs, arrows: senders.arrows(), ..maker.index })
    }

    /// The text of a row.
    pub fn text(&self, row: usize) -> Option<String> {
        let text = self.block(row / BLOCK_EVENTS)?;
        text.split('\n').nth(row % BLOCK_EVENTS).map(str::to_owned)
    }

    /// Number of blocks of text.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// The lines of a block; `None`: it is damaged.
    pub fn block(&self, number: usize) -> Option<String> {
        let block = self.blocks.get(number)?;
        let bytes = zstd::bulk::decompress(&block.stored, block.raw_bytes).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// The row of an event of a process.
    pub fn row_of(&self, process: usize, event: u64) -> Option<usize> {
        let process = u16::try_from(process).ok()?;
        let mut rows = self.processes.iter().zip(&self.events);
        rows.position(|row| row == (&process, &event))
    }
}

#[derive(Default)]
struct Maker {
    index: EventIndex,
    known: HashMap<(u8, u16, bool), u16>,
    /// By position of the process.
    names: Vec<ThreadNames>,
    /// The last known time of each process.
    times: HashMap<usize, u32>,
    block: String,
    in_block: usize,
}

impl Maker {
    fn add(&mut self, seen: &Seen<'_>) -> Result<(), CommandError> {
        let sort = Sort { kind: seen.kind, code: seen.code, is_output: seen.is_output };
        let sorts = &mut self.index.sorts;
        let number = *self.known.entry((sort.kind as u8, sort.code, sort.is_output)).or_insert_with(|| {
            sorts.push(sort);
            (sorts.len() - 1) as u16
        });
        self.index.processes.push(u16::try_from(seen.position).unwrap_or(u16::MAX));
        self.index.sorts_of.push(number);
        self.index.threads.push(seen.thread);
        let last = self.times.entry(seen.position).or_insert(UNKNOWN);
        *last = seen.whole.and_then(|whole| whole.logged).unwrap_or(*last);
        self.index.times.push(*last);
        self.note_name(seen);
        self.index.errors.push(seen.whole.map_or(0, error_of));
        self.index.events.push(seen.index);
        if self.in_block != 0 {
            self.block.push('\n');
        }
        self.add_text(seen.text);
        self.in_block += 1;
        if self.in_block == BLOCK_EVENTS {
            self.end_block()?;
        }
        Ok(())
    }

    /// A thread may be given a name.
    fn note_name(&mut self, seen: &Seen<'_>) {
        let (Some(whole), Some(names), Ok(process)) =
            (seen.whole, self.names.get_mut(seen.position), u16::try_from(seen.position))
        else {
            return;
        };
        let blobs = whole.blobs().map(|blob| (blob.tag, blob.data));
        let given = names.note(seen.thread.into(), &whole.event(), blobs);
        if let Some((thread, name)) = given
            && let Ok(thread) = u16::try_from(thread)
        {
            self.index.thread_names.insert((process, thread), name);
        }
    }

    /// As one line, of a bounded length.
    fn add_text(&mut self, text: &str) {
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let begin = self.block.len();
        for line in text[..end].lines() {
            if self.block.len() != begin {
                self.block.push(' ');
            }
            // Other ends of lines than these would be taken for such.
            self.block.extend(line.chars().map(|char| if char == '\r' { ' ' } else { char }));
        }
    }

    fn end_block(&mut self) -> Result<(), CommandError> {
        if self.in_block != 0 {
            let stored = zstd::bulk::compress(self.block.as_bytes(), LEVEL)?;
            self.index.blocks.push(Block { raw_bytes: self.block.len(), stored });
            self.block.clear();
            self.in_block = 0;
        }
        Ok(())
    }
}

fn error_of(whole: &WholeEvent) -> u16 {
    match whole.kind {
        Kind::Syscall => u16::try_from(whole.event().result().wrapping_neg()).unwrap_or(0),
        _ => 0,
    }
}
