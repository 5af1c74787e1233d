//! With chaos: meeting what comes from other processes. One that was just made and shares memory is waited
//! for; and a process that is alone with its memory is stopped for a while where signals may come, as it
//! is where another process has its processor.
//!
//! Invariant: only recording stops so. A signal that comes meanwhile is delivered where the process is.

use core::sync::atomic::{AtomicU32, Ordering};

use linux_abi::general as nr;

use crate::ground::{kernel, notices};
use crate::scheduler::strategy::strategy;
use crate::scheduler::{chaos, contention, fairness, own_token};
use crate::state::block::{process, session};

/// How long one that was just made is waited for.
const BIRTH_MAX_NS: u64 = 20_000_000;
const LOOK_NS: u64 = 20_000;
/// How long a signal is waited for where a schedule says that one comes.
const FORCED_MAX_NS: u64 = 200_000_000;
/// Signals whose handlers run where an instruction makes them: SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, and
/// SIGSYS. SIGPIPE is its call's.
const SYNCHRONOUS: [u32; 7] =
    [nr::SIGILL, nr::SIGTRAP, nr::SIGBUS, nr::SIGFPE, nr::SIGSEGV, nr::SIGSYS, nr::SIGPIPE];

/// The segment of the process that was made last, plus one.
static NEWBORN: AtomicU32 = AtomicU32::new(0);
/// How often the token had changed hands when a thread was made last, plus one; 0: none was.
static NEWBORN_THREAD: AtomicU32 = AtomicU32::new(0);
/// Who may send signals to the process but others that are there: bits.
static SENDERS: AtomicU32 = AtomicU32::new(0);
/// A timer that the process has set.
const TIMER: u32 = 1;
/// A process that it has made, which shares no memory with it, and whose signals nobody has waited for yet.
const NEWBORN_ALONE: u32 = 2;

/// The process, in this segment, was made. Who made it may be over before it begins, and make no call until
/// then: it often lets it go first, some steps on.
pub fn note_birth(segment: u64) {
    if !chaos::is_on() || own_token::is_scheduled() {
        return;
    }
    NEWBORN.store(segment as u32 + 1, Ordering::Relaxed);
    if chaos::below(4) != 0 {
        fairness::goes_aside_by_chance();
    }
}

/// The process has made one that shares no memory with it. Its signals may come before the next call, if
/// there is one.
pub fn note_lone_birth() {
    if chaos::is_on() && !own_token::is_scheduled() && signals_may_come() {
        SENDERS.fetch_or(NEWBORN_ALONE, Ordering::Relaxed);
        notices::boundary_of_chaos();
    }
}

/// A thread was made: the same.
pub fn note_thread_birth() {
    if !chaos::is_on() || own_token::is_scheduled() {
        return;
    }
    let changes = own_token::my_token().changes.load(Ordering::Relaxed);
    NEWBORN_THREAD.store(changes.wrapping_add(1).max(1), Ordering::Relaxed);
    if strategy().newborn_first {
        fairness::goes_aside_soon();
    } else if chaos::below(2) == 0 {
        fairness::goes_aside_by_chance();
    }
}

/// True while a process that was made here has yet to begin, or a thread: nobody waits for the token yet, and
/// nobody has had it since.
pub fn is_birth_awaited() -> bool {
    let (segment, changes) = (NEWBORN.load(Ordering::Relaxed), NEWBORN_THREAD.load(Ordering::Relaxed));
    let is_unborn = |segment: u32| session().unborn[segment as usize - 1].load(Ordering::Relaxed) != 0;
    let token = own_token::my_token();
    let is_token_left =
        || changes == token.changes.load(Ordering::Relaxed).wrapping_add(1) && !token.has_sleepers();
    segment != 0 && is_unborn(segment) || changes != 0 && is_token_left()
}

/// The token is released: who was made here begins before it is taken back.
pub fn await_birth() {
    let until_ns = kernel::monotonic_ns() + BIRTH_MAX_NS;
    while is_birth_awaited() && kernel::monotonic_ns() < until_ns {
        kernel::sleep_ns(LOOK_NS);
    }
}

/// The process is about to make this call.
pub fn note_call(number: u64) {
    if matches!(number as u32, nr::__NR_alarm | nr::__NR_setitimer | nr::__NR_timer_settime) {
        SENDERS.fetch_or(TIMER, Ordering::Relaxed);
    }
}

/// True if the recording has, or had, other processes.
pub fn has_others() -> bool {
    session().next_lane.load(Ordering::Relaxed) > 1
}

/// True where handlers of the program may run at any time: somebody of the recording may send signals.
pub fn signals_may_come() -> bool {
    let has_senders = has_others() || SENDERS.load(Ordering::Relaxed) & TIMER != 0;
    let may_come = |signal: u32| process().actions().are_handled(signal) && !SYNCHRONOUS.contains(&signal);
    has_senders && (1..=64).any(may_come)
}

/// The process, which is alone, stands between two instructions: others run until a signal comes, or for a
/// time. True if one came that can be delivered here.
pub fn await_signal(has_come: &dyn Fn() -> bool) -> bool {
    // One that was just made needs some time before it can send any.
    let senders = SENDERS.fetch_and(!NEWBORN_ALONE, Ordering::Relaxed);
    let awaits_newborn = senders & NEWBORN_ALONE != 0 && chaos::below(2) == 0;
    let most_ns = match own_token::is_scheduled() {
        true => FORCED_MAX_NS,
        false if awaits_newborn => BIRTH_MAX_NS,
        false => contention::longest_away_ns(),
    };
    let until_ns = kernel::monotonic_ns() + most_ns;
    // More of the same kind are lost behind the first, as where others have the processor.
    let waits_for_more = !own_token::is_scheduled() && chaos::below(2) == 0;
    loop {
        let now_ns = kernel::monotonic_ns();
        let is_over = has_come() && !waits_for_more || now_ns >= until_ns;
        if is_over || process().given_up.load(Ordering::Acquire) != 0 {
            return has_come();
        }
        // A signal ends the sleep.
        kernel::sleep_ns(until_ns - now_ns);
    }
}

/// True if the thread that was stopped aside has nobody to release the token to.
pub fn is_lone() -> bool {
    !process().shares_token || contention::is_alone()
}
