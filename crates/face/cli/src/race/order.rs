//! Which accesses of different threads are ordered by synchronisation, and which conflict.
//!
//! Vector clocks (Flanagan and Freund, FastTrack, PLDI 2009): each thread counts its releases; what it
//! acquires takes in the count of who released. Two accesses of different threads to the same bytes, at
//! least one a write, conflict if neither thread had learned of the other's.
//!
//! Invariant: a conflict is told only if no chain of releases and acquires that was seen orders its two
//! accesses; what came before the first access that was noted orders nothing behind it. Deliberately
//! absent: any knowledge of instructions and of system calls.

use std::collections::{HashMap, HashSet};

use timeline::{MemoryAccess, Position};

/// Memory is kept by words of so many bytes.
const WORD_BYTES: u64 = 8;

/// What each thread has seen of the others, by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clock(Vec<u64>);

impl Clock {
    fn of(&self, thread: usize) -> u64 {
        self.0.get(thread).copied().unwrap_or(0)
    }

    fn take_in(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, theirs) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*theirs);
        }
    }

    fn count(&mut self, thread: usize) {
        if self.0.len() <= thread {
            self.0.resize(thread + 1, 0);
        }
        self.0[thread] += 1;
    }
}

/// What is synchronised through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Through {
    /// The word of this number: an atomic instruction or a futex.
    Word(u64),
    /// Mappings, which are gone before others are in their place.
    Mappings,
    /// Pipes, signals and whatever else passes through the kernel.
    Kernel,
}

/// One access, as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub thread: usize,
    pub position: Position,
    pub at: u64,
    pub access: MemoryAccess,
    pub by: By,
    count: u64,
}

/// Whose code it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Program,
    /// The C library's, on a variable of the program: that of a caller, or what it synchronises by.
    LibraryOnVariable,
    Library,
}

/// Words on each side of one that an atomic instruction touches that may belong to the same object, a condition
/// variable at most.
const OBJECT_WORDS: u64 = 48 / WORD_BYTES;

/// Two accesses that nothing orders; the first came first in the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    pub first: Seen,
    pub second: Seen,
}

#[derive(Default)]
struct Word {
    write: Option<Seen>,
    /// The last of each thread.
    reads: Vec<Seen>,
}

/// What has been seen so far.
#[derive(Default)]
pub struct Order {
    clocks: Vec<Clock>,
    released: HashMap<Through, Clock>,
    /// Words by which threads synchronise: an access to one is never a conflict.
    synchronising: HashSet<u64>,
    words: HashMap<u64, Word>,
    told: HashSet<(u64, u64)>,
    pub conflicts: Vec<Conflict>,
}

impl Order {
    /// A thread begins: what its maker knew then it knows; of one whose maker is not known, what all know.
    pub fn begin(&mut self, thread: usize, known: Option<Clock>) {
        let known = known.unwrap_or_else(|| {
            let mut all = Clock::default();
            self.clocks.iter().for_each(|clock| all.take_in(clock));
            all
        });
        let clock = self.clock_of(thread);
        clock.take_in(&known);
        clock.count(thread);
    }

    /// What a thread that is made now will know; its maker goes on behind that.
    pub fn known_to_child(&mut self, thread: usize) -> Clock {
        let known = self.clock_of(thread).clone();
        self.clock_of(thread).count(thread);
        known
    }

    pub fn release(&mut self, thread: usize, through: Through) {
        self.note_synchronising(through);
        let known = self.known_to_child(thread);
        self.released.entry(through).or_default().take_in(&known);
    }

    pub fn acquire(&mut self, thread: usize, through: Through) {
        self.note_synchronising(through);
        if let Some(released) = self.released.get(&through).cloned() {
            self.clock_of(thread).take_in(&released);
        }
    }

    /// Instructions were left out: what came before them may be ordered before what comes behind.
    pub fn forget(&mut self) {
        self.words.clear();
    }

    /// Threads synchronise through the word at this address.
    pub fn word(address: u64) -> Through {
        Through::Word(address / WORD_BYTES)
    }

    fn note_synchronising(&mut self, through: Through) {
        if let Through::Word(number) = through
            && self.synchronising.insert(number)
        {
            self.words.remove(&number);
            self.conflicts.retain(|conflict| {
                let is_by_library =
                    [conflict.first, conflict.second].iter().any(|seen| seen.by != By::Program);
                let near = if is_by_library { OBJECT_WORDS } else { 0 };
                !words_of(conflict.first.access).any(|word| word.abs_diff(number) <= near)
            });
        }
    }

    /// A thread touches memory.
    pub fn access(&mut self, thread: usize, position: Position, at: u64, access: MemoryAccess, by: By) {
        if access.is_atomic {
            let through = Order::word(access.address);
            self.acquire(thread, through);
            self.release(thread, through);
            return;
        }
        let count = self.clock_of(thread).of(thread);
        let seen = Seen { thread, position, at, access, by, count };
        for number in words_of(access) {
            if self.synchronising.contains(&number) {
                // A plain load or store of such a word is how atomic ones are compiled.
                match access.writes {
                    true => self.release(thread, Through::Word(number)),
                    false => self.acquire(thread, Through::Word(number)),
                }
                continue;
            }
            self.meet(number, seen);
        }
    }

