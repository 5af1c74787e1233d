//! Limits on this process that would get in the way of a session.
//!
//! The program gets the limits that it would have had without us.

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

/// Lets all threads allocate from the same memory where addresses are limited (`ulimit -v`): the C
/// library reserves 64 MB of them for each thread (M_ARENA_MAX in mallopt(3)), and threads could
/// not be made any more. To be called while the process has one thread.
pub fn spare_address_space() {
    // SAFETY: reads a limit of this process, for which zero is valid, and sets a parameter.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_AS, &raw mut limit);
        if limit.rlim_cur != libc::RLIM_INFINITY {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
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
