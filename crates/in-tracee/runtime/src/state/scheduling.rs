//! A thread as one that waits for the token, for a futex, or in vain; see `scheduler`.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What a thread does in vain, as one does that waits for another without sleeping.
#[repr(C)]
pub struct FutileWaits {
    /// Reads of the time with nothing in between, and the log's events at the last.
    pub time_reads: u32,
    pub time_doublings: u32,
    /// Calls in a row, of the number at hand, that found nothing to do.
    pub calls: u32,
    pub number: u64,
    pub time_read_at: u64,
    /// Calls of sched_yield(2) that let nobody else hold the token.
    pub yields: u32,
    pub wakes: Wakes,
}

/// How often a thread woke in a row for the same lock, whatever it did between.
#[repr(C)]
pub struct Wakes {
    pub word: u64,
    pub futile_wakes: u32,
}

/// A thread that waits, and whom it has woken.
#[repr(C)]
#[derive(Default)]
pub struct Waiter {
    pub word: u64,
    pub bits: u32,
    /// [`SPINS`] or [`SLEEPS`] until it is woken, then 0; a futex word.
    pub asleep: AtomicU32,
    /// How it looks for the token before it sleeps.
    pub spinning: Spinning,
    /// Replay: not zero while it may sleep until it is its token.
    pub waits_to_run: AtomicU32,
    /// The one behind it in its queue, as index plus one.
    pub next: u16,
    /// Who was woken by the call at hand and is to be let in, as index plus one.
    pub lets_in: u16,
    /// How often it woke in vain.
    pub futile_wakes: u32,
    /// When it first did so surely, since it last had what it waited for; 0: it did not.
    pub futile_since_ns: u64,
    /// How many events were logged when it last woke.
    pub woke_at: u64,
    /// Threads that are to be woken when the token is released: four indices plus one.
    pub later: AtomicU64,
}

/// How a thread's looks went.
#[repr(C)]
#[derive(Default)]
pub struct Spinning {
    /// Waits still to come that sleep at once, and how many these were last.
    pub rests: u32,
    pub rests_last: u32,
}

/// Who waits: the first and the last of each queue, as thread's index plus one.
#[repr(C)]
pub struct Queues {
    pub ends: [[u16; 2]; QUEUES],
    /// Threads in calls of the kernel's own that wait for private futexes, too.
    pub elsewhere: AtomicU32,
    /// How many threads look for what they wait for.
    pub spinners: Spinners,
}

impl Queues {
    /// After fork: nobody waits in the new process.
    pub fn forget(&mut self) {
        self.ends = [[0; 2]; QUEUES];
        self.elsewhere.store(0, Ordering::Relaxed);
        self.spinners.0.store(0, Ordering::Relaxed);
    }
}

pub const QUEUES: usize = 256;

/// How many threads look.
#[repr(C)]
pub struct Spinners(pub AtomicU32);

/// A thread's tokens.
#[repr(C)]
#[derive(Default)]
pub struct Scheduling {
    pub spinning: Spinning,
    /// When it had its last one: how often that had changed hands.
    pub had_at: u32,
    /// It only waited in its last one.
    pub idled: bool,
    /// Events of the log when it began.
    pub began_at: u64,
    pub forced: ForcedEntry,
    pub due: Due,
}

/// What a thread knows of itself.
#[derive(Default)]
pub struct ForcedEntry {
    /// Of its entry in the session's table, plus one; 0: it has not looked for it yet.
    pub entry: AtomicU32,
    /// Its calls so far.
    pub calls: AtomicU64,
}

/// A ticket that a thread is to wait for before it runs.
#[repr(C)]
#[derive(Default)]
pub struct Due {
    pub token: u32,
    /// 0: none.
    pub ticket_and_one: u64,
}
