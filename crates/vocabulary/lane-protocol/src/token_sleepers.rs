//! How many threads of a lane its token counts among its sleepers: the supervisor takes them off
//! when their process is gone.
//!
//! Invariant: the count is of one token. A lane that joins another's token leaves sleepers at the
//! one it had; who is counted there is never taken off the new one, whose count would fall
//! below zero, and whose sleepers would wait for as long as that many others need. The count of
//! a token that was left is of no use to anybody.

use core::sync::atomic::{AtomicU64, Ordering};

/// The token's number plus one, and below it how many. Zeroed: no token.
#[repr(transparent)]
pub struct TokenSleepers(AtomicU64);

const fn word(token: u32, count: u32) -> u64 {
    (token as u64 + 1) << 32 | count as u64
}

const fn is_of(word: u64, token: u32) -> bool {
    word >> 32 == token as u64 + 1
}

impl TokenSleepers {
    /// The lane has this token; nobody sleeps for it, unless it had it already.
    pub fn begin(&self, token: u32) {
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
            (!is_of(now, token)).then_some(word(token, 0))
        });
    }

    /// Nobody sleeps for it.
    pub fn forget(&self, token: u32) {
        self.0.store(word(token, 0), Ordering::SeqCst);
    }

    /// A thread sleeps for this token; false if the lane has another.
    pub fn add(&self, token: u32) -> bool {
        let add = |now| is_of(now, token).then_some(now + 1);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add).is_ok()
    }

    /// It sleeps no more; false if the lane has another token.
    pub fn remove(&self, token: u32) -> bool {
        let remove = |now| (is_of(now, token) && now as u32 != 0).then_some(now - 1);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, remove).is_ok()
    }

    /// The lane's process is gone: how many slept for this token.
    pub fn take(&self, token: u32) -> u32 {
        let last = self.0.swap(0, Ordering::SeqCst);
        if is_of(last, token) { last as u32 } else { 0 }
    }

    /// Of no token.
    pub fn clear(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_slept_for_another_token_does_not_count() {
        let sleepers = TokenSleepers(AtomicU64::new(0));
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
