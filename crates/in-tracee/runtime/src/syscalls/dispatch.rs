//! One system call of the program, from arrival to departure: recorded or replayed.

use core::sync::atomic::Ordering;

use events::{FILTERED, Header, IN_PLACE, Kind, REFUSED, SIGNAL_FOLLOWS};
use linux_abi::errno;
use syscall_model::Act;

use crate::address_space::logged_calls::log_call;
use crate::address_space::{checksum, code_changes, packet_rings};
use crate::checkpoint::resources::pushback;
use crate::checkpoint::restore::debugging;
use crate::checkpoint::take::quiesce;
use crate::checkpoint::{asked_calls, observed_calls};
use crate::code::{one_processor, sites, trampolines};
use crate::debugger::branch::{self, leave_debugged};
use crate::debugger::{agent, breakpoints, edits};
use crate::ground::kernel::ABORTED;
use crate::ground::registers::{Leave, Registers};
use crate::lab;
use crate::log::call_event::inject;
use crate::log::effects::{self, Meaning, meaning};
use crate::preemption::preempt;
use crate::process::detach;
use crate::scheduler::{contention, fairness, token};
use crate::signals::{self, deaths, die_at, killing, stopping};
use crate::state::block::{process, session, thread};
use crate::state::call_state::{Before, Done};
use crate::state::runtime_log::{LogSubject, say};
use crate::state::{in_lab, live, report, signal_state};
use crate::syscalls::{calls, direct_calls, filters, page_diff, proc_opens, specials};

/// Called by the entry code for each system call.
pub unsafe extern "C" fn on_call(registers: *mut Registers) -> Leave {
    // SAFETY: the entry code passes the registers that it pushed.
    let registers = unsafe { &mut *registers };
    let thread = &mut *thread();
    thread.resume_state = signal_state::ResumeState::Call;
    thread.registers_at = &raw const *registers as u64;
    say(LogSubject::Syscalls, "call", [registers.rax, registers.rcx]);
    let asks_whether_replayed = u64::from(registers.rax as u32) == asked_calls::REPLAYING;
    if thread.processors.calls_left != 0 {
        one_processor::before_call(registers.rax as u32);
    }
    let given_up = process().given_up.load(Ordering::Acquire);
    if given_up != 0 && !asks_whether_replayed {
        return if process().is_branch() {
            branch::call(registers, specials::execute)
        } else {
            detach::follow(registers)
        };
    }
    let trapped = core::mem::take(&mut thread.trapped) != 0;
    if trapped {
        let site = registers.rcx.wrapping_sub(2);
        match process().has_agent() && process().replays() {
            true => breakpoints::on_trapped_call(site),
            false => sites::on_trap(site),
        }
        // The bytes behind the site may be a part of its jump by now.
        registers.rip = sites::translate(registers.rip);
    }
    if asks_whether_replayed {
        asked_calls::answer_whether_replayed(registers);
        return Leave::Call;
    }
    let leave = if process().replays() {
        thread.user_registers = registers as *const Registers as u64;
        let number = registers.rax as u32;
        let leave = replay_call(registers);
        crate::preemption::preemption_point::arm_if_next();
        if process().has_agent() {
            if !trapped {
                sites::note_jump_taken();
            }
            agent::note_call(number);
            return leave_debugged(registers, leave);
        }
        leave
    } else if process().has_agent() {
        record_debugged(registers)
    } else {
        let begun = direct_calls::begin_at_once(registers);
        let leave = begun.unwrap_or_else(|| {
            record_call(registers, if in_lab::is_on() { Way::Whole } else { Way::Direct })
        });
        if leave != Leave::Make {
            direct_calls::note_pending();
        }
        leave
    };
    if trapped {
        leave_trapped(registers, leave);
    }
    let flags = registers.flags;
    if leave != Leave::Make && preempt::step_aside(registers) {
        if leave == Leave::Call {
            registers.r11 = flags;
        }
        return Leave::Exactly;
    }
    leave
}

/// Behind a call that came through a trap: another thread may have rewritten the site meanwhile.
#[cold]
pub fn leave_trapped(registers: &mut Registers, leave: Leave) {
    thread().direct.trapped = leave == Leave::Make;
    if leave == Leave::Call && process().shares_token {
        registers.rip = sites::translate(registers.rip);
    }
}

/// A call of a live program that the debugger looks at.
#[cold]
fn record_debugged(registers: &mut Registers) -> Leave {
    thread().user_registers = registers as *const Registers as u64;
    let number = registers.rax as u32;
    let leave = record_call(registers, Way::Whole);
    direct_calls::note_pending();
    agent::note_call(number);
    leave_debugged(registers, leave)
}

// --- recording ---

/// Whether the entry code may make the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Whole,
    Direct,
}

