//! Memory that is watched: which stores are looked up, and what they touch.

use crate::Host;
use crate::comparison;
use crate::engine::{Engine, WATCHES_MAX};
use crate::instruction::{Action, Decoded, Reader, STORE_BYTES_MAX, Stored, stored, stored_range};
use crate::memory::{WATCH_TABLE, WATCH_TABLE_BYTES};
use crate::unit::Purpose;

impl Engine {
    /// Sets the ranges of memory (start, bytes) before stores to which
    /// [`Engine::run`] stops; false if there are too many.
    pub fn set_watches(&mut self, ranges: &[(u64, u64)]) -> bool {
        if ranges.len() > WATCHES_MAX {
            return false;
        }
        if self.watches[..self.watch_count] == *ranges {
            return true;
        }
        self.watches[..ranges.len()].copy_from_slice(ranges);
        self.watch_count = ranges.len();
        let table = (self.base + u64::from(WATCH_TABLE)) as *mut u8;
        // SAFETY: the table's place in the engine's memory.
        let table = unsafe { core::slice::from_raw_parts_mut(table, WATCH_TABLE_BYTES) };
        table.fill(0);
        for &(start, bytes) in ranges {
            let before = u64::from(STORE_BYTES_MAX) - 1;
            let all = bytes.saturating_add(before).min(WATCH_TABLE_BYTES as u64);
            for offset in 0..all {
                let address = start.wrapping_sub(before).wrapping_add(offset);
                table[usize::from(address as u16)] = 1;
            }
        }
        comparison::write(self.base, ranges, self.gates.leave);
        self.flush();
        true
    }

    /// True if stores are looked up in code that is copied for this.
    pub(crate) fn checks_stores(&self, purpose: Purpose) -> bool {
        self.watch_count > 0 && !matches!(purpose, Purpose::Once { watch: false, .. })
    }

    /// Lets an instruction leave whose stores are not known beforehand.
    pub(crate) fn note_stores(&mut self, decoded: &mut Decoded, purpose: Purpose) {
        let is_plain = matches!(decoded.action, Action::Copy | Action::Relative);
        if is_plain
            && self.checks_stores(purpose)
            && matches!(stored(&decoded.instruction, &mut self.factory), Stored::Complex)
        {
            decoded.action = Action::LeaveForWatch;
        }
    }

    pub(crate) fn stores(&mut self, decoded: &Decoded) -> bool {
        !matches!(stored(&decoded.instruction, &mut self.factory), Stored::Nothing)
    }

    /// The range that the instruction at the address is about to store to, if it
    /// touches what is watched.
    pub(crate) fn watched_store(&mut self, host: &mut dyn Host, rip: u64) -> Option<(u64, u64)> {
        let mut decoded = Decoded::new();
        Reader::new().read(rip, &mut |address, into| host.code(address, into), &mut decoded)?;
        let context = self.context();
        let (general, flags, fs_base) = (context.general, context.flags, context.fs_base);
        let range = stored_range(&decoded.instruction, &mut self.factory, &general, flags, fs_base);
        let (start, bytes) = range.unwrap_or((0, u64::MAX));
        let touches = |&(watched, length): &(u64, u64)| {
            start < watched.saturating_add(length) && watched < start.saturating_add(bytes)
        };
        self.watches[..self.watch_count].iter().any(touches).then_some((start, bytes))
    }
}
