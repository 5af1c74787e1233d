//! Where to pause: at an instruction that a jump replaces alone, or at one of several
//! under one jump, between which the program was not seen to jump: that would trap in
//! replay, each time.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use linux_abi::PAGE_BYTES;

use crate::code::sites;
use crate::ground::frame::RealFrame;
use crate::ground::owned::Owned;
use crate::ground::{decode, memory};
use crate::preemption::preemption_point;
use crate::scheduler::chaos;
use crate::state::deliverable;
use crate::state::preemption::{Search, Stand};

/// Steps towards an instruction that a jump can replace.
const STEPS_MAX: u32 = 24;
/// Steps back to the best place among those, once round a loop.
const RETURN_STEPS_MAX: u32 = 32;

/// Steps from there, where that failed, to any place that takes a jump: without, each pass in
/// replay traps.
const LAST_STEPS_MAX: u32 = 64;

/// Steps by chance before the search.
const WANDER_MAX: u64 = 32;

/// Steps back to the place of the preemption before, which needs no search.
const KNOWN_STEPS_MAX: u32 = 12;
/// How near to it that is tried, in bytes.
const KNOWN_BYTES: u64 = 256;
const KNOWN_GOALS: usize = 16;

/// The goals that were paused at last, each at the place of its part of the memory; 0: none. Threads that
/// wait for each other do it in a loop each. A place that is not the best any more is no less right.
static GOALS: [AtomicU64; KNOWN_GOALS] = [const { AtomicU64::new(0) }; KNOWN_GOALS];

/// Where goals are kept of the part of the memory, of [`KNOWN_BYTES`], that holds the address.
fn goals_at(address: u64) -> &'static AtomicU64 {
    &GOALS[(address / KNOWN_BYTES) as usize % KNOWN_GOALS]
}

/// The nearest goal that is known.
fn known_goal(rip: u64) -> Option<u64> {
    let around = [rip, rip.wrapping_sub(KNOWN_BYTES), rip.wrapping_add(KNOWN_BYTES)];
    let goals = around.map(|address| goals_at(address).load(Ordering::Relaxed));
    let near = goals.into_iter().filter(|goal| goal.abs_diff(rip) < KNOWN_BYTES);
    near.min_by_key(|goal| goal.abs_diff(rip)).filter(|&goal| decode::run(goal).is_some())
}

/// How far a place is looked around for jumps into what its own jump would cover.
const NEARBY_BYTES: u64 = 1024;
static NEARBY: Owned<[u8; 2 * NEARBY_BYTES as usize + 16]> = Owned::new([0; 2 * NEARBY_BYTES as usize + 16]);

/// The addresses that the steps of the preemption at hand came to.
static PATH: Owned<[u64; STEPS_MAX as usize + 1]> = Owned::new([0; STEPS_MAX as usize + 1]);

impl Search {
    /// A search that begins here.
    pub fn from(rip: u64) -> Search {
        let Some(goal) = known_goal(rip) else { return Search::default() };
        Search { goal, known_left: KNOWN_STEPS_MAX, ..Search::default() }
    }

    /// One that ends here, though replay may come by this place slowly.
    pub fn here() -> Search {
        Search { is_over: true, ..Search::default() }
    }

    /// With chaos: one that begins some steps on. A program is seldom stopped before an instruction
    /// that takes long, such as an atomic one, but behind it.
    pub fn by_chance() -> Search {
        Search { wandering: chaos::below(WANDER_MAX) as u32, ..Search::default() }
    }

    /// True if it has not begun yet.
    pub fn wanders(&self) -> bool {
        self.wandering != 0
    }

    /// The program is preempted here.
    pub fn end(&self, rip: u64) {
        if rip == self.goal {
            goals_at(rip).store(rip, Ordering::Relaxed);
        }
    }

    /// True if another step may find a better place than this one. Without an instruction
    /// that a jump replaces alone, the best among those seen is gone back to.
    pub fn goes_on(&mut self, rip: u64) -> bool {
        if self.is_over {
            return false;
        }
        if self.wandering != 0 {
            self.wandering -= 1;
            return true;
        }
        // SAFETY: one thread runs, and no other acquires the token between steps; if one did,
        // the place would be worse and no less right.
        let path = unsafe { &mut *PATH.get() };
        if self.known_left != 0 {
            self.known_left -= 1;
            if self.known_left != 0 {
                return true;
            }
            self.goal = 0;
        }
        if self.goal == 0 {
            path[self.steps.min(STEPS_MAX) as usize] = rip;
            if self.steps >= STEPS_MAX {
                match best_of(path) {
                    Some(goal) if goal != rip => self.goal = goal,
                    _ => return false,
                }
            }
        }
        self.steps += 1;
        let returned = self.steps <= STEPS_MAX + RETURN_STEPS_MAX;
        returned || self.steps <= STEPS_MAX + RETURN_STEPS_MAX + LAST_STEPS_MAX && decode::run(rip).is_none()
    }
}

