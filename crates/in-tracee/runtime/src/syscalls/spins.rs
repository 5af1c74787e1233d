//! Where a thread waits in a loop: it says so by `pause`, or by nops that stand for it, or it comes to the
//! branch that closes a loop which does nothing else (see the recipes of `sites`). The one that it waits for
//! runs at once, instead of when a slice is over, and there is no preemption to be found again.
//!
//! The log says how often the process came to such places since the event before: that
//! is where the token is released, and where signals that wait are delivered. No preemption would find
//! the loop: most of it is the runtime's.
//!
//! Invariant: from a process's first thread on, or the first memory that it shares with others, each
//! pass counts, in replay as in recording, whichever way it leads here. A thread that releases the token
//! here stands as at a preemption.
//! Deliberately absent: live programs under the debugger; generated code.

use events::{Header, Instruction, Kind};

use crate::checkpoint::take::quiesce;
use crate::code::sites;
use crate::debugger::agent;
use crate::ground::assembly;
use crate::ground::frame::RealFrame;
use crate::ground::registers::{Registers, TRAP_FLAG};
use crate::lab;
use crate::log::call_event;
use crate::preemption::{left_handlers, preempt, preemption_point};
use crate::scheduler::{contention, fairness, token};
use crate::signals;
use crate::state::block::{process, session, thread};
use crate::state::call_state::Spins;
use crate::state::patched_code::Site;
use crate::state::{deliverable, in_lab, live, report, signal_state};

/// Passes with nothing in between, after which a thread is taken to wait for another one.
const PASSES: u64 = 16;
/// What a trap counts for, which a virtual machine may make dear (10 us were seen).
const PASSES_OF_TRAP: u64 = 64;
/// In place of a number of passes: the thread released the token, and gives it again.
const AGAIN: u64 = 0;

/// In place of whether the token is released: it is not.
const ONLY_DELIVERS: u64 = 2;

/// In place of a fault's signal: the token is to be given, or signals are to be delivered.
pub const GIVES: u32 = u32::MAX - 1;

/// A thread came to the place of this address; the registers lead behind it. True if it gave
/// the token, or signals are to be delivered.
pub fn pass(address: u64, registers: &Registers) -> bool {
    let Some(passes) = count() else { return false };
    if process().replays() {
        return follow(address, passes, registers);
    }
    core::hint::spin_loop();
    let gives = may_give(passes);
    let stops = gives || deliverable::has_deliverable();
    if stops {
        stop([address, passes], gives, registers);
    }
    stops
}

/// Delivers the signals that wait where `pass` said so; the registers lead to where the program
/// goes on.
pub fn deliver(registers: &mut Registers) {
    if !process().replays() {
        if thread().pending != 0 {
            signals::deliver_at_return(registers);
        }
    } else if call_event::is_next() {
        signals::replay_at_return(registers);
    }
}

/// The same where a trap led here: it goes on behind the instruction.
pub fn pass_by_trap(site: &mut Site, context: &mut RealFrame) {
    let mut registers = context.registers();
    let replaying = process().replays();
    if replaying {
        sites::cover_again_stopped(site);
    }
    let address = registers.rip;
    let next_round = site.next_round(registers.flags);
    registers.rip = next_round.unwrap_or_else(|| site.behind());
    let Some(passes) = next_round.and_then(|_| count()) else { return context.set_registers(&registers) };
    let gives = !replaying && may_give(passes * PASSES_OF_TRAP);
    let stops = gives || if replaying { is_due(passes) } else { deliverable::has_deliverable() };
    sites::note_spin(site, stops);
    let follows = stops && replaying && !live::goes_again();
    if follows {
        follow(address, passes, &registers);
    }
    if !stops || follows && !call_event::is_next() {
        return context.set_registers(&registers);
    }
    leave_handler(context, &registers, [address, passes, u64::from(gives || follows)]);
}

/// What remains to be done is not done in a handler.
fn leave_handler(context: &mut RealFrame, registers: &Registers, rest: [u64; 3]) {
    preempt::abandon();
    let mut registers = *registers;
    registers.flags &= !(TRAP_FLAG | preemption_point::RESUME_FLAG);
    thread().fault_info[..3].copy_from_slice(&rest);
    left_handlers::leave_handler(context, registers, GIVES);
}

/// An instruction that trapped, and that is no such place, was performed; the handler's registers lead
/// behind it. Signals come there as where a jump leads to it: true if they do, once the handler is left.
pub fn deliver_behind_trap(context: &mut RealFrame) -> bool {
    let comes = if process().replays() { call_event::is_next() } else { deliverable::has_deliverable() };
    let delivers = comes && session().live == 0 && !process().is_branch();
    if delivers {
        let registers = context.registers();
        leave_handler(context, &registers, [0, 0, ONLY_DELIVERS]);
    }
    delivers
}

