//! What can go wrong at a birth.

use std::io;

/// Why a process could not be started or taken over.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// Shared memory could not be made.
    #[error(
        "cannot create the memory shared with the program: {0}; check `ulimit -v`, `ulimit -f` and /proc/sys/vm/overcommit_memory"
    )]
    Memory(#[source] io::Error),
    /// The runtime inside this executable is unusable.
    #[error("the runtime inside retrovane is unusable ({0}); build retrovane again")]
    RuntimeImage(String),
    /// fork failed.
    #[error("cannot create a process: {0}; check `ulimit -u` and the cgroup's pids.max")]
    Fork(#[source] io::Error),
    /// ptrace is not permitted.
    #[error(
        "cannot attach to process {pid}: {source}; a sandbox or /proc/sys/kernel/yama/ptrace_scope forbids ptrace, which is needed once for each execve"
    )]
    Attach { pid: i32, source: io::Error },
    /// execve of the program failed.
    #[error("cannot run {path}: {source}")]
    Exec { path: String, source: io::Error },
    /// The process ended before its program began.
    #[error("process {pid} ended before its program began ({how})")]
    Died { pid: i32, how: String },
    /// The new image cannot be recorded.
    #[error(
        "process {pid} executes {what}, which cannot be recorded: retrovane records 64-bit x86-64 programs"
    )]
    NotRecordable { pid: i32, what: String },
    /// Something about the stopped process could not be read or set.
    #[error("cannot prepare process {pid} ({step}): {source}")]
    Prepare { pid: i32, step: &'static str, source: io::Error },
    /// The birth does not fit into the lane's header or log.
    #[error("the image of process {pid} is too unusual to be recorded: {what}")]
    TooLarge { pid: i32, what: &'static str },
}

impl InjectError {
    pub(crate) fn prepare(pid: i32, step: &'static str) -> impl FnOnce(io::Error) -> InjectError {
        move |source| InjectError::Prepare { pid, step, source }
    }
}
