//! Verbs that are answered from the index of the log: `search`, `sender` and `receiver`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::{Value, json};
use trace_store::{LaneInfo, TraceReader};

use super::cursor::Limit;
use super::whole::{OBJECTS, OBJECTS_MAX, cut};
use super::{Arguments, VerbError, is_true, number, text};
use crate::dump::{Filter, error_name};
use crate::event_index::{EventIndex, Wanted};
use crate::exit::CommandError;
use crate::senders::{Arrow, Place};

/// Messages of which one answer tells.
const MESSAGES_MAX: usize = 20;
/// The file of a trace that holds its log.
const EVENTS_NAME: &str = "events.rvt";

/// Which end of a meeting is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Sender,
    Receiver,
}

pub fn refused(error: CommandError) -> VerbError {
    VerbError::Refused(error.to_string())
}

/// The index that was used last, for those who stay and are asked again.
#[derive(Default)]
pub struct LastIndex(Mutex<Option<(Stamp, Arc<EventIndex>)>>);

/// What tells whether a trace's log is as it was.
type Stamp = (PathBuf, Option<(SystemTime, u64)>);

fn stamp(trace: &TraceReader) -> Stamp {
    let about = std::fs::metadata(trace.dir().join(EVENTS_NAME)).ok();
    (trace.dir().to_owned(), about.and_then(|about| Some((about.modified().ok()?, about.len()))))
}

/// A trace and its index.
pub fn open(
    dir: &Path,
    limit: &Limit<'_>,
    last: &LastIndex,
) -> Result<(TraceReader, Arc<EventIndex>), VerbError> {
    let trace = TraceReader::open(dir).map_err(|error| refused(error.into()))?;
    let now = stamp(&trace);
    let mut last = last.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, index)) = last.as_ref().filter(|(then, _)| *then == now) {
        let index = Arc::clone(index);
        return Ok((trace, index));
    }
    // The next one takes its place, and its memory.
    *last = None;
    let index = EventIndex::of(&trace, &|| limit.is_reached());
    match index {
        Ok(index) => {
            let index = Arc::new(index);
            *last = Some((now, Arc::clone(&index)));
            Ok((trace, index))
        }
        Err(_) if limit.is_reached() => Err(limit.error()),
        Err(error) => Err(refused(error)),
    }
}

/// Positions of the processes with this pid.
pub fn processes_of(lanes: &[LaneInfo], pid: u64) -> Result<Vec<u16>, VerbError> {
    let named = lanes.iter().enumerate().filter(|(_, info)| i64::from(info.pid) == pid as i64);
    let found: Vec<u16> = named.filter_map(|(position, _)| u16::try_from(position).ok()).collect();
    match found.is_empty() {
        true => Err(refused(CommandError::NoSuchProcess { pid: pid as i32 })),
        false => Ok(found),
    }
}

/// Events of the log whose text holds something.
pub fn search(
    dir: &Path,
    arguments: &Arguments,
    limit: &Limit<'_>,
    last: &LastIndex,
) -> Result<Value, VerbError> {
    let calls = text(arguments, "calls")?.unwrap_or_default();
    let names: Vec<String> = calls.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let filter = Filter::new(&names, None, &[]).map_err(refused)?;
    let pid = number(arguments, "process", u64::from(u32::MAX))?;
    let most = number(arguments, "most", OBJECTS_MAX)?.unwrap_or(OBJECTS).max(1) as usize;
    let (trace, index) = open(dir, limit, last)?;
    let processes = pid.map(|pid| processes_of(trace.lanes(), pid)).transpose()?;
    let wanted = Wanted {
        text: text(arguments, "text")?.unwrap_or_default(),
        sort: &|sort| filter.wants_kind(sort.kind, sort.code),
        processes: processes.as_deref(),
        most,
        is_last: is_true(arguments, "last"),
    };
    let found = index.search(&wanted, &|| limit.is_reached()).ok_or_else(|| limit.error())?;
    let shown = |(row, text): &(usize, String)| {
        let process = usize::from(index.processes[*row]);
        let pid = trace.lanes().get(process).map(|info| info.pid);
        let mut event = json!({"process": pid, "position": index.events[*row], "text": cut(text)});
        if index.errors[*row] != 0 {
            event["error"] = Value::from(error_name(i32::from(index.errors[*row])));
        }
        event
    };
    let events: Vec<Value> = found.rows.iter().map(shown).collect();
    Ok(json!({"events": events, "more": found.has_more}))
}

