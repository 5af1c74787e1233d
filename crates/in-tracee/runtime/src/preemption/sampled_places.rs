//! Places in the program's code at which chaos preempts a thread: drawn among the instructions that
//! touch memory which others may share, those behind them, and calls.
//!
//! A breakpoint stands at each; who comes to it is preempted there, after a number of visits that is
//! drawn, and others go first. So a window between two instructions is met however short it is, and
//! however seldom its thread comes to it (Erickson et al., Effective data-race detection for the kernel,
//! OSDI 2010, samples accesses so). An instruction that reads, changes and writes memory, and is not
//! atomic, is preempted in its middle: see [`Change`].
//!
//! Of a large file most is never executed, least of all by several threads: there the functions that are
//! entered from here on are drawn from (`executed_functions`).
//!
//! Invariant: only recording plants, in code of the program's own file that it cannot write to.
//! Deliberately absent: places in libraries, and in code that is generated.

use core::sync::atomic::Ordering;

use lane_protocol::{FORCED_MAX, ForcedPlace, ForcedSwitch};

use crate::code::{clocks, sites};
use crate::ground::decode::Registers;
use crate::ground::frame::RealFrame;
use crate::ground::memory::Program;
use crate::ground::owned::{Held, Owned};
use crate::ground::{image_functions, memory};
use crate::preemption::executed_functions::{self, Entered, ExecutedFunctions};
use crate::preemption::preemption_timer::now_ns;
use crate::preemption::{preempt, preemption_point, single_steps};
use crate::scheduler::strategy::strategy;
use crate::scheduler::{chaos, contention, encounters, forced, own_token};
use crate::state::block::{process, session, thread};
use runtime_logic::accesses::{self, Access, Change};

const INT3: u8 = 0xcc;
/// So many places at most are drawn from, and so many instructions looked at for them.
const CANDIDATES: usize = 4096;
const INSTRUCTIONS_MAX: usize = 8192;
/// Functions of more bytes than that are not all looked at.
const BYTES_MAX: u64 = 32 << 10;
/// So many stand at a time.
const PLACES: usize = 32;
/// Visits of a place, of which none was one to preempt at, after which another place is drawn: each
/// takes some microseconds.
const VISITS_MAX: u32 = 256;
/// The same of all places: so much do all visits cost together.
const ALL_VISITS_MAX: u32 = 8192;
/// A place is preempted at once, and again one time in so many.
const AGAIN: u64 = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Nothing is drawn.
    Empty,
    Planted,
    /// Away for as long as somebody executes what is there.
    Lifted,
    /// Away for good.
    Done,
}

#[derive(Clone, Copy)]
struct Place {
    standing: Standing,
    address: u64,
    /// What the breakpoint replaces.
    byte: u8,
    visits: u32,
    skips: u32,
}

const NOWHERE: Place = Place { standing: Standing::Empty, address: 0, byte: 0, visits: 0, skips: 0 };

struct State {
    is_ready: bool,
    count: usize,
    candidates: [u64; CANDIDATES],
    /// How likely each is.
    weights: [u8; CANDIDATES],
    weight: u64,
    /// Of a large file, in place of the candidates; the weight is 1 then.
    executed: ExecutedFunctions,
    places: [Place; PLACES],
    preemptions: u32,
    visits: u32,
    /// With a schedule: executions of each switch's instruction, by its thread.
    executions: [u64; FORCED_MAX],
}

static STATE: Owned<State> = Owned::new(State {
    is_ready: false,
    count: 0,
    candidates: [0; CANDIDATES],
    weights: [0; CANDIDATES],
    weight: 0,
    executed: ExecutedFunctions::NONE,
    places: [NOWHERE; PLACES],
    preemptions: 0,
    visits: 0,
    executions: [0; FORCED_MAX],
});

fn own() -> Held<State> {
    STATE.hold()
}

/// Recording with chaos, at a boundary: plants what is to stand.
pub fn at_boundary() {
    if own_token::is_scheduled() {
        return own().plant_forced();
    }
    let wanted = strategy().places.min(PLACES);
    let is_over = own().is_ready && own().weight == 0 && !own().has_lifted();
    let meets_nobody = contention::is_alone() && !encounters::signals_may_come();
    if wanted == 0 || is_over || process().has_agent() || session().live != 0 || meets_nobody {
        return;
    }
    let state = &mut *own();
    if !state.is_ready {
        state.is_ready = true;
        state.collect();
    }
    state.executed.note_stack();
    for index in 0..wanted {
        if state.places[index].standing == Standing::Empty {
            state.draw(index);
        }
    }
    state.plant_lifted(0);
}

