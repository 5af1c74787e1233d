//! Whether the memory of a masked replay holds what was masked.
//!
//! What a program decodes, decompresses or puts together from what no search of a log recognises stands in its
//! memory as it is. Deliberately absent: positions other than each process's end, or its crash.

use std::fs::File;
use std::os::unix::fs::FileExt;

use replayer::{ReplayOptions, replay};
use timeline::{Mapping, Timeline};
use trace_store::TraceReader;

use super::secrets::Secrets;
use crate::exit::CommandError;
use crate::settings::Settings;

/// Bytes that are read at once.
const PART_BYTES: usize = 1 << 20;
/// More processes than these are not looked at.
const PROCESSES_MAX: usize = 64;

/// What a replay of the masked trace shows.
#[derive(Debug, Default)]
pub struct Checked {
    /// Where it does something else than the log says; `None`: it comes to its end.
    pub stops: Option<String>,
    /// It sends something else there: lane and event.
    pub sends: Option<(u32, u64)>,
    /// Processes whose memory was searched.
    pub processes: usize,
    /// Processes whose memory could not be.
    pub unseen: Vec<i32>,
    /// Values that were found, with where.
    pub left: Vec<String>,
}

/// Replays the trace.
pub fn replays(trace: &TraceReader, settings: &Settings) -> Checked {
    let mut checked = Checked::default();
    match replay(settings.replay_of(trace.dir().to_owned())) {
        Ok(outcome) => {
            if let Some(found) = outcome.divergence {
                checked.sends = found.is_of_sent().then_some((found.lane, found.event));
                let place = format!("event {} of process {}", found.event, found.pid);
                checked.stops = Some(format!("{place}, which hangs on what was masked"));
            }
        }
        Err(error) => checked.stops = Some(format!("its beginning: {error}")),
    }
    checked
}

/// Searches the memory of each process.
pub fn search(
    mut checked: Checked,
    trace: &TraceReader,
    secrets: &Secrets,
    settings: &Settings,
) -> Result<Checked, CommandError> {
    for info in trace.lanes().iter().take(PROCESSES_MAX) {
        match look_into(trace, info.pid, settings, secrets) {
            Ok(left) => {
                checked.processes += 1;
                checked.left.extend(left);
            }
            Err(_) => checked.unseen.push(info.pid),
        }
    }
    checked.unseen.extend(trace.lanes().iter().skip(PROCESSES_MAX).map(|info| info.pid));
    Ok(checked)
}

fn look_into(
    trace: &TraceReader,
    pid: i32,
    settings: &Settings,
    secrets: &Secrets,
) -> Result<Vec<String>, CommandError> {
    let options =
        ReplayOptions { pid: Some(pid), rewriting_off: true, ..settings.replay_of(trace.dir().to_owned()) };
    let mut timeline = Timeline::open(&options, &|| false)?;
    timeline.seek_end(&|| false)?;
    let unread = |source| CommandError::Try { doing: "read the memory of a replay", source };
    let maps = timeline.mappings().map_err(unread)?;
    let memory = File::open(format!("/proc/{}/mem", timeline.pid())).map_err(unread)?;
    let mut left = Vec::new();
    for &Mapping { start, end, .. } in maps.iter().filter(|mapping| mapping.is_readable()) {
        let mut at = start;
        let mut part = vec![0; PART_BYTES];
        while at < end {
            let wanted = PART_BYTES.min((end - at) as usize);
            let Ok(read @ 1..) = memory.read_at(&mut part[..wanted], at) else { break };
            for found in secrets.find(&part[..read]) {
                left.push(format!(
                    "the memory of process {pid} holds the value of {} at its end, at {:#x} ({})",
                    secrets.name(found.secret),
                    at + found.start as u64,
                    found.what
                ));
            }
            // What lies over the end of a part is whole in the next one.
            at += if read < wanted || at + read as u64 >= end {
                read as u64
            } else {
                (read - secrets.bytes_max().min(read - 1)) as u64
            };
        }
    }
    Ok(left)
}
