//! Seeds of chaos.

use std::hash::{BuildHasher, RandomState};

/// A seed that nobody chose.
pub fn random() -> u64 {
    // The standard library's keys come from the kernel's random numbers.
    RandomState::new().hash_one(0)
}

/// The seed of a hunt's try, counted from 1, by splitmix64 (Steele, Lea, Flood:
/// Fast splittable pseudorandom number generators): no two tries of a hunt have
/// the same. It is odd as the number is: what is drawn by halves alternates.
pub fn of_try(hunt: u64, number: u64) -> u64 {
    let word = hunt.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let word = word ^ (word >> 31);
    word & !1 | number & 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_those_of_splitmix64_but_for_the_lowest_bit() {
        // The first numbers that the published generator gives from the seed 1234567.
        let published = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        let drawn = [1, 2, 3].map(|number| of_try(1_234_567, number));
        assert_eq!(drawn.map(|seed| seed >> 1), published.map(|seed| seed >> 1));
        assert_eq!(drawn.map(|seed| seed % 2), [1, 0, 1]);
    }

    #[test]
    fn nobody_chooses_the_same_twice() {
        assert_ne!(random(), random());
    }
}
