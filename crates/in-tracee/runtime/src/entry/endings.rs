//! What the rooms do before a process ends: `report` calls it by these names, since it stands
//! in front of all rooms, and every one of them reports.

use crate::checkpoint::restore::rollback;
use crate::debugger::stop_report;
use crate::process::processes;
use crate::state::live;

/// A replaying process is about to stand still, or to end.
#[unsafe(no_mangle)]
fn rv_stands_at_end(kind: u32, code: i32) {
    stop_report::stand_at_end(kind, code);
}

/// The process ends, and others that had its memory go on.
#[unsafe(no_mangle)]
fn rv_leaves_shared_memory() {
    processes::leave_shared_memory();
}

/// The log is at its end. Does not return if the program goes on from there.
#[unsafe(no_mangle)]
fn rv_log_ends() {
    if live::goes_again() {
        rollback::go_live();
    }
}
