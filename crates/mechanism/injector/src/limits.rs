//! Limits on this process that would get in the way of a session.
//!
//! The program gets the limits that it would have had without us.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::error::InjectError;
use crate::maps::Mapping;

/// Lets this process have as many files open as it may. Processes that it has started keep
/// their limit.
pub fn raise_open_files() {
    // SAFETY: the calls read and write a limit of this process; zero is valid for it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Whether this process may have so many threads more at the same time, where its user may not
/// have many (`ulimit -u`).
///
/// # Errors
/// What making one failed with.
pub fn may_have_threads(count: usize) -> io::Result<()> {
    /// A limit of users that is worth the look.
    const NARROW: u64 = 1024;
    if limit_of(libc::RLIMIT_NPROC) > NARROW {
        return Ok(());
    }
    let gate = Mutex::new(());
    let held = gate.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let wait = || drop(gate.lock());
        let made = (0..count).try_for_each(|_| {
            std::thread::Builder::new().stack_size(SMALL_STACK_BYTES).spawn_scoped(scope, wait).map(drop)
        });
        drop(held);
        made
    })
}

/// Starts a thread with a name, of at most 15 bytes, by which debuggers and /proc/PID/task/TID/comm show it.
///
/// # Panics
/// Where the system gives no thread: what every session needs is asked for before, by [`may_have_threads`].
pub fn start_thread<T: Send + 'static>(
    name: &str,
    act: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let made = std::thread::Builder::new().name(name.to_owned()).spawn(act);
    made.unwrap_or_else(|error| panic!("no thread for the {name}: {error}"))
}

/// Lets nothing that this process starts from here on have descriptors but the standard ones, whoever has opened
/// them. An older kernel (before Linux 5.11) leaves them as they are.
pub fn close_descriptors_at_exec() {
    // SAFETY: marks descriptors of this process, and closes none (close_range(2)).
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

/// True where files may not become long (`ulimit -f`).
pub fn file_sizes_are_limited() -> bool {
    limit_of(libc::RLIMIT_FSIZE) != libc::RLIM_INFINITY
}

fn limit_of(resource: libc::__rlimit_resource_t) -> u64 {
    // SAFETY: reads a limit of this process, for which zero is valid.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(resource, &raw mut limit);
        limit.rlim_cur
    }
}

/// Does something in a thread with a stack of its own where the limit on that of the first one
/// (`ulimit -s`) would not do. Signals to the process come to that thread.
pub fn with_enough_stack<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    if limit_of(libc::RLIMIT_STACK) >= STACK_BYTES_MIN {
        return act();
    }
    // SAFETY: zero is valid for a set, and the calls fill them; masks are the calling thread's own.
    let before = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    let unblock = || {
        // SAFETY: the set was read from the kernel.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    };
    let act = Mutex::new(Some(act));
    let take = || act.lock().unwrap_or_else(PoisonError::into_inner).take().expect("it is taken once");
    std::thread::scope(|scope| {
        let with_mask = || {
            unblock();
            take()()
        };
        match std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, with_mask) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // It has to do with what there is.
            Err(_) => {
                unblock();
                take()()
            }
        }
    })
}

const STACK_BYTES_MIN: u64 = 1 << 20;
const STACK_BYTES: usize = 8 << 20;
const SMALL_STACK_BYTES: usize = 64 << 10;

/// Lets all threads allocate from the same memory where addresses are limited (`ulimit -v`): the C
/// library reserves 64 MB of them for each thread (M_ARENA_MAX in mallopt(3)), and threads could
/// not be made any more. To be called while the process has one thread.
pub fn spare_address_space() {
    // SAFETY: reads a limit of this process, for which zero is valid, and sets a parameter.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_AS, &raw mut limit);
        if limit.rlim_cur != libc::RLIM_INFINITY {
            allocate_from_one_arena();
        }
    }
}

/// Lets all threads allocate from the same memory: to make some for each takes a good part of a short
/// recording. To be called while the process has one thread.
pub fn allocate_from_one_arena() {
    // SAFETY: sets a parameter of the allocator.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// What the runtime maps in a process: all of it, and what counts as data, in MB.
const ADDRESSES_MB: u64 = 76;
const DATA_MB: u64 = 14;

/// The first limit of a process with these mappings that leaves no room for the runtime, if one
/// does. Without it the new image would end before its first instruction.
pub(crate) fn lacks_room(pid: i32, maps: &[Mapping]) -> Option<InjectError> {
    // As the kernel counts data.
    let is_data = |map: &&Mapping| {
        !map.shared && map.protection & libc::PROT_WRITE as u32 != 0 && map.name != b"[stack]"
    };
    let bytes = |map: &Mapping| map.end - map.start;
    let all = maps.iter().map(bytes).sum::<u64>();
    let data = maps.iter().filter(is_data).map(bytes).sum::<u64>();
    let of = |resource, used: u64, megabytes: u64, what| {
        // SAFETY: reads a limit of the process, for which zero is valid.
        let limit = unsafe {
            let mut limit: libc::rlimit = std::mem::zeroed();
            let read = libc::prlimit(pid, resource, std::ptr::null(), &raw mut limit);
            (read == 0).then_some(limit.rlim_cur)?
        };
        // No limit is a higher number than any.
        (limit < used + (megabytes << 20)).then_some(InjectError::NoRoom { pid, what, megabytes })
    };
    of(libc::RLIMIT_AS, all, ADDRESSES_MB, "addresses (ulimit -v)")
        .or_else(|| of(libc::RLIMIT_DATA, data, DATA_MB, "data (ulimit -d)"))
}

/// The limit on the size of files (`ulimit -f`) as it was before a session.
#[derive(Clone, Copy)]
pub(crate) struct FileSizeLimit {
    before: libc::rlimit,
}

impl FileSizeLimit {
    /// Raises the limit as far as this process may, for the session's memory and
    /// the trace. Where it still is too small, writing fails (EFBIG) instead of
    /// ending this process.
    pub fn raise() -> FileSizeLimit {
        // SAFETY: the calls read and write limits and a disposition of this
        // process; zero is valid for a limit.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let mut before: libc::rlimit = std::mem::zeroed();
            libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut before);
            let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
            let highest = libc::rlimit { rlim_cur: before.rlim_max, rlim_max: before.rlim_max };
            if libc::setrlimit(libc::RLIMIT_FSIZE, &raw const unlimited) != 0 {
                libc::setrlimit(libc::RLIMIT_FSIZE, &raw const highest);
            }
            FileSizeLimit { before }
        }
    }

    /// Gives a child the limit that was; async-signal-safe.
    pub fn restore(&self) {
        // SAFETY: sets a limit of the calling process; lowering is always permitted.
        unsafe {
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const self.before);
        }
    }
}
