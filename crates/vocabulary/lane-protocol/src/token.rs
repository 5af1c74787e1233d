//! The token of a lane: which of its threads runs the program's code.
//!
//! A thread releases the token before it enters the kernel for a call that may sleep
//! and takes it back before it touches the program's memory. As long as nobody
//! else wants it, that is one atomic each. A thread that waits reserves the token
//! after a while, and who has gone without it for longest has it next, so that nobody starves.
//!
//! Deliberately absent: futex calls, time, and what the log says of the token (the
//! runtime's).

#[cfg(not(loom))]
use core::sync::atomic::{AtomicI32, AtomicU16, AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
use loom::sync::atomic::{AtomicI32, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Loom orders sequentially consistent fences, but not such accesses.
#[cfg(loom)]
fn in_sequence() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// The accesses themselves are sequentially consistent.
#[cfg(not(loom))]
#[inline(always)]
fn in_sequence() {}

/// Who waits for a ticket looks for it when no more than so many come before.
pub const TICKETS_NEAR: u64 = 2;

/// Calls for which the token is released after somebody found it taken.
const WANTED_FOR: u32 = 64;

/// Goes before all others where the token is asked for.
pub const OLDEST: u32 = u32::MAX / 2;

/// In [`ExecutionToken::holder`]: the thread runs, rather than being in the kernel.
const RUNS: u64 = 1;

/// A thread of a session: its lane and its number in the process. Nobody is 0.
pub const fn thread_identity(lane: u32, thread: u32) -> u64 {
    (lane as u64) << 32 | (thread as u64 + 1) << 1
}

/// The lane of an identity.
pub const fn lane_of_identity(identity: u64) -> u32 {
    (identity >> 32) as u32
}

/// Futex words for those who wait for tickets: two that wait at a time seldom share
/// one.
pub const TICKET_WAKES: usize = 7;

/// A ticket of the token of this number, as its place counts them: those of a later
/// token at the same place are all higher.
pub const fn ticket_in_place(number: u32, ticket: u64) -> u64 {
    (number as u64 / crate::TOKENS as u64) << 44 | ticket
}

/// Of those who sleep at one word, who waits for this ticket: many processes that wait do not
/// all wake for each.
pub const fn ticket_bit(ticket: u64) -> u32 {
    1 << (ticket / TICKET_WAKES as u64 % 32)
}

/// The ticket that a token's place counts so.
pub const fn ticket_of_place(in_place: u64) -> u64 {
    in_place & ((1 << 44) - 1)
}

/// Which sleepers to wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    Nobody,
    /// Any one.
    One,
    /// All with these bits, among them the one that is to be the next.
    Next(u32),
}

/// By which a thread is found among the sleepers (FUTEX_WAKE_BITSET).
pub const fn sleeper_bits(identity: u64) -> u32 {
    1 << (((identity >> 32) + (identity >> 1)) % 32)
}

/// One lane's token, in shared memory; zeroed memory is a free one.
#[repr(C, align(128))]
pub struct ExecutionToken {
    /// Who had it last, with [`RUNS`] while it has it.
    holder: AtomicU64,
    /// Who gets it next, whoever else wants it; 0: nobody special.
    reserved: AtomicU64,
    /// Threads that sleep for it, or are about to.
    sleepers: AtomicU32,
    /// Not zero: a sleeper was woken and has not looked yet.
    woken: AtomicU32,
    /// What sleepers sleep on; a futex word.
    pub wake: AtomicU32,
    /// Counts how often it changed hands.
    pub changes: AtomicU32,
    /// The holder's process and thread ids, for those who want to stop it.
    pub holder_pid: AtomicI32,
    pub holder_tid: AtomicI32,
    /// The namespace that these are of: see `LaneHeader::pid_space`.
    pub holder_space: AtomicU32,
    /// Calls still to come for which the holder gives it though it will be back soon.
    wanted: AtomicU32,
    /// Recording: times it came to another process; replay: tickets that are over.
    pub ticket: AtomicU64,
    /// Recording: lanes that have it; 0: its place is free for a token of another number.
    pub lanes: AtomicU32,
    /// Number of a token that took this one's place, plus one; 0: none.
    pub successor: AtomicU32,
    /// Recording: not zero while a thread wakes for a lock again and again and finds it taken.
    pub starving: AtomicU16,
    /// Recording: not zero where a thread that waits, and does not sleep, has looked lately.
    looked: AtomicU16,
    /// When the one of `reserved` had it last, as `changes` counts.
    reserved_had: AtomicU32,
    /// Replay: futex words; who waits for a ticket sleeps on that of its number.
    pub ticket_wakes: [AtomicU32; TICKET_WAKES],
    /// How many sleep on each, or are about to.
    ticket_sleepers: [AtomicU32; TICKET_WAKES],
}

impl ExecutionToken {
    /// A free token, for the model checker.
    #[cfg(loom)]
    pub fn new() -> ExecutionToken {
        ExecutionToken {
            holder: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            reserved_had: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            woken: AtomicU32::new(0),
            wake: AtomicU32::new(0),
            changes: AtomicU32::new(0),
            holder_pid: AtomicI32::new(0),
            holder_tid: AtomicI32::new(0),
            holder_space: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            ticket: AtomicU64::new(0),
            lanes: AtomicU32::new(0),
            successor: AtomicU32::new(0),
            starving: AtomicU16::new(0),
            looked: AtomicU16::new(0),
            ticket_wakes: core::array::from_fn(|_| AtomicU32::new(0)),
            ticket_sleepers: core::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// True if the thread may acquire the token now.
    #[inline]
    pub fn is_open(&self, me: u64) -> bool {
        in_sequence();
        let reserved = self.reserved.load(Ordering::SeqCst);
        self.holder.load(Ordering::SeqCst) & RUNS == 0 && (reserved == 0 || reserved == me)
    }

    /// Takes it if it is open: gives who had it before.
    pub fn try_take(&self, me: u64) -> Option<u64> {
        if !self.is_open(me) {
            return None;
        }
        let before = self.holder.load(Ordering::SeqCst);
        if before & RUNS != 0
            || self.holder.compare_exchange(before, me | RUNS, Ordering::SeqCst, Ordering::Relaxed).is_err()
        {
            return None;
        }
        if self.reserved.load(Ordering::Relaxed) == me {
            self.reserved.store(0, Ordering::SeqCst);
        }
        // One that was woken found it, or will look again before it sleeps.
        self.woken.store(0, Ordering::SeqCst);
        in_sequence();
        Some(before)
    }

    /// One that took it may not have it after all: it is as it was `before`. Who else is to
    /// be woken.
    pub fn put_back(&self, me: u64, before: u64) -> Wake {
        if self.holder.compare_exchange(me | RUNS, before, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return Wake::Nobody;
        }
        in_sequence();
        if self.sleepers.load(Ordering::SeqCst) == 0 { Wake::Nobody } else { self.wake_after_giving() }
    }

    /// Back from the kernel: true if nobody held the token meanwhile.
    #[inline]
    pub fn take_back(&self, me: u64) -> bool {
        let reserved = self.reserved.load(Ordering::Relaxed);
        (reserved == 0 || reserved == me)
            && self.holder.compare_exchange(me, me | RUNS, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// The holder gives it: who is to be woken. Nothing happens if it has it no more.
    #[inline]
    pub fn give(&self, me: u64) -> Wake {
        // A lane that has said its end is found gone, and its token freed, while its last
        // thread still gives it: somebody else may have it by now.
        if self.holder.compare_exchange(me | RUNS, me, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return Wake::Nobody;
        }
        in_sequence();
        if self.sleepers.load(Ordering::SeqCst) == 0 { Wake::Nobody } else { self.wake_after_giving() }
    }

    #[cold]
    fn wake_after_giving(&self) -> Wake {
        in_sequence();
        let next = self.reserved.load(Ordering::SeqCst);
        if next != 0 {
            self.wake.fetch_add(1, Ordering::SeqCst);
            return Wake::Next(sleeper_bits(next));
        }
        if self.woken.swap(1, Ordering::SeqCst) != 0 {
            return Wake::Nobody;
        }
        self.wake.fetch_add(1, Ordering::SeqCst);
        Wake::One
    }

    /// A thread will sleep: gives the value to wait for on `wake`. The caller
    /// looks at [`ExecutionToken::is_open`] once more before it waits, and calls
    /// [`ExecutionToken::end_sleep`] afterwards.
    pub fn prepare_sleep(&self) -> u32 {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        // In this order: a wake-up between the two changes the value.
        let seen = self.wake.load(Ordering::SeqCst);
        self.woken.store(0, Ordering::SeqCst);
        in_sequence();
        seen
    }

    /// The thread is awake.
    pub fn end_sleep(&self) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Where to sleep for a ticket.
    pub fn ticket_wake(&self, ticket: u64) -> &AtomicU32 {
        &self.ticket_wakes[ticket as usize % TICKET_WAKES]
    }

    /// Replay: the ticket is over. [`ExecutionToken::call_ticket`] is due for the next one.
    pub fn end_ticket(&self, ticket: u64) {
        self.ticket.fetch_max(ticket + 1, Ordering::SeqCst);
        in_sequence();
    }

    /// Who sleeps for this ticket is to look: gives the futex word to wake, if somebody sleeps.
    pub fn call_ticket(&self, ticket: u64) -> Option<&AtomicU32> {
        if self.ticket_sleepers[ticket as usize % TICKET_WAKES].load(Ordering::SeqCst) == 0 {
            return None;
        }
        let wake = self.ticket_wake(ticket);
        wake.fetch_add(1, Ordering::SeqCst);
        Some(wake)
    }

    /// Replay: the ticket comes soon.
    pub fn is_near(&self, ticket: u64) -> bool {
        self.ticket.load(Ordering::SeqCst) + TICKETS_NEAR >= ticket
    }

    /// Replay: a thread will sleep for a ticket: gives the value to wait for on its word. The
    /// caller looks once more before it waits, and calls [`ExecutionToken::end_ticket_sleep`] afterwards.
    pub fn prepare_ticket_sleep(&self, ticket: u64) -> u32 {
        self.ticket_sleepers[ticket as usize % TICKET_WAKES].fetch_add(1, Ordering::SeqCst);
        in_sequence();
        self.ticket_wake(ticket).load(Ordering::SeqCst)
    }

    /// The thread is awake.
    pub fn end_ticket_sleep(&self, ticket: u64) {
        self.ticket_sleepers[ticket as usize % TICKET_WAKES].fetch_sub(1, Ordering::SeqCst);
    }

    /// Asks for the token before all others; false if somebody else has, who has gone without it
    /// for at least as long: `age` is how often it changed hands meanwhile.
    pub fn reserve(&self, me: u64, age: u32) -> bool {
        let now = self.reserved.load(Ordering::SeqCst);
        if now == me {
            return true;
        }
        // That is not read at once with whom it is of: the wrong one may be the next, but somebody is.
        if now != 0 && self.age_of(self.reserved_had.load(Ordering::Relaxed)) >= age {
            return false;
        }
        let is_ours = self.reserved.compare_exchange(now, me, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if is_ours {
            let had = self.changes.load(Ordering::Relaxed).wrapping_sub(age);
            self.reserved_had.store(had, Ordering::Relaxed);
        }
        is_ours
    }

    /// How often it has changed hands since it had done so as often as that.
    pub fn age_of(&self, changes: u32) -> u32 {
        self.changes.load(Ordering::Relaxed).wrapping_sub(changes)
    }

    /// Nobody is to be the next any more.
    pub fn forget_reservation(&self) {
        self.reserved.store(0, Ordering::SeqCst);
    }

    /// The thread is not to be the next any more; true if it was.
    pub fn take_reservation_back(&self, me: u64) -> bool {
        self.reserved.compare_exchange(me, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// True if somebody else than the thread asked for the token.
    #[inline]
    pub fn is_wanted(&self, me: u64) -> bool {
        let reserved = self.reserved.load(Ordering::Relaxed);
        reserved != 0 && reserved != me
    }

    /// True if somebody sleeps for the token.
    #[inline]
    pub fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) != 0
    }

    /// A thread that does not sleep looks whether it is open.
    #[inline]
    pub fn note_look(&self) {
        // Most looks find it said, and leave the line to who holds the token.
        if self.looked.load(Ordering::Relaxed) == 0 {
            self.looked.store(1, Ordering::Relaxed);
        }
    }

    /// True if somebody sleeps for the token, or has looked for it since this was asked last.
    #[inline]
    pub fn is_waited_for(&self) -> bool {
        let looked = self.looked.load(Ordering::Relaxed) != 0;
        if looked {
            self.looked.store(0, Ordering::Relaxed);
        }
        looked || self.has_sleepers()
    }

    /// A thread found it taken.
    pub fn note_wanted(&self) {
        self.wanted.store(WANTED_FOR, Ordering::Relaxed);
    }

    /// The holder is about to do what others need not wait for: true if some found it taken
    /// when it was held lately.
    #[inline]
    pub fn is_much_wanted(&self) -> bool {
        let left = self.wanted.load(Ordering::Relaxed);
        if left != 0 {
            self.wanted.store(left - 1, Ordering::Relaxed);
        }
        left != 0
    }

    /// How many sleep for the token, or are about to.
    #[inline]
    pub fn sleepers(&self) -> u32 {
        self.sleepers.load(Ordering::Relaxed)
    }

    /// Who holds the token and runs.
    pub fn running(&self) -> Option<u64> {
        let holder = self.holder.load(Ordering::SeqCst);
        (holder & RUNS != 0).then_some(holder & !RUNS)
    }

    /// The thread has it, whoever had it: nobody else runs or waits.
    pub fn seize(&self, me: u64) {
        self.reserved.store(0, Ordering::SeqCst);
        self.woken.store(0, Ordering::SeqCst);
        self.sleepers.store(0, Ordering::SeqCst);
        self.holder.store(me | RUNS, Ordering::SeqCst);
    }

    /// Nobody has it, and whoever takes it next takes it from a process that is none of
    /// theirs; so many tickets were given. Nobody else runs or waits.
    pub fn begin_again(&self, ticket: u64) {
        self.forget_all();
        self.ticket.store(ticket, Ordering::SeqCst);
        self.holder.store(thread_identity(u32::MAX, 0), Ordering::SeqCst);
    }

    /// Nobody has it: before the first use by a lane.
    pub fn forget_all(&self) {
        self.reserved.store(0, Ordering::SeqCst);
        self.woken.store(0, Ordering::SeqCst);
        self.sleepers.store(0, Ordering::SeqCst);
        self.ticket.store(0, Ordering::SeqCst);
        self.successor.store(0, Ordering::SeqCst);
        self.wanted.store(0, Ordering::Relaxed);
        self.holder.store(0, Ordering::SeqCst);
    }

    /// True if a thread of the lane has it, and runs.
    pub fn is_with(&self, lane: u32) -> bool {
        self.holder_of(lane).is_some()
    }

    /// Who has it, if this is a thread of the lane, which runs.
    fn holder_of(&self, lane: u32) -> Option<u64> {
        let holder = self.holder.load(Ordering::SeqCst);
        (holder & RUNS != 0 && lane_of_identity(holder) == lane).then_some(holder)
    }

    /// A lane's process is gone: what it held or had reserved is free again, and its
    /// sleepers are no longer counted. True if those of others are to be woken.
    pub fn forget_lane(&self, lane: u32, sleepers: u32) -> bool {
        self.sleepers.fetch_sub(sleepers, Ordering::SeqCst);
        let reserved = self.reserved.load(Ordering::SeqCst);
        let mut freed = false;
        if reserved != 0 && lane_of_identity(reserved) == lane {
            freed |= self.reserved.compare_exchange(reserved, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        }
        if let Some(holder) = self.holder_of(lane) {
            freed |= self
                .holder
                .compare_exchange(holder, holder & !RUNS, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok();
        }
        if freed {
            self.wake.fetch_add(1, Ordering::SeqCst);
        }
        freed
    }
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<ExecutionToken>() == 128);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn of_hundreds_of_tickets_that_are_waited_for_one_wakes() {
        let place = |ticket: u64| (ticket as usize % TICKET_WAKES, ticket_bit(ticket));
        let first = ticket_in_place(crate::TOKENS as u32, 5);
        for ticket in first + 1..first + 32 * TICKET_WAKES as u64 {
            assert_ne!(place(first), place(ticket));
        }
    }
}
