//! Counting the program's instructions near native speed, for the debugger's agent.
//!
//! Instead of setting the trap flag, the agent lets the program go on in copies of its
//! code ([`start`], in the handler of a trap). The thread goes on at [`run`], on its
//! own stack and with the program's vector registers, and comes back by a trap like
//! that of a boundary. What the translator does not do itself (calls, faults, what
//! reads time) the agent then lets the program do by a step.
//!
//! Invariant: the copies are of what is in memory now: whoever changes code calls
//! [`forget`]. Deliberately absent: any knowledge of why the program is stopped.

use core::sync::atomic::Ordering;

use lane_protocol::{
    BREAKPOINTS_MAX, NONE, TRANSLATOR_BYTES, TRANSLATOR_START, WATCHES_MAX, agent_interrupt, agent_stop,
};
use linux_abi::general as nr;
use translator::{Engine, Goal, Host, MEMORY_BYTES, Outcome, State, Stop};

use crate::code::{sites, trampolines};
use crate::debugger::programs::{self, Verdict};
use crate::debugger::{agent, agent_state, watchpoints};
use crate::ground::assembly::{self, rv_agent_stop};
use crate::ground::frame::RealFrame;
use crate::ground::kernel;
use crate::ground::memory::{self, in_region};
use crate::ground::owned::{Held, Owned};
use crate::ground::registers::{self, Registers, TRAP_FLAG};
use crate::preemption::replay_trap;
use crate::state::block::{lane, process, thread};

const _: () = assert!(MEMORY_BYTES <= TRANSLATOR_BYTES);
const _: () =
    assert!(BREAKPOINTS_MAX < translator::BREAKPOINTS_MAX && WATCHES_MAX <= translator::WATCHES_MAX);

/// What the agent wants, and what came of it.
struct Running {
    engine: Option<Engine>,
    /// Code has changed since the last run.
    is_stale: bool,
    limit: u64,
    result: Option<Result>,
    /// The next instruction is nothing for the translator.
    by_hand: bool,
}

/// In place of a watched place.
const FULL: u64 = NONE - 1;

/// What came of a run.
#[derive(Clone, Copy)]
pub struct Result {
    /// Instructions that were executed.
    pub executed: u64,
    /// The next one is nothing for the translator.
    pub needs_step: bool,
    /// The hit that ended the run, already counted: of a breakpoint ([`NONE`]), or of a
    /// watched place that has changed by the last one. [`FULL`]: records are to be taken.
    pub hit: Option<u64>,
}

static RUNNING: Owned<Running> =
    Owned::new(Running { engine: None, is_stale: false, limit: 0, result: None, by_hand: false });

fn running() -> Held<Running> {
    RUNNING.hold()
}

/// The program's code, as it is in memory.
struct Memory;

impl Host for Memory {
    fn code(&mut self, address: u64, into: &mut [u8]) -> usize {
        let mut bytes = 0;
        while bytes < into.len() {
            let at = address.wrapping_add(bytes as u64);
            let step = (into.len() - bytes).min((4096 - at % 4096) as usize);
            let to = into[bytes..].as_mut_ptr() as u64;
            if in_region(at, step as u64) || !memory::copy(to, at, step as u64) {
                break;
            }
            bytes += step;
        }
        bytes
    }

    fn is_stable(&mut self, address: u64) -> bool {
        trampolines::in_trampoline(address) || sites::is_constant_code(address)
    }
}

/// Code has changed, or is somewhere else.
pub fn forget() {
    running().is_stale = true;
}

/// The memory with the copies is not there any more.
pub fn lose_memory() {
    core::mem::forget(running().engine.take());
}

/// True if the address is in a copy, or in the translator's own code there.
pub fn is_copy(address: u64) -> bool {
    (TRANSLATOR_START..TRANSLATOR_START + TRANSLATOR_BYTES).contains(&address)
}

