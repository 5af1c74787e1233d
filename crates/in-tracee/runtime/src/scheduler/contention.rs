//! How long a thread sleeps for the token, and what it does then: it asks to be the
//! next, and stops the one that computes when its slice is over.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use lane_protocol::{ExecutionToken, OLDEST};
use linux_abi::{errno, general as nr};

use crate::ground::{kernel, notices};
use crate::scheduler::strategy::strategy;
use crate::scheduler::{
    adaptive_spinning, asking, chaos, encounters, fairness, forced, own_token, preemption_cost, short_calls,
    spinning_threads, token,
};
use crate::state::block::{lane, process, thread, thread_status};

/// How long a thread waits before it asks to be the next.
const RESERVE_AFTER_NS: u64 = 1_000_000;
/// The same where threads spin for each other.
const RESERVE_SOON_NS: u64 = 100_000;
/// How long a thread that computes keeps the token when others want it.
const SLICE_NS: u64 = 5_000_000;
/// No slice is longer, whatever a preemption costs: the others wait.
const SLICE_MAX_NS: u64 = 1_000_000_000;
/// A slice is as much longer than what a preemption costs: pausing takes less than 2 %
/// of the time.
const PREEMPTIONS_PER_SLICE: u64 = 50;
/// Preemptions before a slice is over, for threads that wait after a sleep of their own: what
/// they cost is a sixteenth of the time at most...
const SOON_SHARE: u64 = 16;
/// ... but for so much of it at once, as at a program's start.
const SOON_AT_ONCE_NS: u64 = 100_000_000;
/// The slice of one that computes where somebody waits for the agent.
const URGENT_SLICE_NS: u64 = 2_000_000;
/// How long the agent sleeps before it looks again whether that is so.
const URGENT_LOOK_NS: u64 = 10_000_000;
/// Code of the signal that asks for the token: among those of rt_sigqueueinfo(2)
/// that the kernel gives no meaning.
pub const PREEMPT_HARD: i32 = -77;
/// The same, where only one that gets nowhere by itself is to give it.
pub const PREEMPT_SOFT: i32 = -80;

/// Rounds in vain, with nobody asleep for the token, after which others may have the processor.
const AWAKE_AFTER: u64 = 64;

/// Of so many calls of sched_yield(2) that let nobody hold the token, one is made.
const YIELDS_KEPT: u32 = 16;

/// Reads of the time with nothing in between, after which a thread is taken to wait for
/// what another one does.
const TIME_READS: u32 = 64;
/// Where others computed for so long when it released the token there, and did not wait themselves, it
/// does so after twice as many the next time, so many times: it may as well measure something.
const COMPUTED_NS: u64 = 200_000;
const TIME_DOUBLINGS: u32 = 4;
/// The same of calls that find nothing to do.
const FUTILE_CALLS: u32 = 16;

/// How a thread waits for the token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Newly,
    /// It is the next.
    Next,
    /// Somebody else is.
    Behind,
}

/// When preemptions before a slice is over would be paid for (CLOCK_MONOTONIC).
static SOON_PAID_NS: AtomicU64 = AtomicU64::new(0);

/// What a thread that waits for the token does about it.
pub struct Contention {
    waiting: Waiting,
    /// It was not stopped computing, but comes back from a call: it most likely has little to do,
    /// and others may wait for that.
    is_light: bool,
    /// How often the token had changed hands when the slice at hand was first seen, and
    /// how long that slice has lasted.
    changes: u32,
    waited_ns: u64,
    /// How long the sleep at hand is, and when it ends; 0: not begun.
    sleep_ns: u64,
    until_ns: u64,
}

impl Contention {
    pub fn new() -> Contention {
        let is_light = !thread().yielded;
        Contention { waiting: Waiting::Newly, is_light, changes: 0, waited_ns: 0, sleep_ns: 0, until_ns: 0 }
    }

    /// When the next sleep ends. It lasts on while signals interrupt it.
    pub fn until_ns(&mut self, token: &ExecutionToken) -> u64 {
        if self.until_ns == 0 {
            self.follow(token);
            self.sleep_ns = self.next_sleep_ns(token);
            if thread().status == thread_status::AGENT {
                self.sleep_ns = self.sleep_ns.min(URGENT_LOOK_NS);
            }
            self.until_ns = kernel::monotonic_ns() + self.sleep_ns;
        }
        self.until_ns
    }

