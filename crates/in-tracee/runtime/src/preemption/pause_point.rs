//! A pause point: what the log says of it, and where replay goes on from it. How a
//! program comes to one: see `pause`.

use events::{Kind, Tag};
use lane_protocol::report_kind;

use crate::address_space::{file_ends, page_tracker};
use crate::code::{islands, sites};
use crate::debugger::{agent, breakpoints, edits};
use crate::ground::assembly::rv_resume;
use crate::ground::frame::{self, RealFrame};
use crate::ground::registers::Registers;
use crate::ground::registers::TRAP_FLAG;
use crate::log::call_event;
use crate::preemption::pause;
use crate::preemption::pause_timer::now_ns;
use crate::preemption::{hot_words, probe, sampled_places};
use crate::scheduler::pause_cost::{COST_NS, cost_ns};
use crate::scheduler::{chaos, encounters, held_threads, spinning_threads, turn};
use crate::signals;
use crate::state::block::{process, thread};
use crate::state::{deliverable, report};
use crate::syscalls::spins;

/// Words of a pause's body: registers, vector sum, memory sum.
pub const BODY_WORDS: u64 = 20;
/// What the first pause is taken to cost before it is seen, in nanoseconds.
const FIRST_COST_NS: u64 = 100_000;
/// Nanoseconds of a pause's timers, traps and steps, which its own clock does not see.
const TRAPS_NS: u64 = 20_000;
/// Set where a page fault came before, as protected pages and new ones make it, or a trap in
/// place of an instruction: not the program's state.
pub const RESUME_FLAG: u64 = 0x1_0000;
/// Flags that belong to the program's state: arithmetic, direction.
pub const STATE_FLAGS: u64 = crate::ground::decode::ARITHMETIC_FLAGS | 0x400;

/// Leaves a handler for a pause point, where the program stands with these registers.
pub fn lead_to(context: &mut RealFrame, mut registers: Registers) {
    registers.flags &= !TRAP_FLAG;
    signals::leave_handler(context, registers, 0);
}