/// Which events sent what an event received, or the other way round: of the event at a position, or of the last one
/// before it that met another.
pub fn meeting(
    dir: &Path,
    arguments: &Arguments,
    limit: &Limit<'_>,
    last: &LastIndex,
    way: Way,
) -> Result<Value, VerbError> {
    let until = until(text(arguments, "position")?.unwrap_or("end"))?;
    let pid = number(arguments, "process", u64::from(u32::MAX))?;
    let (trace, index) = open(dir, limit, last)?;
    let lanes = trace.lanes();
    let processes = match pid {
        Some(pid) => processes_of(lanes, pid)?,
        None if lanes.len() == 1 || until == u64::MAX => (0..lanes.len() as u16).collect(),
        None => {
            return Err(VerbError::Refused(
                "the recording has several processes: `process` says which, as `overview` lists them"
                    .to_owned(),
            ));
        }
    };
    let asked = |arrow: &Arrow| match way {
        Way::Sender => Some(arrow.to),
        Way::Receiver => arrow.from,
    };
    let is_of = |place: &Place| {
        let process = u16::try_from(place.process).unwrap_or(u16::MAX);
        processes.contains(&process) && place.event <= until
    };
    let last = index.arrows.iter().filter_map(asked).filter(is_of).max_by_key(|place| place.event);
    let Some(place) = last else {
        return Err(VerbError::Refused(match way {
            Way::Sender => {
                "nothing was received before this position by a pipe, a socket, a signal or a wait".to_owned()
            }
            Way::Receiver => "nothing was sent before this position that another event received".to_owned(),
        }));
    };
    let arrows: Vec<&Arrow> = index.arrows.iter().filter(|arrow| asked(arrow) == Some(place)).collect();
    let others = arrows.iter().filter_map(|arrow| {
        let other = match way {
            Way::Sender => arrow.from,
            Way::Receiver => Some(arrow.to),
        };
        Some((arrow.meeting, other?))
    });
    let others: Vec<_> = others.collect();
    let shown = others.iter().take(MESSAGES_MAX).map(|(meeting, place)| {
        let mut shown = described(&index, lanes, *place);
        // An event may meet one by its end, say, and another through memory.
        if *meeting != arrows[0].meeting {
            shown["by"] = Value::from(meeting.name());
        }
        shown
    });
    let shown: Vec<Value> = shown.collect();
    let (this, those) = match way {
        Way::Sender => ("received", "sent"),
        Way::Receiver => ("sent", "received"),
    };
    let mut answer = json!({"by": arrows[0].meeting.name()});
    answer[this] = described(&index, lanes, place);
    answer[those] = Value::from(shown);
    answer["certain"] = Value::from(arrows.iter().all(|arrow| arrow.is_certain));
    answer["more"] = Value::from(others.len() > MESSAGES_MAX);
    if others.is_empty() {
        answer["certain"] = Value::from(true);
        answer["said"] = json!(["no process of the recording sent it"]);
    }
    Ok(answer)
}

/// The last event that counts: the one that a number names, or what came before a place behind it.
pub fn until(position: &str) -> Result<u64, VerbError> {
    let wrong = || {
        VerbError::Refused(
            "`position` is end, an event such as 109, or a position such as 109+4578".to_owned(),
        )
    };
    if position == "end" {
        return Ok(u64::MAX);
    }
    match position.split_once('+') {
        None => position.parse().map_err(|_| wrong()),
        Some((events, steps)) if steps.parse::<u64>().is_ok() => {
            let events: u64 = events.parse().map_err(|_| wrong())?;
            events
                .checked_sub(1)
                .ok_or_else(|| VerbError::Refused("nothing came before the beginning".to_owned()))
        }
        Some(_) => Err(wrong()),
    }
}

/// An event, with the position right behind it, where its caller is seen.
fn described(index: &EventIndex, lanes: &[LaneInfo], place: Place) -> Value {
    let info = lanes.get(place.process);
    let behind = info.map_or(place.event, |info| info.events).min(place.event.saturating_add(1));
    let mut about = json!({
        "process": info.map(|info| info.pid),
        "event": place.event,
        "position": format!("{behind}+0"),
    });
    if let Some(program) = info.and_then(|info| index.programs.get(&info.lane)) {
        about["program"] = Value::from(program.as_str());
    }
    if let Some(row) = index.row_of(place.process, place.event) {
        about["thread"] = Value::from(u32::from(index.threads[row]) + 1);
        about["text"] = Value::from(cut(&index.text(row).unwrap_or_default()));
    }
    about
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_says_which_events_came_before() {
        assert_eq!(until("7").ok(), Some(7));
        assert_eq!(until("7+0").ok(), Some(6));
        assert_eq!(until("end").ok(), Some(u64::MAX));
        for wrong in ["", "+", "7+", "x", "0+5"] {
            assert!(until(wrong).is_err(), "{wrong}");
        }
    }
}
