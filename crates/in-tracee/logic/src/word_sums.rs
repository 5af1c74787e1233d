//! A sum over words one by one, by which states of a program are told apart. It is no checksum of what is stored.

/// Adds a word to a sum.
pub fn add(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)
}
