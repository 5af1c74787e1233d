//! Which processes shared a token with others, by their logs.
//!
//! Deliberately absent: what they shared. Who comes to share memory when it runs already, as by a file that
//! others have mapped, is known by nothing else than the tokens that it took from them.

use std::collections::HashMap;

use events::{HEADER_BYTES, Header, Kind, MORE, TICKET};
use trace_store::{LaneInfo, StoreError, TraceReader};

/// That a process had a token from this event on, which another one had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    pub event: u64,
    pub token: u64,
    pub ticket: u64,
}

/// Calls `act` for each token that the lane's log says came from another process, until that
/// returns false.
///
/// # Errors
/// Those of reading the log.
pub fn for_each_token(
    trace: &TraceReader,
    lane: u32,
    act: &mut dyn FnMut(&Taken) -> bool,
) -> Result<(), StoreError> {
    let mut reader = trace.lane(lane)?;
    let mut chunk = Vec::new();
    let (mut event, mut goes_on) = (0, false);
    while reader.next_chunk(&mut chunk)?.is_some() {
        let word = |at: usize| {
            let bytes = chunk.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let mut at = 0;
        while let Some(header) = word(at).map(Header).filter(|header| header.bytes() as usize >= HEADER_BYTES)
        {
            let (kind, flags) = (header.kind(), header.flags());
            if kind == Some(Kind::Token)
                && flags & TICKET != 0
                && let (Some(token), Some(ticket)) = (word(at + HEADER_BYTES), word(at + HEADER_BYTES + 8))
                && !act(&Taken { event, token, ticket })
            {
                return Ok(());
            }
            event += u64::from(!goes_on);
            goes_on = flags & MORE != 0;
            at += header.bytes() as usize;
        }
    }
    Ok(())
}

/// True if the process took a token from another one.
fn shared(trace: &TraceReader, lane: u32) -> Result<bool, StoreError> {
    let mut has = false;
    for_each_token(trace, lane, &mut |_| {
        has = true;
        false
    })?;
    Ok(has)
}

/// A lane and those that lead to it; and where one of these took tokens from others, all that did so, and those that
/// lead to them: they wait for each other.
///
/// # Errors
/// Those of reading the logs.
pub(crate) fn needed(
    trace: &TraceReader,
    lanes: &HashMap<u32, LaneInfo>,
    lane: u32,
) -> Result<Vec<u32>, StoreError> {
    let mut needed = ancestors(lanes, lane);
    if needed.len() == lanes.len() {
        return Ok(needed);
    }
    let mut is_of_group = false;
    for lane in &needed {
        is_of_group = is_of_group || shared(trace, *lane)?;
    }
    if !is_of_group {
        return Ok(needed);
    }
    for other in trace.lanes() {
        if !needed.contains(&other.lane) && shared(trace, other.lane)? {
            let more = ancestors(lanes, other.lane);
            needed.extend(more.into_iter().filter(|lane| !needed.contains(lane)).collect::<Vec<_>>());
        }
    }
    Ok(needed)
}

/// A lane and those that lead to it.
fn ancestors(lanes: &HashMap<u32, LaneInfo>, lane: u32) -> Vec<u32> {
    let mut path = vec![lane];
    let mut at = lane;
    while let Some(info) = lanes.get(&at)
        && !path.contains(&info.parent)
        && lanes.contains_key(&info.parent)
    {
        at = info.parent;
        path.push(at);
    }
    path
}
