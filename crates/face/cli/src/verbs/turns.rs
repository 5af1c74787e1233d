//! `turns`: which thread ran when, from the index of the log.

use std::collections::VecDeque;
use std::path::Path;

use serde_json::{Value, json};
use trace_store::LaneInfo;

use super::cursor::Limit;
use super::log::{self, LastIndex};
use super::whole::{OBJECTS, OBJECTS_MAX};
use super::{Arguments, VerbError, is_true, number, text};
use crate::event_index::{EventIndex, UNKNOWN};

/// Rows of one thread, one behind the other.
struct Turn {
    process: u16,
    thread: u16,
    first: u64,
    last: u64,
    begun_ms: u32,
}

/// Who ran when, in the order of time.
pub fn answer(
    dir: &Path,
    arguments: &Arguments,
    limit: &Limit<'_>,
    last_index: &LastIndex,
) -> Result<Value, VerbError> {
    let most = number(arguments, "most", OBJECTS_MAX)?.unwrap_or(OBJECTS).max(1) as usize;
    let is_last = is_true(arguments, "last");
    let pid = number(arguments, "process", u64::from(u32::MAX))?;
    let from = text(arguments, "position")?.map(log::until).transpose()?;
    let (trace, index) = log::open(dir, limit, last_index)?;
    let lanes = trace.lanes();
    let of = pid.map(|pid| log::processes_of(lanes, pid)).transpose()?;
    if from.is_some() && of.is_none() && lanes.len() > 1 {
        let why = "the recording has several processes: `process` says whose position it is";
        return Err(VerbError::Refused(why.to_owned()));
    }
    let begins = from.map_or(0, |from| row_of(&index, of.as_deref(), from));
    let (mut shown, mut found) = (VecDeque::new(), 0_usize);
    for turn in turns(&index).skip_while(|(row, _)| *row < begins).map(|(_, turn)| turn) {
        // With a position all are shown, from there on: who ran in between is what is asked.
        if from.is_none() && of.as_ref().is_some_and(|of| !of.contains(&turn.process)) {
            continue;
        }
        found += 1;
        if shown.len() == most {
            if !is_last {
                break;
            }
            shown.pop_front();
        }
        shown.push_back(turn);
    }
    let more = found > shown.len();
    let turns: Vec<Value> = shown.iter().map(|turn| described(turn, &index, lanes)).collect();
    Ok(json!({"turns": turns, "more": more}))
}

/// The first row of the turn in which an event of a process is.
fn row_of(index: &EventIndex, of: Option<&[u16]>, event: u64) -> usize {
    let is_one =
        |row: &usize| of.is_none_or(|of| of.contains(&index.processes[*row])) && index.events[*row] >= event;
    let row = (0..index.events.len()).find(is_one).unwrap_or(index.events.len());
    let runs = |row: usize| (index.processes.get(row), index.threads.get(row));
    (0..row).rev().take_while(|before| runs(*before) == runs(row)).last().unwrap_or(row)
}

/// All turns, each with its first row.
fn turns(index: &EventIndex) -> impl Iterator<Item = (usize, Turn)> + '_ {
    let mut row = 0;
    std::iter::from_fn(move || {
        let first = row;
        let (process, thread) = (*index.processes.get(row)?, index.threads[row]);
        let is_same = |row: usize| index.processes.get(row) == Some(&process) && index.threads[row] == thread;
        while is_same(row) {
            row += 1;
        }
        let [begun, ended] = [first, row - 1].map(|row| index.events[row]);
        Some((first, Turn { process, thread, first: begun, last: ended, begun_ms: index.times[first] }))
    })
}

fn described(turn: &Turn, index: &EventIndex, lanes: &[LaneInfo]) -> Value {
    let info = lanes.get(usize::from(turn.process));
    let end = info.map_or(turn.last, |info| info.events).min(turn.last.saturating_add(1));
    let mut about = json!({
        "process": info.map(|info| info.pid),
        "thread": u32::from(turn.thread) + 1,
        "from": format!("{}+0", turn.first),
        "to": format!("{end}+0"),
        "events": turn.last.saturating_sub(turn.first).saturating_add(1),
    });
    if let Some(name) = index.thread_names.get(&(turn.process, turn.thread)) {
        about["name"] = Value::from(name.as_str());
    }
    if turn.begun_ms != UNKNOWN {
        about["ms"] = Value::from(turn.begun_ms);
    }
    about
}
