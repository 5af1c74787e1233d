//! Chance by a seed: xoshiro256** (Blackman and Vigna), seeded by splitmix64.

use serde::{Deserialize, Serialize};

/// What is drawn depends on the seed and on what was drawn before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Begins at this seed.
    pub fn new(seed: u64) -> Random {
        let mut word = seed;
        let state = [(); 4].map(|()| {
            word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        });
        Random { state }
    }

    /// Any word.
    pub fn word(&mut self) -> u64 {
        let state = &mut self.state;
        let result = state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        result
    }

    /// A number below the bound, or 0 for the bound 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// True with this probability. Draws nothing for a probability of 0.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && ((self.word() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}
