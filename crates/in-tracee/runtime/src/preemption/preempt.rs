//! Preemption points: stopping the program between two system calls, and finding the
//! same point again without counters.
//!
//! A signal that finds the program computing waits for the next system call, but
//! not for ever: after two milliseconds the program is preempted where it is, or a
//! few steps on, where a jump can replace what is there. The point is
//! identified by the state: general registers, vector registers, sums over the
//! memory that may have been written since the preemption before (see `page_tracker`).
//! If all of that is equal, what follows is equal, whichever round of a loop it is.
//! Replay plants a replay trap at the address (see `replay trap`).
//!
//! To let the replay trap tell rounds apart quickly, words that change while the program
//! runs on for a moment are logged (see `volatile_words`).

mod spinning;

use core::sync::atomic::Ordering;

use crate::code::{clocks, sites, trampolines};
use crate::ground::frame::RealFrame;
use crate::ground::registers::Registers;
use crate::ground::{decode, memory, notices};
use crate::preemption::preemption_timer::{Purpose, now_ns};
use crate::preemption::{
    circles, loop_iterations, preemption_place, preemption_point, sampled_places, single_steps,
    volatile_words,
};
use crate::scheduler::preemption_cost::STEP_NS;
use crate::scheduler::spinning_threads::{SPUN, threads_spin};
use crate::scheduler::{chaos, fairness, own_token, private_futexes};
use crate::state::block::{process, thread};
use crate::state::deliverable;
use crate::state::preemption::{Phase, Preemption, Search, Stand, Watching, WayAside};
use crate::state::runtime_log::{LogSubject, say};
use spinning::{compare_ns, watch_spin};

/// How long a signal waits for a system call, in nanoseconds.
const WAIT_MAX_NS: u64 = 2_000_000;
/// How long the program runs on to show which pages it is writing, in nanoseconds.
const WATCH_NS: u64 = 200_000;
/// How long it runs on to show that it only waits for a word to change.
const SPIN_NS: u64 = 60_000;
/// How long it runs on to show which words of them change.
const COMPARE_NS: u64 = 100_000;
/// Steps instead of that, where there is no timer.
const STEPS_FOR_TIMER: u32 = 300;

const SYSCALL: [u8; 2] = [0x0f, 0x05];

impl Preemption {
    /// True on the way to a place to pause: by steps, or to the end of a repeated instruction.
    pub fn searches(&self) -> bool {
        self.stepping || self.passing != 0
    }
}

/// A signal was queued while the program computes. False: there is no timer to wait with.
pub fn signal_waits() -> bool {
    if is_on_way() {
        return true;
    }
    thread().preemption.watching = Watching::Nothing;
    set_timer(if chaos::is_on() { chaos::below(1 << (10 + chaos::below(12))) + 1 } else { WAIT_MAX_NS })
}

/// The same of one that interrupted the program there. Where there was nothing to see the last times, which
/// pages change is looked at while it waits.
pub fn signal_waits_at(context: &RealFrame) -> bool {
    let busy = is_on_way() || thread().preemption.searches() || clocks::is_ours_at(context.rip);
    if busy || !volatile_words::looks_early() {
        return signal_waits();
    }
    let begin_ns = now_ns();
    volatile_words::watch_pages();
    let is_set = signal_waits();
    if is_set {
        let preemption = &mut thread().preemption;
        (preemption.watching, preemption.watched_from_ns) = (Watching::Pages, now_ns());
        preemption.spent_ns = preemption.watched_from_ns - begin_ns;
    }
    is_set
}

fn is_on_way() -> bool {
    thread().preemption.timer.armed || thread().preemption.stepping
}

/// A signal was queued, and there is no timer: the way to a preemption begins at once.
pub fn at_once(context: &mut RealFrame) {
    if !thread().preemption.searches() && !clocks::is_ours_at(context.rip) {
        approach(context);
    }
}

/// The thread leaves a boundary with these registers: true if it is preempted some steps on.
#[inline]
pub fn step_aside(registers: &mut Registers) -> bool {
    thread().preemption.aside != 0 && begin_aside(registers)
}