/// A thread that was led here by a trap stops, or stopped here.
pub fn stop_after_trap(mut registers: Registers) -> ! {
    let [address, passes, gives_or_followed, ..] = thread().fault_info;
    let replaying = process().replays();
    match (replaying, gives_or_followed) {
        // The instruction was such a place by itself.
        (_, ONLY_DELIVERS) => {}
        (false, gives) => stop([address, passes], gives != 0, &registers),
        (true, 0) => {
            follow(address, passes, &registers);
        }
        (true, _) => {}
    }
    registers.rip = sites::translate(registers.rip);
    deliver(&mut registers);
    if replaying {
        preemption_point::arm_if_next();
        agent::leaving(&mut registers);
    } else if deliverable::has_deliverable() {
        preempt::signal_waits();
    }
    // SAFETY: the registers are the program's, complete.
    unsafe { assembly::rv_resume(&registers) }
}

/// How often threads came to such places since the last event; `None` where nobody counts.
fn count() -> Option<u64> {
    let process = &mut *process();
    if process.log.broken != 0 || process.is_branch() {
        return None;
    }
    let spins = &mut process.spins;
    if spins.events != process.log.events {
        *spins = Spins { events: process.log.events, passes: 0 };
    }
    spins.passes += 1;
    Some(spins.passes)
}

/// Recording: whether the thread is to release the token.
fn may_give(passes: u64) -> bool {
    let waits = process().shares_token && passes >= PASSES && (in_lab::is_on() || is_awaited(passes));
    waits || thread().preemption.is_preempted
}

/// Logs where the thread stops, and releases the token if it `gives` it.
fn stop([address, passes]: [u64; 2], gives: bool, registers: &Registers) {
    let thread = &mut *thread();
    thread.resume_state = signal_state::ResumeState::Preemption;
    thread.registers_at = &raw const *registers as u64;
    if gives {
        fairness::note_wait();
    }
    log_place(address, passes);
    if !gives {
        return;
    }
    thread.yielded = true;
    thread.is_asked = false;
    match in_lab::is_on() {
        true if thread.preemption.is_preempted => preempted(address),
        true => lab::clocks::let_others_run(),
        false => contention::let_others_run(),
    }
    while quiesce::stop_asked() {
        // Others come before what the program does from here on: once more.
        log_place(address, AGAIN);
        quiesce::park_at_preemption();
    }
}

/// The lab's engine has preempted the thread, which spins: most of such a loop is the runtime's.
fn preempted(address: u64) {
    if process().shares_token {
        token::yield_while(&mut || {
            lab::preempted(address, false);
            false
        });
    } else {
        lab::preempted(address, false);
        token::log_token();
        thread().yielded = false;
    }
}

fn log_place(address: u64, passes: u64) {
    let log = &mut process().log;
    log.begin(Kind::Instruction, 0, Instruction::Spin as u16);
    for word in [address, passes, 0, 0, 0, 0, 0] {
        log.word(word);
    }
    log.end();
}

fn is_awaited(passes: u64) -> bool {
    token::is_wanted() || contention::is_awaited(passes)
}

/// Replay: the thread holds the token back, and gives it as often as it did then.
pub fn follow_again() {
    while let Some(word) = process().log.peek()
        && is_spin(word)
        && process().log.body(1) == AGAIN
    {
        process().log.consume(word);
        process().log.events += 1;
        token::follow_yield();
    }
}

fn is_spin(word: Header) -> bool {
    word.is(Kind::Instruction) && word.code() == Instruction::Spin as u16
}

/// Replay: true if the thread stopped at this pass, or ought to have stopped before.
fn is_due(passes: u64) -> bool {
    let log = &mut process().log;
    log.peek().is_some_and(is_spin) && passes >= log.body(1)
}

/// Replay: releases the token if the thread gave it here; true if it stopped.
fn follow(address: u64, passes: u64, registers: &Registers) -> bool {
    if !is_due(passes) {
        return false;
    }
    let log = &mut process().log;
    let word = log.peek().unwrap_or(Header::NONE);
    if [log.body(0), log.body(1)] != [address, passes] {
        report::diverge(registers, word, u64::MAX, &[Instruction::Spin as u64, address, passes]);
    }
    log.consume(word);
    log.events += 1;
    let thread = &mut *thread();
    thread.user_registers = &raw const *registers as u64;
    thread.resume_state = signal_state::ResumeState::Preemption;
    thread.registers_at = thread.user_registers;
    if !call_event::is_next() {
        token::follow_yield();
        follow_again();
    }
    true
}
