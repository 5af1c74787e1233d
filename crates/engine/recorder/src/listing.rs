//! Checkpoints as they are shown, and why a command could not be obeyed.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use injector::Lane;
use lane_protocol::{checkpoint_origin, checkpoint_state};

/// A checkpoint as it is shown.
pub(crate) struct Shown {
    pub id: u32,
    pub position: u64,
    pub events: u64,
    pub taken_ns: u64,
    pub cost_ns: u64,
    pub rollbacks: u32,
    pub origin: u32,
    pub base: i32,
    /// It holds all memory, of which the others hold what was written since.
    pub is_fork: bool,
    pub saved_bytes: u64,
}

pub(crate) fn checkpoints(lane: Lane) -> Vec<Shown> {
    let mut shown: Vec<Shown> = lane
        .checkpoints()
        .iter()
        .filter(|at| at.state.load(Ordering::Acquire) == checkpoint_state::TAKEN)
        .map(|at| Shown {
            id: at.id.load(Ordering::Relaxed),
            position: at.position.load(Ordering::Relaxed),
            events: at.events.load(Ordering::Relaxed),
            taken_ns: at.taken_ns.load(Ordering::Relaxed),
            cost_ns: at.cost_ns.load(Ordering::Relaxed),
            rollbacks: at.rollbacks.load(Ordering::Relaxed),
            origin: at.origin.load(Ordering::Relaxed),
            base: at.base.load(Ordering::Relaxed),
            is_fork: at.base.load(Ordering::Relaxed) == at.shadow.load(Ordering::Relaxed),
            saved_bytes: at.saved_bytes.load(Ordering::Relaxed),
        })
        .collect();
    shown.sort_by_key(|at| at.id);
    shown
}

pub(crate) fn monotonic_ns() -> u64 {
    u64::try_from(injector::monotonic_time().as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn list(lane: Lane) -> String {
    let now_ns = monotonic_ns();
    let mut text =
        String::from("    N       event    seconds ago   preemption ms  rollbacks   saved KB  taken by\n");
    for at in checkpoints(lane) {
        let by = match at.origin {
            checkpoint_origin::PROGRAM => "the program",
            checkpoint_origin::TIME => "time",
            checkpoint_origin::WINDOW => "the log's limit",
            checkpoint_origin::TOGETHER => "another process",
            _ => "command",
        };
        let saved = if at.is_fork { "a fork".to_owned() } else { (at.saved_bytes >> 10).to_string() };
        let _ = writeln!(
            text,
            "{:>5}  {:>10}  {:>13.3}  {:>9.3}  {:>9}  {saved:>9}  {by}",
            at.id,
            at.events,
            now_ns.saturating_sub(at.taken_ns) as f64 / 1e9,
            at.cost_ns as f64 / 1e6,
            at.rollbacks
        );
    }
    text
}

pub(crate) fn explain(error: i32, number: u64) -> String {
    match error {
        libc::ENOENT => format!("there is no checkpoint {number} (`list` shows those there are)"),
        libc::EBUSY | libc::EDEADLK => {
            "not now: it is being replayed, or processes that share its memory do something else together, or some share it since that were not there at the checkpoint, or `--shared-memory keep` leaves such memory as it is, so that nothing can be done again"
                .to_owned()
        }
        libc::ETIMEDOUT => {
            "a thread of the process, or of one that shares memory with it, did not come to a stand: it sleeps where nothing wakes it, or is stopped"
                .to_owned()
        },
        libc::ESRCH => {
            "what the checkpoint needs is gone: its shadow process was killed, a thread's id is lost, or a process that shared its memory has ended"
                .to_owned()
        }
        libc::EXDEV => "it shares memory with other processes, or could (MAP_SHARED)".to_owned(),
        libc::ENODEV => "shared memory or a file that was mapped then cannot be mapped again".to_owned(),
        libc::EACCES => {
            "the process has given up rights since, or has another user, root or namespace: a rollback cannot undo that"
                .to_owned()
        }
        libc::EPERM => {
            "the system does not let the process read its shadow's memory (ptrace is restricted)".to_owned()
        }
        libc::ERANGE => "the log does not reach back so far any more (see --log-max)".to_owned(),
        libc::EAGAIN => "there are too many processes or checkpoints".to_owned(),
        libc::ENOMEM => "memory is short".to_owned(),
        other => std::io::Error::from_raw_os_error(other).to_string(),
    }
}