#[cold]
fn begin_aside(registers: &mut Registers) -> bool {
    let preemption = &mut thread().preemption;
    let steps = core::mem::take(&mut preemption.aside);
    // Nobody is there any more for the steps of one that goes on unrecorded.
    if process().log.broken != 0
        || process().given_up.load(Ordering::Acquire) != 0
        || registers.steps_itself()
    {
        return false;
    }
    (preemption.steps_left, preemption.aside_steps) = (steps + 1, steps);
    preemption.way_from_ns = if chaos::is_on() { now_ns() } else { 0 };
    (preemption.way_aside, preemption.stepping) = (WayAside::Leaves, true);
    thread().is_asked = true;
    single_steps::begin_with(registers);
    true
}

/// Lets the program run on for so long, or for some steps where there is no timer.
fn run_on(context: &mut RealFrame, for_ns: u64) {
    if !set_timer(for_ns) {
        let preemption = &mut thread().preemption;
        preemption.steps_left = STEPS_FOR_TIMER;
        preemption.spent_ns += u64::from(STEPS_FOR_TIMER) * STEP_NS;
        preemption.stepping = true;
        single_steps::begin(context);
    }
}

/// What waited was delivered at a boundary.
pub fn nothing_waits() {
    abandon();
    if thread().preemption.timer.armed {
        set_timer(0);
        // What came in between found the timer armed still.
        if deliverable::has_deliverable() {
            signal_waits();
        }
    }
}

fn set_timer(after_ns: u64) -> bool {
    thread().preemption.timer.set(after_ns, Purpose::Pause)
}

/// One of our timers.
pub fn on_timer(context: &mut RealFrame, purpose: u64) {
    if purpose == Purpose::Wake as u64 {
        thread().preemption.wake_timer.armed = false;
        return private_futexes::wake_those_of_later();
    }
    on_own_timer(context);
}

/// No system call came in time.
fn on_own_timer(context: &mut RealFrame) {
    let preemption = &mut thread().preemption;
    preemption.timer.armed = false;
    // The search goes on by itself; begun anew, it would take its breakpoint for the program's.
    if !preemption.searches() && is_watched() {
        if clocks::is_ours_at(context.rip) {
            thread().preemption.watching = Watching::Nothing;
            if !is_wanted() {
                return;
            }
            // The program may go on computing without another look at what waits.
            set_timer(WAIT_MAX_NS);
        } else {
            approach(context);
        }
    }
}

/// Another thread would like the token, but not at once: if the program only waits for a
/// word to change, it need not wait any longer.
pub fn on_asked_gently(context: &mut RealFrame) {
    let preemption = &mut thread().preemption;
    let is_on_way = preemption.timer.armed && preemption.watching != Watching::SpinSoon;
    if !is_on_way && !preemption.searches() && !chaos::is_on() && process().shares_token {
        watch_spin(context);
    }
}

/// The thread, which was preempted, goes on with the token: where threads spin for each other, it looks
/// by itself whether it does. Who gave it the token may wait for its processor, and not ask yet.
pub fn watch_again() {
    let preemption = &mut thread().preemption;
    if threads_spin() && !chaos::is_on() && !preemption.timer.armed && !process().has_agent() {
        preemption.watching = Watching::SpinSoon;
        if !set_timer(SPIN_NS) {
            thread().preemption.watching = Watching::Nothing;
        }
    }
}

