//! Threads that share memory run one at a time. Where they sleep for the turn again and again,
//! they gather on one processor: what wakes a thread there needs neither an interrupt of
//! another processor, nor the time that one takes to awake.
//!
//! How often that is is looked at all the time; once in a while all roam, so that the kernel
//! may find a better place. The program does not see it: what it asks, and what inherits a
//! thread's processors, finds them as it has set them.
//!
//! Deliberately absent: hand-overs without sleep (`looks`), which need two processors; live
//! sessions, which begin calls again; a process that asks for the processors of another one's
//! threads.

use core::sync::atomic::Ordering;

use lane_protocol::Turn;
use linux_abi::general as nr;

use crate::block::{Thread, known_threads, process, thread, thread_at, thread_status};
use crate::one_processor::{self, Processors};
use crate::{chaos, kernel, live};

/// Hand-overs to threads that slept, from one look to the next.
const HAND_OVERS: u16 = 64;
/// They are often if they take no longer.
const OFTEN_US: u32 = 25_000;
/// At every such look all are let go, until the next.
const LOOKS_TO_ROAM: u16 = 64;

/// The calling thread has the turn, or the ticket, for which it slept.
pub fn note_hand_over(turn: &Turn) {
    // Only who has the turn counts.
    let slept = turn.slept.load(Ordering::Relaxed).wrapping_add(1);
    turn.slept.store(slept, Ordering::Relaxed);
    if slept % HAND_OVERS == 0 && !live::is_on() && !chaos::is_on() && !process().debugged {
        look(turn, slept / HAND_OVERS);
    }
}

#[cold]
fn look(turn: &Turn, looks: u16) {
    let now_us = (kernel::monotonic_ns() / 1000) as u32;
    let often = now_us.wrapping_sub(turn.looked_us.swap(now_us, Ordering::Relaxed)) <= OFTEN_US;
    let place = turn.place.load(Ordering::Relaxed);
    let next = match place {
        _ if !often || looks % LOOKS_TO_ROAM == 0 => 0,
        0 => own_place(),
        place => place,
    };
    turn.place.store(next, Ordering::Relaxed);
}

/// The processor that the thread is on, plus one.
fn own_place() -> u16 {
    let mut number = 0u32;
    let result = kernel::call(nr::__NR_getcpu, [&raw mut number as u64, 0, 0, 0, 0, 0]);
    if kernel::failed(result) { 0 } else { u16::try_from(number + 1).unwrap_or(0) }
}

/// True if the thread shares a processor with those that it waits for.
#[inline]
pub fn is_together() -> bool {
    thread().processors.place != 0
}

/// The thread waits for the turn: it does so where the others are.
#[inline]
pub fn follow(turn: &Turn) {
    let place = turn.place.load(Ordering::Relaxed);
    if thread().processors.place != place {
        go_to(place);
    }
}

#[cold]
fn go_to(place: u16) {
    let own = &mut thread().processors;
    if own.calls_left != 0 || own.are_set || process().log.broken != 0 {
        return;
    }
    leave_own();
    if place == 0 || !own.fetch() {
        return;
    }
    let one = only(place);
    let allowed = own.set().iter().zip(one).any(|(may, is)| may & is != 0);
    if allowed && one_processor::run_on(0, &one[..own.set().len()]) {
        own.place = place;
    }
}

/// The set of one processor.
fn only(place: u16) -> [u64; one_processor::WORDS] {
    let mut one = [0; one_processor::WORDS];
    if let Some(word) = one.get_mut((place as usize - 1) / 64) {
        *word = 1 << ((place - 1) % 64);
    }
    one
}

/// The thread may run where the program wants it, unless somebody else has set that since.
fn leave(thread: &mut Thread) {
    let place = core::mem::take(&mut thread.processors.place);
    if place == 0 {
        return;
    }
    let mut now = Processors::NONE;
    if now.fetch_of(thread.tid) && now.set() == &only(place)[..now.set().len()] {
        one_processor::run_on(thread.tid, thread.processors.set());
    }
}

/// The calling thread may. So may what it makes afterwards, which inherits that.
pub fn leave_own() {
    leave(thread());
}

/// All threads of the process may.
pub fn leave_all() {
    let own = process() as *const _ as u64;
    for index in 0..known_threads() {
        let other = thread_at(index);
        if other.process == own && other.status == thread_status::LIVE {
            leave(other);
        }
    }
}

/// A call of a process with a turn is about to be made: it finds what the program has set.
#[inline]
pub fn before_call(number: u64, args: &[u64; 6]) {
    if matches!(number as u32, nr::__NR_sched_getaffinity | nr::__NR_sched_setaffinity) {
        before_affinity(number, args[0] as i32);
    }
}

#[cold]
fn before_affinity(number: u64, tid: i32) {
    let is_named = |other: &&mut Thread| other.tid == tid && other.status == thread_status::LIVE;
    let named = match tid {
        0 => Some(thread()),
        _ => (0..known_threads()).map(thread_at).find(is_named),
    };
    let Some(named) = named else { return };
    leave(named);
    if number == u64::from(nr::__NR_sched_setaffinity) {
        named.processors.are_set = true;
    }
}
