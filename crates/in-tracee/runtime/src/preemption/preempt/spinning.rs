//! Threads that spin: whether a loop only waits for others.

use super::{COMPARE_NS, SPIN_NS, set_timer};
use crate::ground::frame::RealFrame;
use crate::preemption::loop_iterations;
use crate::preemption::preemption_timer::now_ns;
use crate::scheduler::chaos;
use crate::state::block::thread;
use crate::state::preemption::{Stand, Watching};

pub(super) fn watch_spin(context: &mut RealFrame) {
    let preemption = &mut thread().preemption;
    preemption.watching = Watching::Spin;
    preemption.watched_at = Stand::of(context);
    preemption.watched_from_ns = now_ns();
    loop_iterations::begin(context);
    set_timer(SPIN_NS);
}

/// How long the program runs on between two looks at words.
pub(super) fn compare_ns() -> u64 {
    if chaos::is_on() { COMPARE_NS / 5 } else { COMPARE_NS }
}
