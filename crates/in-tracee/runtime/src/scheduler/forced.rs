//! A recording whose schedule is given: threads are switched where they wait, and at places that are
//! named, and nowhere else, so that few switches tell how a failure comes about.
//!
//! Who has the turn next does not depend on who comes first. A thread that wants it waits until all
//! others want it too, or sleep in the kernel; then the one whose last turn is longest ago goes first.
//! One that gave the turn where that was forced comes last: when all others wait for something else
//! (Musuvathi and Qadeer, Iterative context bounding for systematic testing of multithreaded programs,
//! PLDI 2007, count preemptions so).
//!
//! A thread that waits for another one in a loop without calls would keep the turn for ever: it is
//! stopped after a while, as without a schedule.
//!
//! Deliberately absent: processes that share memory with others, which take the turn as usual; and
//! where in the code a switch is forced (`preemption::sampled_places`).

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use lane_protocol::{ForcedPlace, ForcedSwitch, Turn};

use crate::ground::kernel;
use crate::ground::proc_files::{self, Path};
use crate::scheduler::{patience, turn};
use crate::state::block::{process, session, thread, thread_at, thread_status, used_threads};

/// Between two looks of a thread that wants the turn; longer where another one computes.
const LOOK_NS: u64 = 20_000;
const LONG_LOOK_NS: u64 = 200_000;
/// After so much processor time without a change one that computes is taken to wait in a loop. More than
/// some ten thousand passes of a place where switches are forced take.
const COMPUTES_NS: u64 = 200_000_000;
/// Each time that this came true, half of it is enough the next time, down to this.
const COMPUTES_NS_MIN: u64 = 5_000_000;
/// Who was switched away comes back after so many turns of the others, though they do not all wait: they
/// may wait for it in a loop.
const TURNS_AWAY_MAX: u32 = 400;

/// What others see of a thread here.
#[derive(Default)]
pub struct Place {
    /// It waits for the turn.
    wants: AtomicU32,
    /// It gave the turn where that was forced, when the turn had changed so often, plus one; 0: it did not.
    away_since: AtomicU32,
    /// How often the turn had changed when it last had it.
    had_at: AtomicU32,
    /// Its calls so far.
    calls: AtomicU64,
}

/// True where the schedule of this process is given.
#[inline]
pub fn is_on() -> bool {
    session().is_scheduled != 0
}

/// The switches that are forced, with their numbers.
pub fn switches() -> &'static [ForcedSwitch] {
    let session = session();
    let count = if process().lane == 0 { session.forced_count as usize } else { 0 };
    session.forced.get(..count).unwrap_or_default()
}

/// The calling thread is about to make a call: true if it is to give the turn before it.
pub fn is_due_at_call() -> bool {
    let number = thread().turns.forced.calls.fetch_add(1, Ordering::Relaxed) + 1;
    let is_it = |switch: &ForcedSwitch| {
        switch.place == ForcedPlace::Call as u32
            && switch.thread == thread().index as u32
            && switch.ordinal == number
    };
    switches().iter().any(is_it)
}

/// The calling thread gives the turn because that is forced.
pub fn go_away() {
    let changes = turn::my_turn().changes.load(Ordering::Relaxed);
    thread().turns.forced.away_since.store(changes.wrapping_add(1).max(1), Ordering::SeqCst);
}

/// The calling thread wants the turn: returns when it is the one to have it.
pub fn wait_for_own_turn() {
    if !is_on() || process().in_group || thread().status != thread_status::LIVE {
        return;
    }
    let own = &thread().turns.forced;
    own.wants.store(1, Ordering::SeqCst);
    let mut computing = Computing { changes: 0, since_ns: 0 };
    while process().given_up.load(Ordering::Acquire) == 0
        && process().ending_others.load(Ordering::Acquire) == 0
    {
        let turn = turn::my_turn();
        if turn.running().is_some() {
            computing.look(turn);
            kernel::sleep_ns(LONG_LOOK_NS);
            continue;
        }
        if is_first() && are_settled() {
            break;
        }
        kernel::sleep_ns(LOOK_NS);
    }
}

/// The calling thread has the turn.
pub fn note_taken(changes: u32) {
    let own = &thread().turns.forced;
    own.had_at.store(changes, Ordering::SeqCst);
    own.away_since.store(0, Ordering::SeqCst);
    own.wants.store(0, Ordering::SeqCst);
}

/// The other threads of the process.
fn others() -> impl Iterator<Item = usize> {
    let own = thread().index;
    (0..used_threads()).filter(move |&index| index != own).filter(|&index| {
        let other = thread_at(index);
        other.status == thread_status::LIVE && other.process == thread().process
    })
}

/// True if no other thread that wants the turn comes before the calling one.
fn is_first() -> bool {
    let changes = turn::my_turn().changes.load(Ordering::Relaxed);
    let rank = |index: usize| {
        let place = &thread_at(index).turns.forced;
        let away_since = place.away_since.load(Ordering::SeqCst);
        let is_away = away_since != 0 && changes.wrapping_add(1).wrapping_sub(away_since) < TURNS_AWAY_MAX;
        (is_away, place.had_at.load(Ordering::SeqCst), index)
    };
    let own = rank(thread().index);
    others().all(|index| thread_at(index).turns.forced.wants.load(Ordering::SeqCst) == 0 || own < rank(index))
}

/// True if each other thread wants the turn, or sleeps in the kernel: nobody is on the way here, and no
/// new thread has yet to begin.
fn are_settled() -> bool {
    let have_begun = others().count() + 1 >= process().threads as usize;
    have_begun
        && others().all(|index| {
            let other = thread_at(index);
            other.turns.forced.wants.load(Ordering::SeqCst) != 0 || other.tid != 0 && sleeps(other.tid)
        })
}

/// True if the thread sleeps in the kernel, or has ended.
fn sleeps(tid: i32) -> bool {
    let mut text = [0u8; 128];
    let mut path = Path::new();
    path.text(b"/proc/self/task/").number(tid as u64).text(b"/stat");
    path.read(&mut text).and_then(proc_files::state).is_none_or(|state| !matches!(state, b'R' | b'D'))
}

/// How often one was stopped that computed.
static STOPPED: AtomicU32 = AtomicU32::new(0);

fn computes_ns() -> u64 {
    (COMPUTES_NS >> STOPPED.load(Ordering::Relaxed).min(31)).max(COMPUTES_NS_MIN)
}

/// How much the one that has the turn has computed in it, as another one sees it.
struct Computing {
    changes: u32,
    since_ns: u64,
}

impl Computing {
    /// Stops it if that is too much.
    fn look(&mut self, turn: &Turn) {
        let changes = turn.changes.load(Ordering::Relaxed);
        let had_ns = kernel::thread_cpu_ns(turn.holder_tid.load(Ordering::Relaxed));
        // The one that has it may have taken it just now.
        if self.since_ns == 0 || changes != self.changes || had_ns < self.since_ns {
            *self = Computing { changes, since_ns: had_ns.max(1) };
        } else if had_ns - self.since_ns > computes_ns() {
            self.since_ns = had_ns;
            STOPPED.fetch_add(1, Ordering::Relaxed);
            patience::press_firmly(turn);
        }
    }
}
