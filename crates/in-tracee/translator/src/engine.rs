//! The engine: its tables, and the loop that runs units.

use iced_x86::InstructionInfoFactory;

use crate::gates::{self, EXIT_FAULT, EXIT_INDIRECT, Gates};
use crate::memory::{
    COLD, COLD_END, Context, Exit, ExitKind, HOT, HOT_END, PLACES, Place, RSP, TARGET_TABLE, UNITS_MAX,
    UNSTABLE, Writer,
};
use crate::unit::{self, Purpose, SLACK};
use crate::{Goal, Host, Outcome, State, Stop};

/// Breakpoints that there can be.
pub const BREAKPOINTS_MAX: usize = 320;
/// Ranges of memory that can be watched.
pub const WATCHES_MAX: usize = 32;
/// Key of what an indirect jump leads to, where instructions are pending otherwise.
const TARGET_KEY: u16 = u16::MAX;

/// The same of a unit that is one instruction and passes what is watched.
const PASSING_KEY: u16 = u16::MAX - 1;

/// Runs a program's code from copies.
pub struct Engine {
    pub(crate) base: u64,
    pub(crate) gates: Gates,
    pub(crate) hot: Writer,
    pub(crate) cold: Writer,
    /// A table is full.
    pub(crate) is_full: bool,
    pub(crate) factory: InstructionInfoFactory,
    pub(crate) exits: usize,
    pub(crate) units: usize,
    pub(crate) generation: u16,
    breakpoints: [u64; BREAKPOINTS_MAX],
    breakpoint_count: usize,
    pub(crate) watches: [(u64, u64); WATCHES_MAX],
    pub(crate) watch_count: usize,
}

/// What an interruption takes from the counter: more than any budget, so that it can be
/// told from what was counted.
const INTERRUPTION: i64 = 1 << 56;

/// How the copies were left.
struct Left {
    kind: LeftKind,
    rip: u64,
    executed: u64,
    /// Instructions that had been executed before the last store that was noted.
    noted: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LeftKind {
    Exit(ExitKind),
    Fault,
    Interrupted,
}

impl Engine {
    /// An engine in this memory.
    ///
    /// With `vectors` the program's vector state is kept apart while the engine
    /// runs.
    ///
    /// # Safety
    /// [`crate::MEMORY_BYTES`] bytes from `base` on, a multiple of
    /// [`crate::ALIGNMENT`], are readable, writable, executable, all zero, and the engine's
    /// alone as long as it lives.
    pub unsafe fn new(base: u64, vectors: bool) -> Self {
        let gates = gates::write(base, vectors);
        let mut engine = Engine {
            base,
            gates,
            hot: Writer::new(base, HOT, HOT_END),
            cold: Writer::new(base, COLD, COLD_END),
            is_full: false,
            factory: InstructionInfoFactory::new(),
            exits: 0,
            units: 0,
            generation: 1,
            breakpoints: [0; BREAKPOINTS_MAX],
            breakpoint_count: 0,
            watches: [(0, 0); WATCHES_MAX],
            watch_count: 0,
        };
        engine.context().leave = u64::from(gates.leave);
        gates::clear_targets(base, &gates);
        engine
    }

    pub(crate) fn context(&mut self) -> &mut Context {
        // SAFETY: the memory is the engine's, and lives as long as it.
        unsafe { &mut *(self.base as *mut Context) }
    }

    /// Takes the vector state that there is now for the program's. For an engine that
    /// keeps it.
    pub fn take_vectors(&mut self) {
        let gate = self.base + u64::from(self.gates.save_vectors);
        // SAFETY: the gate is a function that writes to the engine's memory.
        unsafe {
            let gate: extern "sysv64" fn() = core::mem::transmute(gate);
            gate();
        }
    }

    /// Forgets all copies: code has changed, or is not there any more.
    pub fn flush(&mut self) {
        self.hot = Writer::new(self.base, HOT, HOT_END);
        self.cold = Writer::new(self.base, COLD, COLD_END);
        self.is_full = false;
        self.context().places = 0;
        self.exits = 0;
        self.units = 0;
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.generation = 1;
            // SAFETY: the table's place in the engine's memory.
            unsafe { core::ptr::write_bytes(self.unit_table(), 0, UNITS_MAX) };
        }
        gates::clear_targets(self.base, &self.gates);
    }

