//! Numbers and times of files that come to be, or change, while the lab runs. The kernel's are the machine's: inodes
//! are what is free there, times are its clock's. A node sees a number by the order in which it looked at
//! them first, and as the time of a change the time of the lab at which it saw that there was one.

use std::collections::BTreeMap;

/// Numbers from here on: not those of files that were there before.
const NUMBERS_FROM: u64 = 1 << 40;

/// A file as a node has seen it.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    pub number: u64,
    /// By the machine's clock: of content, of anything. And by the lab's.
    machine_ns: [u64; 2],
    pub lab_ns: [u64; 2],
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
        let count = self.counts.entry(key.0).or_default();
        let seen = self.seen.entry(key).or_insert_with(|| {
            *count += 1;
            Seen { number: NUMBERS_FROM + *count, machine_ns, lab_ns: [now_ns; 2] }
        });
        for (place, &at_ns) in machine_ns.iter().enumerate() {
            if seen.machine_ns[place] != at_ns {
                (seen.machine_ns[place], seen.lab_ns[place]) = (at_ns, now_ns);
            }
        }
        *seen
    }

    /// The number of one whose times do not matter.
    pub fn number(&mut self, node: Option<usize>, device: u64, inode: u64) -> u64 {
        let known = self.seen.get(&(node, device, inode)).map(|seen| (seen.machine_ns, seen.lab_ns[0]));
        let (machine_ns, now_ns) = known.unwrap_or_default();
        self.look((node, device, inode), machine_ns, now_ns).number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
