//! What a preemption costs, as far as is known.

use crate::ground::owned::Owned;

/// What the last preemptions cost, in nanoseconds: a moving average.
pub static COST_NS: Owned<u64> = Owned::new(0);

/// An estimate of what a preemption costs, in nanoseconds, with what the program then
/// spends on page faults because of it.
pub fn cost_ns() -> u64 {
    // SAFETY: one thread runs in an address space.
    unsafe { COST_NS.get().read() }
}

/// Nanoseconds of a step.
pub const STEP_NS: u64 = 3000;