    /// Sets the addresses at which [`Engine::run`] stops; false if there are too many.
    pub fn set_breakpoints(&mut self, addresses: &[u64]) -> bool {
        if addresses.len() > BREAKPOINTS_MAX {
            return false;
        }
        if self.breakpoints[..self.breakpoint_count] != *addresses {
            self.breakpoints[..addresses.len()].copy_from_slice(addresses);
            self.breakpoint_count = addresses.len();
            self.flush();
        }
        true
    }

    pub fn is_breakpoint(&self, address: u64) -> bool {
        self.breakpoints[..self.breakpoint_count].contains(&address)
    }

    // --- running ---

    /// Runs the program from this state on, until something stops it.
    ///
    /// # Safety
    /// The state is one that the program may go on from: its code is run, and does to
    /// memory and vector registers whatever it does.
    pub unsafe fn run(&mut self, host: &mut dyn Host, state: &mut State, goal: &Goal) -> Outcome {
        let context = self.context();
        context.general = state.general;
        context.flags = state.flags;
        context.fs_base = goal.fs_base;
        context.notes_stores = u64::from(goal.notes_stores);
        context.noted = 0;
        if self.is_full {
            self.flush();
        }
        let mut rip = state.rip;
        let mut executed = 0;
        let mut passes = goal.passes_breakpoint;
        let mut passes_store = goal.passes_store && self.watch_count > 0;
        let mut is_near = false;
        let mut noted = None;
        let stop = loop {
            let remaining = goal.limit - executed;
            if remaining == 0 {
                break Stop::Limit;
            }
            if !passes && self.is_breakpoint(rip) {
                break Stop::Breakpoint;
            }
            let noted_before = self.context().noted;
            let left = if passes_store {
                self.run_passing(host, rip)
            } else if remaining <= SLACK || is_near {
                self.run_once(host, rip, remaining.min(SLACK) as usize, true)
            } else {
                self.run_units(host, rip, remaining - SLACK)
            };
            rip = left.rip;
            if self.context().noted != noted_before {
                noted = left.noted.map(|since| executed + since);
            }
            executed += left.executed;
            passes = false;
            passes_store = false;
            is_near = left.kind == LeftKind::Exit(ExitKind::Limit);
            match left.kind {
                LeftKind::Fault => break Stop::Fault,
                LeftKind::Interrupted => break Stop::Interrupted,
                LeftKind::Exit(ExitKind::Direct | ExitKind::Indirect | ExitKind::Limit) => {}
                LeftKind::Exit(ExitKind::Call) => break Stop::Call,
                LeftKind::Exit(ExitKind::Special) => break Stop::Instruction,
                LeftKind::Exit(ExitKind::Unreadable) => break Stop::Unreadable,
                LeftKind::Exit(ExitKind::Store) => {
                    let (start, bytes) = (self.context().store_address, self.context().store_bytes);
                    break Stop::Store { start, bytes };
                }
                LeftKind::Exit(ExitKind::MayStore) => match self.watched_store(host, rip) {
                    Some((start, bytes)) if !goal.notes_stores => break Stop::Store { start, bytes },
                    touched => {
                        if touched.is_some() {
                            self.context().noted += 1;
                            noted = Some(executed);
                        }
                        passes = true;
                        passes_store = true;
                    }
                },
            }
        };
        let context = self.context();
        state.general = context.general;
        state.flags = context.flags;
        state.rip = rip;
        let stores = core::mem::take(&mut context.noted);
        Outcome { stop, executed, stores, last_store: noted }
    }

    /// Runs one instruction, whatever it stores to.
    fn run_passing(&mut self, host: &mut dyn Host, rip: u64) -> Left {
        if !host.is_stable(rip) {
            return self.run_once(host, rip, 1, false);
        }
        let code = match self.find_unit(rip, PASSING_KEY) {
            Some(code) => code,
            None => {
                let purpose = Purpose::Once { instructions: 1, watch: false };
                let Some(code) = unit::copy(self, host, rip, 0, purpose) else {
                    self.flush();
                    return self.run_passing(host, rip);
                };
                self.note_unit(rip, PASSING_KEY, code);
                code
            }
        };
        let exit = self.enter(code);
        self.left(&exit, 0)
    }

    /// Runs at most so many instructions, which must not be zero, from a copy that is
    /// made for it.
    fn run_once(&mut self, host: &mut dyn Host, rip: u64, instructions: usize, watch: bool) -> Left {
        let purpose = Purpose::Once { instructions, watch };
        let before = (self.hot.at, self.cold.at, self.exits, self.context().places);
        let code = match unit::copy(self, host, rip, 0, purpose) {
            Some(code) => code,
            None => {
                self.flush();
                return self.run_once(host, rip, instructions, watch);
            }
        };
        let exit = self.enter(code & !UNSTABLE);
        let left = self.left(&exit, 0);
        (self.hot.at, self.cold.at, self.exits) = (before.0, before.1, before.2);
        self.context().places = before.3;
        left
    }

