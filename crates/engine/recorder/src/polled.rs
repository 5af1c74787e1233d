//! What sets of epoll(7) reported since a position, and what they were asked to wait for.
//!
//! A thread that waited when a checkpoint was taken may have had its report from the kernel, with
//! no event in the log yet: what is reported once only (EPOLLONESHOT) was gone from the set then.
//! It is known by this: it is reported since, and the set was not asked for it anew before.

use std::collections::HashSet;

use crate::aliases::Aliases;
use crate::logged_calls::Call;
use crate::numbers::EPOLL_CTL;
use crate::records::{ASKED, REPORTED, Records};

/// struct epoll_event, which is packed.
const EVENT_BYTES: usize = 12;
/// More is not noted: a set has more of it to report than a checkpoint remembers.
const NOTED_MAX: usize = 16384;

/// A set, and what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    /// By the program's word for it.
    Reported(u32, u64),
    /// By its number.
    Asked(u32, u32),
}

/// The first of each kind.
#[derive(Default)]
pub(crate) struct Polled {
    known: HashSet<What>,
    /// In their order, with what was reported.
    all: Vec<(What, u32)>,
}

impl Polled {
    pub fn call(&mut self, call: &Call, aliases: &Aliases) {
        let Some(set) = aliases.then(call.args[0] as u32) else { return };
        if call.number == EPOLL_CTL {
            return self.note(What::Asked(set, call.args[2] as u32), 0);
        }
        let count = usize::try_from(call.result).unwrap_or(0);
        let filled = call.memory.iter().find(|(address, _)| *address == call.args[1]);
        for event in filled.iter().flat_map(|(_, bytes)| bytes.chunks_exact(EVENT_BYTES)).take(count) {
            let (events, data) = event.split_at(4);
            let events = u32::from_le_bytes(events.try_into().expect("four bytes"));
            let data = u64::from_le_bytes(data.try_into().expect("eight bytes"));
            self.note(What::Reported(set, data), events);
        }
    }

    fn note(&mut self, what: What, events: u32) {
        if self.all.len() < NOTED_MAX && self.known.insert(what) {
            self.all.push((what, events));
        }
    }

    pub fn records(&self, records: &mut Records) {
        for (what, events) in &self.all {
            match *what {
                What::Reported(set, data) => records.put(REPORTED, set, data, &events.to_le_bytes()),
                What::Asked(set, fd) => records.put(ASKED, set, u64::from(fd), &[0; 4]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::EPOLL_WAIT;

    fn call(number: u16, result: i64, args: [u64; 6], events: &[(u32, u64)]) -> Call {
        let word = |(events, data): &(u32, u64)| [&events.to_le_bytes()[..], &data.to_le_bytes()].concat();
        let bytes = events.iter().flat_map(word).collect();
        Call { number, result, args, memory: vec![(0x1000, bytes)], child: None }
    }

    #[test]
    fn the_first_of_each_is_told_in_its_order() {
        let mut polled = Polled::default();
        let mut aliases = Aliases::default();
        let reports = call(EPOLL_WAIT, 2, [3, 0x1000, 9, 0, 0, 0], &[(1, 70), (4, 80)]);
        polled.call(&call(EPOLL_CTL, 0, [3, 3, 7, 0x2000, 0, 0], &[]), &aliases);
        polled.call(&reports, &aliases);
        polled.call(&reports, &aliases);
        polled.call(&call(EPOLL_CTL, 0, [3, 3, 8, 0x2000, 0, 0], &[]), &aliases);
        // A set that was made since.
        aliases.set(5, None);
        polled.call(&call(EPOLL_CTL, 0, [5, 1, 8, 0x2000, 0, 0], &[]), &aliases);
        assert_eq!(
            polled.all,
            [
                (What::Asked(3, 7), 0),
                (What::Reported(3, 70), 1),
                (What::Reported(3, 80), 4),
                (What::Asked(3, 8), 0)
            ]
        );
        let mut records = Records::default();
        polled.records(&mut records);
        assert_eq!(records.bytes().len(), 4 * (16 + 8));
    }
}
