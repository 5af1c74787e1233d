//! How many threads of a lane its turn counts among its sleepers: the supervisor takes them off
//! when their process is gone.
//!
//! Invariant: the count is of one turn. A lane that joins another's turn leaves sleepers at the
//! one it had; who is counted there is never taken off the new one, whose count would fall
//! below zero, and whose sleepers would wait for as long as that many others need. The count of
//! a turn that was left is of no use to anybody.

use core::sync::atomic::{AtomicU64, Ordering};

/// The turn's number plus one, and below it how many. Zeroed: no turn.
#[repr(transparent)]
pub struct TurnSleepers(AtomicU64);

const fn word(turn: u32, count: u32) -> u64 {
    (turn as u64 + 1) << 32 | count as u64
}

const fn is_of(word: u64, turn: u32) -> bool {
    word >> 32 == turn as u64 + 1
}

impl TurnSleepers {
    /// The lane has this turn; nobody sleeps for it, unless it had it already.
    pub fn begin(&self, turn: u32) {
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
            (!is_of(now, turn)).then_some(word(turn, 0))
        });
    }

    /// Nobody sleeps for it.
    pub fn forget(&self, turn: u32) {
        self.0.store(word(turn, 0), Ordering::SeqCst);
    }

    /// A thread sleeps for this turn; false if the lane has another.
    pub fn add(&self, turn: u32) -> bool {
        let add = |now| is_of(now, turn).then_some(now + 1);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add).is_ok()
    }

    /// It sleeps no more; false if the lane has another turn.
    pub fn remove(&self, turn: u32) -> bool {
        let remove = |now| (is_of(now, turn) && now as u32 != 0).then_some(now - 1);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, remove).is_ok()
    }

    /// The lane's process is gone: how many slept for this turn.
    pub fn take(&self, turn: u32) -> u32 {
        let last = self.0.swap(0, Ordering::SeqCst);
        if is_of(last, turn) { last as u32 } else { 0 }
    }

    /// Of no turn.
    pub fn clear(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_slept_for_another_turn_does_not_count() {
        let sleepers = TurnSleepers(AtomicU64::new(0));
        assert!(!sleepers.add(0));
        sleepers.begin(0);
        assert!(sleepers.add(0) && sleepers.add(0));
        sleepers.begin(0);
        assert!(sleepers.remove(0));
        sleepers.begin(7);
        assert!(!sleepers.remove(0) && !sleepers.remove(7));
        assert!(sleepers.add(7) && !sleepers.add(0));
        assert_eq!(sleepers.take(0), 0);
        sleepers.begin(7);
        assert!(sleepers.add(7));
        assert_eq!(sleepers.take(7), 1);
        assert_eq!(sleepers.take(7), 0);
    }
}
