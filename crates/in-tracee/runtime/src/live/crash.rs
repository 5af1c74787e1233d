//! What is done where a fault would end the process.

use core::sync::atomic::Ordering;

use lane_protocol::{command, crash_policy, request};

use super::{agent, area, checkpoint, quiesce};
use crate::block::{lane, process, session};
use crate::kept_files::request_answer;
use crate::{kernel, turn};

fn policy() -> u32 {
    let takes_part = super::is_on() && process().slot == 0 && super::lane_takes_part();
    if takes_part { session().on_crash } else { crash_policy::DIE }
}

/// Before the log says that the process dies. With the turn.
pub fn before_crash(signal: u32) {
    match policy() {
        crash_policy::HOLD => hold(signal),
        crash_policy::ROLLBACK => recover(),
        _ => {}
    }
}

/// The thread stands at its fault until the process goes back, or is killed.
fn hold(signal: u32) {
    tell(signal);
    let word = &area().verdict;
    loop {
        quiesce::park_if_wanted();
        turn::give();
        kernel::futex_wait(word, word.load(Ordering::SeqCst), 20);
        turn::take();
    }
}

/// Goes back to the last checkpoint, as often as that is permitted. Returns if it is
/// not, or cannot be done: then the process dies.
fn recover() {
    let tries = &lane().recoveries;
    if tries.fetch_add(1, Ordering::SeqCst) >= session().recoveries_max {
        return;
    }
    if let Some(last) = checkpoint::last() {
        agent::ask(command::ROLLBACK, u64::from(last.id.load(Ordering::Relaxed)));
    }
}

/// The log says that the process dies; the supervisor saves it.
pub fn after_crash(signal: u32) {
    if policy() == crash_policy::SAVE {
        tell(signal);
    }
}

fn tell(signal: u32) {
    let doorbell = &session().doorbell;
    request_answer(request::CRASH, [u64::from(signal), 0, 0, 0], doorbell);
}
