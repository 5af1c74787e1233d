//! A recording for Perfetto: in its own format, or as JSON, which chrome://tracing reads, too.
//!
//! An event is a slice of 1 us in its thread's track, as what runs from left to right is the number of events.
//!
//! Deliberately absent: a library for protocol buffers; of the fields that are written
//! <https://perfetto.dev/docs/reference/trace-packet-proto> has the numbers, and a test reads them with Perfetto's own classes.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::Path;

use serde_json::json;
use trace_store::TraceReader;

use super::{CLASSES, TEXT_CHARS_MAX, class_of, create, drawn_arrows, name_of};
use crate::event_index::{BLOCK_EVENTS, EventIndex, UNKNOWN};
use crate::exit::CommandError;
use crate::senders::Meeting;

/// Nanoseconds of an event on Perfetto's axis.
const EVENT_NS: u64 = 1000;
/// The one sequence of packets that there is.
const SEQUENCE: u64 = 1;
/// Numbers of tracks of threads: the process's position above the thread's.
const THREAD_BITS: u32 = 17;

/// Writes the file, in the format that its name says.
pub fn write(trace: &TraceReader, index: &EventIndex, path: &Path) -> Result<(), CommandError> {
    match path.extension().is_some_and(|end| end == "json") {
        true => write_json(trace, index, path),
        false => write_own(trace, index, path),
    }
}

/// A message, as it is put together.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Message {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn fixed(mut self, field: u64, value: u64) -> Message {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Message {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn message(self, field: u64, inner: &Message) -> Message {
        self.bytes(field, &inner.0)
    }
}

/// A packet of the trace, with what every packet has.
fn packet(inner: Message) -> Message {
    Message::default().message(1, &inner.number(10, SEQUENCE))
}

/// Names that events refer to by numbers: numbers begin with 1.
fn interned(index: &EventIndex) -> Message {
    let entry = |(place, name): (usize, &str)| {
        Message::default().number(1, place as u64 + 1).bytes(2, name.as_bytes())
    };
    let mut all = Message::default();
    for class in CLASSES.iter().map(|(title, _)| *title).enumerate() {
        all = all.message(1, &entry(class));
    }
    for sort in index.sorts.iter().map(|sort| name_of(*sort)).enumerate() {
        all = all.message(2, &entry(sort));
    }
    for name in NOTES.into_iter().enumerate() {
        all = all.message(3, &entry(name));
    }
    const STATE_CLEARED: u64 = 1;
    packet(Message::default().message(12, &all).number(13, STATE_CLEARED))
}

/// What is said of each event besides its name.
const NOTES: [&str; 3] = ["text", "position", "time"];

/// The class of each sort of event, by its number: to find one takes longer than to write an event.
fn classes_of(index: &EventIndex) -> Vec<usize> {
    index.sorts.iter().map(|sort| class_of(*sort)).collect()
}

/// Number of a thread's track, or of a process's.
fn track(process: usize, thread: Option<u16>) -> u64 {
    ((process as u64 + 1) << THREAD_BITS) + thread.map_or(0, |thread| u64::from(thread) + 1)
}

/// The tracks, of processes and of threads in them.
fn tracks(trace: &TraceReader, index: &EventIndex) -> Vec<Message> {
    let mut found = Vec::new();
    let threads: BTreeSet<(u16, u16)> =
        index.processes.iter().copied().zip(index.threads.iter().copied()).collect();
    for (process, info) in trace.lanes().iter().enumerate() {
        let pid = info.pid as u64;
        let program = index.programs.get(&info.lane).map_or("", String::as_str);
        let about = Message::default().number(1, pid).bytes(6, program.as_bytes());
        let of_process = Message::default().number(1, track(process, None)).message(3, &about);
        found.push(packet(Message::default().message(60, &of_process)));
        let number = process as u16;
        for &(_, thread) in threads.range((number, 0)..=(number, u16::MAX)) {
            let mut about = Message::default().number(1, pid).number(2, u64::from(thread) + 1);
            if let Some(name) = index.thread_names.get(&(number, thread)) {
                about = about.bytes(5, name.as_bytes());
            }
            let of_thread = Message::default()
                .number(1, track(process, Some(thread)))
                .number(5, track(process, None))
                .message(4, &about);
            found.push(packet(Message::default().message(60, &of_thread)));
        }
    }
    found
}