fn record_call(registers: &mut Registers, way: Way) -> Leave {
    if process().log.broken != 0 {
        return detach::detach(registers, process().log.broken, "");
    }
    // The kernel looks at the lower half of the number only.
    let nr = u64::from(registers.rax as u32);
    let args = registers.args();
    if process().has_agent() {
        debugging::stop_before_call(registers, &args);
    }
    if !in_lab::is_on() && let_others_run(nr) {
        return detach::follow(registers);
    }
    if process().check_every != 0 {
        checksum::record_if_due();
    }
    if thread().pending != 0 && signals::deliver_before(registers) {
        return Leave::Exactly;
    }
    if thread().filters.newest != 0
        && let Some(leave) = filters::hold_back(registers, &args)
    {
        return leave;
    }
    if process().shares_token {
        calls::announce(nr, &args);
    }
    if let Some(signal) = signals::crashes_itself(nr, &args) {
        die_in_call(registers, signal);
    }
    let mut wants_end = false;
    if live::is_on() {
        if asked_calls::is_call(nr) {
            return leave_logged(asked_calls::call(registers), registers);
        }
        wants_end = observed_calls::before_call(nr, &args);
    }
    if let Some(result) = answered_here(nr, &args) {
        return leave_logged(result, registers);
    }
    let meaning = meaning(nr, &args);
    if way == Way::Direct
        && !wants_end
        && let Some(leave) = direct_calls::begin(nr, &args, &meaning)
    {
        return leave;
    }
    let result = match meaning.act {
        Act::Inject if session().detect_all == 0 || cannot_be_detected(nr, &args, &meaning) => {
            match record_fed(nr, &args, &meaning) {
                ABORTED => return aborted(registers),
                result => result,
            }
        }
        Act::Inject | Act::PageDiff => match page_diff::record(registers, nr, &args, meaning.args) {
            Done::Result(result) => result,
            Done::Aborted => return aborted(registers),
            Done::Elsewhere(leave) => return leave,
        },
        Act::Execute(special) => match specials::execute(special, nr, registers, meaning.args) {
            Done::Result(result) => result,
            Done::Aborted => return aborted(registers),
            Done::Elsewhere(leave) => return leave,
        },
        Act::Reject(_) => reject(nr, &args, &meaning),
        Act::Variant(_) | Act::Options(_) => report::die("a variant of a variant"),
    };
    stopping::finish(nr, &args, result);
    if wants_end {
        observed_calls::after_call(nr, &args, result);
    }
    leave_logged(result, registers)
}

/// A call is logged: the signal is delivered of which its event said that it follows.
pub fn leave_logged(result: i64, registers: &mut Registers) -> Leave {
    registers.rax = result as u64;
    if thread().pending != 0 && signals::deliver_after(registers) {
        return Leave::Exactly;
    }
    Leave::Call
}

/// A call that reaches no kernel: the lab's own, or one that is given back what it got before.
fn answered_here(nr: u64, args: &[u64; 6]) -> Option<i64> {
    if lab::is_call(nr) && in_lab::is_on() {
        let result = lab::own_call(nr, args);
        log_call(nr, args, &[], 0, result, &Before::default(), REFUSED);
        return Some(result);
    }
    if pushback::is_any() { pushback::serve(nr, args) } else { None }
}

/// Makes and logs a call that its row describes.
#[inline]
fn record_fed(nr: u64, args: &[u64; 6], meaning: &Meaning) -> i64 {
    let before = if meaning.work & effects::NEEDS_BEFORE != 0 {
        effects::before(meaning.args, args)
    } else {
        Before::default()
    };
    packet_rings::give_back();
    let mut make = || calls::make(nr, args, args, meaning.args, meaning.blocks);
    let mut result = match sends_death(nr, args, meaning) {
        true => killing::kill(nr, args, &mut make),
        false => make(),
    };
    if result == ABORTED {
        return result;
    }
    if meaning.work & effects::READS_TEXT != 0 && result >= 0 {
        result = proc_opens::opened(nr, args, result);
    }
    stopping::log_killed(nr, args, result);
    log_call(nr, args, meaning.args, meaning.work, result, &before, 0);
    result
}

/// A call that is not made.
fn reject(nr: u64, args: &[u64; 6], meaning: &Meaning) -> i64 {
    let result = -i64::from(errno::ENOSYS);
    log_call(nr, args, meaning.args, 0, result, &Before::default(), REFUSED);
    result
}

/// Before a call is made: others hold the token if they want it. Whether the process was
/// given up meanwhile.
#[inline]
fn let_others_run(nr: u64) -> bool {
    if !process().shares_token {
        contention::at_lone_boundary(nr);
        return false;
    }
    thread().is_asked = false;
    fairness::note_call(nr);
    token::yield_if_wanted();
    contention::before_futile_call();
    contention::yield_by_chance();
    quiesce::park_if_wanted();
    process().given_up.load(Ordering::Acquire) != 0
}

