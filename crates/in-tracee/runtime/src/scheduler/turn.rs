//! The lane's turn as threads take and give it, and what the log says of it.
//!
//! Recording: one thread of a lane has the turn and runs the program's code; it gives the turn for
//! the time of a call that may sleep. When an event is of another thread than the one before, or
//! comes after events of another process of the lane, a turn event says so. Replay: those events
//! are followed; nobody competes.
//!
//! Invariant: whoever reads or writes the program's memory, or the log, has the
//! turn. A process with one thread and no shared memory has it always, and pays
//! nothing.

mod joining;

use core::sync::atomic::Ordering;

use events::{Header, Kind, TICKET};
use lane_protocol::{Turn, Wake, lane_of_identity, sleeper_bits, thread_identity};

use crate::address_space::{code_changes, foreign_writes, left_memory};
use crate::code::{clocks, spin_sites};
use crate::ground::{kernel, notices};
use crate::scheduler::own_turn::{my_turn, turn_of};
use crate::scheduler::patience::{self, Patience};
use crate::scheduler::{
    chaos, forced, held_threads, kept_registers, private_futexes, starvation, tickets, turn_end,
};
use crate::state::block::{lane, process, session, thread, thread_at, thread_status};
use crate::state::report;
pub use joining::join;
use joining::last_successor;

/// A process begins that is alone with its memory.
pub fn begin_process() {
    let process = process();
    process.shares_turn = false;
    process.in_group = false;
    process.has_ticket = false;
    process.spins = Default::default();
    process.logged_thread = thread().index as u32;
    process.running_thread.store(process.logged_thread, Ordering::Relaxed);
    begin_thread();
}

/// A process begins that shares memory with the one that made it, and so its turn.
pub fn begin_process_in_group() {
    let process = process();
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
        my_turn().lanes.fetch_add(1, Ordering::AcqRel);
        lane().turn.store(process.turn + 1, Ordering::Release);
        lane().turn_sleepers.begin(process.turn);
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

/// From now on others may run: the calling thread has the turn.
pub fn begin_sharing() {
    let process = process();
    if process.shares_turn || process.replays() {
        return;
    }
    process.shares_turn = true;
    process.turn = new_turn();
    lane().turn.store(process.turn + 1, Ordering::Release);
    lane().turn_sleepers.begin(process.turn);
    let turn = my_turn();
    turn.forget_all();
    let taken = turn.try_take(thread().identity);
    assert!(taken.is_some());
    note_holder(turn);
    forced::begin();
}

/// The number of a turn whose place nobody uses.
fn new_turn() -> u32 {
    loop {
        let number = session().next_turn.fetch_add(1, Ordering::AcqRel);
        let lanes = &turn_of(number).lanes;
        if lanes.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return number;
        }
    }
}

/// The lane has this turn now, and no longer the one it had. Several threads may find out at
/// once that it has to.
fn move_to(number: u32) {
    turn_of(number).lanes.fetch_add(1, Ordering::AcqRel);
    let before = lane().turn.swap(number + 1, Ordering::AcqRel);
    process().turn = number;
    lane().turn_sleepers.begin(number);
    turn_of(before - 1).lanes.fetch_sub(1, Ordering::AcqRel);
}

/// From now on other processes may run, too: the log says which turn it is.
pub fn begin_group() {
    let process = process();
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
    let process = process();
    process.ticket = ticket;
    process.log.begin(Kind::Turn, TICKET, thread().index as u16);
    process.log.word(u64::from(process.turn));
    process.log.word(ticket);
    process.log.end();
}

/// The turn of the process's lane, also after another took its place.
fn current_turn() -> &'static Turn {
    let process = process();
    if my_turn().successor.load(Ordering::Acquire) != 0 {
        move_to(last_successor(process.turn));
    }
    my_turn()
}

