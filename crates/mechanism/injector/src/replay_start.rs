//! The start of a replaying process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use lane_protocol::{FILE_TEXT, IMAGE_FD_BELOW, TEXT_START};

use crate::error::InjectError;
use crate::lane::Segment;
use crate::limits;
use crate::session_memory::SessionMemory;
use crate::signals::SignalState;

/// Distance of the replaying entry from the start of the text, and of the one for a process
/// that takes up an image.
const REPLAY_ENTRY: u64 = 16;
const IMAGE_ENTRY: u64 = 80;
/// Where the memfd is in replaying processes, unless their limit is lower.
const CONTROL_FD: i32 = 1000;

/// Starts a process that replays the lane in the first segment. It shares
/// nothing with this one but descriptors 0 to 2 and the session's memory; not even those, where
/// the session is confined.
///
/// # Errors
/// [`InjectError::Fork`] if there can be no more processes.
pub fn start_replay(memory: &SessionMemory) -> Result<i32, InjectError> {
    start(memory, &Beginning { segment: Segment::FIRST, image: None, group: None })
}

/// The same, with a process group of its own, of which its copies and children are too.
///
/// # Errors
/// As for [`start_replay`].
pub fn start_replay_in_group(memory: &SessionMemory) -> Result<i32, InjectError> {
    start(memory, &Beginning { segment: Segment::FIRST, image: None, group: Some(0) })
}

/// Starts a process in the segment, as a member of the group, that takes up an image: a file
/// as `lane_protocol::ImageHead` says, which the caller has checked.
///
/// # Errors
/// As for [`start_replay`].
pub fn start_from_image(
    memory: &SessionMemory,
    segment: Segment,
    image: &File,
    group: i32,
) -> Result<i32, InjectError> {
    start(memory, &Beginning { segment, image: Some(image), group: Some(group) })
}

/// What begins.
struct Beginning<'a> {
    segment: Segment,
    image: Option<&'a File>,
    /// The process group that it is of; 0: a new one. `None`: ours.
    group: Option<i32>,
}

fn start(memory: &SessionMemory, beginning: &Beginning) -> Result<i32, InjectError> {
    let control_fd = control_fd();
    memory.control_fd().store(control_fd, Ordering::Relaxed);
    // SAFETY: an empty set is valid.
    let signals = unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        SignalState::for_child(none)
    };
    let rseq = rseq_area();
    // SAFETY: the child calls async-signal-safe functions only and never returns.
    let pid = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            if let Some(group) = beginning.group {
                libc::setpgid(0, group);
            }
            become_replay(memory, control_fd, &signals, rseq, beginning);
        }
        pid
    };
    if pid < 0 {
        return Err(InjectError::Fork(io::Error::last_os_error()));
    }
    if let Some(group) = beginning.group {
        // Whoever comes first; it has not gone on into another image.
        // SAFETY: the call changes nothing but the child's group.
        unsafe { libc::setpgid(pid, group) };
    }
    memory.lane(beginning.segment).pid().store(pid, Ordering::Release);
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
fn become_replay(
    memory: &SessionMemory,
    control_fd: i32,
    signals: &SignalState,
    rseq: Option<usize>,
    beginning: &Beginning,
) -> ! {
    let (memfd, text_bytes) = (memory.memfd().as_raw_fd(), memory.text_bytes());
    let image_fd = control_fd - IMAGE_FD_BELOW;
    let (first_fd, entry) = match beginning.image {
        Some(_) => (image_fd, IMAGE_ENTRY),
        None => (control_fd, REPLAY_ENTRY),
    };
    // SAFETY: this process has one thread, gives up all of its memory, and runs
    // nothing but the runtime from here on, whose entry takes its arguments in
    // r12 and r13. The mapping is new (MAP_FIXED_NOREPLACE).
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // Each file that it shares takes one.
        limits::raise_open_files();
        signals.apply();
        if libc::dup2(memfd, control_fd) != control_fd {
            libc::_exit(126);
        }
        if let Some(image) = beginning.image
            && libc::dup2(image.as_raw_fd(), image_fd) != image_fd
        {
            libc::_exit(126);
        }
        if let Some(confinement) = memory.confinement.get()
            && !confinement.enter()
        {
            libc::_exit(126);
        }
        close_all_but(first_fd, control_fd);
        forget_thread_areas(rseq);
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
            entry = in(reg) TEXT_START + entry,
            in("r12") beginning.segment.index() as u64,
            in("r13") control_fd as u64,
            options(noreturn),
        );
    }
}

/// # Safety
/// Whoever owned the descriptors never runs again in this process.
unsafe fn close_all_but(first: i32, last: i32) {
    // SAFETY: as the caller promises. close_range exists since Linux 5.9.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3u32, first as u32 - 1, 0u32);
        libc::syscall(libc::SYS_close_range, last as u32 + 1, u32::MAX, 0u32);
    }
}

/// Where libc registered this thread's area for restartable sequences (rseq(2)),
/// to which the kernel writes at its own will.
fn rseq_area() -> Option<usize> {
    let offset = rseq_offset();
    // SAFETY: glibc (from 2.35 on) documents the symbol as a `ptrdiff_t`, the distance from the
    // thread pointer.
    unsafe { (!offset.is_null()).then(|| (libc::pthread_self() as usize).wrapping_add_signed(*offset)) }
}

// The linker puts the symbol here, or null where libc has none: a static program cannot look symbols up.
std::arch::global_asm!(
    ".weak __rseq_offset",
    ".pushsection .data.rel.ro.rv_rseq_offset, \"aw\"",
    ".balign 8",
    ".globl rv_rseq_offset",
    ".hidden rv_rseq_offset",
    "rv_rseq_offset: .quad __rseq_offset",
    ".popsection",
);

fn rseq_offset() -> *const isize {
    unsafe extern "C" {
        static rv_rseq_offset: *const isize;
    }
    // SAFETY: defined above, and never written.
    unsafe { rv_rseq_offset }
}

/// Takes back what libc told the kernel of places in memory, for memory that is
/// about to be unmapped.
///
/// # Safety
/// Whoever relies on these never runs again in this process.
unsafe fn forget_thread_areas(rseq: Option<usize>) {
    const RSEQ_FLAG_UNREGISTER: i32 = 1;
    /// What libc registers with, on x86.
    const RSEQ_SIGNATURE: u32 = 0x5305_3053;
    // SAFETY: the calls change the kernel's notes only. The length must be the one
    // that was registered, which depends on glibc and kernel: 32 times a number.
    unsafe {
        libc::syscall(libc::SYS_set_robust_list, 0usize, 24usize);
        libc::syscall(libc::SYS_set_tid_address, 0usize);
        let Some(area) = rseq else { return };
        for len_bytes in (32..=512usize).step_by(32) {
            if libc::syscall(libc::SYS_rseq, area, len_bytes, RSEQ_FLAG_UNREGISTER, RSEQ_SIGNATURE) == 0 {
                break;
            }
        }
    }
}
