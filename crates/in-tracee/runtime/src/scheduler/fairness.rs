//! Who wakes for a lock again and again, and finds it taken, is let in.
//!
//! A thread that unlocks, locks again and makes calls only while it has the lock releases the token with
//! the lock only, and would keep all others out for ever. Those whose futexes the runtime keeps are
//! let in there (`private_futexes`); this is for the kernel's.
//!
//! Whose lock others try in a loop may come to boundaries while it has the lock only, as one does that
//! reads the time there. Where those got the token in vain some times in a row, it does not give the
//! token at the boundary, but some steps on.

use core::sync::atomic::{AtomicU64, Ordering};

use lane_protocol::IdleTokens;
use linux_abi::general as nr;

use crate::ground::kernel;
use crate::scheduler::private_futexes::{self, FUTILE_WAKES_MAX, PRIVATE};
use crate::scheduler::strategy::strategy;
use crate::scheduler::{chaos, contention, encounters, own_token, short_calls, token};
use crate::state::block::{process, session, thread};
use crate::state::scheduling::Wakes;

/// How long who was woken has for coming.
const LET_IN_NS: u64 = 5_000_000;
/// How long a look for it is.
const LOOK_NS: u64 = 50_000;

/// Holdings of the token in a row in which threads only waited, after which the next is given between boundaries;
/// twice as many after so many times that this did not help.
const IDLE_TOKENS: u32 = 4;
const STRIKES_PER_DOUBLING: u32 = 4;
const STRIKES_MAX: u32 = 10 * STRIKES_PER_DOUBLING;
/// The same of tokens that were given at boundaries, whatever others did with them: not all that wait
/// are seen to.
const BOUNDARIES_MAX: u32 = 64;
/// Boundaries in a row that came before the steps were done, after which the token is released at one.
const TRIES_MAX: u32 = 64;
/// Steps behind a boundary: up to 8, or twice that, and so on, so many times.
const STEPS_LEAST: u64 = 8;
const STEP_DOUBLINGS: u64 = 5;
/// By chance: how much longer than the steps the time to the next ones is.
const CHANCE_SHARE: u64 = 10;
/// So many times a new thread does not wait for it: most of its first boundaries follow each other
/// closely, and the steps end at the next one.
const FREE_ASIDES: u32 = 4;

/// When a thread of the process may do so again (CLOCK_MONOTONIC): one computes at a time.
static ASIDE_AGAIN_NS: AtomicU64 = AtomicU64::new(0);

fn idle_tokens() -> &'static IdleTokens {
    &session().idle_tokens
}

/// Recording: the thread releases the token where it waits in a loop, or only sleeps for a while.
pub fn note_wait() {
    let (tokens, idle) = (&mut thread().scheduling, idle_tokens());
    // The call, at most, from which it came back with the token.
    tokens.idled = process().log.events.wrapping_sub(tokens.began_at) <= 1;
    if !tokens.idled {
        return end_wait();
    }
    idle.in_a_row.fetch_add(1, Ordering::Relaxed);
    if idle.is_tried.swap(0, Ordering::Relaxed) != 0 {
        let strikes = idle.strikes.load(Ordering::Relaxed) + 1;
        idle.strikes.store(strikes.min(STRIKES_MAX), Ordering::Relaxed);
    }
}

/// Recording: the thread is about to make this call.
#[inline]
pub fn note_call(number: u64) {
    match number as u32 {
        nr::__NR_sched_yield | nr::__NR_nanosleep | nr::__NR_clock_nanosleep => note_wait(),
        _ => get_on(),
    }
}

/// Recording: the thread comes to a boundary at which it does not wait.
#[inline]
pub fn get_on() {
    if thread().scheduling.idled {
        end_wait();
    }
}

#[cold]
fn end_wait() {
    thread().scheduling.idled = false;
    let idle = idle_tokens();
    idle.in_a_row.store(0, Ordering::Relaxed);
    if idle.is_tried.swap(0, Ordering::Relaxed) != 0 {
        idle.strikes.store(0, Ordering::Relaxed);
    }
}

