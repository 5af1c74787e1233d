//! The pages under a probe, where the program can write to its code, as generated
//! code is: protected while something is planted, so that no change of what a probe
//! covers is missed.
//!
//! A write is let happen with the probe taken away, by a single step; then the probe
//! covers what is there now.
//!
//! Deliberately absent: writes through another mapping of the same pages, and words
//! that are written so often that the program would stand still ([`PASSES_MAX`]).

use core::ops::Range;

use linux_abi::general as nr;

use crate::{kernel, memory};

const PAGE: u64 = 4096;
/// So many writes beside the covered bytes, and none to them, are followed; then
/// the pages stay open.
const PASSES_MAX: u32 = 20_000;
/// From so many on the instructions that a jump covers are followed, not a loop around them.
const LOOP_PASSES_MAX: u32 = 64;

#[derive(Clone, Copy, Default)]
pub struct Guard {
    /// What the probe covers.
    covered: u64,
    covered_end: u64,
    /// The protected pages; empty: none is.
    start: u64,
    end: u64,
    /// Writes beside what is covered since the probe was made.
    passes: u32,
}

impl Guard {
    /// A probe is new here.
    pub fn forget(&mut self) {
        *self = Guard::default();
    }

    /// True if the pages of a whole loop are worth protecting.
    pub fn is_to_close(&self) -> bool {
        self.passes < LOOP_PASSES_MAX
    }

    /// Protects the pages of what is read from that the program can write to.
    pub fn close(&mut self, covered: Range<u64>, read: Range<u64>) {
        (self.covered, self.covered_end) = (covered.start, covered.end);
        (self.start, self.end) = (0, 0);
        if self.passes >= PASSES_MAX {
            return;
        }
        let mut page = read.start & !(PAGE - 1);
        while page < read.end {
            if is_writable(page) && !kernel::failed(protect(page, page + PAGE, false)) {
                self.start = if self.end == 0 { page } else { self.start };
                self.end = page + PAGE;
            }
            page += PAGE;
        }
    }

    /// As the program had them.
    pub fn open(&mut self) {
        if self.end != 0 {
            protect(self.start, self.end, true);
            (self.start, self.end) = (0, 0);
        }
    }

    /// Lets something be written that is not the program's.
    pub fn without(&mut self, write: impl FnOnce()) {
        let (start, end) = (self.start, self.end);
        self.open();
        write();
        if end != 0 && !kernel::failed(protect(start, end, false)) {
            (self.start, self.end) = (start, end);
        }
    }

    /// True if a fault there is a write to what is protected.
    pub fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// A write there is let through.
    pub fn note_pass(&mut self, address: u64) {
        // The longest store writes 64 bytes.
        let is_beside = address >= self.covered_end || address + 64 <= self.covered;
        self.passes = if is_beside { self.passes + 1 } else { 0 };
    }
}

fn protect(start: u64, end: u64, writable: bool) -> i64 {
    let protection = nr::PROT_READ | nr::PROT_EXEC | if writable { nr::PROT_WRITE } else { 0 };
    kernel::mprotect(start, end - start, protection)
}

/// True if the program can write there. May fault.
pub fn is_writable(address: u64) -> bool {
    let mut byte = 0u8;
    let byte_at = &raw mut byte as u64;
    memory::copy(byte_at, address, 1) && memory::copy(address, byte_at, 1)
}
