//! A thread of a lab that computes without a call may wait for another one, in a loop of many functions. Where it is
//! preempted would depend on the machine; but if it goes round in a circle, in which registers and memory come back to what
//! they were, all rounds are the same one. It is gone through step by step, twice, and the thread is preempted at the
//! least state of it, which is the same whenever that happens (docs/adr/0129).
//!
//! Deliberately absent: threads that get anywhere. They go on, and a look has changed nothing.

use runtime_logic::{circles, word_sums};

use crate::code::{clocks, trampolines};
use crate::ground::frame::{self, RealFrame};
use crate::ground::memory::Program;
use crate::ground::registers::{REGISTER_WORDS, Registers, fs_base};
use crate::ground::{decode, notices};
use crate::preemption::loop_iterations::words_around;
use crate::preemption::{preempt, preemption_place, preemption_point, single_steps};
use crate::state::block::{process, thread};
use crate::state::preemption::{Circle, Phase};
use crate::state::runtime_log::{LogSubject, say};

/// Steps in a circle, at most: some 3 us each.
const STEPS_MAX: u32 = 16_384;
/// Words of the stack that tell states apart, and how many of them are below its pointer: functions that call no other have
/// their variables there.
const STACK_WORDS: u64 = 32;
const STACK_BELOW: u64 = 16;

/// The engine asks whether the thread, which computes, does so in a circle.
pub fn begin(context: &mut RealFrame) {
    let registers = context.registers();
    let preemption = &mut thread().preemption;
    if preemption.searches()
        || preemption.timer.armed
        || process().replays()
        || clocks::is_ours_at(registers.rip)
        || trampolines::in_trampoline(registers.rip)
        || notices::cannot_preempt_at(registers.rip)
        || registers.steps_itself()
    {
        return;
    }
    preemption.circle = Circle {
        phase: Phase::Rounds,
        start: preemption_point::state_words(&registers),
        vectors: frame::live_vector_sum(),
        fs_base: fs_base(),
        ..Circle::default()
    };
    step_on(context, &registers);
}

/// A single step of the look: true if there is one.
pub fn on_step(context: &mut RealFrame) -> bool {
    if thread().preemption.circle.phase == Phase::None {
        return false;
    }
    thread().preemption.stepping = false;
    let registers = context.registers();
    let state = preemption_point::state_words(&registers);
    if !note_step(&registers, &state) {
        let circle = &mut thread().preemption.circle;
        let seen = u64::from(circle.steps) << 8 | circle.phase as u64;
        say(LogSubject::Preemption, "computes in no circle", [registers.rip, seen]);
        circle.phase = Phase::None;
        return true;
    }
    let circle = &mut thread().preemption.circle;
    if circle.phase == Phase::ToLeast && sum_of(&state) == circle.least {
        (circle.phase, circle.is_found) = (Phase::None, true);
        say(LogSubject::Preemption, "is preempted in a circle", [registers.rip, u64::from(circle.steps)]);
        preempt::in_circle(context);
    } else {
        step_on(context, &registers);
    }
    true
}

/// Lets the program execute one instruction; what it names of memory is looked at behind it.
fn step_on(context: &mut RealFrame, registers: &Registers) {
    let preemption = &mut thread().preemption;
    let Some(named) = circles::named(&Program, registers, preemption.circle.fs_base) else {
        preemption.circle.phase = Phase::None;
        return;
    };
    preemption.circle.named = named;
    preemption.stepping = true;
    single_steps::begin(context);
}

/// The program has come to this state: false if it is known not to compute in a circle, or not soon enough.
fn note_step(registers: &Registers, state: &[u64; REGISTER_WORDS]) -> bool {
    let circle = &mut thread().preemption.circle;
    circle.steps += 1;
    if circle.steps > STEPS_MAX || clocks::is_ours_at(registers.rip) {
        return false;
    }
    let stack_top = circles::Named { address: registers.rsp, bytes: 8 };
    let sum = circles::add_named(circle.sum, &Program, circle.named);
    let Some(sum) = sum.and_then(|sum| circles::add_named(sum, &Program, stack_top)) else { return false };
    circle.sum = sum;
    if circle.phase == Phase::Rounds {
        note_state(circle, registers.rip, sum_of(state));
    }
    if *state != circle.start || circle.phase == Phase::ToLeast {
        return true;
    }
    let Some(at) = circle.rounds.sums.get_mut(circle.rounds.count) else { return false };
    *at = core::mem::take(&mut circle.sum);
    circle.rounds.count += 1;
    let rounds = &circle.rounds.sums[..circle.rounds.count];
    let (before, last) = rounds.split_at(rounds.len() / 2);
    if before != last {
        return true;
    }
    // All of it was seen twice. A state that was seen more often is no place that can be found again.
    circle.phase = Phase::ToLeast;
    circle.least_times == 2 && circle.vectors == frame::live_vector_sum()
}

/// The least state at which the thread can be preempted is looked for.
fn note_state(circle: &mut Circle, rip: u64, sum: u64) {
    if sum == circle.least {
        circle.least_times += 1;
    } else if (circle.least == 0 || sum < circle.least) && can_be_preempted(rip) {
        (circle.least, circle.least_times) = (sum, 1);
    }
}

/// The registers, and the words of the stack around its pointer: a loop may count there.
fn sum_of(state: &[u64; REGISTER_WORDS]) -> u64 {
    let stack_pointer = Registers::from_words(*state).rsp;
    let words = words_around(stack_pointer, STACK_BELOW, STACK_WORDS);
    state.iter().copied().chain(words).fold(0, word_sums::add)
}

/// Whether replay finds the place fast, and no search for a better one begins there.
fn can_be_preempted(rip: u64) -> bool {
    !trampolines::in_trampoline(rip)
        && !notices::cannot_preempt_at(rip)
        && decode::repeated_bytes(rip).is_none()
        && preemption_place::is_replaced_alone(rip)
}
