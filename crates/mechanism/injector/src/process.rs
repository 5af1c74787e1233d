//! Processes seen from outside: their ends, stops and times.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use crate::process_facts::fields_of;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReport {
    /// It exited with this code.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

impl ExitReport {
    /// Reads a wait status of a process that ended.
    pub(crate) fn of(status: i32) -> ExitReport {
        if libc::WIFSIGNALED(status) {
            ExitReport::Killed(libc::WTERMSIG(status))
        } else {
            ExitReport::Exited(libc::WEXITSTATUS(status))
        }
    }
}

impl std::fmt::Display for ExitReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExitReport::Exited(code) => write!(f, "exited with code {code}"),
            ExitReport::Killed(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

/// What became of the main child. Nothing is consumed by looking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MainEvent {
    /// It ended; [`reap_main`] takes its status.
    Ended,
    /// Job control stopped it.
    Stopped,
    /// It stands in front of its tracer, another thread of this process.
    Traced,
    /// There is no such child: its tracer has reaped it.
    NoChild,
}

/// The result of taking a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MainWait {
    Ended(ExitReport),
    Stopped(i32),
    Nothing,
    NoChild,
}

/// Waits until something happens to a child and leaves its status where it is.
///
/// A plain waitpid would swallow the ptrace stops that another thread of this
/// process waits for: the kernel treats tracees of the same process as children
/// of all its threads (wait_consider_task in kernel/exit.c).
pub fn peek_main(pid: i32) -> MainEvent {
    loop {
        // SAFETY: zero is a valid siginfo; the kernel writes it within the call.
        let (result, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT;
            (libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut info, flags), info)
        };
        if result == 0 {
            return match info.si_code {
                libc::CLD_TRAPPED => MainEvent::Traced,
                libc::CLD_STOPPED => MainEvent::Stopped,
                _ => MainEvent::Ended,
            };
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return MainEvent::NoChild;
        }
    }
}

/// Takes the status of a child if it has ended or stopped.
pub fn reap_main(pid: i32) -> MainWait {
    let mut status = 0;
    // SAFETY: the status is written within the call only.
    let result = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG | libc::WUNTRACED) };
    match result {
        0 => MainWait::Nothing,
        _ if result == pid && libc::WIFSTOPPED(status) => MainWait::Stopped(libc::WSTOPSIG(status)),
        _ if result == pid => MainWait::Ended(ExitReport::of(status)),
        _ => MainWait::NoChild,
    }
}

/// Waits for the end of any child; `None` when there is none left.
pub fn reap_any() -> Option<(i32, ExitReport)> {
    reap(-1)
}

/// Waits for the end of any child in this process group; `None` when there is none left.
pub fn reap_group(group: i32) -> Option<(i32, ExitReport)> {
    reap(-group)
}

fn reap(which: i32) -> Option<(i32, ExitReport)> {
    loop {
        let mut status = 0;
        // SAFETY: the status is written within the call only.
        let pid = unsafe { libc::waitpid(which, &raw mut status, libc::__WALL) };
        if pid > 0 {
            return Some((pid, ExitReport::of(status)));
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return None;
        }
    }
}

/// Starts a command with these signals unblocked, and asks it to end (SIGTERM) when
/// the thread that calls this is gone.
///
/// # Errors
/// Those of starting a command.
pub fn start_bound(command: &mut Command, unblocked: &[i32]) -> io::Result<Child> {
    let set = signal_set(unblocked);
    let act = move || {
        // SAFETY: both calls are async-signal-safe, as they have to be between fork
        // and execve; the set is the closure's own.
        let result = unsafe {
            libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut())
                | libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    unsafe { command.pre_exec(act) };
    command.spawn()
}

/// Forks this process: the child does `body`, and ends with the code that this returns. It has these signals
/// unblocked, these as its standard input, output and errors (`None`: ours), a process group of its own, and
/// is asked to end (SIGTERM) when the thread that calls this is gone. It is there sooner than one that executes
/// a program, which is loaded and looks at its command line again.
///
/// To be called while the process has one thread: the locks of others would be held for ever in the child.
/// What is buffered of standard output is lost with the child.
///
/// # Errors
/// Those of fork(2).
pub fn fork_bound(
    unblocked: &[i32],
    streams: [Option<BorrowedFd<'_>>; 3],
    body: impl FnOnce() -> u8,
) -> io::Result<i32> {
    let set = signal_set(unblocked);
    // SAFETY: this thread is the only one, as the caller vouches: the child's memory is as consistent as ours.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: the calls take no memory but the set, and descriptors that are open.
            let result = unsafe {
                let moved = (0..).zip(streams).filter_map(|(number, stream)| Some((number, stream?)));
                moved.fold(0, |result, (number, stream)| {
                    result | libc::dup2(stream.as_raw_fd(), number).min(0)
                }) | libc::setpgid(0, 0)
                    | libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut())
                    | libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM)
            };
            // As commands end that fail for another reason than the program.
            const FAILED: u8 = 125;
            let code = if result == 0 { body() } else { FAILED };
            // SAFETY: ends the process.
            unsafe { libc::_exit(code.into()) }
        }
        pid => Ok(pid),
    }
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: zero is a valid set; the calls write it.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

