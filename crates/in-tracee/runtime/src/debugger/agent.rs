//! The debugger's agent in a replaying process: it stops the program, steps it,
//! counts its instructions, copies it, and tells where it stands.
//!
//! All stops are made in the handler of a trap, on the program's own registers: at
//! a boundary between runtime and program the runtime traps by itself
//! ([`leaving`]). While the program stands still nothing of ours is in its code:
//! breakpoints and the replay trap of a preemption are there only while it runs at full speed.
//! Steps are taken with the trap flag, and the preemption is looked for at each.
//!
//! Deliberately absent: ptrace; anything that a process does that is not debugged.

use core::sync::atomic::Ordering;

use lane_protocol::{BOUNDARIES_MAX, Boundary, Hit, NONE, agent_interrupt, agent_stop, agent_verb};

use crate::code::{clocks, sites, trampolines};
use crate::debugger::agent_state::{
    Mode, breakpoints, hit, is_breakpoint, is_debugging, is_stepping, mailbox, state,
};
use crate::debugger::displaced::{self, Trapped};
use crate::debugger::{
    branch, breakpoints, caught_signals, copies, edits, keyframes, live_stops, programs, stop_report,
    translate, watchpoints,
};
use crate::ground::assembly::{rv_agent_stop, rv_agent_trap};
use crate::ground::decode;
use crate::ground::frame::RealFrame;
use crate::ground::registers::{Registers, TRAP_FLAG};
use crate::preemption::replay_trap;
use crate::state::block::{lane, process, session, thread};
use crate::state::live;
use crate::state::runtime_log::{LogSubject, say};

/// Code of the signal that interrupts: among those of rt_tgsigqueueinfo(2) that the
/// kernel gives no meaning.
pub const INTERRUPT: i32 = -79;

/// A process begins: it may be the one that is debugged.
pub fn begin_process() {
    let process = &mut *process();
    let was_debugged = process.has_agent();
    process.mode.set_agent(session().debugged_lane == process.lane + 1);
    if was_debugged && !process.has_agent() {
        // It is a child, in which nobody looks at breakpoints.
        breakpoints::hide();
    }
}

/// A new image begins, with this stack. A child that is debugged may have it of a parent
/// that is not.
pub fn note_image(stack: u64) {
    state().new_image = is_debugging();
    state().images += 1;
    state().first_stack = stack;
}

/// The memory of the image at hand is about to go.
pub fn forget_image() {
    if is_debugging() {
        breakpoints::give_back_code();
        displaced::forget();
    }
}

// --- boundaries ---

/// The runtime is done with an event and goes back to the program, with these
/// registers. Returns if the program is to run on.
#[inline]
pub fn leaving(registers: &mut Registers) {
    if is_debugging() {
        at_boundary(registers);
    }
}

/// Who looks at the program sees its own code, and it goes on by what is there at full speed.
#[cold]
fn at_boundary(registers: &mut Registers) {
    registers.rip = sites::original(registers.rip);
    note_boundary();
    let watched = watchpoints::have_changed();
    let needs_steps = state().mode == Mode::Running && breakpoints::need_steps_since();
    if needs_steps {
        step_from_here();
    }
    let stays = needs_steps || stops_here() || edits::is_due() && is_breakpoint(registers.rip);
    if state().mode == Mode::Running && !watched && !stays {
        state().steps_known = false;
        watchpoints::watch_thread();
        breakpoints::put_in();
        registers.rip = sites::translate(registers.rip);
        return;
    }
    // SAFETY: the handler knows this trap by its address, takes the registers that
    // rdi names, and leaves from there to the program.
    unsafe { rv_agent_stop(registers) }
}

/// The program has made this system call, and comes to a boundary.
pub fn note_call(number: u32) {
    state().call = u64::from(number) + 1;
}

/// True behind a system call that is to be stopped at.
fn catches_call() -> bool {
    let state = &mut *state();
    let Some(number) = state.call_here.checked_sub(1) else { return false };
    let word = state.command.calls.get(number as usize / 64);
    state.steps_known && state.steps == 0 && word.is_some_and(|word| word >> (number % 64) & 1 != 0)
}

