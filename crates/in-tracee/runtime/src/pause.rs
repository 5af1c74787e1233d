//! Pause points: stopping the program between two system calls, and finding the
//! same point again without counters.
//!
//! A signal that finds the program computing waits for the next system call, but
//! not for ever: after two milliseconds the program is paused where it is, or a
//! few steps on, where a jump can replace what is there. The point is
//! identified by the state: general registers, vector registers, sums over the
//! memory that may have been written since the pause before (see `page_tracker`).
//! If all of that is equal, what follows is equal, whichever round of a loop it is.
//! Replay plants a probe at the address (see `probe`).
//!
//! To let the probe tell rounds apart quickly, words that change while the program
//! runs on for a moment are logged (see `hot_words`).

use events::{Kind, Tag};
use lane_protocol::report_kind;

use crate::block::{Owned, process, thread};
use crate::entry::{self, Registers, rv_resume};
use crate::frame::{self, RealFrame};
use crate::pause_place::{Search, Stand};
use crate::pause_timer::{Timer, now_ns};
use crate::{
    agent, breakpoints, chaos, decode, hot_words, islands, log, memory, page_tracker, probe, report, signals,
    sites, turn,
};

/// How long a signal waits for a system call, in nanoseconds.
const PATIENCE_NS: u64 = 2_000_000;
/// How long the program runs on to show which pages it is writing, in nanoseconds.
const WATCH_NS: u64 = 200_000;
/// How long it runs on to show that it only waits for a word to change.
const SPIN_NS: u64 = 60_000;
/// How long it runs on to show which words of them change.
const COMPARE_NS: u64 = 100_000;
/// Nanoseconds of a step.
const STEP_NS: u64 = 3000;
/// Words of a pause's body: registers, vector sum, memory sum.
pub const BODY_WORDS: u64 = 20;
/// Nanoseconds of a pause's timers, traps and steps, which its own clock does not see.
const TRAPS_NS: u64 = 20_000;

pub const TRAP_FLAG: u64 = 0x100;
/// Set where a page fault came before, as protected pages and new ones make it: not
/// the program's state.
const RESUME_FLAG: u64 = 0x1_0000;
/// Flags that belong to the program's state: arithmetic, direction.
pub const STATE_FLAGS: u64 = 0x8d5 | 0x400;

/// State of pausing in a process.
#[repr(C)]
#[derive(Default)]
pub struct Pausing {
    timer: Timer,
    watching: Watching,
    /// The thread's processor time when it was last let run on, in nanoseconds.
    watched_from_ns: u64,
    /// Where it was then.
    watched_at: Stand,
    /// Nanoseconds spent on the pause at hand so far.
    spent_ns: u64,
    pub stepping: bool,
    /// The search for a place to pause.
    search: Search,
    /// Address of a breakpoint behind a repeated instruction that is let finish;
    /// 0: none.
    passing: u64,
    passed_byte: u8,
}

/// What the last pauses cost, in nanoseconds: a moving average.
static COST_NS: Owned<u64> = Owned::new(0);

/// An estimate of what a pause costs, in nanoseconds, with what the program then
/// spends on page faults because of it.
pub fn cost_ns() -> u64 {
    // SAFETY: one thread runs in an address space.
    unsafe { COST_NS.get().read() }
}

/// What the program is watched for before it is paused.
#[repr(u8)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Watching {
    #[default]
    Nothing,
    /// Words of the pages that are known to change.
    Known,
    Pages,
    Words,
    /// Whether it gets anywhere.
    Spin,
}

// --- recording ---

/// A signal was queued while the program computes.
pub fn signal_waits() {
    let pausing = &mut thread().pausing;
    if !pausing.timer.armed && !pausing.stepping {
        pausing.watching = Watching::Nothing;
        set_timer(PATIENCE_NS);
    }
}

/// What waited was delivered at a boundary.
pub fn nothing_waits() {
    let pausing = &mut thread().pausing;
    pausing.stepping = false;
    if pausing.passing != 0 {
        abandon();
    }
    let pausing = &mut thread().pausing;
    if pausing.timer.armed {
        set_timer(0);
        // What came in between found the timer armed still.
        if signals::has_deliverable() {
            signal_waits();
        }
    }
}

/// A new process has no timer yet.
pub fn forget_timer() {
    let pausing = &mut thread().pausing;
    pausing.timer = Timer::default();
    pausing.stepping = false;
}

/// Live: gives another thread's timer back, which stands.
pub fn delete_timer_of(other: &mut crate::block::Thread) {
    core::mem::take(&mut other.pausing).timer.delete();
}

/// Gives the timer back.
pub fn delete_timer() {
    let pausing = &mut thread().pausing;
    pausing.timer.delete();
    pausing.stepping = false;
}

fn set_timer(after_ns: u64) {
    thread().pausing.timer.set(after_ns);
}