    /// A sleep ended so: asks for the token when it was long enough.
    pub fn end_sleep(&mut self, token: &ExecutionToken, result: i64) {
        if result == -i64::from(errno::EINTR) {
            return;
        }
        self.until_ns = 0;
        if result != -i64::from(errno::ETIMEDOUT) {
            return;
        }
        let is_same = !self.follow(token);
        self.waited_ns = if is_same { self.waited_ns + self.sleep_ns } else { 0 };
        let is_over = is_same && self.waited_ns >= self.others_slice_ns() || is_urgent();
        let hard = self.waiting != Waiting::Newly && is_over;
        let is_soon = hard && self.waited_ns < slice_ns();
        if hard {
            self.waited_ns = 0;
        }
        self.waiting = preempt(token, hard, self.age(token));
        if is_soon && self.waiting == Waiting::Next {
            let paid_ns = SOON_PAID_NS.load(Ordering::Relaxed).max(kernel::monotonic_ns());
            SOON_PAID_NS.store(paid_ns + SOON_SHARE * preemption_cost::cost_ns(), Ordering::Relaxed);
        }
    }

    /// True if the token changed hands: another slice has begun.
    fn follow(&mut self, token: &ExecutionToken) -> bool {
        let before = core::mem::replace(&mut self.changes, token.changes.load(Ordering::Relaxed));
        let is_new = before != self.changes;
        if is_new {
            self.waited_ns = 0;
        }
        is_new
    }

    fn next_sleep_ns(&self, token: &ExecutionToken) -> u64 {
        const CHAOS_MIN_NS: u64 = 30_000;
        // Where many wait, they do not take the processor from the one that runs.
        const PATIENT: u64 = 8;
        let sleepers = u64::from(token.sleepers());
        let others = 1 + sleepers / PATIENT;
        if own_token::is_scheduled() {
            return SLICE_MAX_NS;
        }
        if chaos::is_on() {
            // Whoever comes first ends the slice: all together come as often as a few do.
            let others = 1 + sleepers.saturating_sub(PATIENT);
            // Short slices more often than long ones.
            let least_ns = if strategy().slices { CHAOS_MIN_NS } else { RESERVE_AFTER_NS };
            let slice_ns = others * least_ns + chaos::below(1 << (10 + chaos::below(12)));
            return slice_ns + chaos::debt_ns().min(SLICE_NS);
        }
        let spin = spinning_threads::threads_spin();
        match self.waiting {
            Waiting::Newly if spin => RESERVE_SOON_NS * others,
            Waiting::Newly => RESERVE_AFTER_NS * others,
            // One that computes may spin later in its slice.
            Waiting::Next => {
                let again_ns = RESERVE_AFTER_NS + if spin { self.waited_ns / 8 } else { self.waited_ns };
                self.others_slice_ns().saturating_sub(self.waited_ns).clamp(RESERVE_AFTER_NS, again_ns)
            }
            Waiting::Behind => self.others_slice_ns() * others,
        }
    }

    /// How long a thread that computes keeps the token where this one waits.
    fn others_slice_ns(&self) -> u64 {
        let paid_until_ns = kernel::monotonic_ns() + SOON_SHARE * SOON_AT_ONCE_NS;
        if self.is_light && SOON_PAID_NS.load(Ordering::Relaxed) < paid_until_ns {
            slice_ns().min(SLICE_NS)
        } else {
            slice_ns()
        }
    }

    /// How long the thread has gone without the token, as [`ExecutionToken::reserve`] counts.
    fn age(&self, token: &ExecutionToken) -> u32 {
        if chaos::is_on() {
            return 0;
        }
        if is_urgent() {
            return OLDEST;
        }
        // Before those who were stopped in its absence. Where the token changes hands fast, theirs
        // grows all the same.
        let ahead = if self.is_light { 2 + 2 * token.sleepers() } else { 0 };
        token.age_of(thread().scheduling.had_at).saturating_add(ahead).min(OLDEST)
    }
}

/// True for the agent, while somebody waits for what it was told to do.
fn is_urgent() -> bool {
    thread().status == thread_status::AGENT && lane().command.urgent.load(Ordering::Relaxed) != 0
}

/// How long a thread that computes keeps the token.
fn slice_ns() -> u64 {
    if chaos::is_on() {
        return 0;
    }
    if is_urgent() {
        return URGENT_SLICE_NS;
    }
    (PREEMPTIONS_PER_SLICE * preemption_cost::cost_ns()).clamp(SLICE_NS, SLICE_MAX_NS)
}

/// Asks to be the next, and the one that has it whether it only waits; `hard`: stops
/// it, also if it computes.
fn preempt(token: &ExecutionToken, hard: bool, age: u32) -> Waiting {
    if !token.reserve(thread().identity, age) {
        if hard && token.running().is_none() {
            // Whoever is to be the next was stopped, or killed.
            token.forget_reservation();
        }
        return Waiting::Behind;
    }
    // Who is in another namespace cannot be signalled: it releases the token at its next call.
    if token.running().is_some() && token.holder_space.load(Ordering::Relaxed) == process().pid_space {
        let [pid, tid] = [&token.holder_pid, &token.holder_tid].map(|id| id.load(Ordering::Relaxed));
        asking::ask(pid, tid, if hard { PREEMPT_HARD } else { PREEMPT_SOFT });
    }
    Waiting::Next
}

