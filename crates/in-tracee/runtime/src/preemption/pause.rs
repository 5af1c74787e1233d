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

mod spinning;

use core::sync::atomic::Ordering;

use crate::code::{clocks, islands, sites};
use crate::ground::frame::RealFrame;
use crate::ground::registers::{Registers, TRAP_FLAG};
use crate::ground::{decode, memory, notices};
use crate::preemption::pause_timer::{Purpose, now_ns};
use crate::preemption::{hot_words, pause_place, pause_point, rounds, sampled_places};
use crate::scheduler::pause_cost::STEP_NS;
use crate::scheduler::spinning_threads::{SPUN, threads_spin};
use crate::scheduler::{chaos, own_turn, private_futexes, starvation};
use crate::state::block::{process, thread};
use crate::state::deliverable;
use crate::state::pausing::{Pausing, Search, Stand, Watching, WayAside};
use spinning::{compare_ns, watch_spin};

/// How long a signal waits for a system call, in nanoseconds.
const PATIENCE_NS: u64 = 2_000_000;
/// How long the program runs on to show which pages it is writing, in nanoseconds.
const WATCH_NS: u64 = 200_000;
/// How long it runs on to show that it only waits for a word to change.
const SPIN_NS: u64 = 60_000;
/// How long it runs on to show which words of them change.
const COMPARE_NS: u64 = 100_000;
/// Steps instead of that, where there is no timer.
const STEPS_FOR_TIMER: u32 = 300;

const SYSCALL: [u8; 2] = [0x0f, 0x05];

impl Pausing {
    /// True on the way to a place to pause: by steps, or to the end of a repeated instruction.
    fn searches(&self) -> bool {
        self.stepping || self.passing != 0
    }
}

/// A signal was queued while the program computes. False: there is no timer to wait with.
pub fn signal_waits() -> bool {
    if is_on_way() {
        return true;
    }
    thread().pausing.watching = Watching::Nothing;
    set_timer(if chaos::is_on() { chaos::below(1 << (10 + chaos::below(12))) + 1 } else { PATIENCE_NS })
}

/// The same of one that interrupted the program there. Where there was nothing to see the last times, which
/// pages change is looked at while it waits.
pub fn signal_waits_at(context: &RealFrame) -> bool {
    let busy = is_on_way() || thread().pausing.searches() || clocks::is_ours_at(context.rip);
    if busy || !hot_words::looks_early() {
        return signal_waits();
    }
    let begin_ns = now_ns();
    hot_words::watch_pages();
    let is_set = signal_waits();
    if is_set {
        let pausing = &mut thread().pausing;
        (pausing.watching, pausing.watched_from_ns) = (Watching::Pages, now_ns());
        pausing.spent_ns = pausing.watched_from_ns - begin_ns;
    }
    is_set
}

fn is_on_way() -> bool {
    thread().pausing.timer.armed || thread().pausing.stepping
}

/// A signal was queued, and there is no timer: the way to a pause begins at once.
pub fn without_patience(context: &mut RealFrame) {
    if !thread().pausing.searches() && !clocks::is_ours_at(context.rip) {
        approach(context);
    }
}

/// The thread leaves a boundary with these registers: true if it is paused some steps on.
#[inline]
pub fn step_aside(registers: &mut Registers) -> bool {
    thread().pausing.aside != 0 && begin_aside(registers)
}

#[cold]
fn begin_aside(registers: &mut Registers) -> bool {
    let pausing = &mut thread().pausing;
    let steps = core::mem::take(&mut pausing.aside);
    // Nobody is there any more for the steps of one that goes on unrecorded.
    if process().log.broken != 0 || process().given_up.load(Ordering::Acquire) != 0 {
        return false;
    }
    (pausing.steps_left, pausing.aside_steps) = (steps + 1, steps);
    pausing.way_from_ns = if chaos::is_on() { now_ns() } else { 0 };
    (pausing.way_aside, pausing.stepping) = (WayAside::Leaves, true);
    thread().is_asked = true;
    registers.flags |= TRAP_FLAG;
    true
}

/// Lets the program run on for so long, or for some steps where there is no timer.
fn run_on(context: &mut RealFrame, for_ns: u64) {
    if !set_timer(for_ns) {
        let pausing = &mut thread().pausing;
        pausing.steps_left = STEPS_FOR_TIMER;
        pausing.spent_ns += u64::from(STEPS_FOR_TIMER) * STEP_NS;
        pausing.stepping = true;
        context.flags |= TRAP_FLAG;
    }
}

/// What waited was delivered at a boundary.
pub fn nothing_waits() {
    abandon();
    if thread().pausing.timer.armed {
        set_timer(0);
        // What came in between found the timer armed still.
        if deliverable::has_deliverable() {
            signal_waits();
        }
    }
}

