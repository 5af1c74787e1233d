//! The lane's token as threads take and give it, and what the log says of it.
//!
//! Recording: one thread of a lane holds the token and runs the program's code; it releases the token for
//! the time of a call that may sleep. When an event is of another thread than the one before, or
//! comes after events of another process of the lane, a token event says so. Replay: those events
//! are followed; nobody competes.
//!
//! Invariant: whoever reads or writes the program's memory, or the log, has the
//! token. A process with one thread and no shared memory has it always, and pays
//! nothing.

mod joining;

use core::sync::atomic::Ordering;

use events::{Header, Kind, TICKET};
use lane_protocol::{ExecutionToken, Wake, lane_of_identity, sleeper_bits, thread_identity};

use crate::address_space::{code_changes, foreign_writes, left_memory};
use crate::code::{clocks, spin_sites};
use crate::ground::{kernel, notices};
use crate::scheduler::contention::{self, Contention};
use crate::scheduler::own_token::{my_token, token_of};
use crate::scheduler::{
    chaos, fairness, forced, held_threads, kept_registers, private_futexes, tickets, token_end,
};
use crate::state::block::{lane, process, session, thread, thread_at, thread_status};
use crate::state::report;
use crate::state::runtime_log::{LogSubject, say};
pub use joining::join;
use joining::last_successor;

/// A process begins that is alone with its memory.
pub fn begin_process() {
    let process = &mut *process();
    process.shares_token = false;
    process.in_group = false;
    process.has_ticket = false;
    process.spins = Default::default();
    process.logged_thread = thread().index as u32;
    process.running_thread.store(process.logged_thread, Ordering::Relaxed);
    begin_thread();
}

/// A process begins that shares memory with the one that made it, and so its token.
pub fn begin_process_in_group() {
    let process = &mut *process();
    process.has_ticket = false;
    process.spins = Default::default();
    process.logged_thread = thread().index as u32;
    process.running_thread.store(process.logged_thread, Ordering::Relaxed);
    begin_thread();
    if process.replays() {
        follow_events(true);
    } else {
        // The ticket at hand is the maker's.
        process.ticket = u64::MAX;
        my_token().lanes.fetch_add(1, Ordering::AcqRel);
        lane().token.store(process.token + 1, Ordering::Release);
        lane().token_sleepers.begin(process.token);
        crate::state::unborn::sharer_is_there(process.segment);
        notices::lane_shares_memory();
        take();
    }
}

/// The running thread is one of the lane's.
pub fn begin_thread() {
    thread().identity = thread_identity(process().lane, thread().index as u32);
    forced::begin();
}

/// From now on others may run: the calling thread holds the token.
pub fn begin_sharing() {
    let process = &mut *process();
    if process.shares_token || process.replays() {
        return;
    }
    process.shares_token = true;
    process.token = new_token();
    lane().token.store(process.token + 1, Ordering::Release);
    lane().token_sleepers.begin(process.token);
    let token = my_token();
    token.forget_all();
    let taken = token.try_take(thread().identity);
    assert!(taken.is_some());
    note_holder(token);
    forced::begin();
}

/// The number of a token whose place nobody uses.
fn new_token() -> u32 {
    loop {
        let number = session().next_token.fetch_add(1, Ordering::AcqRel);
        let lanes = &token_of(number).lanes;
        if lanes.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return number;
        }
    }
}

/// The lane has this token now, and no longer the one it had. Several threads may find out at
/// once that it has to.
fn move_to(number: u32) {
    token_of(number).lanes.fetch_add(1, Ordering::AcqRel);
    let before = lane().token.swap(number + 1, Ordering::AcqRel);
    process().token = number;
    lane().token_sleepers.begin(number);
    token_of(before - 1).lanes.fetch_sub(1, Ordering::AcqRel);
}

/// From now on other processes may run, too: the log says which token it is.
pub fn begin_group() {
    let process = &mut *process();
    if process.in_group || process.replays() {
        return;
    }
    begin_sharing();
    process.in_group = true;
    left_memory::begin();
    log_ticket(0);
    spin_sites::begin_counting();
}

fn log_ticket(ticket: u64) {
    let process = &mut *process();
    process.ticket = ticket;
    process.log.begin(Kind::Token, TICKET, thread().index as u16);
    process.log.word(u64::from(process.token));
    process.log.word(ticket);
    process.log.end();
}

/// The token of the process's lane, also after another took its place.
fn current_token() -> &'static ExecutionToken {
    let process = &mut *process();
    if my_token().successor.load(Ordering::Acquire) != 0 {
        move_to(last_successor(process.token));
    }
    my_token()
}

