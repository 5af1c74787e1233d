//! The runtime's log of its own (`RETROVANE_RUNTIME_LOG`): asked for at a session's beginning, printed at
//! its end.
//!
//! Deliberately absent: anything where the variable is not set.

use std::io::Write;

use lane_protocol::{LOG_ENTRIES, LOG_SUBJECTS, RuntimeLog, Session, log_mask};

/// Names what the runtime is to log: subjects between commas, or `all`.
const VARIABLE: &str = "RETROVANE_RUNTIME_LOG";
/// Where it is printed to; standard error if it is not set.
const FILE_VARIABLE: &str = "RETROVANE_RUNTIME_LOG_FILE";

/// A session begins whose header nobody else has yet.
pub(crate) fn begin(session: &mut Session) {
    let Some(list) = std::env::var(VARIABLE).ok().filter(|list| !list.is_empty()) else { return };
    match log_mask(&list) {
        Ok(mask) => session.runtime_log_mask = mask,
        Err(name) => {
            let known = LOG_SUBJECTS.map(|(name, _)| name).join(", ");
            eprintln!(
                "retrovane: {VARIABLE}: nothing of the runtime is called {name:?}; there are all, {known}"
            );
        }
    }
}

/// A session is over: prints what its runtime logged. Only the process that made it is asked: a fork of
/// the supervisor has the same memory.
///
/// # Safety
///
/// The header is mapped.
pub(crate) unsafe fn end(session: *const Session) {
    // SAFETY: see above; what changes in it are atomics.
    let session = unsafe { &*session };
    if session.runtime_log_mask == 0 || session.supervisor_pid != std::process::id() as i32 {
        return;
    }
    let text = lines(&session.runtime_log);
    let written = match std::env::var_os(FILE_VARIABLE) {
        Some(path) => std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes())),
        None => std::io::stderr().write_all(text.as_bytes()),
    };
    if let Err(error) = written {
        eprintln!("retrovane: {FILE_VARIABLE}: {error}");
    }
}

/// A line for each entry that is whole.
fn lines(log: &RuntimeLog) -> String {
    let count = log.count();
    let first = count.saturating_sub(LOG_ENTRIES as u64) + 1;
    let mut text = format!("retrovane: the runtime's log: entries {first} to {count}\n");
    for entry in (first..=count).filter_map(|number| log.read(number)) {
        let [one, other] = entry.words;
        let said: String = entry.text().chars().filter(|c| !c.is_control()).collect();
        text += &format!(
            "{:>8}  lane {:<4} thread {:<3} event {:<8} {said:<24} {one:#x} {other:#x}\n",
            entry.number, entry.lane, entry.thread, entry.events
        );
    }
    text
}
