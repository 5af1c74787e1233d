//! The fence: behind it no thread is in a sequence that it entered before.
//!
//! `membarrier(2)` with PRIVATE_EXPEDITED_RSEQ, some microseconds, where the kernel knows each
//! thread's rseq area. Elsewhere (glibc.pthread.rseq=0, programs that `retrovane record` runs)
//! a signal to each thread, whose handler does what the kernel would do: a thread that was in
//! a sequence goes on at its abort handler. A signal may be sent twice, and counts once.
//!
//! Deliberately absent: waiting for threads that are not scheduled, in the first way.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::sections::{self, CONTROL};

const REGISTER_PRIVATE_EXPEDITED_RSEQ: i64 = 1 << 8;
const PRIVATE_EXPEDITED_RSEQ: i64 = 1 << 7;

/// True where signals are sent.
static BY_SIGNALS: AtomicBool = AtomicBool::new(false);
/// Fences by signals that were begun.
static ROUND: AtomicUsize = AtomicUsize::new(0);
/// Threads that have handled a signal in this round.
static HANDLED: AtomicUsize = AtomicUsize::new(0);
/// How long answers are waited for before threads are looked at and signals are sent again, at first.
const AGAIN: Duration = Duration::from_millis(10);
/// The first of the times that are waited for answers; each is twice as long as the one before.
const FIRST_WAIT: Duration = Duration::from_micros(20);

thread_local! {
    /// The last round in which this thread has handled a signal.
    static ANSWERED: Cell<usize> = const { Cell::new(0) };
}
/// One fence by signals at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Prepares the fence for this process.
pub fn prepare() -> Result<(), Error> {
    let (place, registered) = sections::rseq_place().ok_or(Error::NoRseqArea)?;
    CONTROL.rseq_cs.store(place, SeqCst);
    // SAFETY: the call changes nothing but how later ones of it behave.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) };
    let by_signals = !registered || answer != 0;
    if by_signals && !BY_SIGNALS.load(SeqCst) {
        install()?;
    }
    BY_SIGNALS.store(by_signals, SeqCst);
    Ok(())
}

/// The signal of the second way: the last but one, which programs hardly use.
fn signal() -> i32 {
    libc::SIGRTMAX() - 1
}

fn install() -> Result<(), Error> {
    // SAFETY: an empty action is a valid one, and the handler is async-signal-safe: it looks
    // at a constant table and at its own context.
    let failed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = restart as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(signal(), &action, std::ptr::null_mut())
    };
    if failed == 0 { Ok(()) } else { Err(Error::last_os("the handler of its signal cannot be installed")) }
}

extern "C" fn restart(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO the interrupted context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let at = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    if let Some(abort) = sections::restart_of(*at as usize) {
        *at = abort as i64;
    }
    let round = ROUND.load(SeqCst);
    // Signals that are sent twice count once.
    if ANSWERED.replace(round) != round {
        HANDLED.fetch_add(1, SeqCst);
    }
}

/// The fence.
pub fn all_threads() {
    if BY_SIGNALS.load(Relaxed) {
        by_signals();
    } else {
        // SAFETY: the call has no arguments that it could write to.
        let answer = unsafe { libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED_RSEQ, 0, 0) };
        assert_eq!(answer, 0, "membarrier failed, which was registered for this process");
    }
}

fn by_signals() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: both calls only ask.
    let (process, own) = unsafe { (libc::getpid(), libc::gettid()) };
    HANDLED.store(0, SeqCst);
    ROUND.fetch_add(1, SeqCst);
    let sent: Vec<i32> =
        threads().into_iter().filter(|&thread| thread != own && send(process, thread)).collect();
    let is_enough = |others: usize| HANDLED.load(SeqCst) + others >= sent.len();
    let mut wait = FIRST_WAIT;
    let (mut looked, mut patience) = (Instant::now(), AGAIN);
    while !is_enough(0) {
        if looked.elapsed() < patience {
            // Threads that run have handled it by now; where they take turns (`retrovane record`) each call costs a turn.
            std::thread::sleep(wait);
            wait = (wait * 2).min(AGAIN);
            continue;
        }
        // A thread that ended, or that sleeps and blocks the signal, will not handle it, and
        // is in no sequence.
        if is_enough(sent.iter().filter(|&&thread| is_out(thread)).count()) {
            return;
        }
        // A process that goes back, in a live session, loses signals that waited for its other threads.
        sent.iter().for_each(|&thread| {
            send(process, thread);
        });
        (looked, patience) = (Instant::now(), patience * 2);
    }
}

fn threads() -> Vec<i32> {
    let Ok(folder) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn send(process: i32, thread: i32) -> bool {
    // SAFETY: a signal to a thread of this process; one that is gone is an error.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal()) == 0 }
}

fn is_out(thread: i32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")) else { return true };
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let blocked = field("SigBlk:").and_then(|bits| u64::from_str_radix(bits, 16).ok()).unwrap_or(0);
    let sleeps = field("State:").is_some_and(|state| !state.starts_with('R'));
    sleeps && blocked >> (signal() - 1) & 1 == 1
}
