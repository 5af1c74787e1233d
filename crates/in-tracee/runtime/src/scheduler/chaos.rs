//! Chaos: where recording may choose (who gets the token, for how long), it draws,
//! so that rare interleavings happen.
//!
//! Invariant: only recording draws. What was chosen is in the log, and replay
//! follows the log; the same seed makes the same draws, but the program's own
//! timing decides what each of them is used for.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::ground::kernel;
use crate::scheduler::preemption_cost;
use crate::state::block::{process, session, thread};

/// The odd number nearest to 2^64 divided by the golden ratio: the step of
/// splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Draws so far. A fork copies the count, and draws something else from it, being
/// another lane.
static DRAWS: AtomicU64 = AtomicU64::new(0);

/// Preemptions by chance take half of the time at most, but for so much of it at once: short programs,
/// which hunts are for, have as many as chance wants.
const FREE_NS: u64 = 500_000_000;
/// When those so far are paid for (CLOCK_MONOTONIC).
static PAID_NS: AtomicU64 = AtomicU64::new(0);
/// What a single step costs, in nanoseconds, as was seen last. On virtual machines whose host looks
/// at each, it is ten times what it is on others.
static STEP_NS: AtomicU64 = AtomicU64::new(preemption_cost::STEP_NS);

/// A preemption by chance took so long.
pub fn pay(spent_ns: u64) {
    let now_ns = kernel::monotonic_ns();
    PAID_NS.store(PAID_NS.load(Ordering::Relaxed).max(now_ns) + spent_ns, Ordering::Relaxed);
}

/// How long no other is to come.
pub fn debt_ns() -> u64 {
    PAID_NS.load(Ordering::Relaxed).saturating_sub(kernel::monotonic_ns() + FREE_NS)
}

/// So many steps took so long.
pub fn note_steps(steps: u32, spent_ns: u64) {
    let before = STEP_NS.load(Ordering::Relaxed);
    STEP_NS.store(before - before / 4 + spent_ns / (4 * u64::from(steps)).max(1), Ordering::Relaxed);
}

/// What a single step costs, in nanoseconds.
pub fn step_ns() -> u64 {
    STEP_NS.load(Ordering::Relaxed)
}

/// True if choices are to be drawn.
pub fn is_on() -> bool {
    session().chaos_seed != 0
}

/// A number below `n`, each as likely as the others to within `n` in 2^64; 0 if
/// `n` is 0.
pub fn below(n: u64) -> u64 {
    let draws = DRAWS.fetch_add(1, Ordering::Relaxed);
    let number = mix(origin().wrapping_add(draws.wrapping_mul(STEP)));
    ((u128::from(number) * u128::from(n)) >> 64) as u64
}

/// The place of one of these weights, whose sum is this: each as likely as it says.
pub fn weighted(sum: u64, mut weights: impl Iterator<Item = u8>) -> Option<usize> {
    let mut at = below(sum);
    weights.position(|weight| {
        let is_it = at < u64::from(weight);
        at = at.wrapping_sub(u64::from(weight));
        is_it
    })
}

/// As [`below`], of the whole recording: each of its processes draws the same, `which` says of what.
pub fn of_recording(which: u64, n: u64) -> u64 {
    let number = mix(mix(session().chaos_seed ^ STEP).wrapping_add(which.wrapping_mul(STEP)));
    ((u128::from(number) * u128::from(n)) >> 64) as u64
}

/// Whether the recording's seed is odd, as that of every other try of a hunt is.
pub fn is_seed_odd() -> bool {
    session().chaos_seed % 2 == 1
}

/// Where the numbers of this thread, of this process, of this lane begin.
fn origin() -> u64 {
    let process = &mut *process();
    let place = [u64::from(process.lane), process.segment, thread().index as u64];
    place.iter().fold(session().chaos_seed, |sum, part| mix(sum ^ part.wrapping_mul(STEP)))
}

/// The output function of splitmix64: a bijection in which every bit of the input
/// changes half of the output's.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
