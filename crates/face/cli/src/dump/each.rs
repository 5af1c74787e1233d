//! All events of a trace in the order in which they are shown, for what draws them.

use std::collections::HashMap;

use events::Kind;
use trace_store::TraceReader;

use super::filter::Filter;
use super::order::{Merge, Step};
use super::{Showing, line};
use crate::births::Image;
use crate::exit::CommandError;
use crate::lane_events::WholeEvent;

/// Bytes of a string that are shown.
const STRING_BYTES_MAX: usize = 48;

/// One event, as it is shown.
pub struct Seen<'a> {
    /// Of its process in the trace's list.
    pub position: usize,
    /// Of the process, counted from 0.
    pub thread: u16,
    /// In the process's log.
    pub index: u64,
    pub kind: Kind,
    pub code: u16,
    /// It wrote to the recorded standard output or error.
    pub is_output: bool,
    pub text: &'a str,
    /// `None`: the end of a process whose log does not tell it.
    pub whole: Option<&'a WholeEvent>,
}

/// Gives each event; afterwards the last program of each lane.
pub fn each_event(
    trace: &TraceReader,
    each: &mut dyn FnMut(&Seen<'_>) -> Result<(), CommandError>,
) -> Result<HashMap<u32, String>, CommandError> {
    let lanes = trace.lanes();
    let showing = Showing::new(trace, STRING_BYTES_MAX);
    let mut programs: HashMap<u32, String> = HashMap::new();
    let mut merge = Merge::new(trace);
    let mut text = String::new();
    loop {
        let position = match merge.next()? {
            Step::Done => return Ok(programs),
            Step::End(position) if merge.tells_end(position) => continue,
            Step::End(position) => {
                let lane = &lanes[position];
                text.clear();
                line::end(&mut text, lane);
                each(&Seen {
                    position,
                    thread: merge.thread(position),
                    index: lane.events,
                    kind: Kind::Exit,
                    code: 0,
                    is_output: false,
                    text: &text,
                    whole: None,
                })?;
                continue;
            }
            Step::Event(position) => position,
        };
        let whole = merge.event(position);
        if whole.kind == Kind::Birth
            && let Some(image) = Image::of(whole)
        {
            let path = image.path.to_string_lossy().into_owned();
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            programs.insert(lanes[position].lane, name);
        }
        // A process that has executed nothing yet runs what its parent does.
        let lane = &lanes[position];
        if !programs.contains_key(&lane.lane)
            && let Some(name) = programs.get(&lane.parent).cloned()
        {
            programs.insert(lane.lane, name);
        }
        text.clear();
        line::event(&mut text, whole, &showing);
        each(&Seen {
            position,
            thread: merge.thread(position),
            index: whole.index,
            kind: whole.kind,
            code: whole.code,
            is_output: whole.output().is_some(),
            text: &text,
            whole: Some(whole),
        })?;
    }
}

/// True if a class of `--call` has this call.
pub fn class_has(class: &str, call: &str) -> bool {
    Filter::new(&[format!("%{class}")], None, &[]).is_ok_and(|filter| filter.has_call(call))
}