/// Stops the one that holds the token, which computes.
pub fn preempt_hard(token: &ExecutionToken) {
    preempt(token, true, 0);
}

/// Recording: the program's sched_yield(2). Those of the lane that do not sleep for the token can do
/// nothing with the processor but take that.
pub fn yield_processor() -> i64 {
    if own_token::is_scheduled() {
        // It waits for another one, as far as it can be told.
        token::yield_now();
        return 0;
    }
    if own_token::my_token().is_waited_for() {
        // Also where one that has a processor acquires the token at once: others wait for this one.
        give_for_a_while(|| {
            kernel::sched_yield();
        });
        return 0;
    }
    let yields = &mut thread().futile.yields;
    *yields += 1;
    if (*yields).is_multiple_of(YIELDS_KEPT) { kernel::sched_yield() } else { 0 }
}

/// Gives the token, and takes it back when somebody else took it, or nobody did for a while.
pub fn let_others_run() {
    give_for_a_while(|| {});
}

/// The same, with something to do before it is looked whether somebody took it.
fn give_for_a_while(before_looks: impl FnOnce()) {
    let token = own_token::my_token();
    let seen = token.changes.load(Ordering::Relaxed);
    token::give();
    before_looks();
    adaptive_spinning::look(&|| token.changes.load(Ordering::Relaxed) != seen);
    token::take();
}

/// With chaos: at some boundaries others go first, or some steps behind them: a thread may be over
/// before another one that waits has let it have its slice.
pub fn yield_by_chance() {
    if !chaos::is_on() {
        return;
    }
    notices::boundary_of_chaos();
    if own_token::is_scheduled() {
        if forced::is_due_at_call() && !is_alone() {
            forced::go_away();
            token::yield_now();
        }
        return;
    }
    let strategy = strategy();
    if is_newborn_awaited() {
        let_newborn_run();
    } else if strategy.goes_aside.is_now() && fairness::goes_aside_by_chance() {
        // The token is released some steps on.
    } else if strategy.stays_away.is_now() && !is_alone() {
        if !fairness::goes_aside() {
            give_for_a_while(stay_away);
        }
    } else if strategy.yields.is_now() && own_token::my_token().has_sleepers() && !fairness::goes_aside() {
        let_others_run();
    }
}

/// With chaos: the token has come to the thread for the first time, maybe: it may make no call from here on.
pub fn begin_by_chance() {
    if chaos::is_on() {
        notices::chaos_begins();
    }
}

/// With chaos: the process is about to make one that shares its memory. Both are stopped at places.
pub fn before_birth() {
    if chaos::is_on() {
        notices::boundary_of_chaos();
    }
}

/// With chaos, at a boundary of a process that shares no memory with others: they may go first all the
/// same, as two may look at a file; and signals may come to it where it is not at a boundary.
#[inline]
pub fn at_lone_boundary(number: u64) {
    if chaos::is_on() {
        chance_at_lone_boundary(number);
    }
}

#[cold]
fn chance_at_lone_boundary(number: u64) {
    notices::chaos_begins();
    encounters::note_call(number);
    if own_token::is_scheduled() {
        return;
    }
    if encounters::signals_may_come() {
        notices::boundary_of_chaos();
        if strategy().goes_aside.is_now() {
            fairness::goes_aside_by_chance();
        }
    }
    if encounters::has_others() && strategy().delays.is_now() {
        kernel::sleep_ns(away_ns());
    }
}

/// With chaos: who has released the token between boundaries comes back late, as one of low priority would.
/// Who waited then has time to come where the two may meet, though it has yet to begin.
pub fn stay_away_by_chance() {
    if chaos::is_on()
        && !own_token::is_scheduled()
        && (encounters::is_birth_awaited() || chaos::below(4) != 0)
    {
        stay_away();
    }
}

fn away_ns() -> u64 {
    chaos::below(1 << (12 + chaos::below(strategy().away_doublings - 11)))
}

/// The time after which one that was preempted comes back all the same.
pub fn longest_away_ns() -> u64 {
    if strategy().until_quiet { 1 << strategy().away_doublings } else { away_ns() }
}

