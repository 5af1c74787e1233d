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