/// A boundary that the debugger can name.
pub fn note_boundary() {
    let state = &mut *state();
    state.call_here = core::mem::take(&mut state.call);
    caught_signals::come_to_boundary();
    let boundary = Boundary { event: process().log.events, thread: thread().index as u64 };
    let last = state.last_boundaries[state.boundaries.wrapping_sub(1) as usize % BOUNDARIES_MAX];
    if state.boundaries != 0 && last == boundary {
        // Nothing was consumed: an instruction like others.
        state.steps += 1;
        return;
    }
    state.last_boundaries[state.boundaries as usize % BOUNDARIES_MAX] = boundary;
    state.boundaries += 1;
    state.steps = 0;
    state.steps_known = true;
    state.interval_hits = 0;
    mailbox().running_tid.store(thread().tid, Ordering::Relaxed);
}

fn stops_here() -> bool {
    let state = &mut *state();
    let thread = thread().index as u64;
    state.mode == Mode::Stopped
        || state.new_image
        || branch::wants_stop()
        || catches_call()
        || caught_signals::stops_here()
        || (state.new_code && state.command.stops_at_code != 0)
        || process().log.events >= state.command.until_event
        || thread == state.command.until_thread
        || mailbox().interrupt.load(Ordering::Relaxed) != 0
}

/// The trap of a boundary: true if it was one.
fn on_boundary_trap(context: &mut RealFrame) -> bool {
    if !is_debugging() || context.rip != rv_agent_trap as *const () as u64 {
        return false;
    }
    // SAFETY: rdi is what `at_boundary` put there, on the runtime's stack.
    let registers = unsafe { *(context.rdi as *const Registers) };
    context.set_registers(&registers);
    context.flags &= !TRAP_FLAG;
    if let Some(kind) = state().stop_in_stub.take() {
        stop(context, kind);
        return true;
    }
    match translate::take_result() {
        Some(result) => translate::arrive(context, &result),
        None => settle_at_boundary(context),
    }
    true
}

/// An instruction was emulated in the handler: the same as a boundary.
pub fn on_emulated(context: &mut RealFrame) {
    if !is_debugging() {
        return;
    }
    note_boundary();
    if state().mode == Mode::Running && !stops_here() {
        state().steps_known = false;
        breakpoints::put_in();
        return;
    }
    settle_at_boundary(context);
}

fn settle_at_boundary(context: &mut RealFrame) {
    let own = &mut *state();
    let by_preemption = core::mem::take(&mut own.found_point);
    let begins = own.boundaries == 1;
    if own.mode == Mode::Stepping && !by_preemption {
        own.command_steps += 1;
    }
    breakpoints::take_out();
    watchpoints::watch_thread();
    if let Some(kind) = branch::take_stop() {
        return stop(context, kind);
    }
    let new_image = core::mem::take(&mut own.new_image);
    if begins || new_image {
        return stop(context, if begins { agent_stop::BEGIN } else { agent_stop::IMAGE });
    }
    if core::mem::take(&mut own.new_code) && own.command.stops_at_code != 0 {
        return stop(context, agent_stop::CODE);
    }
    if own.mode == Mode::Passing {
        own.mode = Mode::Running;
    }
    if let Some(watch) = watchpoints::take_changed()
        && hit(watch)
    {
        return stop(context, agent_stop::WATCHPOINT);
    }
    let event = process().log.events;
    if event >= own.command.until_event || thread().index as u64 == own.command.until_thread {
        return stop(context, agent_stop::REACHED);
    }
    arrived(context);
}

// --- arriving at an instruction ---

/// The program is about to execute the instruction that it stands at; nothing is
/// planted there.
pub fn arrived(context: &mut RealFrame) {
    let own = &mut *state();
    if replay_trap::is_lifted_at(context.rip) && replay_trap::takes(context) {
        own.found_point = true;
        context.flags &= !TRAP_FLAG;
        return;
    }
    let interrupt = mailbox().interrupt.load(Ordering::Relaxed);
    let is_at_event = own.steps_known && own.steps == 0;
    if interrupt == agent_interrupt::ANYWHERE || interrupt != 0 && is_at_event {
        return stop(context, agent_stop::INTERRUPTED);
    }
    if own.mode == Mode::Stepping && own.command_steps >= own.command.steps_max {
        return stop(context, agent_stop::STEPPED);
    }
    let vectors = context.vector_memory().0;
    let at = breakpoints().iter().position(|&address| address == context.rip);
    let stops = match at {
        Some(index) => programs::stop_of(programs::decide(index, &context.registers(), vectors, 0)),
        None if catches_call() => hit(NONE).then_some(agent_stop::CALL),
        None => (caught_signals::stops_here() && hit(NONE)).then_some(agent_stop::SIGNAL),
    };
    if let Some(kind) = stops {
        return stop(context, kind);
    }
    go_on(context);
}

