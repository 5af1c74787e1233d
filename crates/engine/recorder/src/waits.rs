//! How children ended of which their own log does not tell it: what kills a process
//! leaves it no time to log anything, but its parent waits for it, and that is in the
//! parent's log.
//!
//! Both become known in any order, so they are matched when the recording is over.
//! Deliberately absent: processes for which nobody recorded waits.

use std::collections::{BTreeMap, HashMap, VecDeque};

use events::{Event, Tag};
use trace_store::LaneEnd;

use crate::numbers::{WAIT4, WAITID};

/// waitid(2): the child is left to be waited for again.
const WNOWAIT: u64 = 0x0100_0000;

#[derive(Default)]
pub(crate) struct Waits {
    /// Signals that killed children, by the waiting lane and the child's number, in order.
    killed: HashMap<(u32, i32), VecDeque<i32>>,
    /// Lanes whose process was killed, or vanished, with parent and number. In order, as a
    /// number may have meant several processes.
    ended: BTreeMap<u32, (u32, i32, LaneEnd)>,
}

impl Waits {
    /// A lane waited for its child, which a signal had killed.
    pub fn add(&mut self, lane: u32, (pid, signal): (i32, i32)) {
        self.killed.entry((lane, pid)).or_default().push_back(signal);
    }

    /// A lane ended.
    pub fn end_lane(&mut self, lane: u32, parent: u32, pid: i32, end: LaneEnd) {
        if matches!(end, LaneEnd::Killed(_) | LaneEnd::Unknown) {
            self.ended.insert(lane, (parent, pid, end));
        }
    }

    /// The lanes that nobody knew the end of, as far as a parent does.
    pub fn learned(&mut self) -> Vec<(u32, LaneEnd)> {
        let mut learned = Vec::new();
        for (lane, (parent, pid, end)) in &self.ended {
            let signal = self.killed.get_mut(&(*parent, *pid)).and_then(VecDeque::pop_front);
            if let (LaneEnd::Unknown, Some(signal)) = (end, signal) {
                learned.push((*lane, LaneEnd::Killed(signal)));
            }
        }
        learned
    }
}

/// The child that this call waited for, and the signal that had killed it.
pub(crate) fn killed_child(log: &[u8]) -> Option<(i32, i32)> {
    let number = u16::from_le_bytes(log.get(2..4)?.try_into().ok()?);
    if number != WAIT4 && number != WAITID {
        return None;
    }
    let (event, _) = Event::parse(log).ok()?;
    let written = |address: u64| {
        let mut blobs = event.blobs();
        blobs.find(|blob| blob.tag == Tag::Memory && blob.address == address).map(|blob| blob.data)
    };
    let half = |data: &[u8], at: usize| Some(i32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?));
    if number == WAIT4 {
        let status = half(written(event.arg(1))?, 0)?;
        let killed = event.result() > 0 && libc::WIFSIGNALED(status);
        return killed.then(|| (event.result() as i32, libc::WTERMSIG(status)));
    }
    // siginfo_t: code, number and status of the child.
    let info = written(event.arg(2))?;
    let killed = [libc::CLD_KILLED, libc::CLD_DUMPED].contains(&half(info, 8)?);
    let left = event.arg(3) & WNOWAIT != 0;
    (event.result() == 0 && killed && !left).then_some((half(info, 16)?, half(info, 24)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parents_wait_tells_the_end_whatever_came_first() {
        let mut waits = Waits::default();
        waits.add(0, (7, 15));
        waits.end_lane(1, 0, 7, LaneEnd::Unknown);
        waits.end_lane(2, 0, 8, LaneEnd::Unknown);
        waits.add(0, (8, 9));
        assert_eq!(waits.learned(), [(1, LaneEnd::Killed(15)), (2, LaneEnd::Killed(9))]);
    }

    #[test]
    fn a_number_that_is_used_again_is_matched_in_order() {
        let mut waits = Waits::default();
        waits.end_lane(1, 0, 7, LaneEnd::Killed(11));
        waits.end_lane(2, 0, 7, LaneEnd::Exited(0));
        waits.end_lane(3, 0, 7, LaneEnd::Unknown);
        waits.add(0, (7, 11));
        waits.add(0, (7, 9));
        assert_eq!(waits.learned(), [(3, LaneEnd::Killed(9))]);
    }

    #[test]
    fn nobody_else_knows_it() {
        let mut waits = Waits::default();
        waits.add(5, (7, 15));
        waits.end_lane(1, 0, 7, LaneEnd::Unknown);
        assert_eq!(waits.learned(), []);
    }

    #[test]
    fn bytes_that_are_no_wait_tell_nothing() {
        assert_eq!(killed_child(&[]), None);
        assert_eq!(killed_child(&[1, 0, 61, 0, 8, 0, 0, 0]), None);
        assert_eq!(killed_child(&[1, 3, 247, 0, 40, 0, 0, 0]), None);
    }
}
