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
    /// A limit of the process (setrlimit(2)) leaves no room for the runtime.
    #[error(
        "process {pid} cannot be recorded: its limit on {what} leaves no room for the runtime, which needs {megabytes} MB"
    )]
    NoRoom { pid: i32, what: &'static str, megabytes: u64 },
    /// A process that runs already cannot be taken over.
    #[error("cannot attach to process {pid}: {why}")]
    Boarding { pid: i32, why: Refusal },
    /// Something about the stopped process could not be read or set.
    #[error("cannot prepare process {pid} ({step}): {source}")]
    Prepare { pid: i32, step: &'static str, source: io::Error },
    /// The birth does not fit into the lane's header or log.
    #[error("the image of process {pid} is too unusual to be recorded: {what}")]
    TooLarge { pid: i32, what: &'static str },
}

/// Why a process that runs already is not taken over.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("there is no such process")]
    NoSuchProcess,
    #[error("it is this very command")]
    Ourselves,
    #[error("it is a thread of process {0}: attach to that one, all of its threads come with it")]
    IsThread(i32),
    #[error("it is a thread of the kernel, which runs no program")]
    KernelThread,
    #[error("it belongs to another user (uid {its}, this one is {own}): attach as that user, or as root")]
    OtherUser { its: u32, own: u32 },
    #[error(
        "Yama forbids to trace a process that is no descendant (/proc/sys/kernel/yama/ptrace_scope is {0}), and boarding needs ptrace for a moment: {what}, or start the program by `retrovane live -- PROGRAM`",
        what = if *.0 >= 3 { "3 lasts until the next boot" } else { "attach as root, or set it to 0 (`sysctl kernel.yama.ptrace_scope=0`)" }
    )]
    Yama(u32),
    #[error(
        "the kernel forbids to trace it ({0}): it may have changed its user or have capabilities, be in another container, or a sandbox may forbid ptrace; attach as root from outside"
    )]
    NotPermitted(#[source] io::Error),
    #[error("process {0} traces it (a debugger, strace): let that end first")]
    Traced(i32),
    #[error(
        "a seccomp filter is in force in it, which may forbid what the runtime does there: start it by `retrovane live -- PROGRAM`"
    )]
    Seccomp,
    #[error(
        "it runs in the memory of its parent, process {0} (vfork): wait until it has executed its program"
    )]
    SharesWithParent(i32),
    #[error("it is stopped: continue it (`kill -CONT`), then attach")]
    JobStopped,
    #[error(
        "its thread {0} does not come out of the kernel (it may wait for a disk, or for a child of vfork): try again later"
    )]
    Stuck(i32),
    #[error("its first thread has ended while others run, which cannot be taken over")]
    FirstThreadEnded,
    #[error("it has {0} threads, which are too many")]
    TooManyThreads(usize),
    #[error("it is a 32-bit program: retrovane records 64-bit x86-64 programs")]
    ThirtyTwoBit,
    #[error("it has its own system calls sent to itself (as Wine does)")]
    DispatchesCalls,
    #[error("it uses the gs segment, which the runtime needs")]
    UsesGs,
    #[error(
        "memory at 0x6a0000000000 is in use in it: it is in a session already, or was in one that let it go"
    )]
    RegionTaken,
    #[error(
        "process {pid} shares memory with it that both can write ({name}): what that one writes would not be recorded, and would be undone by a rollback; start the program by `retrovane live -- PROGRAM`, or say `--shared-memory keep`, with which rollbacks leave that memory as it is"
    )]
    SharedMemory { name: String, pid: i32 },
    #[error("it maps memory that a device or the kernel writes at any time ({0}), which cannot be recorded")]
    DeviceMemory(String),
    #[error("it handles page faults by itself (userfaultfd), which cannot be recorded")]
    Userfaultfd,
    #[error("it has too many mappings")]
    TooManyMaps,
    #[error(
        "no memory can be mapped in it for the runtime (2.3 GB of addresses from 0x6a0000000000 on): {0}; its limit may be too low (ulimit -v)"
    )]
    NoRoom(#[source] io::Error),
    #[error("no descriptor can be opened in it: {0}; its limit may be reached (ulimit -n)")]
    NoDescriptor(#[source] io::Error),
    #[error("this kernel does not tell what it does at a thread's end (CONFIG_CHECKPOINT_RESTORE is off)")]
    NoTidAddress,
    #[error("it has no code by which it could make a system call")]
    NoCode,
    #[error("its state cannot be read or set: {0}")]
    Memory(#[source] io::Error),
}

impl Refusal {
    /// True if it is a matter of permission.
    pub fn is_permission(&self) -> bool {
        matches!(
            self,
            Refusal::OtherUser { .. } | Refusal::Yama(_) | Refusal::NotPermitted(_) | Refusal::Traced(_)
        )
    }
}

impl InjectError {
    pub(crate) fn prepare(pid: i32, step: &'static str) -> impl FnOnce(io::Error) -> InjectError {
        move |source| InjectError::Prepare { pid, step, source }
    }
}