/// One step on the way to a pause: two looks at what changes, then the search for
/// a place.
fn approach(context: &mut RealFrame) {
    say(LogSubject::Preemption, "asked while computing", [context.rip, 0]);
    if context.registers().steps_itself() {
        // It has a trap behind each instruction, and so a boundary.
        thread().preemption.watching = Watching::Nothing;
        return;
    }
    if trampolines::in_trampoline(context.rip) || notices::cannot_preempt_at(context.rip) {
        // A trampoline may lead back into a computation.
        return run_on(context, WATCH_NS);
    }
    if thread().preemption.watching == Watching::SpinSoon {
        if !own_token::my_token().has_sleepers() {
            crate::ground::kernel::sched_yield();
        }
        return watch_spin(context);
    }
    if thread().preemption.watching == Watching::Spin {
        if now_ns() < thread().preemption.watched_from_ns + SPIN_NS / 2 {
            // Others had the processor.
            return run_on(context, SPIN_NS);
        }
        let stand = Stand::of(context);
        let spins = thread().preemption.watched_at.is_still(&stand) || loop_iterations::is_again(context);
        if !spins && loop_iterations::looks_on() && set_timer(SPIN_NS) {
            thread().preemption.watched_at = stand;
            thread().preemption.watched_from_ns = now_ns();
            return;
        }
        thread().preemption.watching = Watching::Nothing;
        SPUN.store(u32::from(spins), Ordering::Relaxed);
        if spins {
            loop_iterations::note_success();
        }
        // One that spins may count its rounds in memory: what changes there is looked for, unless
        // nothing did the last times.
        thread().is_asked |= spins;
        if !is_wanted() {
            return;
        }
        if spins && volatile_words::are_none() {
            return begin_preemption(context);
        }
    }
    let preemption = &mut thread().preemption;
    let begin_ns = now_ns();
    if preemption.watching != Watching::Nothing && begin_ns < preemption.watched_from_ns + compare_ns() / 2 {
        // Others had the processor: nothing can have changed.
        return run_on(context, compare_ns());
    }
    let before_ns = if preemption.watching == Watching::Nothing { 0 } else { preemption.spent_ns };
    let next = match preemption.watching {
        Watching::Nothing if volatile_words::watch_known(context.rsp) => Watching::Known,
        Watching::Known if volatile_words::has_changed() => return begin_preemption(context),
        Watching::Nothing | Watching::Known => {
            volatile_words::watch_pages();
            Watching::Pages
        }
        Watching::Pages => match volatile_words::watch_words(context.rsp) {
            false if !chaos::is_on() => return begin_preemption(context),
            _ => Watching::Words,
        },
        // The faults of the first writes behind the look may have taken all of the time.
        Watching::Words if volatile_words::looks_on() => Watching::Words,
        Watching::Words | Watching::Spin | Watching::SpinSoon => return begin_preemption(context),
    };
    preemption.watching = next;
    preemption.watched_from_ns = now_ns();
    preemption.spent_ns = before_ns + preemption.watched_from_ns - begin_ns;
    run_on(context, if next == Watching::Pages && !chaos::is_on() { WATCH_NS } else { compare_ns() });
}

/// Another thread asks for the token while the program computes.
pub fn on_asked(context: &mut RealFrame) {
    let thread = &mut *thread();
    if thread.preemption.searches() || !process().shares_token {
        return;
    }
    thread.is_asked = true;
    if chaos::is_on() {
        if thread.preemption.timer.armed && thread.preemption.watching != Watching::Nothing {
            // It is on the way.
            return;
        }
        // Here, rather than where replay finds it fast; and soon.
        thread.preemption.watching = match volatile_words::skips_pages() {
            true => Watching::Pages,
            false => Watching::Nothing,
        };
        thread.preemption.watched_from_ns = 0;
        thread.preemption.search = Search::default();
        approach(context);
    } else if !thread.preemption.timer.armed {
        thread.preemption.watching = Watching::Nothing;
        approach(context);
    }
}

/// A lab's engine preempts the thread, which computes.
pub fn on_preempted(context: &mut RealFrame) {
    let thread = &mut *thread();
    if thread.preemption.searches() || process().replays() {
        return;
    }
    (thread.is_asked, thread.preemption.is_preempted) = (true, true);
    if !thread.preemption.timer.armed {
        thread.preemption.watching = Watching::Nothing;
        approach(context);
    }
}

/// A lab's thread, which computes in a circle, is at the least state of it.
pub fn in_circle(context: &mut RealFrame) {
    (thread().is_asked, thread().preemption.is_preempted) = (true, true);
    search_point(context, Search::here());
}

/// A signal waits that can be delivered.
pub fn signal_is_due() -> bool {
    deliverable::has_deliverable()
}

/// True if there is still a reason to preemption.
fn is_wanted() -> bool {
    deliverable::has_deliverable() || thread().is_asked || notices::stop_is_wanted()
}

/// Live: the debugger wants the program, which computes, to stand.
pub fn on_debugger(context: &mut RealFrame) {
    let preemption = &mut thread().preemption;
    if !preemption.timer.armed {
        preemption.watching = Watching::Nothing;
        approach(context);
    }
}

/// True if the timer is to be heeded.
fn is_watched() -> bool {
    is_wanted() || matches!(thread().preemption.watching, Watching::Spin | Watching::SpinSoon)
}

