//! What the runtime says of itself, where somebody asked for it (`RETROVANE_RUNTIME_LOG`).
//!
//! Invariant: nothing depends on it; where nobody asked, it is one load and a branch.

pub use lane_protocol::LogSubject;

use crate::state::block::{process, session, thread};

/// Says something: two numbers with a text of at most [`lane_protocol::LOG_TEXT_BYTES`].
#[inline(always)]
pub fn say(subject: LogSubject, text: &'static str, words: [u64; 2]) {
    if session().runtime_log_mask & subject as u32 != 0 {
        write(text, words);
    }
}

#[cold]
#[inline(never)]
fn write(text: &str, words: [u64; 2]) {
    let who = [process().lane, thread().index as u32];
    session().runtime_log.write(who, process().log.events, text, words);
}