/// Takes the steps of the agent's command, if there are enough of them; false if they
/// are to be taken one by one.
pub fn takes_steps(context: &mut RealFrame) -> bool {
    const STEPS_MIN: u64 = 16;
    // Signals of the kernel's may find a live program anywhere. Copies run with the runtime's gs.
    if !process().replays() && !process().is_branch() || crate::code::gs::is_shared() {
        return false;
    }
    let by_hand = core::mem::take(&mut running().by_hand);
    let agent = &mut *agent_state::state();
    let steps = agent.command.steps_max - agent.command_steps;
    !by_hand && steps >= STEPS_MIN && watchpoints::are_for_writes() && start(context, steps)
}

/// The steps were taken: the program stands where they have led.
pub fn arrive(context: &mut RealFrame, result: &Result) {
    let agent = &mut *agent_state::state();
    agent.steps += result.executed;
    agent.command_steps += result.executed;
    if in_region(context.rip, 1) {
        // On the way from a trampoline into the runtime.
        return;
    }
    running().by_hand = result.needs_step;
    match result.hit {
        Some(NONE) => agent::stop(context, agent_stop::BREAKPOINT),
        Some(FULL) => agent::stop(context, agent_stop::RECORDED),
        Some(_) => agent::stop(context, agent_stop::WATCHPOINT),
        None if result.executed == 0 && result.needs_step => agent::go_on(context),
        None => agent::arrived(context),
    }
}

/// The program goes on in copies, for at most so many instructions; false if there is no
/// memory for them.
fn start(context: &mut RealFrame, limit: u64) -> bool {
    let own = &mut *running();
    if own.engine.is_none() {
        let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED | nr::MAP_NORESERVE;
        let all = nr::PROT_READ | nr::PROT_WRITE | nr::PROT_EXEC;
        if kernel::failed(kernel::mmap(TRANSLATOR_START, TRANSLATOR_BYTES, all, flags, -1, 0)) {
            return false;
        }
        // SAFETY: the memory was mapped for this, at an address that is aligned.
        own.engine = Some(unsafe { Engine::new(TRANSLATOR_START, false) });
    }
    own.limit = limit;
    own.result = None;
    let thread = &mut *thread();
    thread.fault_registers = context.registers();
    thread.fault_registers.flags &= !TRAP_FLAG;
    context.flags &= !TRAP_FLAG;
    context.rip = assembly::rv_entry_translate as *const () as u64;
    true
}

/// What came of the last run, if the trap at hand is its end.
pub fn take_result() -> Option<Result> {
    running().result.take()
}

/// Where the thread goes on: runs the program in copies, then traps.
pub extern "C" fn run() -> ! {
    let mut registers = thread().fault_registers;
    let own = &mut *running();
    let mut state = state_of(&registers);
    let result = match &mut own.engine {
        Some(engine) => {
            if core::mem::take(&mut own.is_stale) {
                engine.flush();
            }
            run_until(engine, &mut state, own.limit)
        }
        None => Result { executed: 0, needs_step: true, hit: None },
    };
    own.result = Some(result);
    set_state(&mut registers, &state);
    // SAFETY: the handler takes the registers and leaves from there to the program.
    unsafe { rv_agent_stop(&registers) }
}

