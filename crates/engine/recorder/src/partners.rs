//! Processes of the session with which one that goes back has talked since, by pipes and pairs of
//! Unix sockets, and which stay as they are: their answers come again, to somebody who has not
//! asked yet.
//!
//! Deliberately absent: processes outside of the session, and other sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use injector::{ChannelEnd, Segment, SessionMemory, channel_ends, peer_of};

/// Ends at which is looked, at most: a server may have thousands of connections.
const ENDS_MAX: usize = 256;

/// What went through a descriptor since, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub given: u64,
    pub taken: u64,
}

/// A line for each descriptor behind which is a process of the session that does not go back
/// with this one.
pub(crate) fn notes(
    memory: &SessionMemory,
    segment: Segment,
    together: &[Segment],
    traffic: &BTreeMap<u32, Traffic>,
) -> Vec<String> {
    let pid_of = |segment: Segment| memory.lane(segment).pid().load(Ordering::Acquire);
    let others: Vec<Segment> = memory
        .segments_in_use()
        .into_iter()
        .filter(|other| *other != segment && !together.contains(other))
        .collect();
    if others.is_empty() || traffic.is_empty() {
        return Vec::new();
    }
    let own = channel_ends(pid_of(segment));
    let theirs: Vec<(i32, BTreeSet<ChannelEnd>)> = others
        .into_iter()
        .map(pid_of)
        .filter(|pid| *pid > 0)
        .map(|pid| (pid, channel_ends(pid).into_values().collect()))
        .collect();
    let with_end = |(fd, traffic): (&u32, &Traffic)| own.get(fd).map(|end| (*fd, *end, *traffic));
    let mut lines = Vec::new();
    for (fd, end, traffic) in traffic.iter().filter_map(with_end).take(ENDS_MAX) {
        let Some(other_end) = other_end(end) else { continue };
        let holders: Vec<i32> =
            theirs.iter().filter(|(_, ends)| ends.contains(&other_end)).map(|(pid, _)| *pid).collect();
        if !holders.is_empty() {
            lines.push(line(fd, &holders, traffic));
        }
    }
    lines
}

/// Where what goes in at one end comes out.
fn other_end(end: ChannelEnd) -> Option<ChannelEnd> {
    match end {
        ChannelEnd::Pipe(_) => Some(end),
        ChannelEnd::Socket(inode) => peer_of(inode).map(ChannelEnd::Socket),
    }
}

fn line(fd: u32, holders: &[i32], traffic: Traffic) -> String {
    let pids: Vec<String> = holders.iter().map(i32::to_string).collect();
    let (who, goes, it) = match holders.len() {
        1 => ("process", "does not go back", "it"),
        _ => ("processes", "do not go back", "they"),
    };
    let what = match (traffic.given, traffic.taken) {
        (given, 0) => format!("{it} had {given} bytes since"),
        (0, taken) => format!("the {taken} bytes that {it} sent since are read again"),
        (given, taken) => {
            format!("{it} had {given} bytes since, and the {taken} that {it} answered are read again")
        }
    };
    format!("descriptor {fd}: {who} {}, at its other end, {goes}: {what}", pids.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_is_named() {
        let both = Traffic { given: 40, taken: 7 };
        assert_eq!(
            line(17, &[4711], both),
            "descriptor 17: process 4711, at its other end, does not go back: it had 40 bytes since, and the 7 that it answered are read again"
        );
        let taken = Traffic { given: 0, taken: 7 };
        assert!(line(3, &[1, 2], taken).contains("processes 1, 2, at its other end, do not go back: the 7"));
    }
}
