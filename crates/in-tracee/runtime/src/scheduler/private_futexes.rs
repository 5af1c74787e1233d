//! Futexes of one address space (FUTEX_PRIVATE_FLAG), while several threads are recorded:
//! who waits for which word is known here, and the kernel only puts threads to sleep.
//!
//! A thread that is woken can do nothing before it holds the token. So the kernel wakes it
//! when the one that woke it releases the token, or after a millisecond, and not before: a
//! mutex that goes to and fro costs one change of threads each time instead of three.
//!
//! Each waiter sleeps on a word of its own, in the call that it asked for: timeouts and
//! signals are the kernel's affair, as ever. Queues are changed under the token only.
//! Deliberately absent: live sessions, in which calls are begun again after a way back;
//! what the log says, which is the same as if the kernel had done it all; replay.

use core::sync::atomic::Ordering;

use lane_protocol::OLDEST;
use linux_abi::{errno, general as nr};

use crate::ground::{kernel, memory};
use crate::scheduler::{chaos, own_token, token};
use crate::state::block::{process, session, space, thread, thread_at};
use crate::state::live;
use crate::state::scheduling::{QUEUES, Waiter};

pub const PRIVATE: u32 = 0x80;
const REALTIME: u32 = 0x100;
const COMMAND_MASK: u32 = !(PRIVATE | REALTIME);
const ANY: u32 = u32::MAX;

/// How long the kernel's part of waking waits for the token to be given.
const LATER_NS: u64 = 1_000_000;

/// How often a thread wakes and waits again for the same word until it is let in at once:
/// one that unlocks and locks again would keep it out for ever, where it releases the token
/// with the lock only.
pub const FUTILE_WAKES_MAX: u32 = 64;
/// So many times as often counts one with no other event in between. With others, too, it
/// may have been in vain: a thread that another one stops by signals, to look at it, takes
/// the signal before it looks at the lock.
const FUTILE_WAKES_SURELY: u32 = 4;
/// So long after it first woke surely in vain it is let in, too: who acquires the token from it may
/// compute for a slice each time.
const IN_VAIN_NS: u64 = 4_000_000;

/// A thread that waits is not in the kernel yet.
const SPINS: u32 = 1;
/// It is, or is about to be.
const SLEEPS: u32 = 2;

/// True if the process's private futexes are kept here.
pub fn are_ours() -> bool {
    let process = &mut *process();
    process.shares_token
        && !live::is_on()
        && !process.passes_through
        && session().detect_all == 0
        && process.log.broken == 0
        && process.given_up.load(Ordering::Relaxed) == 0
}

/// A call that concerns private futexes; `None`: it is the kernel's.
pub fn execute(number: u64, args: &[u64; 6]) -> Option<i64> {
    let result = execute_here(number, args);
    if thread().waiter.lets_in != 0 {
        let_in();
    }
    result
}

/// Whoever woke in vain too often holds the token before the lock can be taken again.
#[cold]
fn let_in() {
    let index = usize::from(core::mem::take(&mut thread().waiter.lets_in)) - 1;
    (thread_at(index).waiter.futile_wakes, thread_at(index).waiter.futile_since_ns) = (0, 0);
    if own_token::my_token().reserve(thread_at(index).identity, OLDEST) {
        token::yield_now();
    }
}

fn execute_here(number: u64, args: &[u64; 6]) -> Option<i64> {
    match number as u32 {
        nr::__NR_futex => command(args),
        nr::__NR_futex_wake if args[3] as u32 & PRIVATE != 0 && args[2] as i32 > 0 && are_ours() => {
            Some(wake(args[0], args[2] as i32, args[1] as u32))
        }
        nr::__NR_futex_requeue if are_ours() => {
            // Whom the kernel does not know it cannot move: woken for no reason, they look
            // for themselves.
            let from = memory::read::<u64>(args[0] + 8)?;
            wake(from, i32::MAX, ANY);
            None
        }
        _ => None,
    }
}

