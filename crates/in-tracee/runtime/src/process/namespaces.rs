//! Namespaces of process ids (pid_namespaces(7)): a process may have other ids than the
//! supervisor knows it by, and cannot see the supervisor.
//!
//! The program gets its own ids, by which the runtime signals the process's own threads too.
//! The supervisor's are asked of it once, at the beginning of a process that may be elsewhere:
//! the process locks a byte of the session's file, and whoever meets the lock is told the
//! owner's id as it sees it itself (fcntl(2)).

use core::sync::atomic::Ordering;

use lane_protocol::request;

use crate::log::kept_files::request_answer;
use crate::log::locks_of_session::{F_SETLK, F_UNLCK, F_WRLCK, Lock, lock};
use crate::state::block::{lane, process, session};

const UNKNOWN_SPACE: u32 = u32::MAX;

/// A new image begins, or one is taken over.
pub fn begin_image() {
    let (process, header) = (&mut *process(), lane());
    process.outer_pid = header.pid.load(Ordering::Relaxed);
    process.children_apart = header.children_apart.load(Ordering::Relaxed) != 0;
    process.pid_space = header.pid_space.load(Ordering::Relaxed);
    if process.pid_space == 0 && process.outer_pid != process.pid {
        process.pid_space = process.outer_pid as u32;
    }
}

/// A child begins, `apart` if it may have other ids than its parent sees. False if it is not
/// known which process it is.
pub fn begin_child(apart: bool) -> bool {
    let own = &mut *process();
    own.outer_pid = own.pid;
    let (parent_space, parents_apart) = (own.pid_space, core::mem::take(&mut own.children_apart));
    let apart = apart || parents_apart;
    if !own.replays() && (apart || parent_space != 0) {
        // Whether the supervisor can be seen is not known yet.
        own.pid_space = UNKNOWN_SPACE;
        let outer_pid = identify(own.segment).unwrap_or(0);
        let own = &mut *process();
        own.outer_pid = outer_pid;
        own.pid_space = match (apart, own.outer_pid == own.pid) {
            (false, _) => parent_space,
            (true, true) => 0,
            (true, false) => own.outer_pid as u32,
        };
    }
    let header = &mut *lane();
    // The first process of a namespace has its parent in another.
    let waited = if own.pid == 1 { own.outer_pid } else { own.pid };
    header.waited_pid.store(waited, Ordering::Relaxed);
    header.pid_space.store(own.pid_space, Ordering::Relaxed);
    header.children_apart.store(0, Ordering::Relaxed);
    own.outer_pid != 0
}

/// The calling process's id as the supervisor sees it.
fn identify(segment: u64) -> Option<i32> {
    lock(F_SETLK, F_WRLCK, segment)?;
    let answer = request_answer(request::IDENTIFY, [segment, 0, 0, 0], &session().keep_doorbell);
    lock(F_SETLK, F_UNLCK, segment);
    answer.filter(|&pid| pid > 0)
}

const _: () = assert!(size_of::<Lock>() == 32);
