//! Why nothing could be recorded.

use injector::{InjectError, ProgramError};
use trace_store::StoreError;

/// Why a recording did not begin.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program cannot be run, or not be recorded.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The machine lacks something at the program's start.
    #[error(transparent)]
    Inject(#[from] InjectError),
    /// The trace cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Memory for the log of a live session.
    #[error("the log cannot be kept in memory: {0}")]
    History(std::io::Error),
    /// The user may not have the recorder's threads.
    #[error("the recorder cannot make its threads: {0}; check `ulimit -u` and the cgroup's pids.max")]
    Threads(std::io::Error),
    /// What was to run beside it.
    #[error("the lab cannot begin: {0}")]
    Companion(std::io::Error),
    /// Syscall user dispatch was demanded.
    #[error(
        "this kernel has no syscall user dispatch (Linux 5.11 has): leave the choice to retrovane, or use --seccomp"
    )]
    NoUserDispatch,
    /// Neither way to intercept system calls is there.
    #[error(
        "this machine permits neither syscall user dispatch (Linux 5.11) nor seccomp filters: a sandbox refuses prctl(PR_SET_SYSCALL_USER_DISPATCH) and seccomp(), one of which retrovane needs"
    )]
    NoInterception,
    /// The injector looks at the program by /proc.
    #[error(
        "/proc is not mounted here, or shows other processes than ours: mount it with `mount -t proc proc /proc` (or `unshare --mount-proc`), as retrovane reads there what the program maps"
    )]
    NoProc,
    /// Yama forbids.
    #[error(
        "ptrace is forbidden here (/proc/sys/kernel/yama/ptrace_scope is {scope}), and retrovane needs it once for each execve: set it to 1 or 0, or record as root"
    )]
    PtraceForbidden { scope: u32 },
}

impl RecordError {
    /// True where the program could run, and a limit of this process leaves no room to record it.
    /// Nothing of it has run.
    pub fn is_limit(&self) -> bool {
        let is_short = |error: &std::io::Error| {
            let errors = [libc::EAGAIN, libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EFBIG];
            error.raw_os_error().is_some_and(|error| errors.contains(&error))
        };
        match self {
            RecordError::Threads(_) => true,
            RecordError::Inject(InjectError::Memory(error) | InjectError::Fork(error))
            | RecordError::Store(StoreError::Io { source: error, .. }) => is_short(error),
            RecordError::Store(StoreError::DiskFull { .. }) => injector::file_sizes_are_limited(),
            _ => false,
        }
    }
}
