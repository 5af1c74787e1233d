//! Processes that a signal has stopped (SIGSTOP, and what stops by default): their threads do not run, whatever they wait
//! for, until SIGCONT, and all others do.
//!
//! Who stops itself does so in the kernel, within its call, and says nothing: it had been granted, and asks when it is
//! continued.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const SIGCONT: u64 = libc::SIGCONT as u64;
const SIGSTOP: u64 = libc::SIGSTOP as u64;
const SIGTTOU: u64 = libc::SIGTTOU as u64;
/// How long the kernel is given to stop one. The others may be ignored, or have a handler.
const STOP_MAX: Duration = Duration::from_secs(2);
pub const UNSURE_MAX: Duration = Duration::from_millis(5);

/// Those that are stopped.
#[derive(Debug, Default)]
pub struct Stopped {
    /// By process: the slot of the thread that had been granted.
    pub processes: BTreeMap<i32, Option<u32>>,
    /// Threads that were continued, and will ask.
    pub continued: VecDeque<u32>,
}

/// Whether the kernel has stopped a process (proc_pid_stat(5)).
pub fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// How long it may take until the kernel has done what a signal does; `None`: it neither stops nor continues.
pub fn patience(signal: u64) -> Option<Duration> {
    match signal {
        SIGSTOP => Some(STOP_MAX),
        SIGCONT => Some(Duration::ZERO),
        signal if (SIGSTOP..=SIGTTOU).contains(&signal) => Some(UNSURE_MAX),
        _ => None,
    }
}
