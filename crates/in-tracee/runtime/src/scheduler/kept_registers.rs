//! What only the processor has of a thread that releases the token.

use crate::ground::{frame, kernel};
use crate::state::block::{session, thread};
use crate::state::stacks::signal_stack;

/// The thread is about to release the token: keeps what only the processor has.
#[inline]
pub fn note() {
    if session().live != 0 {
        note_processor();
    }
}

fn note_processor() {
    let own = &mut *thread();
    own.fs_base = crate::ground::registers::fs_base();
    frame::save_vectors_at(signal_stack(own.index));
}

/// The calling thread is about to wait: keeps what it has of the program's.
pub fn note_waiting() {
    let own = &mut *thread();
    own.waiting.fs_base = crate::ground::registers::fs_base();
    own.waiting.mask = kernel::current_mask();
    frame::save_vectors_at(signal_stack(own.index));
}
