//! One lane's log on its way from the trace into the ring.

use events::{DecodeError, Event, HEADER_BYTES, Header, Tag};
use injector::{Lane, RingDamaged, Segment};
use lane_protocol::RING_BYTES;
use trace_store::{LaneReader, StoreError};

use crate::real::Additions;

/// What feeding ended with.
#[derive(Debug)]
pub enum FeedError {
    Store(StoreError),
    /// The chunk holds no whole events, though its checksum is right.
    BadEvents(DecodeError),
    Ring(RingDamaged),
}

/// The state of feeding one lane.
pub struct Feed {
    pub segment: Segment,
    pub lane: u32,
    /// `None`: the trace holds no such lane, so its log is empty.
    reader: Option<LaneReader>,
    chunk: Vec<u8>,
    /// Bytes of the chunk that are in the ring.
    done: usize,
    pub closed: bool,
    additions: Additions,
}

impl Feed {
    pub fn new(segment: Segment, lane: u32, reader: Option<LaneReader>) -> Feed {
        Feed {
            segment,
            lane,
            reader,
            chunk: Vec::new(),
            done: 0,
            closed: false,
            additions: Additions::default(),
        }
    }

    /// The same with operations on real streams.
    pub(crate) fn with(self, additions: Additions) -> Feed {
        Feed { additions, ..self }
    }

    /// The same for a log of which so many bytes were consumed.
    ///
    /// # Errors
    /// [`FeedError`] if the log is shorter, or cannot be read.
    pub fn from(
        segment: Segment,
        lane: u32,
        mut reader: LaneReader,
        position_bytes: u64,
    ) -> Result<Feed, FeedError> {
        let skipped_bytes = reader.skip(position_bytes);
        let mut feed = Feed::new(segment, lane, Some(reader));
        let rest = (position_bytes - skipped_bytes) as usize;
        if rest > 0 {
            feed.next_chunk()?;
            feed.done = rest;
        }
        if rest > feed.chunk.len() { Err(FeedError::BadEvents(DecodeError::Truncated)) } else { Ok(feed) }
    }

    /// Puts into the ring what fits, by whole events, and closes it after the
    /// last. Returns the bytes that went in.
    ///
    /// # Errors
    /// [`FeedError`]
    pub fn pump(&mut self, lane: Lane) -> Result<usize, FeedError> {
        let mut moved_bytes = 0;
        while !self.closed {
            if self.done == self.chunk.len() && !self.next_chunk()? {
                self.closed = true;
                lane.close();
                break;
            }
            let space_bytes = RING_BYTES
                .checked_sub(lane.ring().filled_bytes())
                .ok_or(FeedError::Ring(RingDamaged))? as usize;
            let part_bytes = whole_events(&self.chunk[self.done..], space_bytes)?;
            if part_bytes == 0 {
                break;
            }
            let part = &self.chunk[self.done..self.done + part_bytes];
            let put = lane.copy_in(part).map_err(FeedError::Ring)?;
            self.done += put;
            moved_bytes += put;
        }
        Ok(moved_bytes)
    }

    fn next_chunk(&mut self) -> Result<bool, FeedError> {
        self.done = 0;
        let Some(reader) = self.reader.as_mut() else { return Ok(false) };
        let is_there = reader.next_chunk(&mut self.chunk).map_err(FeedError::Store)?.is_some();
        check_events(&self.chunk)?;
        self.additions.add_to(&mut self.chunk);
        Ok(is_there)
    }
}

/// Errors where bytes are no events. The last one may lack its end: of a process that was killed.
fn check_events(bytes: &[u8]) -> Result<(), FeedError> {
    let mut at = 0;
    while at < bytes.len() {
        match Event::parse(&bytes[at..]) {
            // Nobody but we may ask for what is real.
            Ok((event, _)) if event.blobs().any(|blob| blob.tag == Tag::Real) => {
                return Err(FeedError::BadEvents(DecodeError::BadBody));
            }
            Ok((_, len_bytes)) => at += len_bytes,
            Err(DecodeError::Truncated) => return Ok(()),
            Err(error) => return Err(FeedError::BadEvents(error)),
        }
    }
    Ok(())
}

/// Length of as many whole events from the start as fit into `space_bytes`.
fn whole_events(bytes: &[u8], space_bytes: usize) -> Result<usize, FeedError> {
    if bytes.len() <= space_bytes {
        return Ok(bytes.len());
    }
    let bad = |len_bytes: usize| FeedError::BadEvents(DecodeError::BadLength(len_bytes as u32));
    let mut at = 0;
    while at < bytes.len() {
        let header = Header::read(&bytes[at..]).ok_or_else(|| bad(bytes.len() - at))?;
        let len_bytes = header.bytes() as usize;
        if len_bytes < HEADER_BYTES || len_bytes > bytes.len() - at || !len_bytes.is_multiple_of(8) {
            return Err(bad(len_bytes));
        }
        if at + len_bytes > space_bytes {
            break;
        }
        at += len_bytes;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::{Header, Kind};

    #[test]
    fn only_whole_events_are_taken() {
        let mut bytes = Vec::new();
        for len_bytes in [16u32, 24, 16] {
            bytes.extend(Header::new(Kind::Syscall, 0, 39, len_bytes).to_le_bytes());
            bytes.resize(bytes.len() + len_bytes as usize - HEADER_BYTES, 0);
        }
        for (space, expected) in [(0, 0), (15, 0), (16, 16), (39, 16), (40, 40), (56, 56), (100, 56)] {
            assert_eq!(whole_events(&bytes, space).expect("well formed"), expected);
        }
        bytes[4] = 1;
        assert!(whole_events(&bytes, 20).is_err());
    }
}
