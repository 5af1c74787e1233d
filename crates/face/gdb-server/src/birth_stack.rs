//! The stack that the kernel made for an image, as the log has it: what the program has
//! written over since is there still.

use events::{Event, Kind, MORE, Tag};
use timeline::Timeline;
use trace_store::TraceReader;

/// Bytes of the log's copy from the stack pointer up; arguments and environment may be long.
const STACK_BYTES_MAX: usize = 4 << 20;

/// Memory from the first stack pointer of an image up.
#[derive(Default)]
pub(crate) struct BirthStack {
    start: u64,
    bytes: Vec<u8>,
}

impl BirthStack {
    /// That of the image which runs at the present position; `None` where the log does not tell.
    pub(crate) fn at_present(timeline: &Timeline) -> Option<BirthStack> {
        let trace = timeline.trace()?;
        let mut lane = timeline.lane();
        let mut reading = Reading::new(timeline.stop().event, None);
        for _ in trace.lanes() {
            let stack = reading.last_birth(&trace, lane)?;
            if stack.is_some() {
                return stack;
            }
            // A forked process runs what its parent ran then.
            let parent = trace.lane_info(lane)?.parent;
            reading = Reading::new(u64::MAX, Some(lane));
            lane = parent;
        }
        None
    }

    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(offset..offset.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}

/// One pass over a lane's log.
struct Reading {
    /// Events before this one count,
    end: u64,
    /// and those before the call that made this lane.
    child: Option<u32>,
    found: Option<BirthStack>,
    index: u64,
    goes_on: bool,
    in_birth: bool,
}

impl Reading {
    fn new(end: u64, child: Option<u32>) -> Reading {
        Reading { end, child, found: None, index: 0, goes_on: false, in_birth: false }
    }

    /// The newest image's stack; `None` where the log cannot be read.
    fn last_birth(mut self, trace: &TraceReader, lane: u32) -> Option<Option<BirthStack>> {
        let mut reader = trace.lane(lane).ok()?;
        let (mut chunk, mut rest) = (Vec::new(), Vec::new());
        while reader.next_chunk(&mut chunk).ok()?.is_some() {
            rest.append(&mut chunk);
            let mut at = 0;
            while let Ok((event, bytes)) = Event::parse(&rest[at..]) {
                if !self.take(&event) {
                    return Some(self.found);
                }
                at += bytes;
            }
            rest.drain(..at);
        }
        Some(self.found)
    }

    /// False where nothing that follows counts.
    fn take(&mut self, event: &Event<'_>) -> bool {
        if !self.goes_on {
            if self.index >= self.end {
                return false;
            }
            self.index += 1;
            self.in_birth = event.kind == Kind::Birth;
            if let Some(birth) = event.birth() {
                self.found = Some(BirthStack { start: birth.stack_pointer, bytes: Vec::new() });
            }
        }
        self.goes_on = event.flags & MORE != 0;
        let made = |data: &[u8]| data.first_chunk().map(|id| u32::from_le_bytes(*id));
        if self.child.is_some()
            && event.blobs().any(|blob| blob.tag == Tag::Child && made(blob.data) == self.child)
        {
            return false;
        }
        if let (true, Some(stack)) = (self.in_birth, self.found.as_mut()) {
            for blob in event.blobs().filter(|blob| blob.tag == Tag::Memory) {
                stack.add(blob.address, blob.data);
            }
        }
        true
    }
}

impl BirthStack {
    /// Takes what goes on where the memory ends.
    fn add(&mut self, address: u64, data: &[u8]) {
        let end = self.start + self.bytes.len() as u64;
        let Some(skipped) = end.checked_sub(address).and_then(|skipped| usize::try_from(skipped).ok()) else {
            return;
        };
        let room = STACK_BYTES_MAX - self.bytes.len();
        let more = data.get(skipped..).unwrap_or_default();
        self.bytes.extend_from_slice(&more[..more.len().min(room)]);
    }
}