/// The same where nothing was planted yet.
pub fn begin() {
    if !own().is_ready || own_token::is_scheduled() {
        at_boundary();
    }
}

/// A breakpoint: true if it was one of these.
pub fn on_trap(context: &mut RealFrame) -> bool {
    let address = context.rip.wrapping_sub(1);
    let state = &mut *own();
    let stands = |place: &Place| place.address == address && place.standing != Standing::Empty;
    let Some(index) = state.places.iter().position(stands) else {
        let entered = state.executed.on_trap(address);
        if let Some(entered) = &entered {
            context.rip = address;
            state.draw_anew(entered);
        }
        return entered.is_some();
    };
    context.rip = address;
    state.lift(index);
    let registers = context.registers();
    if registers.steps_itself() {
        // Its own step leads over the place, which is planted again at the boundary behind that.
        return true;
    }
    if own_token::is_scheduled() {
        return on_forced(state, index, context);
    }
    state.visits += 1;
    if state.visits > ALL_VISITS_MAX {
        state.take_out();
        state.weight = 0;
        return true;
    }
    let goes_on = process().log.broken == 0 && process().given_up.load(Ordering::Acquire) == 0;
    if !goes_on || contention::is_alone() && !preempt::signal_is_due() && !encounters::signals_may_come() {
        return true;
    }
    if touches_own(&registers) {
        state.draw(index);
        state.plant_lifted(0);
        return true;
    }
    let place = &mut state.places[index];
    place.visits += 1;
    if place.visits > place.skips && !process().in_parents_memory && chaos::debt_ns() == 0 {
        state.note_preemption(index);
        preempt(context);
        return true;
    }
    if place.visits > VISITS_MAX {
        state.draw(index);
        state.plant_lifted(0);
        return true;
    }
    step_over(context);
    true
}

/// A switch of this process in its code.
fn is_in_code(switch: &ForcedSwitch) -> bool {
    switch.place != ForcedPlace::Call as u32 && switch.lane == process().lane
}

/// The same with a schedule: each thread counts its executions, and releases the token at those that are
/// named.
fn on_forced(state: &mut State, index: usize, context: &mut RealFrame) -> bool {
    let address = context.rip;
    let mut due = None;
    for (switch, seen) in forced::switches().iter().zip(&mut state.executions) {
        if is_in_code(switch) && forced::is_own(switch) && switch.address == address {
            *seen += 1;
            if *seen == switch.ordinal {
                due = Some(switch.place == ForcedPlace::InInstruction as u32);
            }
        }
    }
    if !state.has_forced_left(address) {
        // A loop may come here very often yet.
        state.places[index].standing = Standing::Done;
    }
    let goes_on = process().log.broken == 0 && process().given_up.load(Ordering::Acquire) == 0;
    // Who is alone waits there for a signal.
    let meets = !contention::is_alone() || encounters::signals_may_come();
    match due {
        Some(is_inside) if goes_on && meets && !process().in_parents_memory => {
            forced::go_away();
            preempt(context);
            if !is_inside {
                thread().preemption.change = None;
            }
        }
        Some(_) | None if goes_on => step_over(context),
        // Nobody is there any more for the steps of one that goes on unrecorded.
        Some(_) | None => {}
    }
    true
}

/// The instruction names memory of its thread's own stack.
fn touches_own(registers: &Registers) -> bool {
    let is_shared_access = matches!(
        accesses::look(&Program, registers.rip),
        Some((Access::Load | Access::Store | Access::Change | Access::Atomic, _))
    );
    is_shared_access && accesses::shared_address(&Program, registers).is_none()
}

fn step_over(context: &mut RealFrame) {
    let preemption = &mut thread().preemption;
    if !preemption.stepping {
        (preemption.stepping, preemption.steps_over) = (true, true);
    }
    single_steps::begin(context);
}