/// Lets the program execute the instruction that it stands at.
pub fn go_on(context: &mut RealFrame) {
    let own = &mut *state();
    own.stepped_from = context.rip;
    if edits::is_due() {
        // It is no instruction, and nothing was executed between the two boundaries.
        own.found_point = own.mode == Mode::Stepping;
        own.mode = if own.found_point { Mode::Stepping } else { Mode::Running };
        return edits::lead_to(context);
    }
    if own.mode != Mode::Stepping {
        let planted = is_breakpoint(context.rip) || replay_trap::is_lifted_at(context.rip);
        own.mode = if planted { Mode::Passing } else { Mode::Running };
    }
    if own.mode == Mode::Running {
        own.steps_known = false;
        context.flags &= !TRAP_FLAG;
        breakpoints::put_in();
        context.rip = sites::translate(context.rip);
        return;
    }
    sites::lift_jumps();
    if own.mode == Mode::Passing || !translate::takes_steps(context) {
        context.flags |= TRAP_FLAG;
    }
}

/// A trap of a process that is debugged: true if it was the agent's.
pub fn on_trap(code: i32, context: &mut RealFrame, inside: bool, watched: u64) -> bool {
    // In a virtual machine the kernel may not learn that a trap was a step's.
    const TRAP_BRKPT: i32 = 1;
    const TRAP_TRACE: i32 = 2;
    const TRAP_HWBKPT: i32 = 4;
    const TRAP_PERF: i32 = 6;
    const INT3: i32 = 0x80;
    if !is_debugging() {
        return false;
    }
    lane().held_up.fetch_add(1, Ordering::Relaxed);
    match code {
        TRAP_PERF => on_watch(context, inside, watched),
        INT3 => {
            let running = state().mode == Mode::Running;
            return on_boundary_trap(context) || running && on_stub_trap(context) || on_breakpoint(context);
        }
        TRAP_BRKPT | TRAP_TRACE | TRAP_HWBKPT => return on_step(context),
        _ => return false,
    }
    true
}

/// A step was made.
fn on_step(context: &mut RealFrame) -> bool {
    if !is_stepping() || clocks::is_ours_at(context.rip) {
        return false;
    }
    let own = &mut *state();
    context.flags &= !TRAP_FLAG;
    decode::hide_trap_flag(own.stepped_from, context.rsp);
    if context.rip == own.stepped_from && decode::repeated_bytes(context.rip).is_some() {
        // A round of a repeated instruction, which is one.
        context.flags |= TRAP_FLAG;
        return true;
    }
    own.steps += 1;
    own.command_steps += 1;
    if own.mode == Mode::Passing {
        own.mode = Mode::Running;
    }
    if let Some(watch) = watchpoints::take_changed()
        && hit(watch)
    {
        stop(context, agent_stop::WATCHPOINT);
        return true;
    }
    arrived(context);
    true
}

/// The trap of a breakpoint with programs: false if it is none.
fn on_stub_trap(context: &mut RealFrame) -> bool {
    match displaced::on_trap(context) {
        Trapped::NotOurs => return false,
        Trapped::GoesOn => {}
        Trapped::Stops(kind) => stop(context, kind),
    }
    true
}

/// A breakpoint of ours, at full speed.
fn on_breakpoint(context: &mut RealFrame) -> bool {
    let address = context.rip.wrapping_sub(1);
    if !is_debugging() || state().mode != Mode::Running || !breakpoints::is_in(address) {
        return false;
    }
    context.rip = address;
    breakpoints::take_out();
    arrived(context);
    true
}