/// A single step of the search for a good place.
pub fn on_step(context: &mut RealFrame) {
    single_steps::end(context);
    if sampled_places::on_step(context) || circles::on_step(context) {
        return;
    }
    let preemption = &mut thread().preemption;
    preemption.stepping = false;
    let is_ours = clocks::is_ours_at(context.rip);
    if !is_wanted() || is_ours && preemption.way_aside != WayAside::Leaves {
        (preemption.steps_left, preemption.way_aside) = (0, WayAside::None);
        return;
    }
    let mut goes_on = is_ours || preemption.steps_left > 1;
    if !is_ours && preemption.way_aside != WayAside::None {
        preemption.way_aside = WayAside::Steps;
        let code = code_at(context.rip);
        goes_on &= code != SYSCALL && !decode::shows_flags(&code) && !decode::uses_float_unit(context.rip);
        goes_on |= trampolines::in_trampoline(context.rip);
    }
    if goes_on {
        preemption.steps_left -= u32::from(!is_ours && preemption.steps_left > 1);
        preemption.stepping = true;
        single_steps::begin(context);
    } else if core::mem::take(&mut preemption.way_aside) != WayAside::None {
        preemption.steps_left = 0;
        preemption.is_aside = true;
        if preemption.way_from_ns != 0 {
            chaos::note_steps(preemption.aside_steps, now_ns().saturating_sub(preemption.way_from_ns));
        }
        fairness::begin_try();
        search_point(context, Search::here());
    } else if core::mem::take(&mut preemption.steps_left) == 1 {
        approach(context);
    } else if trampolines::in_trampoline(context.rip) {
        run_on(context, WATCH_NS);
    } else {
        point_near(context);
    }
}

/// A breakpoint: true if it was ours, behind a repeated instruction.
pub fn on_breakpoint(context: &mut RealFrame) -> bool {
    let passing = thread().preemption.passing;
    if passing == 0 || context.rip != passing + 1 {
        return false;
    }
    abandon();
    context.rip = passing;
    if is_wanted() {
        point_near(context);
    }
    true
}

/// Something else happens first: takes back what the search has changed.
pub fn abandon() {
    let preemption = &mut thread().preemption;
    (preemption.stepping, preemption.steps_left, preemption.way_aside) = (false, 0, WayAside::None);
    preemption.steps_over = false;
    preemption.circle.phase = Phase::None;
    if preemption.passing != 0 {
        sites::put_code(preemption.passing, &[preemption.passed_byte]);
        preemption.passing = 0;
    }
}

fn begin_preemption(context: &mut RealFrame) {
    say(LogSubject::Preemption, "is to be preempted", [context.rip, 0]);
    thread().preemption.way_from_ns = if chaos::is_on() { now_ns() } else { 0 };
    search_point(context, if chaos::is_on() { Search::by_chance() } else { Search::from(context.rip) });
}

fn search_point(context: &mut RealFrame, search: Search) {
    let preemption = &mut thread().preemption;
    (preemption.watching, preemption.search) = (Watching::Nothing, search);
    point_near(context);
}

fn code_at(address: u64) -> [u8; 2] {
    let mut code = [0; 2];
    memory::copy(code.as_mut_ptr() as u64, address, 2);
    code
}

/// Preemptions here if a jump can replace this instruction, else steps on.
fn point_near(context: &mut RealFrame) {
    let preemption = &mut thread().preemption;
    let code = code_at(context.rip);
    if code == SYSCALL {
        // The boundary is here.
        return;
    }
    if let Some(bytes) = decode::repeated_bytes(context.rip) {
        if process().has_agent() {
            set_timer(WATCH_NS);
            return;
        }
        // Half-way through is no place that a replay trap could find: let it finish.
        let behind = context.rip + bytes;
        if memory::copy(&raw mut preemption.passed_byte as u64, behind, 1) && sites::put_code(behind, &[0xcc])
        {
            preemption.passing = behind;
        }
        return;
    }
    // What chance has chosen stays: a window between two instructions may have no longer one.
    let alone = match chaos::is_on() {
        true => preemption_place::is_replaced(context.rip),
        false => preemption_place::is_replaced_alone(context.rip),
    };
    // The debugger's breakpoints are in the way of steps.
    let good = alone && !preemption.search.wanders()
        || context.rip == preemption.search.goal
        || process().has_agent();
    if !good && !decode::shows_flags(&code) && preemption.search.goes_on(context.rip) {
        preemption.stepping = true;
        single_steps::begin(context);
        return;
    }
    preemption.search.end(context.rip);
    preemption.spent_ns += u64::from(preemption.search.steps) * STEP_NS;
    let registers = context.registers();
    preemption_point::lead_to(context, registers);
}
