//! `--memory-max`: what the checkpoints of all processes hold together, and which of them go.
//!
//! A page that shadows share is nobody's own: each counts its part of it (`Pss_Anon` of
//! smaps_rollup, proc(5)), and so does the process. What they have together and the process
//! would not have alone is what its checkpoints hold.
//!
//! Deliberately absent: what a program's own checkpoints, and those that the log begins with, hold
//! beyond the limit; only those by time are discarded for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use injector::{Lane, Segment};
use lane_protocol::{checkpoint_origin, command};

use crate::listing::{Shown, checkpoints, monotonic_ns};
use crate::live::Work;
use crate::thinning::densest;

/// Bytes that the checkpoints of a process hold.
fn held_bytes(lane: Lane) -> u64 {
    let all = checkpoints(lane);
    let bases: BTreeSet<i32> = all.iter().map(|at| at.base).collect();
    if bases.is_empty() {
        return 0;
    }
    let (shadows, own) = (bases.into_iter().map(Part::of), Part::of(lane.pid().load(Ordering::Acquire)));
    let shadows = shadows.fold(Part::default(), |sum, part| sum.and(&part));
    // Its increments lie in the process's own memory.
    let saved: u64 = all.iter().map(|at| at.saved_bytes).sum();
    let of_all = (shadows.proportional + own.proportional).saturating_sub(own.anonymous);
    of_all.max(shadows.private) + saved
}

/// Memory of a process that no file has, in bytes.
#[derive(Default)]
struct Part {
    /// Its part of what it shares.
    proportional: u64,
    anonymous: u64,
    /// What nobody else has.
    private: u64,
}

impl Part {
    fn of(pid: i32) -> Part {
        Part::read(&std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default())
    }

    fn read(text: &str) -> Part {
        let bytes = |name: &str| -> u64 {
            let lines = text.lines().filter(|line| line.starts_with(name));
            let words = lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            words.sum::<u64>() * 1024
        };
        Part {
            proportional: bytes("Pss_Anon:") + bytes("SwapPss:"),
            anonymous: bytes("Anonymous:") + bytes("Swap:"),
            private: bytes("Private_Dirty:"),
        }
    }

    fn and(&self, other: &Part) -> Part {
        Part {
            proportional: self.proportional + other.proportional,
            anonymous: self.anonymous + other.anonymous,
            private: self.private + other.private,
        }
    }
}

impl Work {
    /// Discards checkpoints by time, of those who hold most first, until all hold little enough or
    /// each process has one left.
    pub(crate) fn keep_memory_below(&self, bytes_max: u64) {
        let held = |segment: Segment| held_bytes(self.session.memory.lane(segment));
        let mut all: BTreeMap<Segment, u64> =
            self.lanes().into_iter().map(|segment| (segment, held(segment))).collect();
        let mut spared = BTreeSet::new();
        while all.values().sum::<u64>() > bytes_max {
            let candidates = all.iter().filter(|(segment, _)| !spared.contains(*segment));
            let Some(segment) = candidates.max_by_key(|(_, bytes)| **bytes).map(|(segment, _)| *segment)
            else {
                return;
            };
            if self.discard_densest(segment) {
                // Those that were taken together go together.
                for other in std::iter::once(segment).chain(self.session.memory.sharers(segment)) {
                    all.insert(other, held(other));
                }
            } else {
                spared.insert(segment);
            }
        }
    }

    /// Discards the checkpoint by time that can be spared best; false if there is none.
    pub(crate) fn discard_densest(&self, segment: Segment) -> bool {
        let all = checkpoints(self.session.memory.lane(segment));
        let timed: Vec<&Shown> = all.iter().filter(|at| at.origin == checkpoint_origin::TIME).collect();
        let now_ns = monotonic_ns();
        let ages: Vec<u64> = timed.iter().map(|at| now_ns.saturating_sub(at.taken_ns)).collect();
        timed.len() > 1 && self.order(segment, command::DISCARD, u64::from(timed[densest(&ages)].id)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shadows_share_counts() {
        let text = "00400000-7ffe0000 ---p 00000000 00:00 0    [rollup]\nRss:  900 kB\nPss:  500 kB\n\
                    Pss_Anon:  300 kB\nPrivate_Clean:  7 kB\nPrivate_Dirty:  100 kB\nAnonymous:  600 kB\n";
        let part = Part::read(text);
        assert_eq!((part.proportional, part.anonymous, part.private), (300 << 10, 600 << 10, 100 << 10));
        let both = part.and(&part);
        assert_eq!((both.proportional, both.private), (600 << 10, 200 << 10));
    }
}
