//! Futexes between processes.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `expected`, at most for `timeout`. Returns early
/// when woken, when the word has another value, or on a signal; the caller looks
/// at its condition again in each case.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let time = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
    };
    // SAFETY: the word and the time live for the whole call; the kernel only reads both.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const time);
    }
}

/// Wakes all that sleep on `word`, in this process and in others.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the kernel uses the word's address as a key and does not touch it.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}

/// CLOCK_MONOTONIC, which the runtime stamps with.
pub fn monotonic_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is ours to write.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
