//! Streams that are real in a replay: what is added to the events of which lane.
//!
//! Invariant: all of it was decided before the replay began. Deliberately absent: what decides it, and any
//! knowledge of policies.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use events::real::{Note, OP_WORDS, READ};
use events::{BLOB_HEADER_BYTES, HEADER_BYTES, Header, Kind, MORE, Tag, padded};
use lane_protocol::RealStreams;

/// Something that a process does at the end of a call: see [`events::real`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealOp {
    pub words: [u64; OP_WORDS],
    /// Names, each with its end.
    pub text: Vec<u8>,
}

/// By lanes, and by the numbers of events in them.
pub type RealPlan = HashMap<u32, BTreeMap<u64, Vec<RealOp>>>;

/// What is real, and who has a part in it.
pub struct Real {
    pub plan: RealPlan,
    /// Called when the first process is there: from then on threads may be started.
    pub begun: Option<Box<dyn FnOnce()>>,
}

/// Whether a plan has real inputs.
pub(crate) fn which(plan: Option<&RealPlan>) -> RealStreams {
    let Some(plan) = plan else { return RealStreams::None };
    let mut ops = plan.values().flat_map(BTreeMap::values).flatten();
    if ops.any(|op| op.words[0] == READ) { RealStreams::Inputs } else { RealStreams::Outputs }
}

/// Adds operations to the events of one lane, as they pass.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    ops: BTreeMap<u64, Vec<RealOp>>,
    /// Number of the event that the next one, if it goes on with it, belongs to; plus one.
    begun: u64,
}

impl Additions {
    pub fn new(ops: BTreeMap<u64, Vec<RealOp>>) -> Additions {
        Additions { ops, begun: 0 }
    }

    /// Replaces a chunk of whole events by the same with operations.
    pub fn add_to(&mut self, chunk: &mut Vec<u8>) {
        if self.ops.is_empty() {
            return;
        }
        let mut out = Vec::with_capacity(chunk.len());
        let mut at = 0;
        while let Some(head) = chunk.get(at..).and_then(Header::read) {
            let len_bytes = head.bytes() as usize;
            let Some(event) = chunk.get(at..at + len_bytes).filter(|event| event.len() >= HEADER_BYTES)
            else {
                break;
            };
            at += len_bytes;
            let kind = head.kind();
            self.begun += u64::from(kind != Some(Kind::Data));
            let goes_on = head.flags() & MORE != 0;
            let ops = match kind {
                Some(Kind::Syscall | Kind::Data) if !goes_on => {
                    self.ops.remove(&(self.begun.saturating_sub(1)))
                }
                _ => None,
            };
            match ops {
                None => out.extend_from_slice(event),
                Some(ops) => {
                    out.extend(head.with(MORE).to_le_bytes());
                    out.extend_from_slice(&event[HEADER_BYTES..]);
                    for (index, op) in ops.iter().enumerate() {
                        put(&mut out, op, index + 1 < ops.len());
                    }
                }
            }
        }
        // The last event of a process that was killed may lack its end.
        out.extend_from_slice(chunk.get(at..).unwrap_or_default());
        *chunk = out;
    }
}

/// A data event with one operation.
fn put(out: &mut Vec<u8>, op: &RealOp, goes_on: bool) {
    let bytes = OP_WORDS * 8 + op.text.len();
    let len_bytes = HEADER_BYTES + BLOB_HEADER_BYTES + padded(bytes);
    let end = out.len() + len_bytes;
    out.extend(Header::new(Kind::Data, if goes_on { MORE } else { 0 }, 0, len_bytes as u32).to_le_bytes());
    out.extend(0u64.to_le_bytes());
    out.extend((bytes as u64 | (Tag::Real as u64) << 32).to_le_bytes());
    out.extend(op.words.iter().flat_map(|word| word.to_le_bytes()));
    out.extend_from_slice(&op.text);
    out.resize(end, 0);
}

/// What processes said of real streams.
pub(crate) fn notes(folder: &Path) -> Vec<Note> {
    const NOTE_BYTES: usize = 40;
    let bytes = std::fs::read(folder.join("real")).unwrap_or_default();
    let word = |note: &[u8], index: usize| {
        note.get(8 * index..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
    };
    let notes = bytes.chunks_exact(NOTE_BYTES);
    notes.map(|note| Note::from_words(std::array::from_fn(|index| word(note, index)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::Event;

    #[test]
    fn operations_follow_the_events_that_they_belong_to() {
        let mut chunk = Vec::new();
        for (kind, flags) in [(Kind::Exit, 0), (Kind::Syscall, MORE), (Kind::Data, 0), (Kind::Syscall, 0)] {
            let body_bytes = if kind == Kind::Data { 0 } else { 8 };
            chunk.extend(Header::new(kind, flags, 1, (HEADER_BYTES + body_bytes) as u32).to_le_bytes());
            chunk.resize(chunk.len() + body_bytes, 0);
        }
        let op = |number: u64| RealOp { words: [number; OP_WORDS], text: b"/x\0".to_vec() };
        let ops = BTreeMap::from([(1, vec![op(1), op(2)]), (2, vec![op(3)])]);
        let mut additions = Additions::new(ops);
        // What goes on with an event may come in the next chunk.
        let mut second = chunk.split_off(2 * (HEADER_BYTES + 8));
        additions.add_to(&mut chunk);
        additions.add_to(&mut second);
        chunk.append(&mut second);
        let (mut at, mut seen) = (0, Vec::new());
        while let Ok((event, len_bytes)) = Event::parse(&chunk[at..]) {
            at += len_bytes;
            let number = event.blobs().next().map(|blob| blob.data[0]);
            seen.push((event.kind, event.has_more(), number));
        }
        assert_eq!(at, chunk.len());
        let expected = [
            (Kind::Exit, false, None),
            (Kind::Syscall, true, None),
            (Kind::Data, true, None),
            (Kind::Data, true, Some(1)),
            (Kind::Data, false, Some(2)),
            (Kind::Syscall, true, None),
            (Kind::Data, false, Some(3)),
        ];
        assert_eq!(seen, expected);
    }
}
