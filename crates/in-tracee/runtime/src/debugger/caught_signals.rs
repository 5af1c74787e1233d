//! Signals under the debugger: it can have the program stand where the handler of one begins, and
//! asks what the kernel said of it.
//!
//! Invariant: the handler begins at a boundary, so that replay stands there again. Of several that
//! are delivered at once, each on top of the one before, one is told.

use crate::debugger::agent_state::state;
use crate::ground::owned::{Held, Owned};
use crate::state::block::process;
use crate::state::signal_state::Info;

struct State {
    /// The signal whose handler begins at the next boundary, and at the last one; 0: none.
    next: u32,
    here: u32,
    /// Of that signal, or of the one that the program is about to die of.
    info: Info,
    is_death: bool,
}

static STATE: Owned<State> = Owned::new(State { next: 0, here: 0, info: [0; 16], is_death: false });

fn own() -> Held<State> {
    STATE.hold()
}

/// The handler of a signal is about to begin.
pub fn note_delivery(signal: u32, info: &Info) {
    let own = &mut *own();
    if process().has_agent() && (is_wanted(signal) || !is_wanted(own.next)) {
        (own.next, own.info) = (signal, *info);
    }
}

/// The program is about to die of a fault.
pub fn note_death(info: &Info) {
    (own().info, own().is_death) = (*info, true);
}

/// The program comes to a boundary.
pub fn come_to_boundary() {
    let own = &mut *own();
    own.here = core::mem::take(&mut own.next);
    own.is_death = false;
}

/// True where the handler of a signal begins that is to be stopped at.
pub fn stops_here() -> bool {
    is_wanted(own().here) && is_at_boundary()
}

/// The signal whose handler begins where the program stands, and what is known of it, or of the
/// signal that it dies of.
pub fn told() -> (u64, Info) {
    let own = &mut *own();
    let signal = if is_at_boundary() { own.here } else { 0 };
    let is_known = signal != 0 || own.is_death;
    (u64::from(signal), if is_known { own.info } else { [0; 16] })
}

fn is_wanted(signal: u32) -> bool {
    signal != 0 && state().command.signals >> (signal - 1) & 1 != 0
}

fn is_at_boundary() -> bool {
    state().steps_known && state().steps == 0
}