/// Our timer: no system call came in time.
pub fn on_timer(context: &mut RealFrame) {
    thread().pausing.timer.armed = false;
    if is_watched() {
        if log::in_region(context.rip, 1) {
            thread().pausing.watching = Watching::Nothing;
            if !is_wanted() {
                return;
            }
            // The program may go on computing without another look at what waits.
            set_timer(PATIENCE_NS);
        } else {
            approach(context);
        }
    }
}

/// Another thread would like the turn, but not at once: if the program only waits for a
/// word to change, it need not wait any longer.
pub fn on_asked_gently(context: &mut RealFrame) {
    let pausing = &mut thread().pausing;
    let busy = pausing.timer.armed || pausing.stepping || pausing.passing != 0;
    if busy || chaos::is_on() || !process().shares_turn {
        return;
    }
    pausing.watching = Watching::Spin;
    pausing.watched_at = Stand::of(context);
    pausing.watched_from_ns = now_ns();
    set_timer(SPIN_NS);
}

/// One step on the way to a pause: two looks at what changes, then the search for
/// a place.
fn approach(context: &mut RealFrame) {
    if islands::in_island(context.rip) {
        // It may lead back into a computation.
        set_timer(WATCH_NS);
        return;
    }
    if crate::live::cannot_pause_at(context.rip) {
        set_timer(WATCH_NS);
        return;
    }
    if thread().pausing.watching == Watching::Spin {
        if now_ns() < thread().pausing.watched_from_ns + SPIN_NS / 2 {
            // Others had the processor.
            set_timer(SPIN_NS);
            return;
        }
        thread().pausing.watching = Watching::Nothing;
        if thread().pausing.watched_at.is_still(&Stand::of(context)) {
            thread().is_asked = true;
            return begin_pause(context);
        }
        if !is_wanted() {
            return;
        }
    }
    let pausing = &mut thread().pausing;
    let begin_ns = now_ns();
    if pausing.watching != Watching::Nothing && begin_ns < pausing.watched_from_ns + COMPARE_NS / 2 {
        // Others had the processor: nothing can have changed.
        set_timer(COMPARE_NS);
        return;
    }
    let before_ns = if pausing.watching == Watching::Nothing { 0 } else { pausing.spent_ns };
    let next = match pausing.watching {
        Watching::Nothing if hot_words::watch_known(context.rsp) => Watching::Known,
        Watching::Known if hot_words::has_changed() => return begin_pause(context),
        Watching::Nothing | Watching::Known => {
            hot_words::watch_pages();
            Watching::Pages
        }
        Watching::Pages => {
            hot_words::watch_words(context.rsp);
            Watching::Words
        }
        Watching::Words | Watching::Spin => return begin_pause(context),
    };
    pausing.watching = next;
    pausing.watched_from_ns = now_ns();
    pausing.spent_ns = before_ns + pausing.watched_from_ns - begin_ns;
    set_timer(if next == Watching::Pages { WATCH_NS } else { COMPARE_NS });
}

/// Another thread asks for the turn while the program computes.
pub fn on_asked(context: &mut RealFrame) {
    let thread = thread();
    if thread.pausing.stepping || thread.pausing.passing != 0 || !process().shares_turn {
        return;
    }
    thread.is_asked = true;
    if chaos::is_on() {
        // Here and now, rather than where replay finds it fast.
        thread.pausing.watching = Watching::Words;
        thread.pausing.watched_from_ns = 0;
        thread.pausing.search = Search::default();
        approach(context);
    } else if !thread.pausing.timer.armed {
        thread.pausing.watching = Watching::Nothing;
        approach(context);
    }
}

/// True if there is still a reason to pause.
fn is_wanted() -> bool {
    signals::has_deliverable() || thread().is_asked || crate::live::stop_is_wanted()
}

/// Live: the debugger wants the program, which computes, to stand.
pub fn on_debugger(context: &mut RealFrame) {
    let pausing = &mut thread().pausing;
    if !pausing.armed {
        pausing.watching = Watching::Nothing;
        approach(context);
    }
}

/// True if the timer is to be heeded.
fn is_watched() -> bool {
    is_wanted() || thread().pausing.watching == Watching::Spin
}

/// A single step of the search for a good place.
pub fn on_step(context: &mut RealFrame) {
    context.flags &= !TRAP_FLAG;
    thread().pausing.stepping = false;
    if log::in_region(context.rip, 1) || !is_wanted() {
        return;
    }
    if islands::in_island(context.rip) {
        set_timer(WATCH_NS);
    } else {
        pause_near(context);
    }
}

/// A breakpoint: true if it was ours, behind a repeated instruction.
pub fn on_breakpoint(context: &mut RealFrame) -> bool {
    let passing = thread().pausing.passing;
    if passing == 0 || context.rip != passing + 1 {
        return false;
    }
    abandon();
    context.rip = passing;
    if is_wanted() {
        pause_near(context);
    }
    true
}

/// Something else happens first: takes back what the search has changed.
pub fn abandon() {
    let pausing = &mut thread().pausing;
    pausing.stepping = false;
    if pausing.passing != 0 {
        sites::put_code(pausing.passing, &[pausing.passed_byte]);
        pausing.passing = 0;
    }
}

