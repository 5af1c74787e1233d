//! Taking over what a recorder that was killed has left in the rings.
//!
//! Where the session's memory is a file of the trace ([`RINGS_NAME`]), it outlives program and
//! recorder. The first command that opens the trace writes to it what was logged and not yet
//! written, up to the last whole event of each process, and removes the file.
//!
//! Deliberately absent: how a process ended whose log does not say it. Nobody saw it; the trace
//! stays cut, and replay says so.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use events::{Event, Kind, MORE, StopReason};
use injector::{Lane, SessionMemory};
use lane_protocol::lane_state;
use trace_store::{LaneEnd, RINGS_NAME, Resumed, Summary, TraceWriter};

use crate::error::RecordError;
use crate::log_bytes::{end_of, measure};

/// What was found in the rings of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TakenOver {
    pub processes: usize,
    pub events: u64,
    /// All processes have told their ends: the trace is whole.
    pub is_whole: bool,
}

/// Completes the trace of a recorder that was killed, as far as what it left allows; `None` if
/// there is nothing left, or the recorder still runs.
///
/// # Errors
/// What kept it from that: the trace is as it was, and can be read.
pub fn take_over(trace_dir: &Path) -> Result<Option<TakenOver>, RecordError> {
    let rings = trace_dir.join(RINGS_NAME);
    if !std::fs::symlink_metadata(&rings).is_ok_and(|about| about.is_file()) {
        return Ok(None);
    }
    let (mut writer, started_unix_ns) = match TraceWriter::resume(trace_dir)? {
        Resumed::Cut { writer, meta } => (*writer, meta.started_unix_ns),
        Resumed::BeingRecorded => return Ok(None),
        Resumed::Whole => {
            // The recorder was killed between the trace's end and its own.
            let _ = std::fs::remove_file(&rings);
            return Ok(None);
        }
    };
    let memory = SessionMemory::open(&rings)?;
    // Processes that have outlived the recorder leave the recording when they notice.
    memory.stop().store(StopReason::RecorderDied as u32, Ordering::Release);
    let mut taken = TakenOver::default();
    let mut lanes: Vec<Lane> =
        memory.segments_in_use().into_iter().map(|segment| memory.lane(segment)).collect();
    // Whoever made another one comes before it.
    lanes.sort_by_key(|lane| lane.ids().0);
    for lane in lanes {
        let events = take_lane(&mut writer, lane)?;
        taken.events += events;
        taken.processes += usize::from(events != 0);
    }
    let exit = writer.lane_info(0).and_then(|main| main.end);
    taken.is_whole = exit.is_some() && writer.lanes().iter().all(|lane| lane.end.is_some());
    match exit {
        Some(exit) if taken.is_whole => {
            let duration_ns = duration_ns(&writer, started_unix_ns);
            writer.finish(&Summary { exit, duration_ns, notes: Vec::new() })?;
        }
        _ => drop(writer),
    }
    memory.remove_file();
    Ok(Some(taken))
}

/// Writes what a lane's ring holds beyond what the trace has of it; gives the events.
fn take_lane(writer: &mut TraceWriter, lane: Lane) -> Result<u64, RecordError> {
    let (id, parent) = lane.ids();
    let pid = lane.pid().load(Ordering::Acquire);
    let state = lane.state().load(Ordering::Acquire);
    let is_begun = state == lane_state::LIVE || state == lane_state::ENDED;
    let known = writer.lane_info(id);
    if pid == 0 || !is_begun || known.as_ref().is_some_and(|known| known.end.is_some()) {
        return Ok(0);
    }
    let bytes = lane.left_behind(known.as_ref().map_or(0, |known| known.raw_bytes));
    let whole = whole_events(&bytes);
    if known.is_none() {
        writer.begin_lane(id, parent, pid)?;
    }
    writer.append(id, whole.events, &bytes[..whole.bytes])?;
    if let Some(end) = whole.end {
        writer.end_lane(id, end)?;
    }
    Ok(whole.events)
}

/// Whole events at the beginning of a log.
#[derive(Debug, Default, PartialEq, Eq)]
struct Whole {
    bytes: usize,
    events: u64,
    /// The end that the last of them tells; what comes behind one is none of the log's.
    end: Option<LaneEnd>,
}

/// The events with all of their parts.
fn whole_events(log: &[u8]) -> Whole {
    let (mut at, mut events) = (0, 0);
    let mut whole = Whole::default();
    while whole.end.is_none()
        && let Some((kind, len_bytes)) = measure(&log[at..])
    {
        let (event, has_more) = (&log[at..at + len_bytes], log[at + 1] & MORE != 0);
        events += u64::from(kind != Kind::Data);
        at += len_bytes;
        if !has_more {
            let end = Event::parse(event).ok().and_then(|(event, _)| end_of(&event));
            whole = Whole { bytes: at, events, end };
        }
    }
    whole
}

/// From the recording's start to the last time that its log grew.
fn duration_ns(writer: &TraceWriter, started_unix_ns: u64) -> u64 {
    let changed = writer.changed().and_then(|changed| changed.duration_since(UNIX_EPOCH).ok());
    let until = changed.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    until.saturating_sub(started_unix_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::Header;

    fn event(kind: Kind, flags: u8, code: u64) -> Vec<u8> {
        [Header::new(kind, flags, 0, 16).to_le_bytes(), code.to_le_bytes()].concat()
    }

    #[test]
    fn an_event_whose_parts_are_missing_is_left_out() {
        let first = event(Kind::Syscall, 0, 1);
        let begun = event(Kind::Syscall, MORE, 2);
        let rest = event(Kind::Data, 0, 3);
        let log = [first.clone(), begun.clone(), rest].concat();
        assert_eq!(whole_events(&log), Whole { bytes: 48, events: 2, end: None });
        for cut in [&log[..32], &log[..40], &log[..20], &log[..16]] {
            assert_eq!(whole_events(cut), Whole { bytes: 16, events: 1, end: None });
        }
        assert_eq!(whole_events(&[]), Whole::default());
    }

    #[test]
    fn what_is_no_event_and_what_comes_behind_an_end_is_left_out() {
        let exit = event(Kind::Exit, 0, 7);
        let end = Some(LaneEnd::Exited(7));
        let log = [exit.clone(), event(Kind::Syscall, 0, 1)].concat();
        assert_eq!(whole_events(&log), Whole { bytes: 16, events: 1, end });
        assert_eq!(whole_events(&[0xff; 64]), Whole::default());
    }
}