/// Runs until there is something for the agent: what only looks so is passed here.
fn run_until(engine: &mut Engine, state: &mut State, limit: u64) -> Result {
    let mut stops = [0u64; BREAKPOINTS_MAX + 1];
    let wanted = agent_state::breakpoints();
    stops[..wanted.len()].copy_from_slice(wanted);
    let mut count = wanted.len();
    let preemption = replay_trap::is_lifted().then(replay_trap::place);
    if let Some(preemption) = preemption
        && !wanted.contains(&preemption)
    {
        stops[count] = preemption;
        count += 1;
    }
    let mut ranges = [(0u64, 0u64); WATCHES_MAX];
    let ranges = watchpoints::ranges(&mut ranges);
    let mut executed = 0;
    let result = |executed, needs_step| Result { executed, needs_step, hit: None };
    if !engine.set_breakpoints(&stops[..count]) || !engine.set_watches(ranges) {
        return result(0, true);
    }
    let mut goal = Goal {
        limit,
        passes_breakpoint: true,
        passes_store: false,
        notes_stores: false,
        fs_base: registers::fs_base(),
    };
    while executed < limit {
        goal.limit = limit - executed;
        // SAFETY: the state is the program's, and its vector registers are as it left them.
        let outcome = unsafe { engine.run(&mut Memory, state, &goal) };
        executed += outcome.executed;
        goal.passes_breakpoint = false;
        match outcome.stop {
            Stop::Limit => break,
            Stop::Breakpoint => {
                if preemption == Some(state.rip) && replay_trap::may_take(&registers_of(state)) {
                    break;
                }
                let place = wanted.iter().position(|&address| address == state.rip);
                if let Some(hit) = place.and_then(|index| hit_of(index, state, executed)) {
                    return Result { executed, needs_step: false, hit: Some(hit) };
                }
                goal.passes_breakpoint = true;
            }
            Stop::Store { .. } => {
                let once = Goal { limit: 1, passes_breakpoint: true, passes_store: true, ..goal };
                // SAFETY: as above.
                let Outcome { stop, executed: one, .. } = unsafe { engine.run(&mut Memory, state, &once) };
                executed += one;
                if one == 0 {
                    return result(executed, stop != Stop::Interrupted);
                }
                if let Some(watch) = watchpoints::take_changed()
                    && agent_state::hit_after(executed, watch)
                {
                    return Result { executed, needs_step: false, hit: Some(watch) };
                }
            }
            Stop::Interrupted => break,
            Stop::Unreadable if in_region(state.rip, 1) => {
                // The last jump of a trampoline: the trap flag does not count it.
                return result(executed.saturating_sub(1), true);
            }
            Stop::Call | Stop::Instruction | Stop::Unreadable | Stop::Fault => return result(executed, true),
        }
        if lane().agent.interrupt.load(Ordering::Relaxed) == agent_interrupt::ANYWHERE {
            break;
        }
    }
    result(executed, false)
}

/// What the agent is told of the breakpoint of this index, if it is to know.
fn hit_of(index: usize, state: &State, executed: u64) -> Option<u64> {
    match programs::decide(index, &registers_of(state), 0, executed) {
        Verdict::Stops if agent_state::hit_after(executed, NONE) => Some(NONE),
        Verdict::Full => Some(FULL),
        Verdict::Stops | Verdict::GoesOn => None,
    }
}

/// A fault in a copy: the program's registers are put in order, and it leaves the copy.
/// False if it was not in one.
pub fn on_fault(context: &mut RealFrame) -> bool {
    if !is_copy(context.rip) {
        return false;
    }
    let registers = context.registers();
    let mut state = state_of(&registers);
    // SAFETY: an engine runs if this address is where the program is.
    let Some(next) = (unsafe { translator::on_fault(TRANSLATOR_START, context.rip, &mut state.general) })
    else {
        return false;
    };
    state.rip = next;
    let mut registers = registers;
    set_state(&mut registers, &state);
    context.set_registers(&registers);
    true
}

/// The debugger wants the program to stand still: it leaves its copies soon.
pub fn interrupt() {
    // SAFETY: called only where the program is in a copy.
    unsafe { translator::interrupt(TRANSLATOR_START) };
}

fn state_of(registers: &Registers) -> State {
    let r = registers;
    let general = [
        r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
        r.r14, r.r15,
    ];
    State { general, rip: r.rip, flags: r.flags }
}

fn registers_of(state: &State) -> Registers {
    let mut registers = Registers::default();
    set_state(&mut registers, state);
    registers
}

fn set_state(r: &mut Registers, state: &State) {
    [
        r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
        r.r14, r.r15,
    ] = state.general;
    (r.rip, r.flags) = (state.rip, state.flags);
}
