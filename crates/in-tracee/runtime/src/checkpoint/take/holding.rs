//! The token after a way back.

use core::sync::atomic::Ordering;

use crate::scheduler::{own_token, token};
use crate::state::block::{lane, process, thread};

/// The calling thread holds the token, whoever had it; nobody competes.
pub fn seize() {
    let token = own_token::my_token();
    // As it was in the shadow, with threads that are elsewhere now.
    process().taking.store(0, Ordering::SeqCst);
    token.seize(thread().identity);
    lane().token_sleepers.forget(process().token);
    token::note_holder(token);
}

/// The same where processes compete.
pub fn begin_again() {
    process().taking.store(0, Ordering::SeqCst);
    lane().token_sleepers.forget(process().token);
    token::take();
}

fn holds_token() -> bool {
    own_token::my_token().running() == Some(thread().identity)
}

/// Takes the token, unless the thread has it.
pub fn take() {
    if !holds_token() {
        token::take();
    }
}

/// The same behind a preemption that released the token: the log says that it is back.
pub fn take_at_preemption() {
    if !holds_token() {
        thread().yielded = true;
        return token::take();
    }
    token::log_token();
}
