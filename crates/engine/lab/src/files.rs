//! Numbers and times of files that come to be, or change, while the lab runs. The kernel's are the machine's: inodes
//! are what is free there, times are its clock's. A node sees a number by the order in which it made them or looked at
//! them first, and as the time of a change that of the call which made it; where none was seen (memory that is a file's),
//! the time of the lab at which it saw that there was one.

use std::collections::BTreeMap;

use lane_protocol::lab_change;

/// Numbers from here on: not those of files that were there before.
const NUMBERS_FROM: u64 = 1 << 40;

/// A file as a node has seen it.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    pub number: u64,
    /// By the machine's clock: of content, of anything. And by the lab's.
    machine_ns: [u64; 2],
    pub lab_ns: [u64; 2],
    /// The times are those of a call; the machine's are not known yet.
    is_noted: bool,
}

/// A change, by a call that a node made.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// See [`lab_change`].
    pub what: u64,
    pub at_ns: u64,
    /// What the time of the content was set to.
    pub content_ns: u64,
}

/// All that were looked at: by node, device, inode.
#[derive(Debug, Default)]
pub struct Files {
    seen: BTreeMap<(Option<usize>, u64, u64), Seen>,
    counts: BTreeMap<Option<usize>, u64>,
}

impl Files {
    /// A node looks at one; gives what it sees.
    pub fn look(&mut self, key: (Option<usize>, u64, u64), machine_ns: [u64; 2], now_ns: u64) -> Seen {
        let counts = &mut self.counts;
        let seen = self.seen.entry(key).or_insert_with(|| {
            let number = next_number(counts, key.0);
            Seen { number, machine_ns, lab_ns: [now_ns; 2], is_noted: false }
        });
        if std::mem::take(&mut seen.is_noted) {
            seen.machine_ns = machine_ns;
        }
        for (place, &at_ns) in machine_ns.iter().enumerate() {
            if seen.machine_ns[place] != at_ns {
                (seen.machine_ns[place], seen.lab_ns[place]) = (at_ns, now_ns);
            }
        }
        *seen
    }

    /// A node changed one.
    pub fn note(&mut self, key: (Option<usize>, u64, u64), change: Change) {
        let known = self.seen.get(&key).copied();
        // What has the inode of one that is gone is another one.
        let known = known.filter(|_| change.what & lab_change::CREATED == 0);
        let mut seen = match known {
            Some(seen) => seen,
            None => {
                let number = next_number(&mut self.counts, key.0);
                let lab_ns = [change.content_ns, change.at_ns];
                Seen { number, machine_ns: [0; 2], lab_ns, is_noted: true }
            }
        };
        seen.lab_ns[1] = change.at_ns;
        if change.what & lab_change::CONTENT != 0 {
            seen.lab_ns[0] = change.at_ns;
        }
        if change.what & lab_change::DATED != 0 {
            seen.lab_ns[0] = change.content_ns;
        }
        seen.is_noted = true;
        self.seen.insert(key, seen);
    }

    /// The number of one that a node made or looked at.
    pub fn known(&self, node: Option<usize>, device: u64, inode: u64) -> Option<u64> {
        self.seen.get(&(node, device, inode)).map(|seen| seen.number)
    }

    /// The number of one whose times do not matter.
    pub fn number(&mut self, node: Option<usize>, device: u64, inode: u64) -> u64 {
        let known = self.seen.get(&(node, device, inode)).map(|seen| (seen.machine_ns, seen.lab_ns[0]));
        let (machine_ns, now_ns) = known.unwrap_or_default();
        self.look((node, device, inode), machine_ns, now_ns).number
    }
}

/// The number of a file that nobody of the node has seen.
fn next_number(counts: &mut BTreeMap<Option<usize>, u64>, node: Option<usize>) -> u64 {
    let count = counts.entry(node).or_default();
    *count += 1;
    NUMBERS_FROM + *count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_by_a_call_has_the_time_of_the_call() {
        let mut files = Files::default();
        let (key, change) = ((Some(0), 1, 77), |what, at_ns| Change { what, at_ns, content_ns: 3 });
        files.note(key, change(lab_change::CREATED | lab_change::CONTENT, 100));
        let first = files.look(key, [5, 5], 300);
        assert_eq!(first.lab_ns, [100, 100]);
        assert_eq!(files.look(key, [5, 5], 400).lab_ns, [100, 100]);
        files.note(key, change(0, 450));
        assert_eq!(files.look(key, [5, 6], 500).lab_ns, [100, 450], "only what the inode says");
        files.note(key, change(lab_change::DATED, 460));
        assert_eq!(files.look(key, [3, 7], 500).lab_ns, [3, 460]);
        assert_eq!(files.look(key, [8, 8], 600).lab_ns, [600, 600], "a change that no call made");
        files.note(key, change(lab_change::CREATED | lab_change::CONTENT, 700));
        let other = files.look(key, [9, 9], 800);
        assert_ne!(other.number, first.number, "another file with the same inode");
        assert_eq!(other.lab_ns, [700, 700]);
    }

    #[test]
    fn a_change_has_the_time_at_which_it_was_seen() {
        let mut files = Files::default();
        let first = files.look((Some(0), 1, 77), [5, 5], 100);
        assert_eq!((first.number, first.lab_ns), (NUMBERS_FROM + 1, [100, 100]));
        assert_eq!(files.look((Some(0), 1, 77), [5, 5], 200).lab_ns, [100, 100]);
        assert_eq!(files.look((Some(0), 1, 77), [5, 6], 300).lab_ns, [100, 300]);
        assert_eq!(files.number(Some(0), 1, 78), NUMBERS_FROM + 2);
        assert_eq!(files.number(Some(1), 1, 77), NUMBERS_FROM + 1, "each node counts by itself");
    }
}
