//! The start of a replaying process.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use lane_protocol::{FILE_TEXT, TEXT_START};

use crate::error::InjectError;
use crate::lane::Segment;
use crate::session_memory::SessionMemory;
use crate::signals::SignalState;

/// Distance of the replaying entry from the start of the text.
const REPLAY_ENTRY: u64 = 16;
/// Where the memfd is in replaying processes, unless their limit is lower.
const CONTROL_FD: i32 = 1000;

/// Starts a process that replays the lane in the first segment. It shares
/// nothing with this one but descriptors 0 to 2 and the session's memory.
///
/// # Errors
/// [`InjectError::Fork`] if there can be no more processes.
pub fn start_replay(memory: &SessionMemory) -> Result<i32, InjectError> {
    let control_fd = control_fd();
    memory.control_fd().store(control_fd, Ordering::Relaxed);
    let memfd = memory.memfd().as_raw_fd();
    let text_bytes = memory.text_bytes();
    // SAFETY: an empty set is valid.
    let signals = unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        SignalState::for_child(none)
    };
    // SAFETY: the child calls async-signal-safe functions only and never returns.
    let pid = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            become_replay(memfd, control_fd, text_bytes, &signals);
        }
        pid
    };
    if pid < 0 {
        return Err(InjectError::Fork(io::Error::last_os_error()));
    }
    memory.lane(Segment::FIRST).pid().store(pid, Ordering::Release);
    Ok(pid)
}

fn control_fd() -> i32 {
    // SAFETY: the call fills the limit; zero is valid for it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        CONTROL_FD.min(limit.rlim_cur.clamp(4, 1024) as i32 - 1)
    }
}

/// The child's side: drops what it inherited and jumps into the runtime, which
/// unmaps everything else.
fn become_replay(memfd: i32, control_fd: i32, text_bytes: u64, signals: &SignalState) -> ! {
    // SAFETY: this process has one thread, gives up all of its memory, and runs
    // nothing but the runtime from here on, whose entry takes its arguments in
    // r12 and r13. The mapping is new (MAP_FIXED_NOREPLACE).
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        signals.apply();
        if libc::dup2(memfd, control_fd) != control_fd {
            libc::_exit(126);
        }
        close_all_but(control_fd);
        let text = libc::mmap(
            TEXT_START as *mut libc::c_void,
            text_bytes as usize,
            libc::PROT_READ | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE,
            control_fd,
            FILE_TEXT as libc::off_t,
        );
        if text as u64 != TEXT_START {
            libc::_exit(126);
        }
        std::arch::asm!(
            "jmp {entry}",
            entry = in(reg) TEXT_START + REPLAY_ENTRY,
            in("r12") Segment::FIRST.index() as u64,
            in("r13") control_fd as u64,
            options(noreturn),
        );
    }
}

/// # Safety
/// Whoever owned the descriptors never runs again in this process.
unsafe fn close_all_but(control_fd: i32) {
    // SAFETY: as the caller promises. close_range exists since Linux 5.9.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3u32, control_fd as u32 - 1, 0u32);
        libc::syscall(libc::SYS_close_range, control_fd as u32 + 1, u32::MAX, 0u32);
    }
}
