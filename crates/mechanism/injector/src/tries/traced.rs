//! Whole runs, and runs up to where the input is read.

mod reading;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::begin::{Streams, start_traced};
use super::clients::Clients;
use super::observed::{Entering, Seen, Tracer, Watcher, wait};
use super::recorded_answers::{Answering, RecordedAnswers};
use super::{Readiness, TryEnd, TryError, TryInput, TryLimits, TryProgram, while_doing};
use crate::process::ExitReport;
use reading::Reading;

/// Kills a program that takes too long.
struct Deadline {
    done: mpsc::Sender<()>,
    killer: Option<JoinHandle<()>>,
    expired: Arc<AtomicBool>,
}

impl Deadline {
    fn new(group: i32, limit: Duration) -> Deadline {
        let (done, over) = mpsc::channel();
        let expired = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&expired);
        let killer = crate::limits::start_thread("deadline", move || {
            if over.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                flag.store(true, Ordering::Relaxed);
                kill_all(group);
            }
        });
        Deadline { done, killer: Some(killer), expired }
    }

    /// Ends it; true if it had passed.
    fn end(mut self) -> bool {
        let _ = self.done.send(());
        if let Some(killer) = self.killer.take() {
            let _ = killer.join();
        }
        self.expired.load(Ordering::Relaxed)
    }
}

/// Kills a process group.
pub(super) fn kill_all(group: i32) {
    // SAFETY: sends a signal to a group of processes that this one has made.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}

/// Runs a program from its beginning to its end. Gives what it wrote to standard output and error.
///
/// # Errors
/// If it cannot be started or traced.
pub fn run_whole(
    program: &TryProgram,
    limits: &TryLimits,
    watcher: &mut Watcher<'_>,
) -> Result<(TryEnd, Vec<u8>, Vec<u8>), TryError> {
    let mut streams = Streams::new(program, None).map_err(while_doing("make the program's streams"))?;
    let root = start_traced(program, &streams)?;
    streams.fill_pipe(program, None);
    let deadline = Deadline::new(root, limits.time);
    let clients = Clients::begin(root, &program.connections);
    let status = follow_all(root, watcher, Answering::new(program.answers.clone()));
    kill_all(root);
    reap();
    // A server that waits for clients would wait for ever.
    let waited = clients.is_some_and(Clients::end);
    let expired = deadline.end() || waited;
    let status = status.map_err(while_doing("follow the program"))?;
    let end = if expired { TryEnd::Expired } else { TryEnd::Ended(ExitReport::of(status)) };
    let read = |file: &File| content_of(file).map_err(while_doing("read what the program wrote"));
    Ok((end, read(&streams.out)?, read(&streams.err)?))
}

fn follow_all(root: i32, watcher: &mut Watcher<'_>, answering: Answering) -> io::Result<i32> {
    let mut watch = |stopping: &super::Stopping| watcher(stopping);
    let mut tracer = Tracer::begin(root, false, &mut watch, answering)?;
    loop {
        match tracer.next()? {
            Seen::Ended { pid, status } if pid == root => return Ok(status),
            Seen::Ended { .. } | Seen::Passed => {}
            Seen::Entering(entering) => tracer.go_on(entering.pid, 0)?,
        }
    }
}

/// Takes the ends of tracees that were killed.
fn reap() {
    while let Ok((_, status)) = wait(-1) {
        // One that stands was killed before it could be told so; its end comes next.
        let _ = status;
    }
}

pub(super) fn content_of(file: &File) -> io::Result<Vec<u8>> {
    let mut content = vec![0; file.metadata()?.len() as usize];
    file.read_exact_at(&mut content, 0)?;
    Ok(content)
}

/// A program that stands right before the call by which it reads its input.
pub(super) struct AtInput {
    pub root: i32,
    pub entering: Entering,
    /// Where libc has the process's id, or 0.
    pub id_place: u64,
    pub streams: Streams,
}

/// Runs a program up to there.
pub(super) fn run_to_input(
    program: &TryProgram,
    input: &TryInput,
    readiness: Readiness,
    limits: &TryLimits,
) -> Result<AtInput, TryError> {
    let mut streams =
        Streams::new(program, Some(input)).map_err(while_doing("make the program's streams"))?;
    let reading = Reading::new(input, readiness, streams.stdin.as_ref())
        .map_err(while_doing("look at the input that changes"))?;
    let root = start_traced(program, &streams)?;
    streams.fill_pipe(program, Some(input));
    let deadline = Deadline::new(root, limits.time);
    let mut ignore = |_: &super::Stopping| {};
    let found = find(root, &reading, &mut ignore);
    let expired = deadline.end();
    match found.map_err(while_doing("follow the program")) {
        Ok(Ok((entering, id_place))) if !expired => Ok(AtInput { root, entering, id_place, streams }),
        other => {
            kill_all(root);
            reap();
            match other? {
                Err(status) => Err(TryError::NeverRead(ExitReport::of(status))),
                Ok(_) => Err(TryError::NeverRead(ExitReport::Killed(libc::SIGKILL))),
            }
        }
    }
}

fn find(root: i32, reading: &Reading, watcher: &mut Watcher<'_>) -> io::Result<Result<(Entering, u64), i32>> {
    let mut watch = |stopping: &super::Stopping| watcher(stopping);
    let mut tracer = Tracer::begin(root, true, &mut watch, Answering::new(RecordedAnswers::default()))?;
    loop {
        match tracer.next()? {
            Seen::Ended { pid, status } if pid == root => return Ok(Err(status)),
            Seen::Ended { .. } | Seen::Passed => {}
            Seen::Entering(entering) if reading.begins_with(&entering) => {
                return Ok(Ok((entering, tracer.id_place(entering.pid))));
            }
            Seen::Entering(entering) => tracer.go_on(entering.pid, 0)?,
        }
    }
}