/// Who wants to stop the holder finds it by its ids.
pub fn note_holder(turn: &Turn) {
    turn.holder_pid.store(process().pid, Ordering::Relaxed);
    turn.holder_tid.store(thread().tid, Ordering::Relaxed);
    turn.holder_space.store(process().pid_space, Ordering::Relaxed);
}

// --- recording ---

/// Gives the turn.
#[inline]
pub fn give() {
    crate::scheduler::kept_registers::note();
    let turn = my_turn();
    wake(turn, turn.give(thread().identity));
    private_futexes::wake_those_of_later();
}

#[inline]
fn wake(turn: &Turn, whom: Wake) {
    match whom {
        Wake::Nobody => {}
        Wake::One => kernel::futex_wake_one(&turn.wake),
        Wake::Next(bits) => kernel::futex_wake_bits(&turn.wake, bits),
    }
}

/// Takes the turn back after a call.
#[inline]
pub fn take_back() {
    if !my_turn().take_back(thread().identity) {
        take();
    }
}

/// Waits for the turn, and logs that it changed hands.
#[cold]
pub fn take() {
    let me = thread().identity;
    forced::wait_for_own_turn();
    my_turn().note_wanted();
    let is_open = || {
        my_turn().note_look();
        my_turn().is_open(me)
    };
    // With chaos others are asked soon, and several recordings may share the processors.
    if !chaos::is_on() {
        thread().turns.looks.see_soon(is_open);
    }
    let mut patience = Patience::new();
    loop {
        if process().given_up.load(Ordering::Acquire) != 0 {
            return;
        }
        if !turn_end::begin_taking() {
            turn_end::wait_for_end();
            continue;
        }
        let turn = current_turn();
        if let Some(before) = turn.try_take(me) {
            if !held_threads::is_held() {
                turn_end::end_taking();
                return taken(turn, before);
            }
            wake(turn, turn.put_back(me, before));
        }
        if held_threads::is_held() {
            turn_end::end_taking();
            held_threads::wait_while_held();
            continue;
        }
        let number = process().turn;
        let seen = turn.prepare_sleep();
        // Counted after, and no longer before: one who is killed between the two
        // leaves a sleeper too many, never one too few.
        if !core::ptr::eq(turn, turn_of(number)) || !lane().turn_sleepers.add(number) {
            // The lane has just come to another turn.
            turn.end_sleep();
            turn_end::end_taking();
            continue;
        }
        turn_end::end_taking();
        let until_ns = patience.until_ns(turn);
        let mut result = 0;
        if !turn.is_open(me) && turn.successor.load(Ordering::SeqCst) == 0 {
            result = kernel::futex_wait_until(&turn.wake, seen, until_ns, sleeper_bits(me));
        }
        if !turn_end::begin_taking() {
            // The supervisor takes it off the sleepers.
            turn_end::wait_for_end();
            continue;
        }
        if lane().turn_sleepers.remove(number) {
            turn.end_sleep();
        }
        patience.end_sleep(turn, result);
        turn_end::end_taking();
    }
}

/// The thread has the turn now; `before` had it before.
fn taken(turn: &Turn, before: u64) {
    let me = thread().identity;
    thread().turns.had_at = turn.changes.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    forced::note_taken(thread().turns.had_at);
    note_holder(turn);
    if thread().status == thread_status::AGENT {
        return;
    }
    clocks::follow_traps();
    let process = process();
    let joins = core::mem::take(&mut process.joins);
    let yielded = core::mem::take(&mut thread().yielded);
    if before != me || joins || yielded {
        log_taken(turn, before, joins, yielded);
    }
    thread().turns.began_at = process.log.events;
    patience::begin_by_chance();
}

/// The turn comes from another thread, or it is to be said that it came back.
fn log_taken(turn: &Turn, before: u64, joins: bool, yielded: bool) {
    let process = process();
    let index = thread().index as u32;
    let is_own = lane_of_identity(before) == process.lane && !is_agent(before);
    if joins || (before != 0 && !is_own) {
        let ticket = turn.ticket.load(Ordering::Relaxed) + 1;
        turn.ticket.store(ticket, Ordering::Relaxed);
        log_ticket(ticket);
        process.logged_thread = index;
        left_memory::log_new();
        foreign_writes::log_change();
    } else if process.logged_thread != index || yielded {
        log_turn();
    }
}

