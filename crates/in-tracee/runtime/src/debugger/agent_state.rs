//! What the debugger's agent knows of the program's run: the command at hand, and where it stands.

use lane_protocol::bytecode::NO_PROGRAMS;
use lane_protocol::{Agent, AgentCommand, BOUNDARIES_MAX, Boundary, Hit, NONE};

use crate::ground::owned::{Held, Owned};
use crate::state::block::{lane, process};

/// What the program is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It stands still, or is about to.
    Stopped,
    Running,
    /// One step past what was planted where it stands, then at full speed.
    Passing,
    Stepping,
}

pub struct State {
    pub mode: Mode,
    pub command: AgentCommand,
    /// Where the last step began.
    pub stepped_from: u64,
    /// Instructions since the last boundary, and whether that is known.
    pub steps: u64,
    pub steps_known: bool,
    pub command_steps: u64,
    pub hits: u64,
    /// Hits since the last boundary, or since the command began, if that was later.
    pub interval_hits: u64,
    pub last_hit: Hit,
    /// The preemption at hand was found by a step: its boundary is no instruction's.
    pub found_point: bool,
    /// Why the program is to stand still at the breakpoint whose stub it is in.
    pub stop_in_stub: Option<u32>,
    pub boundaries: u64,
    pub last_boundaries: [Boundary; BOUNDARIES_MAX],
    /// The call that leads to the next boundary, and to the last one; see `AgentStop::call`.
    pub call: u64,
    pub call_here: u64,
    pub images: u64,
    pub new_image: bool,
    pub new_code: bool,
    pub first_stack: u64,
}

pub static STATE: Owned<State> = Owned::new(State {
    mode: Mode::Stopped,
    command: AgentCommand {
        verb: 0,
        segment: 0,
        pid: 0,
        registers: [0; 18],
        calls: [0; lane_protocol::CALL_WORDS],
        signals: 0,
        until_event: NONE,
        until_thread: NONE,
        steps_max: 0,
        hits_max: 0,
        stops_at_code: 0,
        order: 0,
        argument: 0,
        breakpoint_count: 0,
        watch_count: 0,
        breakpoints: [0; lane_protocol::BREAKPOINTS_MAX],
        programs: [NO_PROGRAMS; lane_protocol::BREAKPOINTS_MAX],
        watches: [lane_protocol::Watch { address: 0, bytes: 0, kind: 0 }; lane_protocol::WATCHES_MAX],
    },
    stepped_from: 0,
    steps: 0,
    steps_known: true,
    command_steps: 0,
    hits: 0,
    interval_hits: 0,
    last_hit: Hit { event: NONE, ordinal: 0, steps: 0, watch: NONE },
    found_point: false,
    stop_in_stub: None,
    boundaries: 0,
    last_boundaries: [Boundary { event: 0, thread: 0 }; BOUNDARIES_MAX],
    call: 0,
    call_here: 0,
    images: 0,
    new_image: false,
    new_code: false,
    first_stack: 0,
});

pub fn state() -> Held<State> {
    STATE.hold()
}

pub fn mailbox() -> Held<Agent> {
    lane().part(|lane| &mut lane.agent)
}

/// True if the process is debugged.
#[inline]
pub fn is_debugging() -> bool {
    process().has_agent()
}

/// True while nothing but what is planted stops the program.
pub fn is_at_full_speed() -> bool {
    is_debugging() && state().mode == Mode::Running
}

/// True while each instruction traps.
pub fn is_stepping() -> bool {
    is_debugging() && matches!(state().mode, Mode::Stepping | Mode::Passing)
}

/// The breakpoints that are wanted.
pub fn breakpoints() -> &'static [u64] {
    // SAFETY: a command changes where the program stands, and nobody looks at breakpoints.
    let command = unsafe { &state().shared().command };
    &command.breakpoints[..command.breakpoint_count as usize]
}

pub fn is_breakpoint(address: u64) -> bool {
    breakpoints().contains(&address)
}

/// Counts a hit; true if it ends the command.
pub fn hit(watch: u64) -> bool {
    hit_after(0, watch)
}

/// The same, after so many more instructions.
pub fn hit_after(executed: u64, watch: u64) -> bool {
    let own = &mut *state();
    own.hits += 1;
    let steps = if own.steps_known { own.steps + executed } else { NONE };
    // What the event itself wrote is no hit since then.
    own.interval_hits += u64::from(watch == NONE || steps != 0);
    own.last_hit = Hit { event: process().log.events, ordinal: own.interval_hits, steps, watch };
    own.hits >= own.command.hits_max
}