/// The thread goes on from a preemption with these registers: what stood there is planted again behind it.
pub fn leave(registers: &mut Registers) {
    let is_at_place = own().is_lifted_at(registers.rip);
    if is_at_place && process().log.broken == 0 && !registers.steps_itself() {
        let preemption = &mut thread().preemption;
        (preemption.stepping, preemption.steps_over) = (true, true);
        single_steps::begin_with(registers);
    } else {
        own().plant_lifted(0);
    }
}

/// A step ended here: true if it only led over a place, or is on the way there.
pub fn on_step(context: &mut RealFrame) -> bool {
    let state = &mut *own();
    let is_there = state.is_lifted_at(context.rip);
    state.plant_lifted(context.rip);
    let preemption = &mut thread().preemption;
    if !preemption.steps_over {
        return false;
    }
    preemption.steps_over = is_there || clocks::is_ours_at(context.rip);
    preemption.stepping = preemption.steps_over;
    if preemption.steps_over {
        single_steps::begin(context);
    } else if preempt::signal_is_due() {
        // It came while the thread was on its way over the place, and set no timer.
        preempt::signal_waits();
    }
    true
}

/// The thread is preempted before the instruction at hand, or in its middle.
fn preempt(context: &mut RealFrame) {
    preempt::abandon();
    let (registers, preemption) = (context.registers(), &mut thread().preemption);
    thread().is_asked = true;
    preemption.is_aside = true;
    // A signal comes before an instruction or behind it.
    preemption.change = if encounters::is_lone() { None } else { Change::begin(&Program, &registers) };
    preemption.way_from_ns = now_ns();
    preemption_point::lead_to(context, registers);
}

/// Recording ends: the program's code is its own again.
pub fn end() {
    own().take_out();
    own().weight = 0;
    own().is_ready = true;
}

/// Memory was unmapped: what stood there is gone.
pub fn unmapped(start: u64, end: u64) {
    let state = &mut *own();
    for place in state.places.iter_mut().filter(|place| (start..end).contains(&place.address)) {
        *place = NOWHERE;
    }
    let is_gone = state.count != 0 && (start..end).contains(&state.candidates[0]);
    if is_gone || state.executed.are_in(start, end) {
        state.executed = ExecutedFunctions::NONE;
        state.weight = 0;
    }
}

impl State {
    /// True if a switch before or in this instruction is still to come.
    fn has_forced_left(&self, address: u64) -> bool {
        let mut with_counts = forced::switches().iter().zip(&self.executions);
        with_counts
            .any(|(switch, seen)| is_in_code(switch) && switch.address == address && *seen < switch.ordinal)
    }

    /// Plants what the schedule names, where it is mapped by now.
    fn plant_forced(&mut self) {
        for switch in forced::switches().iter().filter(|switch| is_in_code(switch)) {
            let is_there = |place: &Place| {
                place.address == switch.address && !matches!(place.standing, Standing::Empty | Standing::Done)
            };
            let is_over = !self.has_forced_left(switch.address);
            if is_over || self.places.iter().any(is_there) || sites::is_near(switch.address) {
                continue;
            }
            let Some(byte) = memory::read::<u8>(switch.address).filter(|&byte| byte != INT3) else {
                continue;
            };
            let free = |place: &&mut Place| matches!(place.standing, Standing::Empty | Standing::Done);
            if let Some(place) = self.places.iter_mut().find(free) {
                let standing = Standing::Lifted;
                *place = Place { standing, address: switch.address, byte, visits: 0, skips: 0 };
            }
        }
        self.plant_lifted(0);
    }

    /// Looks for instructions to preempt at, from one function on that is drawn.
    fn collect(&mut self) {
        let mut left = INSTRUCTIONS_MAX;
        (self.count, self.weight) = (0, 0);
        let functions = image_functions::of_program();
        if functions.bytes() > BYTES_MAX {
            self.weight = u64::from(self.executed.begin(functions));
            return;
        }
        let first = chaos::below(functions.count());
        for index in (first..functions.count()).chain(0..first) {
            let Some((start, end)) = functions.at(index) else { continue };
            if left == 0 || self.count == CANDIDATES {
                break;
            }
            self.collect_function(start, end, &mut left);
        }
    }

