//! Processes whose log does not tell their end: they were killed in their own code, where nothing
//! ends them in replay.

use std::time::Duration;

use trace_store::{LaneEnd, LaneInfo, TraceReader};

const TIME_MAX: Duration = Duration::from_secs(2);

/// What is told of a process that goes on behind a log which should tell its end.
pub const LOG_TOO_SHORT: &str = "its log ends before the process does";

/// True if the log has to tell how the process ended: it ended by itself, and the trace is whole.
pub fn tells_its_end(trace: &TraceReader, recorded: Option<&LaneInfo>) -> bool {
    let end = recorded.and_then(|info| info.end);
    trace.cut().is_none() && matches!(end, Some(LaneEnd::Exited(_)))
}

/// Processor time behind its last event after which a process counts as killed there, where its
/// log does not tell how it ended. The time that the recording took is enough, too.
pub fn time_behind_log(trace: &TraceReader, recorded: Option<&LaneInfo>) -> Option<Duration> {
    let end = recorded.and_then(|info| info.end);
    if matches!(end, Some(LaneEnd::Exited(_) | LaneEnd::Stopped(_))) {
        return None;
    }
    let took = trace.summary().map(|summary| Duration::from_nanos(summary.duration_ns));
    Some(took.unwrap_or(TIME_MAX).min(TIME_MAX))
}