/// True for the agent of a process of a group: who had the turn before it may be another process's.
fn is_agent(identity: u64) -> bool {
    process().in_group && notices::is_agent(identity)
}

/// The log says that what follows is the calling thread's.
pub fn log_turn() {
    let (process, index) = (process(), thread().index as u32);
    process.log.begin(Kind::Turn, 0, index as u16);
    process.log.end();
    process.logged_thread = index;
}

/// At a boundary: lets a thread go first that asked for it.
#[inline]
pub fn yield_if_wanted() {
    if my_turn().is_wanted(thread().identity) && !starvation::goes_aside() {
        yield_now();
    }
}

/// True if another thread asked for the turn.
#[inline]
pub fn is_wanted() -> bool {
    process().shares_turn && my_turn().is_wanted(thread().identity)
}

/// At a pause that says so: gives the turn, and logs that it came back even if
/// nobody took it.
pub fn yield_at_pause() {
    yield_while(&mut || {
        patience::stay_away_by_chance();
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

/// Gives the turn and waits until it comes back.
#[cold]
pub fn yield_now() {
    give();
    take();
}

// --- replaying ---

/// The running thread comes to the log: follows the turn events at hand until the
/// next event is its own.
#[inline]
pub fn follow() {
    follow_events(true);
}

/// The running thread yields: follows the one turn event that says who comes next.
/// What follows when the turn is back is the program's own code.
pub fn follow_yield() {
    code_changes::follow();
    match process().log.peek() {
        Some(word) if word.is(Kind::Turn) => {
            follow_event(word, true);
            code_changes::follow();
        }
        Some(_) => report::fail("the turn is given, and the log does not say to whom"),
        None => report::log_ended(),
    }
}

/// The running thread ends: the turn goes where the log says.
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
        if !word.is(Kind::Turn) {
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

/// Follows the turn event at hand; returns when the turn is back.
fn follow_event(word: Header, comes_back: bool) {
    let process = process();
    let next = word.code() as u32;
    let ticket = (word.flags() & TICKET != 0).then(|| (process.log.body(0) as u32, process.log.body(1)));
    process.log.consume(word);
    process.log.events += 1;
    match ticket {
        Some((turn, ticket)) if comes_back => tickets::wait_for(turn, ticket),
        Some((turn, ticket)) => tickets::leave_to(next, turn, ticket),
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
    let known = (index as usize) < crate::state::block::known_threads();
    if !known || thread_at(index as usize).status != thread_status::LIVE {
        report::fail("the log gives the turn to a thread that does not exist");
    }
    let next = thread_at(index as usize);
    process().running_thread.store(index, Ordering::SeqCst);
    next.turn_wake.fetch_add(1, Ordering::SeqCst);
    if next.waiter.waits_to_run.load(Ordering::SeqCst) != 0 {
        kernel::futex_wake(&next.turn_wake);
    }
}

/// Waits until the log's next event is the calling thread's.
pub fn wait_to_run() {
    let own = thread();
    let runs = || process().running_thread.load(Ordering::SeqCst) == own.index as u32;
    if process().has_agent() {
        kept_registers::note_waiting();
    } else if !crate::state::live::is_on() && !process().met_others {
        // Else it would take the processor from other processes, which have something to do.
        own.waiter.looks.see_soon(runs);
    }
    own.waiter.waits_to_run.store(1, Ordering::SeqCst);
    loop {
        let seen = own.turn_wake.load(Ordering::SeqCst);
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
        notices::wait_for_turn(&own.turn_wake, seen);
    }
    own.waiter.waits_to_run.store(0, Ordering::SeqCst);
    tickets::wait_if_due();
    clocks::follow_traps();
}