    fn collect_function(&mut self, start: u64, end: u64, left: &mut usize) {
        let before = (self.count, self.weight);
        let may_be_taken = accesses::each_place(&Program, start, end, left, &mut |address, weight| {
            if !sites::is_near(address) {
                self.add(address, weight);
            }
        });
        if !may_be_taken {
            (self.count, self.weight) = before;
        }
    }

    /// Another function is executed: its places get their share.
    fn draw_anew(&mut self, entered: &Entered) {
        for index in 0..strategy().places.min(PLACES) {
            if self.weight != 0 && entered.is_drawn(index) {
                self.lift(index);
                self.draw_in(index, entered.function);
            }
        }
        self.plant_lifted(0);
    }

    /// Plants another place in this function.
    fn draw_in(&mut self, index: usize, (start, end): (u64, u64)) {
        // What is looked at is the program's code, without breakpoints.
        for other in 0..PLACES {
            if (start..end).contains(&self.places[other].address) {
                self.lift(other);
            }
        }
        self.places[index] = NOWHERE;
        if let Some(address) = executed_functions::draw_between(start, end) {
            self.put(index, address);
        }
    }

    /// A place stands there, when it is planted; only one.
    fn put(&mut self, index: usize, address: u64) {
        if self.places.iter().any(|place| place.address == address) {
            return;
        }
        if let Some(byte) = memory::read::<u8>(address).filter(|&byte| byte != INT3) {
            self.places[index] =
                Place { standing: Standing::Lifted, address, byte, visits: 0, skips: skips() };
        }
    }

    fn add(&mut self, address: u64, weight: u8) {
        if self.count < CANDIDATES {
            self.candidates[self.count] = address;
            self.weights[self.count] = weight;
            self.weight += u64::from(weight);
            self.count += 1;
        }
    }

    /// Plants another place there.
    fn draw(&mut self, index: usize) {
        self.lift(index);
        self.places[index] = NOWHERE;
        if self.weight == 0 {
            return;
        }
        if self.executed.are_looked_for() {
            if let Some(function) = self.executed.draw() {
                self.draw_in(index, function);
            }
            return;
        }
        let weights = self.weights[..self.count].iter().copied();
        let Some(candidate) = chaos::weighted(self.weight, weights) else { return };
        let address = self.candidates[candidate];
        // Each is drawn once: those that are visited often would be all that is seen.
        self.weight -= u64::from(core::mem::take(&mut self.weights[candidate]));
        self.put(index, address);
    }

    fn note_preemption(&mut self, index: usize) {
        self.preemptions += 1;
        if self.preemptions >= strategy().preemptions {
            self.take_out();
            self.weight = 0;
        } else if chaos::below(AGAIN) == 0 {
            (self.places[index].visits, self.places[index].skips) = (0, skips());
        } else {
            // What is visited first would be all that is seen.
            self.places[index].standing = Standing::Done;
        }
    }

    fn lift(&mut self, index: usize) {
        let place = &mut self.places[index];
        if place.standing == Standing::Planted {
            place.standing = Standing::Lifted;
            // Other memory may have been mapped there since.
            if memory::read::<u8>(place.address) == Some(INT3) {
                sites::write_code(place.address, &[place.byte]);
            }
        }
    }

    /// Plants what is lifted, but there.
    fn plant_lifted(&mut self, but: u64) {
        let is_due = |place: &&mut Place| place.standing == Standing::Lifted && place.address != but;
        for place in self.places.iter_mut().filter(is_due) {
            let is_there = memory::read::<u8>(place.address) == Some(place.byte);
            let is_planted = is_there && sites::write_code(place.address, &[INT3]);
            place.standing = if is_planted { Standing::Planted } else { Standing::Done };
        }
    }

    fn has_lifted(&self) -> bool {
        self.places.iter().any(|place| place.standing == Standing::Lifted)
    }

    fn is_lifted_at(&self, rip: u64) -> bool {
        self.places.iter().any(|place| place.standing == Standing::Lifted && place.address == rip)
    }

    fn take_out(&mut self) {
        self.executed.end();
        for index in 0..PLACES {
            self.lift(index);
            self.places[index] = NOWHERE;
        }
    }
}

/// Visits that are let pass: often none.
fn skips() -> u32 {
    match chaos::below(2) {
        0 => 0,
        _ => chaos::below(1 << chaos::below(1 + strategy().visits_doublings)) as u32,
    }
}