/// A new size of a mapped file is not a write that could be detected; while a thread sleeps in a
/// call, or is stopped, or lets others in, those write; and where a process is killed the kernel does.
fn cannot_be_detected(nr: u64, args: &[u64; 6], meaning: &Meaning) -> bool {
    effects::moves_end(nr)
        || (process().shares_token && (meaning.blocks || fairness::lets_in(nr)))
        || (process().in_group && stopping::target(nr, args).is_some())
        || stopping::stops_itself(nr, args)
        || sends_death(nr, args, meaning)
}

/// True for a call by which others may be killed in the middle of an output.
fn sends_death(nr: u64, args: &[u64; 6], meaning: &Meaning) -> bool {
    meaning.work & effects::SIGNALS != 0 && killing::kills(nr, args)
}

/// The call was not begun because a signal waits: deliver it first; the program
/// then makes the call again.
pub fn aborted(registers: &mut Registers) -> Leave {
    if signals::deliver_before(registers) {
        return Leave::Exactly;
    }
    record_call(registers, Way::Whole)
}

// --- replaying ---

fn replay_call(registers: &mut Registers) -> Leave {
    let nr = u64::from(registers.rax as u32);
    let args = registers.args();
    let word = loop {
        let Some(word) = process().log.peek() else {
            report::note_registers(registers);
            report::log_ended();
        };
        // The commonest: the call itself comes next.
        if word.is(Kind::Syscall) {
            break word;
        }
        if let Some(leave) = replay_other(registers, word, nr) {
            return leave;
        }
    };
    let count = word.arguments();
    if word.flags() & IN_PLACE != 0 && (1..=6).contains(&count) {
        check(registers, word, nr, &args, 0);
        process().log.apply_in_place(word, count);
        registers.rax = 0;
        return Leave::Call;
    }
    check(registers, word, nr, &args, 1);
    if word.flags() & FILTERED == FILTERED {
        return filters::replay(registers, word);
    }
    let meaning = meaning(nr, &args);
    if let Act::Execute(special) = meaning.act {
        match specials::execute(special, nr, registers, meaning.args) {
            Done::Result(result) => registers.rax = result as u64,
            Done::Aborted => report::fail("a replayed call was interrupted"),
            Done::Elsewhere(leave) => return leave,
        }
    } else {
        registers.rax = inject(word, registers) as u64;
    }
    if word.flags() & SIGNAL_FOLLOWS != 0 && signals::replay_following(registers) {
        return Leave::Exactly;
    }
    Leave::Call
}

/// What comes before the call that the program is about to make. `None`: the next event is to be
/// looked at. As many may follow each other as there are threads that wait for one word and lose it
/// again, so no stack is used for them.
#[cold]
fn replay_other(registers: &mut Registers, word: Header, nr: u64) -> Option<Leave> {
    match word.kind() {
        Some(Kind::Signal) => {
            signals::replay_before(registers, word);
            return Some(Leave::Exactly);
        }
        Some(Kind::Birth) if nr == 59 || nr == 322 => return Some(crate::process::birth::replay_exec()),
        Some(Kind::Exit) if nr == 60 || nr == 231 => specials::replay_exit(registers, word),
        Some(Kind::Fault) => filters::replay_death(registers, word),
        Some(Kind::Stop) => {
            report::note_registers(registers);
            report::leave(lane_protocol::report_kind::STOPPED, i32::from(word.code()), "")
        }
        Some(Kind::Edit) if word.flags() & events::BEFORE_CALL != 0 => {
            signals::point_at_call(registers);
            edits::replay_before(registers, word)
        }
        Some(Kind::Trampoline) => trampolines::replay_trampoline(word),
        Some(Kind::Token) => token::follow(),
        Some(Kind::Store) => deaths::apply_stores(),
        Some(Kind::Change) => code_changes::replay(word),
        Some(Kind::Checksum) => checksum::verify(registers, word),
        _ => report::diverge(registers, word, nr, &registers.args()),
    }
    None
}

/// Compares number and arguments, which begin at word `first`, with the event at hand.
#[inline]
fn check(registers: &Registers, word: Header, nr: u64, args: &[u64; 6], first: u64) {
    let count = word.arguments() as usize;
    let mut same = word.code() == nr as u16 && count <= 6 && word.bytes() >= 8 + 8 * (first + count as u64);
    let log = &process().log;
    for (index, arg) in args.iter().enumerate().take(count.min(6)) {
        same &= log.body(first + index as u64) == *arg;
    }
    if !same {
        report::diverge(registers, word, nr, args);
    }
}

/// The process dies of the signal that the call at hand sends to itself, behind that call. It
/// returns where nothing was done.
#[cold]
pub fn die_in_call(registers: &Registers, signal: u32) {
    if crate::state::live::is_on() {
        crate::checkpoint::restore::crash::before_crash(signal);
        crate::checkpoint::restore::crash::after_crash(signal);
    }
    die_at(&Registers { rip: registers.rcx, r11: registers.flags, rax: 0, ..*registers }, signal);
}