/// Stops this very process as the terminal's stop key would, until it is continued.
pub fn stop_self() {
    // SAFETY: sends a signal; nothing else.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGSTOP);
    }
}

/// Stops this very process as long as another one is stopped, or until it is continued itself. Who
/// continues the other one need not know of us.
pub fn stop_along_with(pid: i32) {
    let watcher = watch_stopped(pid);
    stop_self();
    kill_process(watcher, libc::SIGKILL);
    if watcher > 0 {
        // SAFETY: waits for a process that was just killed.
        unsafe { libc::waitpid(watcher, std::ptr::null_mut(), libc::__WALL) };
    }
}

/// A process that continues this one once the other is not stopped any more, again and again; or
/// none, where none can be had. No thread of ours could do it: all of them stop. It tells nobody of
/// its end.
fn watch_stopped(pid: i32) -> i32 {
    let Ok(path) = std::ffi::CString::new(format!("/proc/{pid}/stat")) else { return 0 };
    let ours = std::process::id() as i32;
    // SAFETY: no flags: a copy, as fork makes. It only makes calls and touches its own stack.
    unsafe {
        let watcher = libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) as i32;
        if watcher != 0 {
            return watcher;
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let pause = libc::timespec { tv_sec: 0, tv_nsec: LOOK_EVERY_NS };
        while libc::getppid() == ours {
            libc::nanosleep(&raw const pause, std::ptr::null_mut());
            let mut stat = [0u8; 256];
            let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            let bytes = libc::read(file, stat.as_mut_ptr().cast(), stat.len());
            libc::close(file);
            // The name before the state may hold anything.
            let known = stat.get(..usize::try_from(bytes).unwrap_or(0)).unwrap_or(&[]);
            let state = known.iter().rposition(|&byte| byte == b')').and_then(|at| known.get(at + 2));
            if !matches!(state, Some(b'T' | b't')) {
                libc::kill(ours, libc::SIGCONT);
            }
        }
        libc::_exit(0)
    }
}

/// How often a process that is stopped is looked at.
const LOOK_EVERY_NS: i64 = 10_000_000;

/// Sends a signal. A process that is gone is no error.
pub fn kill_process(pid: i32, signal: i32) {
    if pid > 0 {
        // SAFETY: sends a signal to one process; nothing else.
        unsafe {
            libc::kill(pid, signal);
        }
    }
}

/// Sends a signal to all processes of a group. That there are none is no error.
pub fn kill_group(group: i32, signal: i32) {
    if group > 1 {
        // SAFETY: sends a signal to the processes of one group; nothing else.
        unsafe {
            libc::kill(-group, signal);
        }
    }
}

/// Ends this process by the signal that ended its child, so that whoever waits
/// sees the same. Returns if the signal does not kill.
pub fn die_by_signal(signal: i32) {
    // SAFETY: a core dump of this process would be of no use to anyone, so its
    // limit is set to 0; disposition and mask are set so that the signal acts.
    unsafe {
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const limit);
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::kill(libc::getpid(), signal);
    }
}

/// Processor time that a process has used so far; `None` if it is gone.
pub fn cpu_time(pid: i32) -> Option<Duration> {
    // SAFETY: both calls write their results within the call.
    unsafe {
        let mut clock: libc::clockid_t = 0;
        if libc::clock_getcpuclockid(pid, &raw mut clock) != 0 {
            return None;
        }
        let mut time: libc::timespec = std::mem::zeroed();
        if libc::clock_gettime(clock, &raw mut time) != 0 {
            return None;
        }
        Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }
}

/// `struct pidfd_info` of linux/pidfd.h in its first version.
#[repr(C)]
#[derive(Default)]
struct PidFdInfo {
    mask: u64,
    _group: u64,
    _ids: [u32; 11],
    status: i32,
}

const _: () = assert!(size_of::<PidFdInfo>() == 64);

/// `_IOWR(0xff, 11, struct pidfd_info)`.
const PIDFD_GET_INFO: libc::c_ulong = 0xc040_ff0b;