fn begin_pause(context: &mut RealFrame) {
    let pausing = &mut thread().pausing;
    pausing.watching = Watching::Nothing;
    pausing.search = Search::default();
    pause_near(context);
}

/// Pauses here if a jump can replace this instruction, else steps on.
fn pause_near(context: &mut RealFrame) {
    let pausing = &mut thread().pausing;
    let mut code = [0u8; 2];
    memory::copy(code.as_mut_ptr() as u64, context.rip, 2);
    if code == [0x0f, 0x05] {
        // The boundary is here.
        return;
    }
    if let Some(bytes) = decode::repeated_bytes(context.rip) {
        if process().debugged {
            set_timer(WATCH_NS);
            return;
        }
        // Half-way through is no place that a probe could find: let it finish.
        let behind = context.rip + bytes;
        if memory::copy(&raw mut pausing.passed_byte as u64, behind, 1) && sites::put_code(behind, &[0xcc]) {
            pausing.passing = behind;
        }
        return;
    }
    let alone = decode::run(context.rip).is_some_and(|run| run.count == 1);
    // The debugger's breakpoints are in the way of steps.
    let good = alone || context.rip == pausing.search.goal || process().debugged;
    if !good && !decode::shows_flags(&code) && pausing.search.goes_on(context.rip) {
        pausing.stepping = true;
        context.flags |= TRAP_FLAG;
        return;
    }
    pausing.spent_ns += u64::from(pausing.search.steps) * STEP_NS;
    let thread = thread();
    thread.fault_registers = context.registers();
    thread.fault_registers.flags &= !TRAP_FLAG;
    thread.fault_signal = 0;
    context.rip = entry::rv_entry_fault as *const () as u64;
}

/// The program stands at a pause point with these registers.
pub fn on_pause(mut registers: Registers) -> ! {
    registers.flags &= !RESUME_FLAG;
    thread().standing = crate::live::Standing::Pause;
    thread().registers_at = &raw const registers as u64;
    if process().replaying {
        thread().user_registers = &raw const registers as u64;
        replay(&mut registers);
        agent::leaving(&registers);
    } else {
        if process().debugged {
            thread().user_registers = &raw const registers as u64;
        }
        record(&mut registers);
        agent::leaving(&registers);
    }
    // SAFETY: the registers are the program's, complete.
    unsafe { rv_resume(&registers) }
}

fn record(registers: &mut Registers) {
    let asked = core::mem::take(&mut thread().is_asked);
    let yields = asked && turn::is_wanted();
    log_pause(registers, yields);
    if yields {
        turn::yield_at_pause();
        while crate::live::stop_asked() {
            // Others come before what the program does from here on: once more.
            log_pause(registers, true);
            crate::live::park_at_pause();
        }
        registers.rip = sites::translate(registers.rip);
    }
    let events = process().log.events;
    signals::deliver_at_return(registers);
    if process().log.events == events {
        crate::live::note_pause();
    }
}

/// Logs that the program stands here, whether or not it gives the turn.
fn log_pause(registers: &Registers, yields: bool) {
    let begin_ns = now_ns();
    islands::ensure_island_near(registers.rip);
    page_tracker::look(&mut |_, _| {});
    let words = hot_words::changed_words();
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
    let spent_ns = core::mem::take(&mut thread().pausing.spent_ns) + now_ns() - begin_ns;
    note_cost(spent_ns + memory.protection_ns + TRAPS_NS);
}

/// Live: goes on from a pause that was logged and yielded at; the turn is back.
pub fn go_on(mut registers: Registers) -> ! {
    registers.rip = sites::translate(registers.rip);
    if process().replaying {
        follow_pause(&mut registers);
    } else {
        signals::deliver_at_return(&mut registers);
    }
    // SAFETY: the registers are the program's, complete.
    unsafe { rv_resume(&registers) }
}

fn note_cost(ns: u64) {
    let before = cost_ns();
    // SAFETY: one thread runs in an address space.
    unsafe { COST_NS.get().write(if before == 0 { ns } else { before - before / 4 + ns / 4 }) };
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
            _ => return,
        }
    }
}

fn replay(registers: &mut Registers) {
    let Some(word) = process().log.peek() else {
        report::log_ended();
    };
    let log = &mut process().log;
    log.consume(word);
    log.events += 1;
    if (word >> 8) as u8 & events::YIELDS != 0 {
        turn::follow_yield();
    }
    registers.rip = sites::translate(registers.rip);
    follow_pause(registers);
}

/// What the log says of a pause behind it.
fn follow_pause(registers: &mut Registers) {
    // One that comes before a call is that call's.
    let signal_next = process()
        .log
        .peek()
        .is_some_and(|next| next as u8 == Kind::Signal as u8 && (next >> 8) as u8 & events::BEFORE_CALL == 0);
    if signal_next {
        signals::replay_at_return(registers);
    } else if process().log.peek().is_none() {
        if crate::live::goes_again() {
            crate::live::enter_present();
            return;
        }
        report::note_registers(registers);
        report::leave(report_kind::LOG_ENDED, 0, "");
    }
    arm_if_next();
}
