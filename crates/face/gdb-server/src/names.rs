//! Names of threads at a position of the timeline.

use std::collections::BTreeMap;

use events::{Event, Kind, MORE};
use timeline::Timeline;
use trace_store::LaneReader;

use crate::thread_names::ThreadNames;

/// What was read of the log so far.
#[derive(Default)]
pub(crate) struct Names {
    reader: Option<(LaneReader, ThreadNames)>,
    /// Events read.
    events: u64,
    thread: u32,
    goes_on: bool,
    /// For each thread: the event that gave it a name, and the name.
    named: BTreeMap<u32, Vec<(u64, String)>>,
    is_at_end: bool,
}

impl Names {
    /// The name of a thread at the present position.
    pub(crate) fn of(&mut self, timeline: &Timeline, thread: u32) -> String {
        if let Some(debuggee) = timeline.debuggee() {
            return live_name(timeline, debuggee.pid(), thread);
        }
        let present = timeline.stop().event;
        self.read_to(timeline, present);
        let given = self.named.get(&thread).into_iter().flatten();
        let last = given.take_while(|(event, _)| *event < present).last();
        last.map_or_else(|| format!("thread {}", thread + 1), |(_, name)| name.clone())
    }

    /// Reads on to an event. A log that cannot be read gives no more names.
    fn read_to(&mut self, timeline: &Timeline, event: u64) {
        if self.reader.is_none() && !self.is_at_end {
            self.reader = timeline.trace().and_then(|trace| {
                let info = trace.lanes().iter().find(|info| info.lane == timeline.lane())?;
                Some((trace.lane(info.lane).ok()?, ThreadNames::of(info.pid)))
            });
            self.is_at_end = self.reader.is_none();
        }
        let mut chunk = Vec::new();
        while self.events < event && !self.is_at_end {
            match self.reader.as_mut().map(|(reader, _)| reader.next_chunk(&mut chunk)) {
                Some(Ok(Some(_))) => self.read_chunk(&chunk),
                _ => self.is_at_end = true,
            }
        }
    }

    fn read_chunk(&mut self, chunk: &[u8]) {
        let mut at = 0;
        while let Some(rest) = chunk.get(at..).filter(|rest| !rest.is_empty()) {
            let Ok((event, bytes)) = Event::parse(rest) else {
                self.is_at_end = true;
                return;
            };
            if event.kind == Kind::Token {
                self.thread = u32::from(event.code);
            }
            if !self.goes_on {
                self.note(&event);
                self.events += 1;
            }
            self.goes_on = event.flags & MORE != 0;
            at += bytes;
        }
    }

    /// What a call says of a name.
    fn note(&mut self, event: &Event<'_>) {
        let Some((_, names)) = self.reader.as_mut() else { return };
        let blobs = event.blobs().map(|blob| (blob.tag, blob.data));
        let given = names.note(self.thread, event, blobs);
        if let Some((thread, name)) = given {
            self.named.entry(thread).or_default().push((self.events, name));
        }
    }
}

/// The name that a live program's thread has now.
fn live_name(timeline: &Timeline, pid: i32, thread: u32) -> String {
    let known = timeline
        .present()
        .map_or(&[][..], |stop| &stop.threads[..(stop.thread_count as usize).min(stop.threads.len())]);
    let name = known
        .iter()
        .find(|entry| entry.index == thread)
        .and_then(|entry| std::fs::read_to_string(format!("/proc/{pid}/task/{}/comm", entry.tid)).ok());
    name.map_or_else(|| format!("thread {}", thread + 1), |name| name.trim_end().to_owned())
}

/// A text between the quotes of an attribute.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            control if control.is_control() => safe.push('?'),
            other => safe.push(other),
        }
    }
    safe
}
