//! Recording: one thread of all processes writes to the recorded standard output or
//! error at a time, so that the order of the writes is the order that is logged. Who kills
//! a process has the lock as well, or what that wrote last would not be logged.
//!
//! A lock that survives its holder: one that was killed, or sleeps in its write because
//! nobody reads, loses it. One that waits for a processor keeps it, however long that
//! takes: it may have written already. Who waits has not got the token, which the holder
//! may need.

use core::sync::atomic::Ordering;

use linux_abi::{errno, general as nr};

use crate::ground::kernel;
use crate::ground::proc_files::{self, Path};
use crate::scheduler::token;
use crate::state::block::{process, session, thread};
use crate::state::writers;

/// Looks at the lock before a thread goes to sleep: some microseconds, as long as most
/// writes take.
const SPINS: u32 = 64;
const ROUND_NS: u64 = 2_000_000;
/// Rounds in which the holder was seen asleep before it loses the lock: 0.1 s.
const ITERATIONS_ASLEEP: u32 = 50;

/// Waits until no other thread writes an output.
#[inline]
pub fn take() {
    let (lock, waiting) = (&session().output_writer, &session().output_waiters);
    let own = writers::writer(thread().tid as u32);
    for _ in 0..SPINS {
        // Those who wait already come first.
        if waiting.load(Ordering::Relaxed) == 0
            && lock.compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            return;
        }
        core::hint::spin_loop();
    }
    let shares_token = process().shares_token;
    if shares_token {
        token::give();
    }
    wait(own);
    if shares_token {
        token::take_back();
    }
}

/// The output is logged.
#[inline]
pub fn give() {
    let own = writers::writer(thread().tid as u32);
    let lock = &session().output_writer;
    // Whoever took it away has it now.
    if lock.compare_exchange(own, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        && session().output_waiters.load(Ordering::SeqCst) != 0
    {
        kernel::futex_wake_one(lock);
    }
}

#[cold]
fn wait(own: u32) {
    let (lock, waiting) = (&session().output_writer, &session().output_waiters);
    waiting.fetch_add(1, Ordering::SeqCst);
    let mut came_now = true;
    let mut iterations_asleep = 0;
    loop {
        let holder = lock.load(Ordering::SeqCst);
        if (holder == 0 && !came_now) || iterations_asleep >= ITERATIONS_ASLEEP {
            if lock.compare_exchange(holder, own, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                break;
            }
            iterations_asleep = 0;
            continue;
        }
        let slept_ns = kernel::monotonic_ns();
        kernel::futex_wait_ns(lock, holder, ROUND_NS);
        came_now = false;
        let is_over = kernel::monotonic_ns() - slept_ns >= ROUND_NS;
        if !is_over || lock.load(Ordering::SeqCst) != holder {
            iterations_asleep = 0;
        } else if holder == 0 {
            // Those who were to come first are gone.
            waiting.store(1, Ordering::SeqCst);
        } else {
            iterations_asleep = match state(holder) {
                Some(b'R') => 0,
                Some(_) => iterations_asleep + 1,
                None => ITERATIONS_ASLEEP,
            };
        }
    }
    // It may have been taken for gone.
    let _ = waiting.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |count| count.checked_sub(1));
}

/// What a thread does (proc_pid_stat(5)); `None` if it is gone. One that cannot be
/// looked at is said to sleep.
fn state(tid: u32) -> Option<u8> {
    const SLEEPS: u8 = b'S';
    if !writers::is_visible(tid) {
        return Some(SLEEPS);
    }
    let alive = kernel::call(nr::__NR_tkill, [u64::from(tid), 0, 0, 0, 0, 0]);
    if alive == -i64::from(errno::ESRCH) {
        return None;
    }
    let mut path = Path::new();
    path.text(b"/proc/").number(u64::from(tid)).text(b"/stat");
    let mut text = [0u8; 256];
    Some(path.read(&mut text).and_then(proc_files::state).unwrap_or(SLEEPS))
}
