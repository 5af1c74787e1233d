//! Seeds of chaos.

use std::hash::{BuildHasher, RandomState};

/// A seed that nobody chose.
pub fn random() -> u64 {
    // The standard library's keys come from the kernel's random numbers.
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_chooses_the_same_twice() {
        assert_ne!(random(), random());
    }
}
