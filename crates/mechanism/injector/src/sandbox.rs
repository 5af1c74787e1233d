//! A closed world for programs that run again with something changed.
//!
//! The caller goes on in namespaces of its own (user, mounts, network, processes, IPC): what it
//! starts there reaches no network, no other process and no file outside, but those that the plan
//! names. The whole tree is read-only; below some directories a layer in memory takes what is written. Files
//! of the recording that have changed since, or are gone, stand where they were.
//!
//! Invariant: the mounts are made before the first program runs, and only by this module; where
//! one cannot be made, nothing runs. Deliberately absent: emulation of files by interception.

mod mounts;
mod written;

use std::io;
use std::path::PathBuf;

use crate::process::ExitReport;
pub use written::Written;

/// A file whose content comes from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Where the program looks for it.
    pub at: PathBuf,
    pub content: Vec<u8>,
    pub mode: u32,
}

/// What the world inside looks like.
#[derive(Debug, Clone, Default)]
pub struct SandboxPlan {
    /// Directories of the outside that are written to: the trace's, the results'.
    pub outside: Vec<PathBuf>,
    /// Directories below which writing is possible, and stays inside.
    pub layered: Vec<PathBuf>,
    pub placed: Vec<Placed>,
    /// Files that are not there, though they are outside.
    pub absent: Vec<PathBuf>,
}

/// Who returns from [`enter_sandbox`].
#[derive(Debug)]
pub enum Side {
    /// The process that goes on in the sandbox.
    Inside,
    /// The caller, when the process inside has ended.
    Outside(ExitReport),
}

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} for the sandbox: {source}; {}", advice(source))]
pub struct SandboxError {
    pub doing: String,
    #[source]
    pub source: io::Error,
}

fn advice(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSPC) => {
            "this machine forbids user namespaces (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces, or the container's profile)"
        }
        _ => "its mounts are made in a namespace of their own, and nothing outside has changed",
    }
}

pub(crate) fn while_doing(doing: impl Into<String>) -> impl FnOnce(io::Error) -> SandboxError {
    move |source| SandboxError { doing: doing.into(), source }
}

/// Goes on inside of a sandbox, as its first process. The caller must have one thread, and stays
/// outside itself: a copy of it goes in.
///
/// # Errors
/// If the kernel or this machine's settings forbid a part of it. They are told by the copy, which should
/// end with them; the caller sees its end.
pub fn enter_sandbox(plan: &SandboxPlan) -> Result<Side, SandboxError> {
    // SAFETY: there is one thread; the child goes on with a copy of all memory.
    let between = check(unsafe { libc::fork() }).map_err(while_doing("fork"))?;
    if between != 0 {
        return Ok(Side::Outside(accompany(between)));
    }
    end_with_parent();
    // SAFETY: these calls only ask for numbers.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let spaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    // SAFETY: the caller has one thread, which moves as a whole; no memory is concerned.
    check(unsafe { libc::unshare(spaces) }).map_err(while_doing("make namespaces"))?;
    let write =
        |path: &str, text: &str| std::fs::write(path, text).map_err(while_doing(format!("write {path}")));
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    // SAFETY: there is one thread; the child goes on with a copy of all memory.
    let child = check(unsafe { libc::fork() }).map_err(while_doing("fork"))?;
    if child == 0 {
        end_with_parent();
        mounts::make(plan)?;
        raise_loopback();
        return Ok(Side::Inside);
    }
    // Whoever has made namespaces of processes makes no other processes: it only waits.
    std::process::exit(match accompany(child) {
        ExitReport::Exited(code) => code,
        ExitReport::Killed(signal) => 128 + signal,
    })
}

fn end_with_parent() {
    // SAFETY: asks for a signal at the parent's death; no memory is concerned.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Waits for the process inside. The terminal's signals reach it as well; others are passed on.
fn accompany(child: i32) -> ExitReport {
    /// The process inside, for the handler.
    static INSIDE: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(0);
    extern "C" fn pass_on(signal: i32) {
        // SAFETY: kill(2) is async-signal-safe, and the child is not reaped while the handler is set.
        unsafe { libc::kill(INSIDE.load(std::sync::atomic::Ordering::Relaxed), signal) };
    }
    INSIDE.store(child, std::sync::atomic::Ordering::Relaxed);
    let handler = pass_on as extern "C" fn(i32);
    for (signal, action) in [
        (libc::SIGINT, libc::SIG_IGN),
        (libc::SIGQUIT, libc::SIG_IGN),
        (libc::SIGTERM, handler as usize),
        (libc::SIGHUP, handler as usize),
    ] {
        // SAFETY: the handler does nothing but one system call.
        unsafe { libc::signal(signal, action) };
    }
    let mut status = 0;
    loop {
        // SAFETY: the status is written within the call only.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            return ExitReport::of(status);
        }
    }
}

/// The network inside has a loopback device, for programs that talk to themselves.
fn raise_loopback() {
    // SAFETY: the socket is closed here; the request is as large as the kernel's structure.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw mut request);
        libc::close(socket);
    }
}

pub(crate) fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