    /// Runs units until the count has come to the budget or something else happens.
    fn run_units(&mut self, host: &mut dyn Host, rip: u64, budget: u64) -> Left {
        // So that the highest byte of the counter is zero until it is negative.
        let budget = budget.min(INTERRUPTION as u64 / 2) as i64;
        self.context().counter = budget;
        let (mut rip, mut pending) = (rip, 0u16);
        // The jump that led here and is to lead here directly.
        let mut patch = 0;
        let mut is_indirect = false;
        let mut noted = None;
        loop {
            let generation = self.generation;
            let code = self.provide_unit(host, rip, pending);
            let is_stable = code & UNSTABLE == 0;
            let code = code & !UNSTABLE;
            if is_stable && generation == self.generation {
                if patch != 0 {
                    self.hot.set_distance(patch, code);
                } else if is_indirect {
                    self.lead_to(rip, code);
                }
            }
            let stores = self.context().noted;
            let exit = self.enter(code);
            if self.context().noted != stores {
                // Before exits are forgotten.
                noted = self.noted(budget);
            }
            let goes_on = matches!(exit.kind, ExitKind::Direct | ExitKind::Indirect)
                && self.context().exit as u32 != EXIT_FAULT
                && !self.is_breakpoint(exit.rip);
            if !goes_on {
                let left = self.left(&exit, budget);
                return Left { noted, ..left };
            }
            rip = exit.rip;
            pending = exit.executed as u16;
            patch = exit.patch;
            is_indirect = exit.kind == ExitKind::Indirect;
        }
    }

    /// Runs the code, and returns how it was left.
    fn enter(&mut self, code: u32) -> Exit {
        self.context().target = self.base + u64::from(code);
        let gate = self.base + u64::from(self.gates.enter);
        // SAFETY: the gate saves what a function must; the code is the program's, which
        // the caller of `run` answers for.
        unsafe {
            let gate: extern "sysv64" fn() = core::mem::transmute(gate);
            gate();
        }
        let context = self.context();
        match context.exit as u32 {
            EXIT_INDIRECT => {
                let jump = context.jump;
                self.led_away(jump, 0)
            }
            EXIT_FAULT => Exit {
                rip: context.fault_rip,
                patch: 0,
                executed: context.fault_executed as i16,
                kind: ExitKind::Direct,
            },
            number => {
                // SAFETY: the number of an exit that was made.
                let exit = unsafe { self.exit_table().add(number as usize).read() };
                match exit.kind {
                    ExitKind::Indirect => self.led_away(u64::from(number), exit.executed),
                    _ => exit,
                }
            }
        }
    }

    /// An indirect jump, of which this exit tells, has led to the context's target. The processor makes none
    /// to an address that is not canonical: the fault is the jump's own (Intel SDM, CALL, JMP and RET). It is
    /// taken back, but for what a call has pushed, which lies below the stack then, and is the host's.
    fn led_away(&mut self, number: u64, executed: i16) -> Exit {
        let context = self.context();
        let target = context.target;
        if (target as i64) << 16 >> 16 == target as i64 {
            return Exit { rip: target, patch: 0, executed, kind: ExitKind::Indirect };
        }
        // SAFETY: the number of an exit that was made.
        let jump = unsafe { self.exit_table().add(number as usize).read() };
        let rsp = &mut self.context().general[usize::from(RSP)];
        *rsp = rsp.wrapping_sub(jump.patch as i32 as u64);
        Exit { rip: jump.rip, patch: 0, executed: executed - 1, kind: ExitKind::Special }
    }

    fn left(&mut self, exit: &Exit, budget: i64) -> Left {
        let context = self.context();
        let counted = counted(budget, context.counter);
        let kind = if context.exit as u32 == EXIT_FAULT {
            LeftKind::Fault
        } else if budget != 0 && budget - context.counter >= INTERRUPTION && exit.kind == ExitKind::Limit {
            LeftKind::Interrupted
        } else {
            LeftKind::Exit(exit.kind)
        };
        let noted = self.noted(budget);
        Left { kind, rip: exit.rip, executed: (counted + i64::from(exit.executed)) as u64, noted }
    }