/// Who wants to stop the holder finds it by its ids.
pub fn note_holder(token: &ExecutionToken) {
    token.holder_pid.store(process().pid, Ordering::Relaxed);
    token.holder_tid.store(thread().tid, Ordering::Relaxed);
    token.holder_space.store(process().pid_space, Ordering::Relaxed);
}

// --- recording ---

/// Gives the token.
#[inline]
pub fn give() {
    say(LogSubject::Scheduler, "token released", [0, 0]);
    crate::scheduler::kept_registers::note();
    let token = my_token();
    wake(token, token.give(thread().identity));
    private_futexes::wake_those_of_later();
}

#[inline]
fn wake(token: &ExecutionToken, whom: Wake) {
    match whom {
        Wake::Nobody => {}
        Wake::One => kernel::futex_wake_one(&token.wake),
        Wake::Next(bits) => kernel::futex_wake_bits(&token.wake, bits),
    }
}

/// Takes the token back after a call.
#[inline]
pub fn take_back() {
    if !my_token().take_back(thread().identity) {
        take();
    }
}

/// Waits for the token, and logs that it changed hands.
#[cold]
pub fn take() {
    let me = thread().identity;
    forced::wait_for_own_token();
    my_token().note_wanted();
    let is_open = || {
        my_token().note_look();
        my_token().is_open(me)
    };
    // With chaos others are asked soon, and several recordings may share the processors.
    if !chaos::is_on() {
        thread().scheduling.spinning.see_soon(is_open);
    }
    let mut contention = Contention::new();
    loop {
        if process().given_up.load(Ordering::Acquire) != 0 {
            return;
        }
        if !token_end::begin_taking() {
            token_end::wait_for_end();
            continue;
        }
        let token = current_token();
        if let Some(before) = token.try_take(me) {
            if !held_threads::is_held() {
                token_end::end_taking();
                return taken(token, before);
            }
            wake(token, token.put_back(me, before));
        }
        if held_threads::is_held() {
            token_end::end_taking();
            held_threads::wait_while_held();
            continue;
        }
        let number = process().token;
        let seen = token.prepare_sleep();
        // Counted after, and no longer before: one who is killed between the two
        // leaves a sleeper too many, never one too few.
        if !core::ptr::eq(token, token_of(number)) || !lane().token_sleepers.add(number) {
            // The lane has just come to another token.
            token.end_sleep();
            token_end::end_taking();
            continue;
        }
        token_end::end_taking();
        let until_ns = contention.until_ns(token);
        let mut result = 0;
        if !token.is_open(me) && token.successor.load(Ordering::SeqCst) == 0 {
            result = kernel::futex_wait_until(&token.wake, seen, until_ns, sleeper_bits(me));
        }
        if !token_end::begin_taking() {
            // The supervisor takes it off the sleepers.
            token_end::wait_for_end();
            continue;
        }
        if lane().token_sleepers.remove(number) {
            token.end_sleep();
        }
        contention.end_sleep(token, result);
        token_end::end_taking();
    }
}

/// The thread holds the token now; `before` had it before.
fn taken(token: &ExecutionToken, before: u64) {
    say(LogSubject::Scheduler, "token acquired", [before, 0]);
    let me = thread().identity;
    thread().scheduling.had_at = token.changes.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    forced::note_taken(thread().scheduling.had_at);
    note_holder(token);
    if thread().status == thread_status::AGENT {
        return;
    }
    clocks::follow_traps();
    let process = &mut *process();
    let joins = core::mem::take(&mut process.joins);
    let yielded = core::mem::take(&mut thread().yielded);
    if before != me || joins || yielded {
        log_taken(token, before, joins, yielded);
    }
    thread().scheduling.began_at = process.log.events;
    contention::begin_by_chance();
}

/// The token comes from another thread, or it is to be said that it came back.
fn log_taken(token: &ExecutionToken, before: u64, joins: bool, yielded: bool) {
    let process = &mut *process();
    let index = thread().index as u32;
    let is_own = lane_of_identity(before) == process.lane && !is_agent(before);
    if joins || (before != 0 && !is_own) {
        let ticket = token.ticket.load(Ordering::Relaxed) + 1;
        token.ticket.store(ticket, Ordering::Relaxed);
        log_ticket(ticket);
        process.logged_thread = index;
        left_memory::log_new();
        foreign_writes::log_change();
    } else if process.logged_thread != index || yielded {
        log_token();
    }
}

/// True for the agent of a process of a group: who held the token before it may be another process's.
fn is_agent(identity: u64) -> bool {
    process().in_group && notices::is_agent(identity)
}

/// The log says that what follows is the calling thread's.
pub fn log_token() {
    let (process, index) = (&mut *process(), thread().index as u32);
    process.log.begin(Kind::Token, 0, index as u16);
    process.log.end();
    process.logged_thread = index;
}

