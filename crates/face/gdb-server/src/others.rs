//! Which processes ran while the one that is debugged waited for its token: what it shares with
//! them they changed then.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use replayer::for_each_token;
use timeline::Timeline;
use trace_store::{StoreError, TraceReader};

/// Who changed the watched place, where it was an event that did; empty if none of them could.
pub(crate) fn in_words(timeline: &Timeline) -> String {
    let (Some((first, last)), Some(trace)) = (timeline.changed_by(), timeline.trace()) else {
        return String::new();
    };
    match who_ran(&trace, timeline.lane(), first..=last) {
        Err(error) => format!("retrovane: {error}\n"),
        Ok(pids) => match &pids[..] {
            [] => String::new(),
            [pid] => format!("by process {pid}: `retrovane replay --pid {pid}` leads there\n"),
            [..] => {
                format!("by one of the processes {pids:?}, which ran meanwhile\n").replace(['[', ']'], "")
            }
        },
    }
}

/// Process ids of those that held the token before the lane took it in these events, since the
/// lane had it.
fn who_ran(trace: &TraceReader, lane: u32, events: RangeInclusive<u64>) -> Result<Vec<i32>, StoreError> {
    let mut had: BTreeMap<u64, u64> = BTreeMap::new();
    let mut missed: Vec<(u64, RangeInclusive<u64>)> = Vec::new();
    for_each_token(trace, lane, &mut |taken| {
        let before = had.insert(taken.token, taken.ticket);
        if events.contains(&taken.event) {
            missed
                .push((taken.token, before.map_or(0, |before| before + 1)..=taken.ticket.saturating_sub(1)));
        }
        taken.event <= *events.end()
    })?;
    let mut pids = Vec::new();
    for other in trace.lanes().iter().filter(|info| info.lane != lane && !missed.is_empty()) {
        let mut ran = false;
        for_each_token(trace, other.lane, &mut |taken| {
            ran |= missed
                .iter()
                .any(|(token, tickets)| taken.token == *token && tickets.contains(&taken.ticket));
            !ran
        })?;
        if ran {
            pids.push(other.pid);
        }
    }
    Ok(pids)
}
