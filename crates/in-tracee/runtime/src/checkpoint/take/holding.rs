//! The turn after a way back.

use core::sync::atomic::Ordering;

use crate::scheduler::{own_turn, turn};
use crate::state::block::{lane, process, thread};

/// The calling thread has the turn, whoever had it; nobody competes.
pub fn seize() {
    let turn = own_turn::my_turn();
    // As it was in the shadow, with threads that are elsewhere now.
    process().taking.store(0, Ordering::SeqCst);
    turn.seize(thread().identity);
    lane().turn_sleepers.forget(process().turn);
    turn::note_holder(turn);
}

/// The same where processes compete.
pub fn begin_again() {
    process().taking.store(0, Ordering::SeqCst);
    lane().turn_sleepers.forget(process().turn);
    turn::take();
}

fn has_turn() -> bool {
    own_turn::my_turn().running() == Some(thread().identity)
}

/// Takes the turn, unless the thread has it.
pub fn take() {
    if !has_turn() {
        turn::take();
    }
}

/// The same behind a pause that gave the turn: the log says that it is back.
pub fn take_at_pause() {
    if !has_turn() {
        thread().yielded = true;
        return turn::take();
    }
    turn::log_turn();
}