/// At a boundary of one that others wait for: true if it is to release the token some steps on instead.
#[cold]
pub fn goes_aside() -> bool {
    let idle = idle_tokens();
    let bearable = IDLE_TOKENS << (idle.strikes.load(Ordering::Relaxed) / STRIKES_PER_DOUBLING);
    let bears = idle.in_a_row.load(Ordering::Relaxed) < bearable
        && idle.at_boundaries.fetch_add(1, Ordering::Relaxed) < BOUNDARIES_MAX;
    if bears || process().has_agent() || session().live != 0 {
        return false;
    }
    if idle.tries.fetch_add(1, Ordering::Relaxed) >= TRIES_MAX {
        begin_try();
        return false;
    }
    let steps = 1 + chaos::below(STEPS_LEAST << chaos::below(STEP_DOUBLINGS)) as u32;
    thread().preemption.aside = steps;
    true
}

/// The same by chance, with chaos, of one among others that may yet come; as often as leaves it most of
/// its time, but at the first boundaries of a new thread.
pub fn goes_aside_by_chance() -> bool {
    goes_aside_within(strategy().aside_doublings)
}

/// The same, some few steps on.
pub fn goes_aside_soon() -> bool {
    goes_aside_within(1)
}

fn goes_aside_within(doublings: u64) -> bool {
    let (preemption, now_ns) = (&mut thread().preemption, kernel::monotonic_ns());
    let is_over = preemption.asides >= FREE_ASIDES && now_ns < ASIDE_AGAIN_NS.load(Ordering::Relaxed);
    let meets_nobody = contention::is_alone() && !encounters::signals_may_come();
    if meets_nobody || is_over || chaos::debt_ns() != 0 || process().has_agent() || session().live != 0 {
        return false;
    }
    let steps = 1 + chaos::below(STEPS_LEAST << chaos::below(doublings));
    preemption.asides = preemption.asides.saturating_add(1);
    ASIDE_AGAIN_NS.store(now_ns + CHANCE_SHARE * steps * chaos::step_ns(), Ordering::Relaxed);
    preemption.aside = steps as u32;
    true
}

/// The token is about to be given between boundaries.
pub fn begin_try() {
    let idle = idle_tokens();
    for counted in [&idle.in_a_row, &idle.at_boundaries, &idle.tries] {
        counted.store(0, Ordering::Relaxed);
    }
    idle.is_tried.store(1, Ordering::Relaxed);
}

/// True for calls after which others may be let in.
pub fn lets_in(number: u64) -> bool {
    number == u64::from(nr::__NR_futex)
}

impl Wakes {
    /// Recording: a call of the thread ended so.
    #[inline]
    pub fn note(&mut self, number: u64, args: &[u64; 6], result: i64) {
        if lets_in(number) {
            self.note_futex(args, result);
        }
    }

    fn note_futex(&mut self, args: &[u64; 6], result: i64) {
        if args[1] as u32 & PRIVATE != 0 && private_futexes::are_ours() {
            return;
        }
        let token = own_token::my_token();
        if short_calls::wakes_others(args) {
            self.futile_wakes = 0;
            if result > 0 && token.starving.load(Ordering::Relaxed) != 0 && !thread().keeps_token {
                token.starving.store(0, Ordering::Relaxed);
                let_in();
            }
            return;
        }
        if result != 0 {
            return;
        }
        let is_again = self.word == args[0];
        self.word = args[0];
        self.futile_wakes = if is_again { self.futile_wakes + 1 } else { 0 };
        if self.futile_wakes >= FUTILE_WAKES_MAX {
            self.futile_wakes = 0;
            token.starving.store(1, Ordering::Relaxed);
        }
    }
}

/// Somebody else holds the token before the lock can be taken again.
#[cold]
fn let_in() {
    let token = own_token::my_token();
    let seen = token.changes.load(Ordering::Relaxed);
    let until_ns = kernel::monotonic_ns() + LET_IN_NS;
    token::give();
    while token.changes.load(Ordering::Relaxed) == seen && kernel::monotonic_ns() < until_ns {
        kernel::sleep_ns(LOOK_NS);
    }
    token::take();
}