/// A call of the kernel's own begins, or ends: it may wait for private futexes.
pub fn note_elsewhere(number: u64, begins: bool) {
    if matches!(number as u32, nr::__NR_futex_waitv | nr::__NR_futex_wait) {
        let elsewhere = &space().futexes.elsewhere;
        if begins {
            elsewhere.fetch_add(1, Ordering::SeqCst);
        } else {
            elsewhere.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn command(args: &[u64; 6]) -> Option<i64> {
    let [word, operation, value, fourth, second, last] = *args;
    let operation = operation as u32;
    if operation & PRIVATE == 0 || !can_be_futex(word) || has_two(operation) && !can_be_futex(second) {
        return None;
    }
    let (command, count, last) = (operation & COMMAND_MASK, value as u32 as i32, last as u32);
    if operation & REALTIME != 0 && command != nr::FUTEX_WAIT_BITSET {
        return None;
    }
    if !are_ours() {
        // A child of vfork in our memory, whose parent's threads are woken here.
        let visits = process().in_parents_memory && !waits(operation);
        if !visits {
            return None;
        }
    }
    match command {
        nr::FUTEX_WAIT => wait(args, word, value as u32, ANY),
        nr::FUTEX_WAIT_BITSET if last != 0 => wait(args, word, value as u32, last),
        nr::FUTEX_WAKE => Some(wake(word, count, ANY)),
        nr::FUTEX_WAKE_BITSET if last != 0 => Some(wake(word, count, last)),
        nr::FUTEX_REQUEUE | nr::FUTEX_CMP_REQUEUE => {
            let limit = fourth as u32 as i32;
            if count < 0 || limit < 0 {
                return None;
            }
            if command == nr::FUTEX_CMP_REQUEUE && memory::read::<u32>(word)? != last {
                return Some(-i64::from(errno::EAGAIN));
            }
            Some(requeue(word, count, second, limit))
        }
        nr::FUTEX_WAKE_OP => {
            let holds = operate(second, last)?;
            let first = wake(word, count, ANY);
            Some(first + if holds { wake(second, fourth as u32 as i32, ANY) } else { 0 })
        }
        _ => None,
    }
}

/// What the kernel would refuse is left to it.
fn can_be_futex(word: u64) -> bool {
    word.is_multiple_of(4) && word >> 47 == 0
}

fn has_two(operation: u32) -> bool {
    let command = operation & COMMAND_MASK;
    matches!(command, nr::FUTEX_REQUEUE | nr::FUTEX_CMP_REQUEUE | nr::FUTEX_WAKE_OP)
}

fn waits(operation: u32) -> bool {
    matches!(operation & COMMAND_MASK, nr::FUTEX_WAIT | nr::FUTEX_WAIT_BITSET)
}

// --- waiting ---

fn wait(args: &[u64; 6], word: u64, expected: u32, bits: u32) -> Option<i64> {
    if memory::read::<u32>(word)? != expected {
        return Some(-i64::from(errno::EAGAIN));
    }
    let own = &mut thread().waiter;
    let is_next_event = process().log.events == own.woke_at + 1;
    own.count_futile_wakes(own.word == word, is_next_event);
    (own.word, own.bits) = (word, bits);
    own.asleep.store(SPINS, Ordering::SeqCst);
    push(queue_of(word), thread().index);
    let result = sleep(args);
    token::take_back();
    if process().given_up.load(Ordering::Acquire) != 0 {
        // The queues are nobody's any more; who waits is woken once, for no reason.
        return Some(0);
    }
    thread().waiter.woke_at = process().log.events;
    if thread().waiter.asleep.load(Ordering::SeqCst) == 0 {
        return Some(0);
    }
    thread().waiter.asleep.store(0, Ordering::SeqCst);
    remove(queue_of(word), thread().index);
    // Woken by nobody of ours, which futex(2) allows.
    Some(if result == -i64::from(errno::EAGAIN) { 0 } else { result })
}

impl Waiter {
    /// It waits: `again`, for the same word; `at_once`, with no other event since it woke.
    fn count_futile_wakes(&mut self, again: bool, at_once: bool) {
        if !again || !at_once {
            self.futile_since_ns = 0;
            self.futile_wakes = if again { self.futile_wakes + 1 } else { 0 };
            return;
        }
        self.futile_wakes += FUTILE_WAKES_SURELY;
        let now_ns = kernel::monotonic_ns();
        if self.futile_since_ns == 0 {
            self.futile_since_ns = now_ns;
        } else if now_ns >= self.futile_since_ns + IN_VAIN_NS {
            self.futile_wakes = FUTILE_WAKES_MAX;
        }
    }
}

/// Gives the token and waits, as the program asked for. The result is the kernel's, or 0 if
/// the thread was woken before it slept.
fn sleep(args: &[u64; 6]) -> i64 {
    let own = &mut *thread();
    let (asleep, looks) = (&own.waiter.asleep, &mut own.waiter.spinning);
    token::give();
    let comes = || asleep.load(Ordering::SeqCst) == 0 && own_token::my_token().is_open(own.identity);
    if looks.see(&space().futexes.spinners, comes)
        || asleep.compare_exchange(SPINS, SLEEPS, Ordering::SeqCst, Ordering::SeqCst).is_err()
    {
        return 0;
    }
    let real = [asleep.as_ptr() as u64, args[1], u64::from(SLEEPS), args[3], 0, u64::from(ANY)];
    kernel::call_for_program(u64::from(nr::__NR_futex), &real)
}

// --- waking ---

/// Wakes up to `limit` that wait for the word with one of the bits; at least one, as the
/// kernel does.
fn wake(word: u64, limit: i32, bits: u32) -> i64 {
    let mut woken = 0;
    for_each(word, &mut |waiter, index| {
        if waiter.bits & bits == 0 {
            return Fate::Stays;
        }
        wake_thread(index);
        woken += 1;
        if woken >= i64::from(limit) { Fate::LeavesLast } else { Fate::Leaves }
    });
    let left = limit.max(1) - woken as i32;
    if left > 0 && space().futexes.elsewhere.load(Ordering::Relaxed) != 0 {
        let operation = u64::from(nr::FUTEX_WAKE_BITSET | PRIVATE);
        let real = [word, operation, left as u64, 0, 0, u64::from(bits)];
        woken += kernel::call(nr::__NR_futex, real).max(0);
    }
    woken
}

/// Wakes so many, and lets so many more wait for another word. How many these are.
fn requeue(word: u64, wakes: i32, target: u64, moves: i32) -> i64 {
    let mut touched = 0;
    let mut moved = [0u16; 64];
    let mut count = 0;
    let (wakes, most) = (i64::from(wakes), i64::from(wakes) + i64::from(moves));
    while touched < most {
        let before = touched;
        for_each(word, &mut |waiter, index| {
            if touched >= most || count == moved.len() {
                return Fate::StaysLast;
            }
            touched += 1;
            if touched <= wakes {
                wake_thread(index);
            } else {
                waiter.word = target;
                moved[count] = index as u16;
                count += 1;
            }
            Fate::Leaves
        });
        for &index in &moved[..core::mem::take(&mut count)] {
            push(queue_of(target), usize::from(index));
        }
        if touched == before || word == target {
            break;
        }
    }
    touched
}

/// FUTEX_WAKE_OP: changes the word, and says whether it was as asked for.
fn operate(word: u64, encoded: u32) -> Option<bool> {
    let signed = |bits: u32| (bits << 20) as i32 >> 20;
    let before = memory::read::<u32>(word)?;
    let given = signed(encoded >> 12 & 0xfff);
    let argument = if encoded >> 31 != 0 { 1u32 << (given & 31) } else { given as u32 };
    let after = match encoded >> 28 & 7 {
        0 => argument,
        1 => before.wrapping_add(argument),
        2 => before | argument,
        3 => before & !argument,
        4 => before ^ argument,
        _ => return None,
    };
    let (before_signed, bound) = (before as i32, signed(encoded & 0xfff));
    let holds = match encoded >> 24 & 15 {
        0 => before_signed == bound,
        1 => before_signed != bound,
        2 => before_signed < bound,
        3 => before_signed <= bound,
        4 => before_signed > bound,
        5 => before_signed >= bound,
        _ => return None,
    };
    memory::write(word, &after).then_some(holds)
}

/// The thread is woken: by the kernel now, or when the token is released.
fn wake_thread(index: usize) {
    let slept = thread_at(index).waiter.asleep.swap(0, Ordering::SeqCst) == SLEEPS;
    let can_let_in = process().shares_token && !process().in_parents_memory;
    if can_let_in && thread_at(index).waiter.futile_wakes >= FUTILE_WAKES_MAX {
        thread().waiter.lets_in = index as u16 + 1;
    }
    if slept && !wakes_later(index) {
        wake_now(index);
    }
}

fn wakes_later(index: usize) -> bool {
    if !process().shares_token || process().in_parents_memory || chaos::is_on() {
        return false;
    }
    let later = &thread().waiter.later;
    let seen = later.load(Ordering::Relaxed);
    let Some(free) = (0..4).find(|place| seen >> (16 * place) & 0xffff == 0) else {
        return false;
    };
    // The timer's handler may have emptied it meanwhile.
    later.fetch_or((index as u64 + 1) << (16 * free), Ordering::SeqCst);
    // The program may compute from here on: then our timer gives the kernel its part.
    if !thread().preemption.wake_in(LATER_NS) {
        wake_all_of_later();
    }
    true
}

fn wake_now(index: usize) {
    let word = thread_at(index).waiter.asleep.as_ptr() as u64;
    kernel::call(nr::__NR_futex, [word, u64::from(nr::FUTEX_WAKE | PRIVATE), 1, 0, 0, 0]);
}

/// The token is released, or the time is over: those that were woken meanwhile learn of it.
#[inline]
pub fn wake_those_of_later() {
    if thread().waiter.later.load(Ordering::Relaxed) != 0 {
        wake_all_of_later();
    }
}

#[cold]
fn wake_all_of_later() {
    let mut later = thread().waiter.later.swap(0, Ordering::SeqCst);
    while later != 0 {
        let index = later & 0xffff;
        if index != 0 {
            wake_now(index as usize - 1);
        }
        later >>= 16;
    }
}

/// Recording is given up: everybody wakes once, for no reason, and waits in the kernel
/// from then on.
pub fn wake_everybody() {
    for queue in 0..QUEUES {
        while let Some(index) = first(queue) {
            remove(queue, index);
            thread_at(index).waiter.asleep.store(0, Ordering::SeqCst);
            wake_now(index);
        }
    }
    wake_those_of_later();
}

// --- queues ---

fn queue_of(word: u64) -> usize {
    ((word >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % QUEUES
}

fn first(queue: usize) -> Option<usize> {
    usize::from(space().futexes.ends[queue][0]).checked_sub(1)
}

fn push(queue: usize, index: usize) {
    let own = index as u16 + 1;
    thread_at(index).waiter.next = 0;
    let [first, last] = &mut space().futexes.ends[queue];
    match usize::from(core::mem::replace(last, own)).checked_sub(1) {
        Some(before) => thread_at(before).waiter.next = own,
        None => *first = own,
    }
}

fn remove(queue: usize, index: usize) {
    walk(queue, &mut |_, at| if at == index { Fate::LeavesLast } else { Fate::Stays });
}

/// What becomes of a waiter.
enum Fate {
    Stays,
    StaysLast,
    Leaves,
    LeavesLast,
}

/// Looks at those who wait for the word, in the order in which they came.
fn for_each(word: u64, decide: &mut dyn FnMut(&mut Waiter, usize) -> Fate) {
    walk(queue_of(word), &mut |waiter, index| {
        if waiter.word == word { decide(waiter, index) } else { Fate::Stays }
    });
}

fn walk(queue: usize, decide: &mut dyn FnMut(&mut Waiter, usize) -> Fate) {
    let (mut before, mut at) = (0u16, space().futexes.ends[queue][0]);
    while at != 0 {
        let waiter = &mut thread_at(usize::from(at) - 1).waiter;
        let next = waiter.next;
        let fate = decide(waiter, usize::from(at) - 1);
        if matches!(fate, Fate::Leaves | Fate::LeavesLast) {
            let [first, last] = &mut space().futexes.ends[queue];
            match usize::from(before).checked_sub(1) {
                Some(before) => thread_at(before).waiter.next = next,
                None => *first = next,
            }
            if *last == at {
                *last = before;
            }
        } else {
            before = at;
        }
        if matches!(fate, Fate::StaysLast | Fate::LeavesLast) {
            return;
        }
        at = next;
    }
}
