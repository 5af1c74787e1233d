//! Recording: processes that died while they had a token, where their log does not tell: what they
//! had stored in shared memory by then is not known in replay, and whoever holds the token next logs it.
//!
//! Invariant: a death is counted before the token is free; what was logged is read whole or not at all.
//! Deliberately absent: locks. Who writes may be killed.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::numbered_words::NumberedWords;

/// Deaths of which the token is known.
const LATEST: usize = 32;
/// Objects that are known to be logged.
const LOGGED: usize = 64;

/// See the module. Zeros are a valid beginning.
#[repr(C, align(64))]
pub struct UnloggedDeaths {
    /// How many there were.
    count: AtomicU32,
    /// The tokens of the latest.
    tokens: [AtomicU32; LATEST],
    next_logged: AtomicU32,
    /// Parts that were logged, numbered by the death before.
    logged: [NumberedWords<4>; LOGGED],
}

/// A part of shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedPart {
    /// Device and inode.
    pub identity: [u64; 2],
    /// Places in the object, in bytes.
    pub from: u64,
    pub to: u64,
}

impl Default for UnloggedDeaths {
    fn default() -> UnloggedDeaths {
        UnloggedDeaths::new()
    }
}

impl UnloggedDeaths {
    pub fn new() -> UnloggedDeaths {
        UnloggedDeaths {
            count: AtomicU32::new(0),
            tokens: [const { AtomicU32::new(0) }; LATEST],
            next_logged: AtomicU32::new(0),
            logged: core::array::from_fn(|_| NumberedWords::new()),
        }
    }

    /// Whoever held the token of this number died. Only one calls it at a time.
    pub fn add(&self, token: u32) {
        let count = self.count.load(Ordering::Relaxed);
        self.tokens[count as usize % LATEST].store(token, Ordering::Relaxed);
        self.count.store(count.wrapping_add(1), Ordering::Release);
    }

    /// How many there were.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// The number of the latest death with this token, from 1 on, of those behind `seen`.
    pub fn latest_of(&self, token: u32, seen: u32) -> Option<u32> {
        let count = self.count();
        if count.wrapping_sub(seen) as usize > LATEST {
            return Some(count);
        }
        let is_of = |death: &u32| {
            self.tokens[death.wrapping_sub(1) as usize % LATEST].load(Ordering::Relaxed) == token
        };
        let found = (0..count.wrapping_sub(seen)).map(|back| count.wrapping_sub(back)).find(is_of);
        // One that came meanwhile may have taken a place.
        if self.count().wrapping_sub(seen) as usize > LATEST { Some(self.count()) } else { found }
    }

    /// Who holds the token logged this part, after that death.
    pub fn note_logged(&self, death: u32, part: &SharedPart) {
        let place = self.next_logged.fetch_add(1, Ordering::Relaxed) as usize % LOGGED;
        let words = [part.identity[0], part.identity[1], part.from, part.to];
        self.logged[place].write(u64::from(death), words);
    }

    /// True if one who held the token has logged the whole part since that death.
    pub fn is_logged(&self, death: u32, part: &SharedPart) -> bool {
        self.logged.iter().filter_map(|logged| logged.read(u64::from(death))).any(
            |[device, inode, from, to]| {
                [device, inode] == part.identity && from <= part.from && part.to <= to
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(inode: u64, from: u64, to: u64) -> SharedPart {
        SharedPart { identity: [7, inode], from, to }
    }

    #[test]
    fn a_death_is_told_to_those_of_its_token() {
        let deaths = UnloggedDeaths::new();
        deaths.add(3);
        deaths.add(4);
        assert_eq!(deaths.latest_of(3, 0), Some(1));
        assert_eq!(deaths.latest_of(4, 0), Some(2));
        assert_eq!(deaths.latest_of(3, 1), None);
        assert_eq!(deaths.latest_of(5, 0), None);
    }

    #[test]
    fn of_too_many_deaths_each_may_be_of_the_token() {
        let deaths = UnloggedDeaths::new();
        (0..=LATEST).for_each(|_| deaths.add(1));
        assert_eq!(deaths.latest_of(2, 0), Some(LATEST as u32 + 1));
        assert_eq!(deaths.latest_of(2, 1), None);
    }

    #[test]
    fn what_was_logged_before_the_death_is_not_logged() {
        let deaths = UnloggedDeaths::new();
        deaths.note_logged(1, &part(5, 0, 8192));
        assert!(deaths.is_logged(1, &part(5, 4096, 8192)));
        assert!(!deaths.is_logged(2, &part(5, 4096, 8192)));
        assert!(!deaths.is_logged(1, &part(5, 4096, 12288)));
        assert!(!deaths.is_logged(1, &part(6, 0, 4096)));
    }
}
