//! What is done where the program stands at a pause: it is logged, or was, and others hold the token.

use lane_protocol::report_kind;

use crate::code::{sites, trampolines};
use crate::debugger::{agent, edits};
use crate::ground::assembly::rv_resume;
use crate::ground::registers::Registers;
use crate::lab;
use crate::log::call_event;
use crate::preemption::preemption_point::{RESUME_FLAG, arm_if_next, log_state};
use crate::preemption::preemption_timer::now_ns;
use crate::preemption::{preempt, sampled_places, volatile_words};
use crate::scheduler::preemption_cost::{COST_NS, cost_ns};
use crate::scheduler::{chaos, encounters, held_threads, own_token, spinning_threads, token};
use crate::signals;
use crate::state::block::{process, thread};
use crate::state::{deliverable, report};
use crate::syscalls::spins;

/// The program stands at a preemption point with these registers.
pub fn on_preemption(mut registers: Registers) -> ! {
    registers.flags &= !RESUME_FLAG;
    thread().resume_state = crate::state::signal_state::ResumeState::Preemption;
    thread().registers_at = &raw const registers as u64;
    if process().replays() {
        thread().user_registers = &raw const registers as u64;
        replay(&mut registers);
        agent::leaving(&mut registers);
    } else {
        if process().has_agent() {
            thread().user_registers = &raw const registers as u64;
        }
        record(&mut registers);
        agent::leaving(&mut registers);
    }
    // SAFETY: the registers are the program's, complete.
    unsafe { rv_resume(&registers) }
}

fn record(registers: &mut Registers) {
    let asked = core::mem::take(&mut thread().is_asked);
    let is_aside = core::mem::take(&mut thread().preemption.is_aside);
    let is_preempted = core::mem::take(&mut thread().preemption.is_preempted);
    let is_lone = is_aside && !is_preempted && encounters::is_lone();
    if is_lone && !encounters::await_signal(&deliverable::has_deliverable) {
        // Nothing happened here.
        return sampled_places::leave(registers);
    }
    let is_waited_for =
        token::is_wanted() || spinning_threads::threads_spin() && own_token::my_token().has_sleepers();
    let is_shared = is_preempted && process().shares_token;
    let yields = is_shared || asked && !is_lone && (is_waited_for || is_aside);
    log_preemption(registers, yields);
    if is_preempted && !is_shared {
        lab::preempted(registers.rip, is_aside);
    }
    if yields {
        held_threads::note_vectors(true);
        if is_shared {
            token::yield_while(&mut || {
                lab::preempted(registers.rip, is_aside);
                false
            });
        } else {
            token::yield_at_preemption();
        }
        while crate::checkpoint::take::quiesce::stop_asked() {
            // Others come before what the program does from here on: once more.
            log_preemption(registers, true);
            crate::checkpoint::take::quiesce::park_at_preemption();
        }
        held_threads::note_vectors(false);
        registers.rip = sites::translate(registers.rip);
        preempt::watch_again();
    }
    let changes = core::mem::take(&mut thread().preemption.change);
    if changes.is_some_and(|change| edits::end_change(registers, &change)) {
        // Not where the preemption is any more: what waits has another one.
        if deliverable::has_deliverable() {
            preempt::signal_waits();
        }
        return sampled_places::leave(registers);
    }
    let events = process().log.events;
    signals::deliver_at_return(registers);
    if process().log.events == events {
        crate::checkpoint::restore::debugging::note_preemption();
        sampled_places::leave(registers);
    }
}

/// Live: goes on from a preemption that was logged and yielded at; the token is back.
pub fn go_on(mut registers: Registers) -> ! {
    registers.rip = sites::translate(registers.rip);
    if process().replays() {
        spins::follow_again();
        follow_preemption(&mut registers);
        if !crate::state::live::is_on() {
            // The log begins here.
            crate::debugger::agent::leaving(&mut registers);
        }
    } else {
        signals::deliver_at_return(&mut registers);
    }
    // SAFETY: the registers are the program's, complete.
    unsafe { rv_resume(&registers) }
}

fn replay(registers: &mut Registers) {
    let Some(word) = process().log.peek() else {
        report::note_registers(registers);
        report::log_ended();
    };
    if edits::replay(registers) {
        return;
    }
    let log = &mut process().log;
    log.consume(word);
    log.events += 1;
    if word.flags() & events::YIELDS != 0 {
        token::follow_yield();
    }
    registers.rip = sites::translate(registers.rip);
    follow_preemption(registers);
}

/// Replay: the process was killed behind the preemption at hand, and others see what it stored until its next
/// call, if it came to that with the token.
fn leaves_more() -> bool {
    process().in_group && !process().has_agent() && !crate::state::live::is_on()
}

/// What the log says of a preemption behind it.
fn follow_preemption(registers: &mut Registers) {
    if call_event::is_next() {
        signals::replay_at_return(registers);
    } else if edits::is_due() {
        // The place before the edit.
        agent::leaving(registers);
        edits::replay(registers);
        return;
    } else if process().log.peek().is_none() && !leaves_more() {
        if crate::state::live::goes_again() {
            crate::checkpoint::restore::rollback::enter_present();
            signals::set_real_mask(thread().signals.mask);
            return;
        }
        report::note_registers(registers);
        report::leave(report_kind::LOG_ENDED, 0, "");
    }
    arm_if_next();
}

/// Logs that the program stands here, whether or not it releases the token.
fn log_preemption(registers: &Registers, yields: bool) {
    let begin_ns = now_ns();
    trampolines::ensure_trampoline_near(registers.rip);
    let words = || {
        let changed = match chaos::is_on() {
            true => volatile_words::changed_words_and_more(registers),
            false => volatile_words::changed_words(),
        };
        // Nothing was watched, or the program did not get to run meanwhile.
        if changed.is_empty() { volatile_words::words_near(registers) } else { changed }
    };
    let protection_ns = log_state(registers, yields, words);
    let spent_ns = core::mem::take(&mut thread().preemption.spent_ns) + now_ns() - begin_ns;
    note_cost(spent_ns + protection_ns + TRAPS_NS);
    let way_from_ns = core::mem::take(&mut thread().preemption.way_from_ns);
    if way_from_ns != 0 {
        chaos::pay(now_ns().saturating_sub(way_from_ns) + protection_ns);
    }
}

/// One that seems to cost far more than those before it was interrupted, by whoever else
/// uses the machine: it counts for what four of them cost.
fn note_cost(ns: u64) {
    let before = cost_ns().max(FIRST_COST_NS);
    // SAFETY: one thread runs in an address space.
    unsafe { COST_NS.get().write(before - before / 4 + ns.min(4 * before) / 4) };
}

/// What the first preemption is taken to cost before it is seen, in nanoseconds.
const FIRST_COST_NS: u64 = 100_000;

/// Nanoseconds of a preemption's timers, traps and steps, which its own clock does not see.
const TRAPS_NS: u64 = 20_000;
