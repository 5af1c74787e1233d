//! Threads that spin: whether a loop only waits for others.

use super::{COMPARE_NS, SPIN_NS, set_timer};
use crate::ground::frame::RealFrame;
use crate::preemption::pause_timer::now_ns;
use crate::preemption::rounds;
use crate::scheduler::chaos;
use crate::state::block::thread;
use crate::state::pausing::{Stand, Watching};

pub(super) fn watch_spin(context: &mut RealFrame) {
    let pausing = &mut thread().pausing;
    pausing.watching = Watching::Spin;
    pausing.watched_at = Stand::of(context);
    pausing.watched_from_ns = now_ns();
    rounds::begin(context);
    set_timer(SPIN_NS);
}

/// How long the program runs on between two looks at words.
pub(super) fn compare_ns() -> u64 {
    if chaos::is_on() { COMPARE_NS / 5 } else { COMPARE_NS }
}
