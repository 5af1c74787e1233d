//! A recording whose schedule is given: threads are switched where they wait, and at places that are
//! named, and nowhere else, so that few switches tell how a failure comes about.
//!
//! Who holds the token next does not depend on who comes first. A thread that wants it waits until all
//! others want it too, or sleep in the kernel; then the one that has gone without the token longest goes first.
//! One that released the token where that was forced comes last: when all others wait for something else
//! (Musuvathi and Qadeer, Iterative context bounding for systematic testing of multithreaded programs,
//! PLDI 2007, count preemptions so).
//!
//! A thread that waits for another one in a loop without calls would keep the token for ever: it is
//! stopped after a while, as without a schedule.
//!
//! All processes that are made by fork(2) take part, whether or not they share memory: they may meet in a file.
//!
//! Deliberately absent: programs that are executed, which acquire the token as usual; and where in the code a switch is
//! forced (`preemption::sampled_places`).

use core::sync::atomic::{AtomicU32, Ordering};

use lane_protocol::{ExecutionToken, ForcedPlace, ForcedSwitch, ScheduledThread, lane_of_identity};

use crate::ground::kernel;
use crate::ground::proc_files::{self, Path};
use crate::scheduler::contention;
use crate::scheduler::own_token::{self, is_scheduled};
use crate::state::block::{process, session, thread, thread_status};
use crate::state::scheduling::ForcedEntry;

/// Between two looks of a thread that wants the token; longer where another one computes.
const LOOK_NS: u64 = 20_000;
const LONG_LOOK_NS: u64 = 200_000;
/// After so much processor time without a change one that computes is taken to wait in a loop. More than
/// some ten thousand passes of a place where switches are forced take.
const COMPUTES_NS: u64 = 200_000_000;
/// Each time that this came true, half of it is enough the next time, down to this.
const COMPUTES_NS_MIN: u64 = 5_000_000;
/// Who was switched away comes back after so many releases by the others, though they do not all wait: they
/// may wait for it in a loop.
const RELEASES_AWAY_MAX: u32 = 400;

/// The switches that are forced, of all processes.
pub fn switches() -> &'static [ForcedSwitch] {
    let session = session();
    session.forced.get(..session.forced_count as usize).unwrap_or_default()
}

/// True for a switch of the calling thread.
pub fn is_own(switch: &ForcedSwitch) -> bool {
    switch.lane == process().lane && switch.thread == thread().index as u32
}

/// The calling thread is about to make a call: true if it is to release the token before it.
pub fn is_due_at_call() -> bool {
    let number = thread().scheduling.forced.calls.fetch_add(1, Ordering::Relaxed) + 1;
    let is_it = |switch: &ForcedSwitch| {
        switch.place == ForcedPlace::Call as u32 && is_own(switch) && switch.ordinal == number
    };
    switches().iter().any(is_it)
}

/// A thread, of this process or of a new one, is about to be made: nobody holds the token before it has begun.
pub fn expect(identity: u64) {
    if is_scheduled()
        && let Some(index) = entry_of(identity)
    {
        let entry = &session().scheduled[index];
        for word in [&entry.wants, &entry.away_since, &entry.had_at] {
            word.store(0, Ordering::SeqCst);
        }
        entry.tid.store(0, Ordering::SeqCst);
    }
}

/// It could not be made, or has ended.
pub fn forget(identity: u64) {
    if is_scheduled()
        && let Some(entry) = session().scheduled.iter().find(|entry| is_of(entry, identity))
    {
        entry.identity.store(0, Ordering::SeqCst);
    }
}

/// The process ends, with all of its threads.
pub fn end_process() {
    if is_scheduled() {
        let lane = process().lane;
        let is_of_lane = |identity: u64| identity != 0 && lane_of_identity(identity) == lane;
        for entry in &session().scheduled {
            if is_of_lane(entry.identity.load(Ordering::SeqCst)) {
                entry.identity.store(0, Ordering::SeqCst);
            }
        }
    }
}

/// The calling thread shares the token from here on.
pub fn begin() {
    thread().scheduling.forced = ForcedEntry::default();
    if is_scheduled() && process().shares_token {
        own_entry();
    }
}

fn is_of(entry: &ScheduledThread, identity: u64) -> bool {
    entry.identity.load(Ordering::SeqCst) == identity
}

/// Where the entry of this thread is, which may be made now; `None`: the table is full.
fn entry_of(identity: u64) -> Option<usize> {
    let table = &session().scheduled;
    let known = table.iter().position(|entry| is_of(entry, identity));
    let claim = |entry: &ScheduledThread| {
        entry.identity.compare_exchange(0, identity, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    };
    known.or_else(|| table.iter().position(claim))
}

/// The calling thread's, with its id.
fn own_entry() -> Option<&'static ScheduledThread> {
    let (identity, own) = (thread().identity, &thread().scheduling.forced);
    let known = own.entry.load(Ordering::Relaxed).checked_sub(1).map(|index| index as usize);
    let known = known.filter(|&index| is_of(&session().scheduled[index], identity));
    let index = known.or_else(|| entry_of(identity))?;
    let entry = &session().scheduled[index];
    if known.is_none() {
        own.entry.store(index as u32 + 1, Ordering::Relaxed);
        entry.tid.store(kernel::gettid(), Ordering::SeqCst);
    }
    Some(entry)
}

