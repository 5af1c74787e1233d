//! The pages under a replay trap, where the program can write to its code, as generated
//! code is: protected while something is planted, so that no change of what a replay trap
//! covers is missed. Translators map their code a second time to write it: such views of it
//! are protected as well.
//!
//! A write is let happen with the replay trap taken away, by a single step; then the replay trap
//! covers what is there now.
//!
//! Deliberately absent: words that are written so often that the program would stand still
//! ([`PASSES_MAX`]), and more than [`VIEWS_MAX`] views.

use core::ops::Range;

use linux_abi::general as nr;

use crate::ground::maps::{self, Mapping};
use crate::ground::{kernel, memory};
use crate::state::preemption::{Guard, View};

const PAGE: u64 = 4096;
/// So many writes beside the covered bytes, and none to them, are followed; then
/// the pages stay open.
const PASSES_MAX: u32 = 20_000;
/// From so many on the instructions that a jump covers are followed, not a loop around them.
const LOOP_PASSES_MAX: u32 = 64;

impl View {
    /// The code where it is run.
    const OWN: View =
        View { start: 0, end: u64::MAX, distance: 0, executable: true, closed: 0, closed_end: 0 };

    /// Of what is mapped at `own`, as far as another mapping shows the same.
    fn of(own: &Mapping, other: &Mapping) -> Option<View> {
        let is_same = (own.device, own.inode) == (other.device, other.inode) && own.start != other.start;
        if !is_same || other.private || !other.writable {
            return None;
        }
        let base = |mapping: &Mapping| mapping.start.wrapping_sub(mapping.offset);
        let behind = |mapping: &Mapping| mapping.offset + (mapping.end - mapping.start);
        let places = own.offset.max(other.offset)..behind(own).min(behind(other));
        (!places.is_empty()).then(|| View {
            start: base(other).wrapping_add(places.start),
            end: base(other).wrapping_add(places.end),
            distance: base(other).wrapping_sub(base(own)),
            executable: other.executable,
            ..View::default()
        })
    }

    fn close(&mut self, read: &Range<u64>) {
        let shown = |address: u64| address.wrapping_add(self.distance);
        let mut page = shown(read.start & !(PAGE - 1)).max(self.start);
        let end = shown(read.end).min(self.end);
        while page < end {
            if is_writable(page) && !kernel::failed(self.protect(page, page + PAGE, false)) {
                self.closed = if self.closed_end == 0 { page } else { self.closed };
                self.closed_end = page + PAGE;
            }
            page += PAGE;
        }
    }

    fn open(&mut self) {
        if self.closed_end != 0 {
            self.protect(self.closed, self.closed_end, true);
            (self.closed, self.closed_end) = (0, 0);
        }
    }

    fn protect(&self, start: u64, end: u64, writable: bool) -> i64 {
        let executable = if self.executable { nr::PROT_EXEC } else { 0 };
        let protection = nr::PROT_READ | executable | if writable { nr::PROT_WRITE } else { 0 };
        kernel::mprotect(start, end - start, protection)
    }
}

impl Guard {
    /// A replay trap is new at an address of code. What is mapped stays so as long as it is there: no
    /// call comes before the preemption.
    pub fn begin(&mut self, address: u64) {
        *self = Guard::default();
        self.add(View::OWN);
        let mut own = Mapping::NONE;
        maps::for_each(&mut |mapping| {
            if !mapping.private && (mapping.start..mapping.end).contains(&address) {
                own = *mapping;
            }
        });
        self.is_shared = own.end != 0;
        if self.is_shared {
            maps::for_each(&mut |mapping| {
                if let Some(view) = View::of(&own, mapping) {
                    self.add(view);
                }
            });
        }
    }

    fn add(&mut self, view: View) {
        if let Some(place) = self.views.get_mut(self.views_count) {
            *place = view;
            self.views_count += 1;
        }
    }

    /// True if what the replay trap covers may be seen at other addresses, too.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// True if the pages of a whole loop are worth protecting.
    pub fn is_to_close(&self) -> bool {
        self.passes < LOOP_PASSES_MAX
    }

    /// Protects the pages of what is read from that the program can write to.
    pub fn close(&mut self, covered: Range<u64>, read: Range<u64>) {
        (self.covered, self.covered_end) = (covered.start, covered.end);
        if self.passes < PASSES_MAX {
            self.views[..self.views_count].iter_mut().for_each(|view| view.close(&read));
        }
    }

    /// As the program had them.
    pub fn open(&mut self) {
        self.views[..self.views_count].iter_mut().for_each(View::open);
    }

    /// Lets something be written that is not the program's.
    pub fn without(&mut self, write: impl FnOnce()) {
        let before = self.views;
        self.open();
        write();
        for (view, before) in self.views.iter_mut().zip(before) {
            let is_closed = before.closed_end != 0;
            if is_closed && !kernel::failed(before.protect(before.closed, before.closed_end, false)) {
                *view = before;
            }
        }
    }

    /// The code that a fault there would write to, if it is protected.
    pub fn protected(&self, address: u64) -> Option<u64> {
        let mut views = self.views[..self.views_count].iter();
        let view = views.find(|view| (view.closed..view.closed_end).contains(&address))?;
        Some(address.wrapping_sub(view.distance))
    }

    /// A write to code is let through.
    pub fn note_pass(&mut self, address: u64) {
        // The longest store writes 64 bytes.
        let is_beside = address >= self.covered_end || address + 64 <= self.covered;
        self.passes = if is_beside { self.passes + 1 } else { 0 };
    }
}

/// True if the program can write there. May fault.
pub fn is_writable(address: u64) -> bool {
    let mut byte = 0u8;
    let byte_at = &raw mut byte as u64;
    memory::copy(byte_at, address, 1) && memory::copy(address, byte_at, 1)
}
