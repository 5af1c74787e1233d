//! Turns of a node's threads in which they only wait: they look at memory, let others run, or sleep for a while. One that
//! has a lock whenever it asks keeps all others from it so. Where nothing else happened for some turns in a row, it is
//! told to ask once more some steps on (docs/adr/0135).

use std::collections::BTreeMap;

use lane_protocol::lab_question;

/// Turns in a row after which it is, and twice as many after so many times that this did not help.
const TURNS: u32 = 8;
const STRIKES_PER_DOUBLING: u32 = 4;
const STRIKES_MAX: u32 = 10 * STRIKES_PER_DOUBLING;
/// Steps: up to 8, or twice that, and so on, so many times.
const STEPS_LEAST: u64 = 8;
const STEP_DOUBLINGS: u64 = 5;
/// How long who has gone aside lets those sleep that sleep.
pub const AWAITED_MAX_NS: u64 = 10_000_000;

/// Those of one node.
#[derive(Debug, Default)]
struct Idle {
    /// Who asked last.
    slot: u32,
    in_a_row: u32,
    strikes: u32,
}

/// Those of all nodes.
#[derive(Debug, Default)]
pub struct IdleTurns(BTreeMap<Option<usize>, Idle>);

impl IdleTurns {
    /// A thread asks.
    pub fn note(&mut self, node: Option<usize>, slot: u32, kind: u32) {
        let idle = self.0.entry(node).or_default();
        match kind {
            lab_question::SPINS | lab_question::SLEEP => {
                idle.in_a_row += u32::from(idle.slot != slot);
                idle.slot = slot;
            }
            lab_question::FILE | lab_question::CHANGES | lab_question::PREEMPTED => {}
            _ => (idle.in_a_row, idle.strikes) = (0, 0),
        }
    }

    /// How many steps on a thread that spins is to ask once more; 0: it is not.
    pub fn steps(&mut self, node: Option<usize>, now_ns: u64) -> u64 {
        let idle = self.0.entry(node).or_default();
        if idle.in_a_row < TURNS << (idle.strikes / STRIKES_PER_DOUBLING) {
            return 0;
        }
        idle.in_a_row = 0;
        idle.strikes = (idle.strikes + 1).min(STRIKES_MAX);
        let mut chance = fabric::Random::new(now_ns ^ u64::from(idle.strikes) << 48);
        let doublings = chance.word() % STEP_DOUBLINGS;
        1 + chance.word() % (STEPS_LEAST << doublings)
    }
}