    fn meet(&mut self, number: u64, seen: Seen) {
        let clock = &self.clocks[seen.thread];
        let object = number.saturating_sub(OBJECT_WORDS)..=number.saturating_add(OBJECT_WORDS);
        let is_of_object =
            seen.by != By::Program && object.into_iter().any(|near| self.synchronising.contains(&near));
        let word = self.words.entry(number).or_default();
        let conflicts = |earlier: &&Seen| {
            earlier.thread != seen.thread
                && earlier.count > clock.of(earlier.thread)
                && (earlier.by != By::Library || seen.by != By::Library)
                && overlap(earlier.access, seen.access)
        };
        let readers = if seen.access.writes { word.reads.as_slice() } else { &[] };
        let told = word.write.iter().chain(readers).filter(|_| !is_of_object).filter(conflicts);
        for earlier in told {
            let places = (earlier.at.min(seen.at), earlier.at.max(seen.at));
            if self.told.insert(places) {
                self.conflicts.push(Conflict { first: *earlier, second: seen });
            }
        }
        if seen.access.writes {
            word.write = Some(seen);
        } else {
            word.reads.retain(|earlier| earlier.thread != seen.thread);
            word.reads.push(seen);
        }
    }

    fn clock_of(&mut self, thread: usize) -> &mut Clock {
        while self.clocks.len() <= thread {
            let new = self.clocks.len();
            let mut clock = Clock::default();
            clock.count(new);
            self.clocks.push(clock);
        }
        &mut self.clocks[thread]
    }
}

fn words_of(access: MemoryAccess) -> impl Iterator<Item = u64> {
    let last = access.address.saturating_add(access.bytes.saturating_sub(1));
    access.address / WORD_BYTES..=last / WORD_BYTES
}

fn overlap(one: MemoryAccess, other: MemoryAccess) -> bool {
    one.address < other.address.saturating_add(other.bytes)
        && other.address < one.address.saturating_add(one.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: u64 = 0x100;

    fn plain(address: u64, writes: bool) -> MemoryAccess {
        MemoryAccess { address, bytes: 4, writes, is_atomic: false }
    }

    fn touch(order: &mut Order, thread: usize, access: MemoryAccess) {
        let at = 0x10 * (thread as u64 + 1) + u64::from(access.writes);
        order.access(thread, Position { event: 0, steps: 0 }, at, access, By::Program);
    }

    fn lock(order: &mut Order, thread: usize) {
        let atomic = MemoryAccess { address: LOCK, bytes: 4, writes: true, is_atomic: true };
        touch(order, thread, atomic);
    }

    fn of_two_threads() -> Order {
        let mut order = Order::default();
        order.begin(0, None);
        let known = order.known_to_child(0);
        order.begin(1, Some(known));
        order
    }

    #[test]
    fn a_write_beside_an_access_of_another_thread_conflicts() {
        for (first, second, count) in [(true, true, 1), (true, false, 1), (false, true, 1), (false, false, 0)]
        {
            let mut order = of_two_threads();
            touch(&mut order, 0, plain(0x20, first));
            touch(&mut order, 1, plain(0x22, second));
            touch(&mut order, 1, plain(0x24, true));
            assert_eq!(order.conflicts.len(), count, "{first} {second}");
        }
    }

    #[test]
    fn what_a_lock_a_birth_or_an_end_orders_does_not() {
        let mut order = Order::default();
        order.begin(0, None);
        touch(&mut order, 0, plain(0x20, true));
        let known = order.known_to_child(0);
        order.begin(1, Some(known));
        touch(&mut order, 1, plain(0x20, true));
        for thread in [1, 0, 1, 0] {
            lock(&mut order, thread);
            touch(&mut order, thread, plain(0x20, true));
            lock(&mut order, thread);
        }
        touch(&mut order, 1, plain(0x40, true));
        order.release(1, Order::word(0x80));
        order.acquire(0, Order::word(0x80));
        touch(&mut order, 0, plain(0x40, false));
        assert_eq!(order.conflicts, []);
        // Only what came before the release.
        touch(&mut order, 1, plain(0x48, true));
        touch(&mut order, 0, plain(0x48, false));
        assert_eq!(order.conflicts.len(), 1);
    }

    #[test]
    fn what_came_before_a_gap_is_in_order() {
        let mut order = of_two_threads();
        touch(&mut order, 0, plain(0x20, true));
        order.forget();
        touch(&mut order, 1, plain(0x20, true));
        assert_eq!(order.conflicts, []);
        touch(&mut order, 0, plain(0x20, false));
        assert_eq!(order.conflicts.len(), 1);
    }

    #[test]
    fn what_the_library_does_to_a_variable_is_told_but_beside_a_lock() {
        let by_library = |order: &mut Order, thread: usize, address: u64, by: By| {
            order.access(thread, Position { event: 0, steps: 0 }, address, plain(address, true), by);
        };
        for (by, address, count) in [
            (By::LibraryOnVariable, LOCK + 0x80, 1),
            (By::LibraryOnVariable, LOCK + 8, 0),
            (By::Library, LOCK + 0x80, 0),
        ] {
            for locks_first in [true, false] {
                let mut order = of_two_threads();
                if locks_first {
                    lock(&mut order, 1);
                }
                by_library(&mut order, 0, address, by);
                by_library(&mut order, 1, address, by);
                if !locks_first {
                    lock(&mut order, 1);
                }
                assert_eq!(order.conflicts.len(), count, "{by:?} {address:#x} {locks_first}");
            }
        }
    }

    #[test]
    fn another_lock_orders_nothing() {
        let mut order = of_two_threads();
        let atomic = |address| MemoryAccess { address, bytes: 4, writes: true, is_atomic: true };
        touch(&mut order, 0, atomic(0x100));
        touch(&mut order, 0, plain(0x20, true));
        touch(&mut order, 0, atomic(0x100));
        touch(&mut order, 1, atomic(0x200));
        touch(&mut order, 1, plain(0x20, true));
        assert_eq!(order.conflicts.len(), 1);
    }
}
