//! The functions of a large file that are executed while others run, or may send signals: chaos draws its
//! places from these.
//!
//! A breakpoint stands at the beginning of each of up to 8,192 functions; the first that enters one takes it
//! away. Each function is as likely to be drawn from as another one, whatever its length, but those that a
//! process's first thread did not enter first are more likely: what threads are made for is there. Those that
//! had begun before are found by the return addresses on the stack.
//!
//! Invariant: a byte that was replaced is put back by whoever comes there, or at the end.
//! Deliberately absent: functions that are entered in their middle, and files without a table of functions.

use crate::code::sites;
use crate::ground::decode::Registers;
use crate::ground::image_functions::Functions;
use crate::ground::memory::{self, Program};
use crate::scheduler::chaos;
use crate::state::block::thread;
use runtime_logic::accesses;

const INT3: u8 = 0xcc;
/// So many functions are looked for, and so many known; so many instructions of one are looked at.
const LOOKED_FOR_MAX: usize = 8192;
const KNOWN_MAX: usize = 1024;
const INSTRUCTIONS_MAX: usize = 2048;
/// So much likelier are those that another thread than the first enters first.
const OTHERS_WEIGHT: u8 = 4;
/// The same of those that are the program's own, where a language's are known: all threads of Go execute
/// hundreds of its runtime's.
const OWN_WEIGHT: u8 = 16;
/// One in so many places of those for late functions is in such a one, each time that one is entered.
const OWN: u64 = 2;
/// So many functions that were entered lately have half of the places.
const LATE: u64 = 8;
/// Functions that are entered before the first place is drawn: fewer than two to less than this.
const EARLY_DOUBLINGS: u64 = 10;
/// Boundaries at which the stack is looked at, and so many words of it.
const STACKS: u32 = 64;
const STACK_WORDS: usize = 128;

#[derive(Clone, Copy)]
struct Known {
    index: u32,
    weight: u8,
}

pub struct ExecutedFunctions {
    functions: Functions,
    /// The first of those that are looked for, and their number; 0: none are.
    first: u64,
    count: usize,
    /// What their breakpoints replaced; 0, with which no function begins: none stands there.
    bytes: [u8; LOOKED_FOR_MAX],
    known: [Known; KNOWN_MAX],
    known_count: usize,
    weight: u64,
    stacks: u32,
    /// So many are entered yet before places are drawn. A runtime that starts enters hundreds of functions,
    /// and would have all preemptions of the recording.
    early: u64,
}

/// A function that was entered for the first time.
pub struct Entered {
    pub function: (u64, u64),
    weight: u8,
    /// Of all that are known.
    all: u64,
    is_early: bool,
    is_own: bool,
}

impl ExecutedFunctions {
    pub const NONE: ExecutedFunctions = ExecutedFunctions {
        functions: Functions::NONE,
        first: 0,
        count: 0,
        bytes: [0; LOOKED_FOR_MAX],
        known: [Known { index: 0, weight: 0 }; KNOWN_MAX],
        known_count: 0,
        weight: 0,
        stacks: 0,
        early: 0,
    };

    pub fn are_looked_for(&self) -> bool {
        self.count != 0
    }

    /// True if they are in this part of the memory.
    pub fn are_in(&self, start: u64, end: u64) -> bool {
        self.are_looked_for()
            && self.functions.at(self.first).is_some_and(|(at, _)| (start..end).contains(&at))
    }

    /// From now on those that are entered are looked for: false if that cannot be.
    pub fn begin(&mut self, functions: Functions) -> bool {
        let count = functions.count().min(LOOKED_FOR_MAX as u64);
        self.functions = functions;
        self.first = chaos::below(functions.count() - count + 1);
        self.count = count as usize;
        let early = chaos::below(1 << chaos::below(EARLY_DOUBLINGS));
        // All that comes before the program's own is its language's beginning.
        self.early = if functions.know_own() { u64::MAX } else { early };
        let is_done = self.change(|address, byte| match memory::read::<u8>(address) {
            Some(0 | INT3) | None => {}
            Some(_) if sites::is_near(address) => {}
            Some(own) if memory::write(address, &INT3) => *byte = own,
            Some(_) => {}
        });
        if !is_done {
            self.count = 0;
        }
        is_done
    }

    /// No more: the program's code is its own again.
    pub fn end(&mut self) {
        self.change(put_back);
        self.count = 0;
    }