/// At a boundary: lets a thread go first that asked for it.
#[inline]
pub fn yield_if_wanted() {
    if my_token().is_wanted(thread().identity) && !fairness::goes_aside() {
        yield_now();
    }
}

/// True if another thread asked for the token.
#[inline]
pub fn is_wanted() -> bool {
    process().shares_token && my_token().is_wanted(thread().identity)
}

/// At a preemption that says so: releases the token, and logs that it came back even if
/// nobody took it.
pub fn yield_at_preemption() {
    yield_while(&mut || {
        contention::stay_away_by_chance();
        false
    });
}

/// The same while something lasts.
pub fn yield_while(lasts: &mut dyn FnMut() -> bool) {
    thread().yielded = true;
    give();
    while lasts() {}
    take();
}

/// Gives the token and waits until it comes back.
#[cold]
pub fn yield_now() {
    say(LogSubject::Scheduler, "token yielded", [0, 0]);
    give();
    take();
}

// --- replaying ---

/// The running thread comes to the log: follows the token events at hand until the
/// next event is its own.
#[inline]
pub fn follow() {
    follow_events(true);
}

/// The running thread yields: follows the one token event that says who comes next.
/// What follows when the token is back is the program's own code.
pub fn follow_yield() {
    code_changes::follow();
    match process().log.peek() {
        Some(word) if word.is(Kind::Token) => {
            follow_event(word, true);
            code_changes::follow();
        }
        Some(_) => report::fail("the token is released, and the log does not say to whom"),
        None => report::log_ended(),
    }
}

/// The running thread ends: the token goes where the log says.
pub fn follow_at_end() {
    follow_events(false);
}

fn follow_events(comes_back: bool) {
    loop {
        let Some(word) = process().log.peek() else {
            if comes_back {
                return;
            }
            if crate::state::live::goes_again() {
                notices::log_is_replayed();
                return give();
            }
            report::log_ended();
        };
        if word.is(Kind::Change) {
            code_changes::replay(word);
            continue;
        }
        if !word.is(Kind::Token) {
            if !comes_back {
                report::fail("a thread ended, and the log does not say who goes on");
            }
            return;
        }
        let ends = !comes_back && word.code() as u32 != thread().index as u32;
        follow_event(word, !ends);
        if ends {
            return;
        }
    }
}

/// Follows the token event at hand; returns when the token is back.
fn follow_event(word: Header, comes_back: bool) {
    let process = &mut *process();
    let next = word.code() as u32;
    let ticket = (word.flags() & TICKET != 0).then(|| (process.log.body(0) as u32, process.log.body(1)));
    process.log.consume(word);
    process.log.events += 1;
    match ticket {
        Some((token, ticket)) if comes_back => tickets::wait_for(token, ticket),
        Some((token, ticket)) => tickets::leave_to(next, token, ticket),
        None => {}
    }
    if next != thread().index as u32 {
        pass_to(next);
        if comes_back {
            wait_to_run();
        }
    }
}

/// The thread of this index is the next to run.
fn pass_to(index: u32) {
    say(LogSubject::Scheduler, "token passed on", [u64::from(index), 0]);
    let known = (index as usize) < crate::state::block::known_threads();
    if !known || thread_at(index as usize).status != thread_status::LIVE {
        report::fail("the log releases the token to a thread that does not exist");
    }
    let next = &mut *thread_at(index as usize);
    process().running_thread.store(index, Ordering::SeqCst);
    next.token_wake.fetch_add(1, Ordering::SeqCst);
    if next.waiter.waits_to_run.load(Ordering::SeqCst) != 0 {
        kernel::futex_wake(&next.token_wake);
    }
}

/// Waits until the log's next event is the calling thread's.
pub fn wait_to_run() {
    let own = &mut *thread();
    let runs = || process().running_thread.load(Ordering::SeqCst) == own.index as u32;
    if process().has_agent() {
        kept_registers::note_waiting();
    } else if !crate::state::live::is_on() && !process().met_others {
        // Else it would take the processor from other processes, which have something to do.
        own.waiter.spinning.see_soon(runs);
    }
    own.waiter.waits_to_run.store(1, Ordering::SeqCst);
    loop {
        let seen = own.token_wake.load(Ordering::SeqCst);
        if process().ending_others.load(Ordering::SeqCst) != 0 {
            notices::image_is_over();
        }
        if crate::state::live::is_on() && !process().replays() {
            // The log ended with another thread.
            notices::thread_goes_on();
        }
        if runs() {
            break;
        }
        notices::wait_for_token(&own.token_wake, seen);
    }
    own.waiter.waits_to_run.store(0, Ordering::SeqCst);
    tickets::wait_if_due();
    clocks::follow_traps();
}