    /// Instructions that had been executed before the last store that was noted.
    fn noted(&mut self, budget: i64) -> Option<u64> {
        let context = self.context();
        let (noted, number, counter) = (context.noted, context.noted_exit, context.noted_counter);
        if noted == 0 || number >= self.exits as u64 {
            return None;
        }
        // SAFETY: the number of an exit that was made.
        let exit = unsafe { self.exit_table().add(number as usize).read() };
        let counted = counted(budget, counter);
        Some((counted + i64::from(exit.executed)) as u64)
    }

    /// The unit of this address, copied if need be.
    fn provide_unit(&mut self, host: &mut dyn Host, rip: u64, pending: u16) -> u32 {
        match self.find_unit(rip, pending) {
            Some(code) if code & UNSTABLE == 0 || self.is_unchanged(host, code & !UNSTABLE) => return code,
            _ => {}
        }
        loop {
            if !self.is_full
                && let Some(code) = unit::copy(self, host, rip, pending, Purpose::Keep)
            {
                self.note_unit(rip, pending, code);
                return code;
            }
            self.flush();
        }
    }

    /// True if the source of an unstable unit is what it was.
    fn is_unchanged(&mut self, host: &mut dyn Host, code: u32) -> bool {
        let place = self.word(code - 4) as u32;
        if place == 0 {
            // There was nothing to read.
            return false;
        }
        let (source, bytes) = (self.word(place), self.word(place + 8) as usize);
        let mut now = [0u8; 512];
        if host.code(source, &mut now[..bytes]) < bytes {
            return false;
        }
        // SAFETY: so many bytes were written there.
        let then =
            unsafe { core::slice::from_raw_parts((self.base + u64::from(place) + 16) as *const u8, bytes) };
        *then == now[..bytes]
    }

    /// Lets indirect jumps to the address find the unit.
    fn lead_to(&mut self, rip: u64, code: u32) {
        if self.find_unit(rip, TARGET_KEY).is_some() {
            return;
        }
        let slot = (self.base + u64::from(TARGET_TABLE)) as *mut u64;
        // SAFETY: inside of the table.
        let slot = unsafe { &mut *slot.add(usize::from(rip as u16)) };
        let next = (*slot - self.base) as u32;
        let entry = self.hot.at;
        let other = self.cold.at;
        self.cold.pass_on(rip, next);
        self.hot.check_target(rip, other, code);
        if self.hot.is_full || self.cold.is_full {
            self.is_full = true;
            return;
        }
        *slot = self.base + u64::from(entry);
        self.note_unit(rip, TARGET_KEY, entry);
    }
}

/// Instructions counted by a counter that began at the budget; 0: it does not count.
fn counted(budget: i64, counter: i64) -> i64 {
    if budget == 0 { 0 } else { (budget - counter) & (INTERRUPTION - 1) }
}

/// Lets an engine that is running stop soon, if a copy of code is what runs: for a
/// handler of signals.
///
/// # Safety
/// `base` is the memory of an engine that is running.
pub unsafe fn interrupt(base: u64) {
    // SAFETY: as the caller says; a handler runs between two instructions of the copy.
    let counter = unsafe { &mut (*(base as *mut Context)).counter };
    if (0..INTERRUPTION).contains(counter) {
        *counter -= INTERRUPTION;
    }
}

/// The program faulted in a copy, at this address: gives the registers the values that
/// they have at the program's own instruction, and returns the address to go on at,
/// which makes [`Engine::run`] return [`Stop::Fault`]. `None` if the address is not in
/// a copy of the program's code.
///
/// # Safety
/// `base` is the memory of an engine that is running.
pub unsafe fn on_fault(base: u64, address: u64, general: &mut [u64; 16]) -> Option<u64> {
    // SAFETY: as the caller says.
    let context = unsafe { &mut *(base as *mut Context) };
    let offset = address.checked_sub(base).and_then(|offset| u32::try_from(offset).ok())?;
    if !(HOT..HOT_END).contains(&offset) {
        return None;
    }
    let places = (base + u64::from(PLACES)) as *const Place;
    // SAFETY: so many entries were written.
    let places = unsafe { core::slice::from_raw_parts(places, context.places as usize) };
    let behind = places.partition_point(|place| place.offset <= offset);
    let place = places.get(behind.checked_sub(1)?)?;
    for (number, register) in general.iter_mut().enumerate() {
        if place.kept & 1 << number != 0 {
            *register = context.general[number];
        }
    }
    context.fault_rip = place.rip;
    context.fault_executed = i64::from(place.executed);
    context.exit = u64::from(EXIT_FAULT);
    Some(base + context.leave)
}