    /// Calls `each` with the beginnings and with what is kept of them, while the code can be written to.
    fn change(&mut self, each: fn(u64, &mut u8)) -> bool {
        let (functions, first) = (self.functions, self.first);
        let places = &mut self.bytes[..self.count];
        let mut known = (first..).take(places.len()).filter_map(|index| functions.at(index));
        let Some((start, end)) = known.next() else { return false };
        let end = known.last().map_or(end, |(_, end)| end);
        sites::change_code(start, end, &mut || {
            for (index, byte) in (first..).zip(places.iter_mut()) {
                if let Some((address, _)) = functions.at(index) {
                    each(address, byte);
                }
            }
        })
    }

    /// A breakpoint: the function there, if it is one of these.
    pub fn on_trap(&mut self, address: u64) -> Option<Entered> {
        if !self.are_looked_for() {
            return None;
        }
        let index = self.functions.index_of(address)?;
        let (start, end) = self.functions.at(index)?;
        if start != address || !self.take_away(index) {
            return None;
        }
        let weight = self.note(index);
        let is_own = self.functions.is_own(index);
        Some(Entered { function: (start, end), weight, all: self.weight, is_early: self.early != 0, is_own })
    }

    /// The breakpoint of this function goes: false if none stands there.
    fn take_away(&mut self, index: u64) -> bool {
        let place = index.checked_sub(self.first).and_then(|at| self.bytes.get_mut(at as usize));
        let (Some(byte), Some((start, _))) = (place, self.functions.at(index)) else { return false };
        *byte != 0 && sites::change_code(start, start + 1, &mut || put_back(start, byte))
    }

    /// What waits for a call to return is executed as well.
    pub fn note_stack(&mut self) {
        if !self.are_looked_for() || self.stacks == STACKS {
            return;
        }
        self.stacks += 1;
        let Some((start, end)) = self.functions.range() else { return };
        let Some(registers) = memory::read::<Registers>(thread().registers_at) else { return };
        for word in 0..STACK_WORDS as u64 {
            let Some(value) = memory::read_word(registers.rsp + 8 * word) else { return };
            if (start..end).contains(&value)
                && let Some(index) = self.functions.index_of(value)
            {
                self.take_away(index);
                self.note(index);
            }
        }
    }

    /// A function was executed: how likely it is to be drawn from.
    fn note(&mut self, index: u64) -> u8 {
        let is_known = self.known[..self.known_count].iter().any(|known| u64::from(known.index) == index);
        if is_known || self.known_count == KNOWN_MAX {
            return 0;
        }
        let by_thread = if thread().index == 0 { 1 } else { OTHERS_WEIGHT };
        let is_own = self.functions.is_own(index);
        let weight = by_thread * if is_own { OWN_WEIGHT } else { 1 };
        self.known[self.known_count] = Known { index: index as u32, weight };
        self.known_count += 1;
        self.weight += u64::from(weight);
        self.early = if is_own { 0 } else { self.early.saturating_sub(1) };
        weight
    }

    /// One of those that were executed: from where to where it is.
    pub fn draw(&self) -> Option<(u64, u64)> {
        if self.early != 0 {
            return None;
        }
        let known = &self.known[..self.known_count];
        let drawn = chaos::weighted(self.weight, known.iter().map(|known| known.weight))?;
        self.functions.at(u64::from(known[drawn].index))
    }
}

fn put_back(address: u64, byte: &mut u8) {
    let own = core::mem::take(byte);
    // Other memory may have been mapped there since.
    if own != 0 && memory::read::<u8>(address) == Some(INT3) {
        memory::write(address, &own);
    }
}

/// A place between these: each as likely as its weight says. No breakpoint stands there.
pub fn draw_between(start: u64, end: u64) -> Option<u64> {
    let (mut drawn, mut sum, mut left) = (None, 0, INSTRUCTIONS_MAX);
    let may_be_taken = accesses::each_place(&Program, start, end, &mut left, &mut |address, weight| {
        sum += u64::from(weight);
        if chaos::below(sum) < u64::from(weight) && !sites::is_near(address) {
            drawn = Some(address);
        }
    });
    drawn.filter(|_| may_be_taken)
}

impl Entered {
    /// Draws whether the place of this number is to be here. Half of all are in functions that were entered
    /// lately: what threads do behind their beginning is there.
    pub fn is_drawn(&self, number: usize) -> bool {
        let is_late = chaos::below(if self.is_own { OWN } else { LATE }) == 0;
        let is_for_late = !number.is_multiple_of(2) && is_late;
        !self.is_early && (is_for_late || chaos::below(self.all) < u64::from(self.weight))
    }
}