/// The latest of the best places where a jump covers instructions between which nothing was
/// seen to jump: that would trap in replay, each time.
fn best_of(path: &[u64]) -> Option<u64> {
    const PLACES: usize = STEPS_MAX as usize + 1;
    let mut jumped_to = [0u64; PLACES];
    for (target, pair) in jumped_to.iter_mut().zip(path.windows(2)) {
        if decode::behind(pair[0]) != Some(pair[1]) {
            *target = pair[1];
        }
    }
    let mut speeds = [None; PLACES];
    for (speed, &address) in speeds.iter_mut().zip(path) {
        *speed = decode::run(address).map(|run| speed_of(address, &run));
    }
    let is_right = |address: u64| !jumped_to.iter().any(|target| covered(address).contains(target));
    let best = |is_right: &dyn Fn(u64) -> bool| {
        [Speed::OneJump, Speed::FlagsAreDead, Speed::Slow].iter().find_map(|speed| {
            let places = path.iter().zip(&speeds).rev().filter(|(_, known)| **known == Some(*speed));
            places.map(|(&address, _)| address).find(|&address| is_right(address))
        })
    };
    let is_left_alone = |address: u64| is_right(address) && !is_jumped_into(address);
    // What only looks like a jump may be data, and few constants are read; a place without a run
    // would trap at each pass.
    best(&|address| is_left_alone(address) && !hides_constant(address))
        .or_else(|| best(&is_left_alone))
        .or_else(|| best(&is_right))
}

/// True if a jump there would hide a constant of generated code: whoever generated it reads the
/// references in it again, and where it leads, and replay would show part of the jump.
fn hides_constant(address: u64) -> bool {
    !sites::is_constant_code(address) && decode::covers_constant(address)
}

/// How fast replay comes by a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speed {
    /// It keeps the flags.
    Slow,
    FlagsAreDead,
    /// The same, and a jump that the program takes leads back to it.
    OneJump,
}

fn speed_of(address: u64, run: &decode::Run) -> Speed {
    let jumps = run.instructions[..run.count].iter().any(|moved| moved.jump.is_some());
    match decode::sets_flags_first(address, deliverable::faults_are_seen()) {
        true if jumps => Speed::OneJump,
        true => Speed::FlagsAreDead,
        false => Speed::Slow,
    }
}

/// True if a jump replaces this instruction alone, and nothing seems to jump into the middle of it
/// or to read it.
pub fn is_replaced_alone(address: u64) -> bool {
    takes_jump(address, &|run| run.count == 1)
}

/// True if a jump replaces the instructions here, however many.
pub fn is_replaced(address: u64) -> bool {
    takes_jump(address, &|_| true)
}

fn takes_jump(address: u64, fits: &dyn Fn(&decode::Run) -> bool) -> bool {
    decode::run(address).is_some_and(|run| fits(&run)) && !hides_constant(address) && !is_jumped_into(address)
}

/// What is in the middle of a jump there.
fn covered(address: u64) -> Range<u64> {
    address + 1..address + decode::JUMP_BYTES as u64
}

/// True if bytes nearby look like a jump into the middle of one there: the steps at hand need
/// not have come by it. Data may look like one, too; then another place serves, if there is one.
fn is_jumped_into(address: u64) -> bool {
    let covered = covered(address);
    let first = covered.start & !(PAGE_BYTES - 1);
    let start = covered.start.saturating_sub(NEARBY_BYTES).max(first);
    let end = (covered.end + NEARBY_BYTES).min(covered.end.next_multiple_of(PAGE_BYTES));
    // SAFETY: as for the path.
    let nearby = unsafe { &mut *NEARBY.get() };
    let nearby = &mut nearby[..(end - start) as usize];
    if !memory::copy(nearby.as_mut_ptr() as u64, start, end - start) {
        return false;
    }
    (0..nearby.len()).any(|at| {
        let target = decode::jump_target(&nearby[at..], start + at as u64);
        target.is_some_and(|target| covered.contains(&target))
    })
}

/// Bytes that a loop has at most which only waits for a word to change.
const SPIN_BYTES: u64 = 256;

impl Stand {
    pub fn of(context: &RealFrame) -> Stand {
        const RAX: usize = 14;
        const RSP: usize = 17;
        let words = preemption_point::state_words(&context.registers());
        let others = words[..RAX].iter().chain(&words[RSP..]);
        let registers = others.fold(0, |sum, &word| runtime_logic::word_sums::add(sum, word));
        Stand { place: context.rip, registers }
    }

    /// True if the program got nowhere from one to the other.
    pub fn is_still(&self, later: &Stand) -> bool {
        self.registers == later.registers && self.place.abs_diff(later.place) < SPIN_BYTES
    }
}