fn set_timer(after_ns: u64) -> bool {
    thread().pausing.timer.set(after_ns, Purpose::Pause)
}

/// One of our timers.
pub fn on_timer(context: &mut RealFrame, purpose: u64) {
    if purpose == Purpose::Wake as u64 {
        thread().pausing.wake_timer.armed = false;
        return private_futexes::wake_those_of_later();
    }
    on_own_timer(context);
}

/// No system call came in time.
fn on_own_timer(context: &mut RealFrame) {
    let pausing = &mut thread().pausing;
    pausing.timer.armed = false;
    // The search goes on by itself; begun anew, it would take its breakpoint for the program's.
    if !pausing.searches() && is_watched() {
        if clocks::is_ours_at(context.rip) {
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
    let is_on_way = pausing.timer.armed && pausing.watching != Watching::SpinSoon;
    if !is_on_way && !pausing.searches() && !chaos::is_on() && process().shares_turn {
        watch_spin(context);
    }
}

/// The thread, which was paused, goes on with the turn: where threads spin for each other, it looks
/// by itself whether it does. Who gave it the turn may wait for its processor, and not ask yet.
pub fn watch_again() {
    let pausing = &mut thread().pausing;
    if threads_spin() && !chaos::is_on() && !pausing.timer.armed && !process().has_agent() {
        pausing.watching = Watching::SpinSoon;
        if !set_timer(SPIN_NS) {
            thread().pausing.watching = Watching::Nothing;
        }
    }
}

/// One step on the way to a pause: two looks at what changes, then the search for
/// a place.
fn approach(context: &mut RealFrame) {
    if islands::in_island(context.rip) || notices::cannot_pause_at(context.rip) {
        // An island may lead back into a computation.
        return run_on(context, WATCH_NS);
    }
    if thread().pausing.watching == Watching::SpinSoon {
        if !own_turn::my_turn().has_sleepers() {
            crate::ground::kernel::sched_yield();
        }
        return watch_spin(context);
    }
    if thread().pausing.watching == Watching::Spin {
        if now_ns() < thread().pausing.watched_from_ns + SPIN_NS / 2 {
            // Others had the processor.
            return run_on(context, SPIN_NS);
        }
        let stand = Stand::of(context);
        let spins = thread().pausing.watched_at.is_still(&stand) || rounds::is_again(context);
        if !spins && rounds::looks_on() && set_timer(SPIN_NS) {
            thread().pausing.watched_at = stand;
            thread().pausing.watched_from_ns = now_ns();
            return;
        }
        thread().pausing.watching = Watching::Nothing;
        SPUN.store(u32::from(spins), Ordering::Relaxed);
        if spins {
            rounds::note_success();
        }
        // One that spins may count its rounds in memory: what changes there is looked for, unless
        // nothing did the last times.
        thread().is_asked |= spins;
        if !is_wanted() {
            return;
        }
        if spins && hot_words::are_none() {
            return begin_pause(context);
        }
    }
    let pausing = &mut thread().pausing;
    let begin_ns = now_ns();
    if pausing.watching != Watching::Nothing && begin_ns < pausing.watched_from_ns + compare_ns() / 2 {
        // Others had the processor: nothing can have changed.
        return run_on(context, compare_ns());
    }
    let before_ns = if pausing.watching == Watching::Nothing { 0 } else { pausing.spent_ns };
    let next = match pausing.watching {
        Watching::Nothing if hot_words::watch_known(context.rsp) => Watching::Known,
        Watching::Known if hot_words::has_changed() => return begin_pause(context),
        Watching::Nothing | Watching::Known => {
            hot_words::watch_pages();
            Watching::Pages
        }
        Watching::Pages => match hot_words::watch_words(context.rsp) {
            false if !chaos::is_on() => return begin_pause(context),
            _ => Watching::Words,
        },
        // The faults of the first writes behind the look may have taken all of the time.
        Watching::Words if hot_words::looks_on() => Watching::Words,
        Watching::Words | Watching::Spin | Watching::SpinSoon => return begin_pause(context),
    };
    pausing.watching = next;
    pausing.watched_from_ns = now_ns();
    pausing.spent_ns = before_ns + pausing.watched_from_ns - begin_ns;
    run_on(context, if next == Watching::Pages && !chaos::is_on() { WATCH_NS } else { compare_ns() });
}

/// Another thread asks for the turn while the program computes.
pub fn on_asked(context: &mut RealFrame) {
    let thread = thread();
    if thread.pausing.searches() || !process().shares_turn {
        return;
    }
    thread.is_asked = true;
    if chaos::is_on() {
        if thread.pausing.timer.armed && thread.pausing.watching != Watching::Nothing {
            // It is on the way.
            return;
        }
        // Here, rather than where replay finds it fast; and soon.
        thread.pausing.watching = match hot_words::skips_pages() {
            true => Watching::Pages,
            false => Watching::Nothing,
        };
        thread.pausing.watched_from_ns = 0;
        thread.pausing.search = Search::default();
        approach(context);
    } else if !thread.pausing.timer.armed {
        thread.pausing.watching = Watching::Nothing;
        approach(context);
    }
}

/// A signal waits that can be delivered.
pub fn signal_is_due() -> bool {
    deliverable::has_deliverable()
}

/// True if there is still a reason to pause.
fn is_wanted() -> bool {
    deliverable::has_deliverable() || thread().is_asked || notices::stop_is_wanted()
}

/// Live: the debugger wants the program, which computes, to stand.
pub fn on_debugger(context: &mut RealFrame) {
    let pausing = &mut thread().pausing;
    if !pausing.timer.armed {
        pausing.watching = Watching::Nothing;
        approach(context);
    }
}

/// True if the timer is to be heeded.
fn is_watched() -> bool {
    is_wanted() || matches!(thread().pausing.watching, Watching::Spin | Watching::SpinSoon)
}

/// A single step of the search for a good place.
pub fn on_step(context: &mut RealFrame) {
    context.flags &= !TRAP_FLAG;
    if sampled_places::on_step(context) {
        return;
    }
    let pausing = &mut thread().pausing;
    pausing.stepping = false;
    let is_ours = clocks::is_ours_at(context.rip);
    if !is_wanted() || is_ours && pausing.way_aside != WayAside::Leaves {
        (pausing.steps_left, pausing.way_aside) = (0, WayAside::None);
        return;
    }
    let mut goes_on = is_ours || pausing.steps_left > 1;
    if !is_ours && pausing.way_aside != WayAside::None {
        pausing.way_aside = WayAside::Steps;
        let code = code_at(context.rip);
        goes_on &= code != SYSCALL && !decode::shows_flags(&code) && !decode::uses_float_unit(context.rip);
        goes_on |= islands::in_island(context.rip);
    }
    if goes_on {
        pausing.steps_left -= u32::from(!is_ours && pausing.steps_left > 1);
        pausing.stepping = true;
        context.flags |= TRAP_FLAG;
    } else if core::mem::take(&mut pausing.way_aside) != WayAside::None {
        pausing.steps_left = 0;
        pausing.is_aside = true;
        if pausing.way_from_ns != 0 {
            chaos::note_steps(pausing.aside_steps, now_ns().saturating_sub(pausing.way_from_ns));
        }
        starvation::begin_try();
        pausing.watching = Watching::Nothing;
        pausing.search = Search::here();
        pause_near(context);
    } else if core::mem::take(&mut pausing.steps_left) == 1 {
        approach(context);
    } else if islands::in_island(context.rip) {
        run_on(context, WATCH_NS);
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
    (pausing.stepping, pausing.steps_left, pausing.way_aside) = (false, 0, WayAside::None);
    pausing.steps_over = false;
    if pausing.passing != 0 {
        sites::put_code(pausing.passing, &[pausing.passed_byte]);
        pausing.passing = 0;
    }
}

fn begin_pause(context: &mut RealFrame) {
    let pausing = &mut thread().pausing;
    pausing.watching = Watching::Nothing;
    pausing.search = if chaos::is_on() { Search::by_chance() } else { Search::from(context.rip) };
    pausing.way_from_ns = if chaos::is_on() { now_ns() } else { 0 };
    pause_near(context);
}

fn code_at(address: u64) -> [u8; 2] {
    let mut code = [0; 2];
    memory::copy(code.as_mut_ptr() as u64, address, 2);
    code
}

/// Pauses here if a jump can replace this instruction, else steps on.
fn pause_near(context: &mut RealFrame) {
    let pausing = &mut thread().pausing;
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
        // Half-way through is no place that a probe could find: let it finish.
        let behind = context.rip + bytes;
        if memory::copy(&raw mut pausing.passed_byte as u64, behind, 1) && sites::put_code(behind, &[0xcc]) {
            pausing.passing = behind;
        }
        return;
    }
    // What chance has chosen stays: a window between two instructions may have no longer one.
    let alone = match chaos::is_on() {
        true => pause_place::is_replaced(context.rip),
        false => pause_place::is_replaced_alone(context.rip),
    };
    // The debugger's breakpoints are in the way of steps.
    let good =
        alone && !pausing.search.wanders() || context.rip == pausing.search.goal || process().has_agent();
    if !good && !decode::shows_flags(&code) && pausing.search.goes_on(context.rip) {
        pausing.stepping = true;
        context.flags |= TRAP_FLAG;
        return;
    }
    pausing.search.end(context.rip);
    pausing.spent_ns += u64::from(pausing.search.steps) * STEP_NS;
    let registers = context.registers();
    pause_point::lead_to(context, registers);
}