/// The program stands at a pause point with these registers.
pub fn on_pause(mut registers: Registers) -> ! {
    registers.flags &= !RESUME_FLAG;
    thread().standing = crate::state::signal_state::Standing::Pause;
    thread().registers_at = &raw const registers as u64;
    if process().replaying {
        thread().user_registers = &raw const registers as u64;
        replay(&mut registers);
        agent::leaving(&mut registers);
    } else {
        if process().debugged {
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
    let is_aside = core::mem::take(&mut thread().pausing.is_aside);
    let is_lone = is_aside && encounters::is_lone();
    if is_lone && !encounters::await_signal(&deliverable::has_deliverable) {
        // Nothing happened here.
        return sampled_places::leave(registers);
    }
    let is_waited_for =
        turn::is_wanted() || spinning_threads::threads_spin() && turn::my_turn().has_sleepers();
    let yields = asked && !is_lone && (is_waited_for || is_aside);
    log_pause(registers, yields);
    if yields {
        held_threads::note_vectors(true);
        turn::yield_at_pause();
        while crate::checkpoint::stop_asked() {
            // Others come before what the program does from here on: once more.
            log_pause(registers, true);
            crate::checkpoint::park_at_pause();
        }
        held_threads::note_vectors(false);
        registers.rip = sites::translate(registers.rip);
        pause::watch_again();
    }
    let changes = core::mem::take(&mut thread().pausing.change);
    if changes.is_some_and(|change| edits::end_change(registers, &change)) {
        // Not where the pause is any more: what waits has another one.
        if deliverable::has_deliverable() {
            pause::signal_waits();
        }
        return sampled_places::leave(registers);
    }
    let events = process().log.events;
    signals::deliver_at_return(registers);
    if process().log.events == events {
        crate::checkpoint::note_pause();
        sampled_places::leave(registers);
    }
}

/// Logs that the program stands here, whether or not it gives the turn.
fn log_pause(registers: &Registers, yields: bool) {
    let begin_ns = now_ns();
    islands::ensure_island_near(registers.rip);
    let words = || {
        let changed = match chaos::is_on() {
            true => hot_words::changed_words_and_more(registers),
            false => hot_words::changed_words(),
        };
        match changed {
            // Nothing was watched, or the program did not get to run meanwhile.
            [] => hot_words::words_near(registers),
            words => words,
        }
    };
    let protection_ns = log_state(registers, yields, words);
    let spent_ns = core::mem::take(&mut thread().pausing.spent_ns) + now_ns() - begin_ns;
    note_cost(spent_ns + protection_ns + TRAPS_NS);
    let way_from_ns = core::mem::take(&mut thread().pausing.way_from_ns);
    if way_from_ns != 0 {
        chaos::pay(now_ns().saturating_sub(way_from_ns) + protection_ns);
    }
}

/// Live: logs that the program stands here, about to execute this instruction, which was
/// not looked for.
pub fn log_place(registers: &Registers) {
    log_state(registers, false, || hot_words::words_near(registers));
}

/// Logs the state as a pause; what protecting memory costs, in nanoseconds.
fn log_state(registers: &Registers, yields: bool, words: impl FnOnce() -> &'static [[u64; 2]]) -> u64 {
    page_tracker::look(&mut |_, _| {});
    let words = words();
    let memory = breakpoints::without(page_tracker::sum);
    let vectors = frame::live_vector_sum();
    let log = &mut process().log;
    log.begin(Kind::Pause, if yields { events::YIELDS } else { 0 }, 0);
    for word in state_words(registers) {
        log.word(word);
    }
    log.word(vectors);
    log.word(memory.sum);
    log.blob(0, frame::LEGACY_BYTES, Tag::Vectors, frame::summed_vectors());
    if let Some(ranges) = memory.ranges {
        log.blob(0, size_of_val(ranges) as u64, Tag::Ranges, ranges.as_ptr() as u64);
    }
    log.blob(0, size_of_val(words) as u64, Tag::Words, words.as_ptr() as u64);
    log.end();
    memory.protection_ns
}

/// Live: goes on from a pause that was logged and yielded at; the turn is back.
pub fn go_on(mut registers: Registers) -> ! {
    registers.rip = sites::translate(registers.rip);
    if process().replaying {
        spins::follow_again();
        follow_pause(&mut registers);
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

/// One that seems to cost far more than those before it was interrupted, by whoever else
/// uses the machine: it counts for what four of them cost.
fn note_cost(ns: u64) {
    let before = cost_ns().max(FIRST_COST_NS);
    // SAFETY: one thread runs in an address space.
    unsafe { COST_NS.get().write(before - before / 4 + ns.min(4 * before) / 4) };
}

/// The registers as a pause logs them.
pub fn state_words(registers: &Registers) -> [u64; 18] {
    let r = registers;
    [
        r.r15,
        r.r14,
        r.r13,
        r.r12,
        r.rbp,
        r.rbx,
        r.r11,
        r.r9,
        r.r8,
        r.r10,
        r.rdx,
        r.rsi,
        r.rdi,
        r.rcx,
        r.rax,
        r.rip,
        r.flags & STATE_FLAGS,
        r.rsp,
    ]
}

// --- replaying ---

/// If a pause is what comes next, plants the probe that will find it.
#[inline]
pub fn arm_if_next() {
    loop {
        let Some(word) = process().log.peek() else {
            return;
        };
        match Kind::from_byte(word as u8) {
            Some(Kind::Island) => islands::replay_island(word),
            Some(Kind::Pause) => {
                probe::plant();
                return;
            }
            Some(Kind::Fault) => {
                file_ends::await_fault(word);
                return;
            }
            _ => return,
        }
    }
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
    if (word >> 8) as u8 & events::YIELDS != 0 {
        turn::follow_yield();
    }
    registers.rip = sites::translate(registers.rip);
    follow_pause(registers);
}

/// Replay: the process was killed behind the pause at hand, and others see what it stored until its next
/// call, if it came to that with the turn.
fn leaves_more() -> bool {
    process().in_group && !process().debugged && !crate::state::live::is_on()
}

/// What the log says of a pause behind it.
fn follow_pause(registers: &mut Registers) {
    if call_event::is_next() {
        signals::replay_at_return(registers);
    } else if edits::is_due() {
        // The place before the edit.
        agent::leaving(registers);
        edits::replay(registers);
        return;
    } else if process().log.peek().is_none() && !leaves_more() {
        if crate::state::live::goes_again() {
            crate::checkpoint::enter_present();
            signals::set_real_mask(thread().signals.mask);
            return;
        }
        report::note_registers(registers);
        report::leave(report_kind::LOG_ENDED, 0, "");
    }
    arm_if_next();
}
