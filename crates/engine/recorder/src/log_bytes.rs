//! Events in the bytes of a log: how long each is, and which end of its lane it means.

use events::{Event, HEADER_BYTES, Header, Kind};
use trace_store::LaneEnd;

/// Kind and length of the event at the start; `None` if it is none, or not whole.
pub(crate) fn measure(bytes: &[u8]) -> Option<(Kind, usize)> {
    let header = Header::read(bytes)?;
    let (len_bytes, kind) = (header.bytes() as usize, header.kind()?);
    let fits = len_bytes >= HEADER_BYTES && len_bytes.is_multiple_of(8) && len_bytes <= bytes.len();
    fits.then_some((kind, len_bytes))
}

/// The end that an event means for its lane.
pub(crate) fn end_of(event: &Event) -> Option<LaneEnd> {
    event.ends_lane().then(|| match event.kind {
        Kind::Exit => LaneEnd::Exited(event.result() as i32),
        Kind::Stop => LaneEnd::Stopped(event.code),
        _ => LaneEnd::Killed(i32::from(event.code)),
    })
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

/// How many events a part of a log holds, as traces count them.
pub(crate) fn count_in(raw: &[u8]) -> u64 {
    events_in(raw).filter(|event| event.kind != Kind::Data).count() as u64
}
