//! Which instruction of the floating-point unit was the last one: its opcode, where it is and its
//! operand. Intel's processors keep that for each; AMD's only with an exception that waits.
//!
//! A replay trap lets the program run in a copy of its code. What is compared with a preemption, and what the
//! program goes on with, has the place that the preemption had.

use crate::ground::memory;

const WORDS: usize = 3;

/// The first words of a legacy save area, as far as they hold the place.
#[derive(Clone, Copy)]
pub struct FloatPlace(pub [u64; WORDS]);

impl FloatPlace {
    /// Puts it into a legacy save area.
    pub fn put(&self, area: u64) {
        /// The control, status and tag words stand below the opcode.
        const OTHERS: [u64; WORDS] = [0xffff_ffff_ffff, 0, 0];
        for (address, (place, others)) in (area..).step_by(8).zip(self.0.iter().zip(OTHERS)) {
            if let Some(word) = memory::read_word(address) {
                let put = word & others | place & !others;
                memory::copy(address, &raw const put as u64, 8);
            }
        }
    }
}