/// The processor saw an access to a watched place.
fn on_watch(context: &mut RealFrame, inside: bool, index: u64) {
    if !is_debugging() {
        return;
    }
    watchpoints::note_access(index);
    if inside {
        return;
    }
    if decode::repeated_bytes(context.rip).is_some() {
        edits::note_halfway();
    }
    if state().mode != Mode::Running {
        // Of two traps by one instruction the kernel delivers one.
        on_step(context);
        return;
    }
    if let Some(original) =
        replay_trap::original_of(context.rip).or_else(|| displaced::original_of(context.rip))
    {
        context.rip = original;
    }
    let changed = watchpoints::take_changed();
    let is_crowded = watchpoints::is_crowded();
    if changed.is_none() && !is_crowded {
        return;
    }
    breakpoints::take_out();
    context.rip = sites::original(context.rip);
    if let Some(watch) = changed
        && hit(watch)
    {
        if replay_trap::is_lifted_at(context.rip) && replay_trap::takes(context) {
            // The preemption comes first; it is said at its boundary.
            state().found_point = true;
            watchpoints::note_access(watch);
            return;
        }
        return stop(context, agent_stop::WATCHPOINT);
    }
    if is_crowded {
        // The kernel would leave some out.
        step_from_here();
    }
    arrived(context);
}

/// What the processor or what is planted would miss is looked for step by step.
fn step_from_here() {
    let own = &mut *state();
    own.mode = Mode::Stepping;
    watchpoints::set(&own.command.watches[..own.command.watch_count as usize], true);
}

/// The debugger wants the program to stand still.
pub fn on_interrupt(context: &mut RealFrame, inside: bool) {
    if !is_debugging() {
        return;
    }
    if inside {
        live_stops::leave_call_for_debugger(context);
        return;
    }
    if state().mode == Mode::Stopped {
        return;
    }
    if mailbox().interrupt.load(Ordering::Relaxed) == 0 {
        return;
    }
    let is_in_copy = replay_trap::is_in_stub(context.rip) || displaced::is_in_stub(context.rip);
    if is_in_copy || trampolines::in_trampoline(context.rip) {
        // It is sent again.
        return;
    }
    if live::is_debugged() && state().mode == Mode::Running {
        // A preemption says exactly where it was.
        return crate::preemption::preempt::on_debugger(context);
    }
    breakpoints::take_out();
    if replay_trap::is_lifted_at(context.rip) && replay_trap::takes(context) {
        state().found_point = true;
        return;
    }
    stop(context, agent_stop::INTERRUPTED);
}

// --- standing still ---

pub fn stop(context: &mut RealFrame, kind: u32) {
    say(LogSubject::Debugger, "agent stops", [u64::from(kind), context.rip]);
    breakpoints::give_back_code();
    context.flags &= !TRAP_FLAG;
    state().mode = Mode::Stopped;
    stop_report::publish(Some(context), kind, 0, live_stops::code_of_stop().unwrap_or_else(branch::code));
    loop {
        stop_report::take_command();
        let command = &state().command;
        match command.verb {
            agent_verb::COPY => {
                let made = copies::make(command.segment);
                stop_report::publish(Some(context), agent_stop::COPIED, 0, made);
            }
            agent_verb::BRANCH => {
                let made = branch::make(command);
                stop_report::publish(Some(context), agent_stop::COPIED, 0, made);
            }
            agent_verb::STAND => {
                if keyframes::stand() {
                    stop_report::publish(Some(context), kind, 0, branch::code());
                }
            }
            agent_verb::SET if !live::is_debugged() => {
                branch::set_registers(context, command);
                stop_report::publish(Some(context), kind, 0, branch::code());
            }
            agent_verb::ORDER | agent_verb::SET | agent_verb::WRITE | agent_verb::MARK => {
                return live_stops::leave_for_order(context);
            }
            agent_verb::RELEASE => return live_stops::release(),
            _ => break,
        }
    }
    begin_command(context);
}

fn begin_command(context: &mut RealFrame) {
    say(LogSubject::Debugger, "agent goes on", [context.rip, 0]);
    let own = &mut *state();
    live_stops::note_going_on(context.rip);
    programs::begin_command();
    own.command_steps = 0;
    own.hits = 0;
    own.interval_hits = 0;
    own.last_hit = Hit { event: NONE, ordinal: 0, steps: 0, watch: NONE };
    let watches = &own.command.watches[..own.command.watch_count as usize];
    let asked = own.command.verb == agent_verb::STEP;
    // What the processor cannot watch is looked at after each instruction, and so are
    // breakpoints where nothing may be planted.
    let steps = asked || breakpoints::need_steps() || !watchpoints::set(watches, false);
    if steps {
        watchpoints::set(watches, true);
    }
    if !asked {
        own.command.steps_max = u64::MAX;
    }
    own.mode = if steps { Mode::Stepping } else { Mode::Running };
    go_on(context);
}