/// Perfetto's own format: packets with events of tracks.
fn write_own(trace: &TraceReader, index: &EventIndex, path: &Path) -> Result<(), CommandError> {
    const SLICE_BEGINS: u64 = 1;
    const SLICE_ENDS: u64 = 2;
    const NEEDS_STATE: u64 = 2;
    let classes = classes_of(index);
    let mut out = create(path)?;
    let failed = |source| CommandError::Write { path: path.to_owned(), source };
    let mut put = |message: &Message| out.write_all(&message.0).map_err(failed);
    put(&interned(index))?;
    tracks(trace, index).iter().try_for_each(&mut put)?;
    let mut flows: HashMap<usize, Vec<(u64, u64)>> = HashMap::new();
    for (id, [from, to, _]) in drawn_arrows(index).into_iter().enumerate() {
        const BEGINS: u64 = 47;
        const ENDS: u64 = 48;
        for (row, field) in [(from, BEGINS), (to, ENDS)] {
            flows.entry(row as usize).or_default().push((field, id as u64 + 1));
        }
    }
    for number in 0..index.block_count() {
        let block = index.block(number).unwrap_or_default();
        let rows = number * BLOCK_EVENTS..index.events.len();
        for (row, line) in rows.zip(block.split('\n')) {
            let track = track(usize::from(index.processes[row]), Some(index.threads[row]));
            let mut event = Message::default().number(9, SLICE_BEGINS).number(11, track);
            let sort = usize::from(index.sorts_of[row]);
            event = event.number(10, sort as u64 + 1).number(3, classes[sort] as u64 + 1);
            let text: String = line.chars().take(TEXT_CHARS_MAX).collect();
            event = event.message(4, &Message::default().number(1, 1).bytes(6, text.as_bytes()));
            event = event.message(4, &Message::default().number(1, 2).number(3, index.events[row]));
            if index.times[row] != UNKNOWN {
                let time = trace.meta().time_after(index.times[row]);
                event = event.message(4, &Message::default().number(1, 3).bytes(6, time.as_bytes()));
            }
            for (field, id) in flows.remove(&row).unwrap_or_default() {
                event = event.fixed(field, id);
            }
            let at = row as u64 * EVENT_NS;
            put(&packet(Message::default().number(8, at).message(11, &event).number(13, NEEDS_STATE)))?;
            let end = Message::default().number(9, SLICE_ENDS).number(11, track);
            put(&packet(Message::default().number(8, at + EVENT_NS).message(11, &end)))?;
        }
    }
    out.flush().map_err(failed)
}

/// The trace-event format: https://perfetto.dev/docs/getting-started/other-formats
fn write_json(trace: &TraceReader, index: &EventIndex, path: &Path) -> Result<(), CommandError> {
    let classes = classes_of(index);
    let mut out = create(path)?;
    let failed = |source| CommandError::Write { path: path.to_owned(), source };
    out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n").map_err(failed)?;
    let pid_of = |row: usize| {
        let process = usize::from(index.processes[row]);
        trace.lanes().get(process).map_or(0, |info| info.pid)
    };
    for number in 0..index.block_count() {
        let block = index.block(number).unwrap_or_default();
        let rows = number * BLOCK_EVENTS..index.events.len();
        for (row, line) in rows.zip(block.split('\n')) {
            let kind = usize::from(index.sorts_of[row]);
            let sort = index.sorts[kind];
            let event = json!({
                "name": name_of(sort), "cat": CLASSES[classes[kind]].0, "ph": "X", "ts": row, "dur": 1,
                "pid": pid_of(row), "tid": index.threads[row] + 1,
                "args": {
                    "text": line.chars().take(TEXT_CHARS_MAX).collect::<String>(), "position": index.events[row],
                    "time": Some(index.times[row]).filter(|time| *time != UNKNOWN).map(|time| trace.meta().time_after(time)),
                },
            });
            writeln!(out, "{event},").map_err(failed)?;
        }
    }
    for (id, [from, to, meeting]) in drawn_arrows(index).into_iter().enumerate() {
        let name = Meeting::ALL.get(meeting as usize).map_or("", |meeting| meeting.name());
        for (phase, row) in [("s", from), ("f", to)] {
            let row = row as usize;
            let flow = json!({
                "name": name, "cat": "sender", "ph": phase, "bp": "e", "id": id, "ts": row,
                "pid": pid_of(row), "tid": index.threads[row] + 1,
            });
            writeln!(out, "{flow},").map_err(failed)?;
        }
    }
    for info in trace.lanes() {
        let program = index.programs.get(&info.lane).map_or("", String::as_str);
        let named = json!({"name": "process_name", "ph": "M", "pid": info.pid, "args": {"name": program}});
        writeln!(out, "{named},").map_err(failed)?;
    }
    for ((process, thread), name) in &index.thread_names {
        let pid = trace.lanes().get(usize::from(*process)).map_or(0, |info| info.pid);
        let named =
            json!({"name": "thread_name", "ph": "M", "pid": pid, "tid": thread + 1, "args": {"name": name}});
        writeln!(out, "{named},").map_err(failed)?;
    }
    // The list's last element has no comma behind it.
    let last = json!({"name": "one event of the recording is 1 us", "ph": "M", "pid": 0});
    writeln!(out, "{last}\n]}}").and_then(|()| out.flush()).map_err(failed)
}