/// The token is released: it is not taken back before a time, or before nobody else makes use of it.
fn stay_away() {
    /// Looks at which nobody had it, one behind the other.
    const QUIET: u32 = 3;
    const LOOK_NS: u64 = 20_000;
    /// How far a new thread gets at most that goes first.
    const FIRST_MAX_NS: u64 = 20_000_000;
    let goes_first = strategy().newborn_first && encounters::is_birth_awaited();
    encounters::await_birth();
    if !strategy().until_quiet && !goes_first {
        return kernel::sleep_ns(away_ns());
    }
    let most_ns = if goes_first { FIRST_MAX_NS } else { longest_away_ns() };
    let (token, until_ns) = (own_token::my_token(), kernel::monotonic_ns() + most_ns);
    let mut quiet = 0;
    while quiet < QUIET && kernel::monotonic_ns() < until_ns {
        kernel::sleep_ns(LOOK_NS);
        quiet = if token.running().is_none() && !token.has_sleepers() { quiet + 1 } else { 0 };
    }
}

/// Threads of the process when one last came here; see `is_newborn_awaited`.
static THREADS_KNOWN: AtomicU32 = AtomicU32::new(1);

/// With chaos: true if a thread was made since the last call, and is to begin before others go on.
/// Where processors are busy it would come when the one that made it has ended.
fn is_newborn_awaited() -> bool {
    let now = process().threads;
    THREADS_KNOWN.swap(now, Ordering::Relaxed) < now && chaos::below(2) == 0
}

/// Gives the token to a thread that may have no processor yet. It is waited for, but not for long.
fn let_newborn_run() {
    const NAPS: u32 = 100;
    const NAP_NS: u64 = 50_000;
    let token = own_token::my_token();
    let naps_while = |waits: &dyn Fn() -> bool| {
        (0..NAPS).take_while(|_| waits()).for_each(|_| {
            kernel::sleep_ns(NAP_NS);
        });
    };
    naps_while(&|| !token.has_sleepers());
    let seen = token.changes.load(Ordering::Relaxed);
    token::give();
    naps_while(&|| token.changes.load(Ordering::Relaxed) == seen);
    token::take();
}

/// True if there is nobody else who could hold the token.
pub fn is_alone() -> bool {
    process().threads < 2 && !process().in_group
}

/// What a thread does so often in vain, it does for another one that waits for the token: true if
/// there is one. One that is awake and has no processor comes to its sleep first.
#[inline]
pub fn is_awaited(futile_wakes: u64) -> bool {
    if own_token::is_scheduled() {
        return !is_alone();
    }
    let token = own_token::my_token();
    if token.has_sleepers() {
        return true;
    }
    if !futile_wakes.is_multiple_of(AWAKE_AFTER) || is_alone() {
        return false;
    }
    kernel::sched_yield();
    token.has_sleepers()
}

/// Recording, before a call: one that makes the same in vain, again and again, lets the
/// others run.
#[inline]
pub fn before_futile_call() {
    let calls = thread().futile.calls;
    if calls >= FUTILE_CALLS && is_awaited(u64::from(calls)) {
        thread().futile.calls = 0;
        if !fairness::goes_aside() {
            let_others_run();
        }
    }
}

/// Recording: a call ended so.
#[inline]
pub fn note_result(number: u64, args: &[u64; 6], result: i64) {
    let futile = &mut thread().futile;
    let is_again = futile.calls == 0 || futile.number == number;
    futile.calls = if is_again && found_nothing(number, args, result) { futile.calls + 1 } else { 0 };
    futile.number = number;
    futile.wakes.note(number, args, result);
}

#[inline]
fn found_nothing(number: u64, args: &[u64; 6], result: i64) -> bool {
    const EAGAIN: i64 = -(errno::EAGAIN as i64);
    match (number as u32, result) {
        // Where a futex's word is not as expected, somebody has been there.
        (nr::__NR_futex, 0) => short_calls::wakes_others(args),
        (nr::__NR_futex, _) => false,
        (nr::__NR_poll | nr::__NR_epoll_wait | nr::__NR_epoll_pwait, 0) => {
            short_calls::returns_at_once(number, args)
        }
        // WNOHANG, as no child has ended.
        (nr::__NR_wait4, 0) => true,
        (_, EAGAIN) => true,
        _ => false,
    }
}

/// Recording, at a read of the time: one that spins with an eye on the clock lets the
/// others run. True if it released the token.
pub fn before_time_read() -> bool {
    let (futile, log) = (&mut thread().futile, &process().log);
    futile.time_reads = if futile.time_read_at + 1 == log.events { futile.time_reads + 1 } else { 0 };
    let gives =
        futile.time_reads >= TIME_READS << futile.time_doublings && is_awaited(u64::from(futile.time_reads));
    if gives {
        futile.time_reads = 0;
    }
    futile.time_read_at = log.events;
    let gives = gives && !fairness::goes_aside();
    if gives {
        let began_ns = kernel::monotonic_ns();
        let_others_run();
        let computed = kernel::monotonic_ns() - began_ns >= COMPUTED_NS;
        let futile = &mut thread().futile;
        futile.time_doublings = if computed { (futile.time_doublings + 1).min(TIME_DOUBLINGS) } else { 0 };
    }
    gives
}
