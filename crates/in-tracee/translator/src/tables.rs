//! The engine's tables in its memory: units by their keys, ways out by their numbers,
//! places by their offsets.

use crate::engine::Engine;
use crate::memory::{
    EXITS, EXITS_MAX, Exit, ExitKind, PLACES, PLACES_MAX, Place, UNITS, UNITS_MAX, UnitEntry,
};

impl Engine {
    pub(crate) fn unit_table(&self) -> *mut UnitEntry {
        (self.base + u64::from(UNITS)) as *mut UnitEntry
    }

    /// The entry of a unit, or the free one where it belongs.
    fn unit_entry(&mut self, rip: u64, pending: u16) -> &mut UnitEntry {
        let hash = (rip ^ u64::from(pending) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut index = (hash >> 45) as usize % UNITS_MAX;
        loop {
            // SAFETY: inside of the table; at least half of the entries are free.
            let entry = unsafe { &mut *self.unit_table().add(index) };
            if entry.generation != self.generation || (entry.rip, entry.pending) == (rip, pending) {
                return entry;
            }
            index = (index + 1) % UNITS_MAX;
        }
    }

    pub(crate) fn find_unit(&mut self, rip: u64, pending: u16) -> Option<u32> {
        let generation = self.generation;
        let entry = self.unit_entry(rip, pending);
        (entry.generation == generation).then_some(entry.code)
    }

    pub(crate) fn note_unit(&mut self, rip: u64, pending: u16, code: u32) {
        let generation = self.generation;
        *self.unit_entry(rip, pending) = UnitEntry { rip, code, pending, generation };
        self.units += 1;
        self.is_full |= self.units > UNITS_MAX / 2;
    }

    /// Makes an exit and returns its number.
    pub(crate) fn exit(&mut self, rip: u64, executed: i32, kind: ExitKind, patch: u32) -> u32 {
        let number = self.exits;
        if number == EXITS_MAX {
            self.is_full = true;
            return 0;
        }
        self.exits += 1;
        let exit = Exit { rip, patch, executed: executed as i16, kind };
        // SAFETY: inside of the table.
        unsafe { self.exit_table().add(number).write(exit) };
        number as u32
    }

    pub(crate) fn exit_table(&self) -> *mut Exit {
        (self.base + u64::from(EXITS)) as *mut Exit
    }

    /// Notes which instruction the code from here on is of.
    pub(crate) fn place(&mut self, rip: u64, executed: i32, kept: u16) {
        let index = self.context().places as usize;
        if index == PLACES_MAX {
            self.is_full = true;
            return;
        }
        let place = Place { rip, offset: self.hot.at, executed: executed as i16, kept };
        // SAFETY: inside of the table.
        unsafe { ((self.base + u64::from(PLACES)) as *mut Place).add(index).write(place) };
        self.context().places += 1;
    }

    pub(crate) fn set_word(&mut self, place: u32, word: u32) {
        // SAFETY: a place that a writer of this memory wrote.
        unsafe { ((self.base + u64::from(place)) as *mut u32).write_unaligned(word) };
    }

    pub(crate) fn word(&self, place: u32) -> u64 {
        // SAFETY: a place that a writer of this memory wrote.
        unsafe { ((self.base + u64::from(place)) as *const u64).read_unaligned() }
    }
}