/// A process, held so that its number cannot come to mean another one.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Holds the process that has this number now; `None` if there is none.
    pub fn open(pid: i32) -> Option<PidFd> {
        // SAFETY: the result is a new descriptor or an error.
        unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
            (fd >= 0).then(|| PidFd(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// The signal that killed this process, which has ended. `None` if it exited, or if
    /// nobody can tell any more: it is no child of ours, so its parent's wait may have been
    /// first, and only Linux 6.15 and later tell it after that.
    pub fn killed_by(&self, pid: i32) -> Option<i32> {
        match self.end(pid)? {
            ExitReport::Killed(signal) => Some(signal),
            ExitReport::Exited(_) => None,
        }
    }

    /// How it ended; `None` as above.
    pub fn end(&self, pid: i32) -> Option<ExitReport> {
        self.status_of_zombie(pid).or_else(|| self.status_after_wait()).map(ExitReport::of)
    }

    /// The last word of proc(5)'s stat, as long as nobody has waited for the process.
    fn status_of_zombie(&self, pid: i32) -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = fields_of(&stat)?;
        let status = (fields.next()? == "Z").then(|| fields.next_back())??.parse().ok()?;
        // SAFETY: signal 0 is sent to nobody. It fails once the number may mean another process.
        let there = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), 0, 0, 0) } == 0;
        there.then_some(status)
    }

    /// What the kernel keeps for descriptors of a process that was waited for.
    fn status_after_wait(&self) -> Option<i32> {
        const INFO_EXIT: u64 = 1 << 3;
        let mut info = PidFdInfo { mask: INFO_EXIT, ..PidFdInfo::default() };
        // SAFETY: the kernel writes no more bytes than the request says, which are those of the structure.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
        (result == 0 && info.mask & INFO_EXIT != 0).then_some(info.status)
    }

    /// A copy of a descriptor of that process.
    ///
    /// # Errors
    /// What pidfd_getfd(2) fails with.
    pub fn descriptor(&self, fd: i32) -> io::Result<std::fs::File> {
        // SAFETY: the result is a new descriptor or an error.
        unsafe {
            let copy = libc::syscall(libc::SYS_pidfd_getfd, self.0.as_raw_fd(), fd, 0) as i32;
            if copy < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(copy).into()) }
        }
    }
}

/// A call of the lab's own programs (`lane_protocol::LAB_CALL`): a lab's engine answers it, no kernel.
pub fn lab_call(number: u64, arguments: [u64; 2]) -> i64 {
    // SAFETY: the kernel knows no such call, and the engine touches no memory for it.
    unsafe { libc::syscall(number as libc::c_long, arguments[0], arguments[1]) }
}

/// Sends a signal with all that is said of it (`siginfo_t`) to a process, or to one of its threads. One that has ended
/// gets none.
pub fn queue_signal(pid: i32, thread: Option<i32>, signal: i32, info: &[u8; 128]) {
    // SAFETY: the kernel reads as many bytes as the array has, which lives for the call.
    unsafe {
        match thread {
            Some(thread) => libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, thread, signal, info.as_ptr()),
            None => libc::syscall(libc::SYS_rt_sigqueueinfo, pid, signal, info.as_ptr()),
        };
    }
}

/// Which of these processes have ended, without waiting.
pub fn poll_exited(processes: &[&PidFd]) -> Vec<bool> {
    let mut polls: Vec<libc::pollfd> = processes
        .iter()
        .map(|process| libc::pollfd { fd: process.0.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    // SAFETY: the array lives for the call and has the length that is passed.
    let result = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, 0) };
    polls.iter().map(|poll| result > 0 && poll.revents & libc::POLLIN != 0).collect()
}

/// Sends a descriptor over a socket, with one byte.
///
/// # Errors
/// What sendmsg(2) fails with.
pub fn send_descriptor(socket: BorrowedFd, descriptor: BorrowedFd) -> io::Result<()> {
    let (socket, descriptor) = (socket.as_raw_fd(), descriptor.as_raw_fd());
    let mut byte = [0u8];
    let mut control = [0u64; 4];
    // SAFETY: the message names memory that lives for the call; the control message fits
    // into its place, which is aligned to 8 bytes.
    let sent = unsafe {
        let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(descriptor);
        libc::sendmsg(socket, &raw const message, 0)
    };
    if sent == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A new file in memory (`memfd_create(2)`); the name is only shown.
///
/// # Errors
/// What the call fails with.
pub fn unnamed_file(name: &std::ffi::CStr) -> io::Result<std::fs::File> {
    // SAFETY: the name is a C string; the result is a new descriptor or an error.
    unsafe {
        let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd).into()) }
    }
}