/// The calling thread releases the token because that is forced.
pub fn go_away() {
    let changes = own_token::my_token().changes.load(Ordering::Relaxed);
    if let Some(own) = own_entry() {
        own.away_since.store(changes.wrapping_add(1).max(1), Ordering::SeqCst);
    }
}

/// The calling thread wants the token: returns when it is the one to have it.
pub fn wait_for_own_token() {
    if !is_scheduled() || thread().status != thread_status::LIVE {
        return;
    }
    let Some(own) = own_entry() else { return };
    own.wants.store(1, Ordering::SeqCst);
    let mut computing = Computing { changes: 0, since_ns: 0 };
    while process().given_up.load(Ordering::Acquire) == 0
        && process().ending_others.load(Ordering::Acquire) == 0
    {
        let token = own_token::my_token();
        if token.running().is_some() {
            computing.look(token);
            kernel::sleep_ns(LONG_LOOK_NS);
            continue;
        }
        if is_first() && others().all(is_settled) {
            break;
        }
        kernel::sleep_ns(LOOK_NS);
    }
}

/// The calling thread holds the token.
pub fn note_taken(changes: u32) {
    if is_scheduled()
        && let Some(own) = own_entry()
    {
        own.had_at.store(changes, Ordering::SeqCst);
        own.away_since.store(0, Ordering::SeqCst);
        own.wants.store(0, Ordering::SeqCst);
    }
}

/// The other threads of the recording.
fn others() -> impl Iterator<Item = &'static ScheduledThread> {
    let own = thread().identity;
    session().scheduled.iter().filter(move |entry| {
        let identity = entry.identity.load(Ordering::SeqCst);
        identity != 0 && identity != own
    })
}

/// True if no other thread that wants the token comes before the calling one.
fn is_first() -> bool {
    let changes = own_token::my_token().changes.load(Ordering::Relaxed);
    let rank = |entry: &ScheduledThread| {
        let away_since = entry.away_since.load(Ordering::SeqCst);
        let is_away = away_since != 0 && changes.wrapping_add(1).wrapping_sub(away_since) < RELEASES_AWAY_MAX;
        (is_away, entry.had_at.load(Ordering::SeqCst), entry.identity.load(Ordering::SeqCst))
    };
    let Some(own) = own_entry().map(rank) else { return true };
    let comes_before = |entry: &ScheduledThread| {
        let wants = entry.wants.load(Ordering::SeqCst) != 0;
        // One that was killed while it waited wants nothing any more.
        wants && rank(entry) < own && state(entry.tid.load(Ordering::SeqCst)).is_some()
    };
    !others().any(comes_before)
}

/// True if the thread wants the token, or sleeps in the kernel: it is not on the way here, and has begun.
fn is_settled(entry: &ScheduledThread) -> bool {
    let tid = entry.tid.load(Ordering::SeqCst);
    entry.wants.load(Ordering::SeqCst) != 0 || tid != 0 && !matches!(state(tid), Some(b'R' | b'D'))
}

/// The kernel's letter for what a thread does; `None` for one that has ended.
fn state(tid: i32) -> Option<u8> {
    let mut text = [0u8; 128];
    let mut path = Path::new();
    path.text(b"/proc/").number(tid as u64).text(b"/stat");
    path.read(&mut text).and_then(proc_files::state).filter(|state| !matches!(state, b'Z' | b'X'))
}

/// How often one was stopped that computed.
static STOPPED: AtomicU32 = AtomicU32::new(0);

fn computes_ns() -> u64 {
    (COMPUTES_NS >> STOPPED.load(Ordering::Relaxed).min(31)).max(COMPUTES_NS_MIN)
}

/// How much the one that holds the token has computed in it, as another one sees it.
struct Computing {
    changes: u32,
    since_ns: u64,
}

impl Computing {
    /// Stops it if that is too much.
    fn look(&mut self, token: &ExecutionToken) {
        let changes = token.changes.load(Ordering::Relaxed);
        let [pid, tid] = [&token.holder_pid, &token.holder_tid].map(|id| id.load(Ordering::Relaxed));
        // A thread of another process has no clock that can be read here.
        let is_own = pid == process().pid;
        let had_ns = if is_own { kernel::thread_cpu_ns(tid) } else { kernel::process_cpu_ns(pid) };
        // The one that has it may have taken it just now.
        if self.since_ns == 0 || changes != self.changes || had_ns < self.since_ns {
            *self = Computing { changes, since_ns: had_ns.max(1) };
        } else if had_ns - self.since_ns > computes_ns() {
            self.since_ns = had_ns;
            STOPPED.fetch_add(1, Ordering::Relaxed);
            contention::preempt_hard(token);
        }
    }
}
