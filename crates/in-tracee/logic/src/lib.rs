//! What the runtime computes: sets of ranges, lists of mappings, instructions, sums of pages.
//!
//! Invariant: nothing here has state of its own, makes a call or touches memory but through
//! [`Memory`], so that all of it runs in tests on the host. The runtime's rooms hold the state and
//! make the calls.
//!
//! Deliberately absent: what is true of one system call; that stands in its row.
#![no_std]
#![forbid(unsafe_code)]

pub mod accesses;
pub mod branches;
pub mod circles;
pub mod decode;
pub mod map_changes;
pub mod map_lines;
pub mod page_sums;
pub mod range_set;
pub mod registers;
pub mod word_sums;

/// Memory of the program, any part of which may be missing.
pub trait Memory {
    /// Fills the buffer from there; false where a part of it cannot be read.
    fn read_into(&self, address: u64, into: &mut [u8]) -> bool;

    /// Writes there; false where a part of it cannot be written to.
    fn write_from(&self, address: u64, from: &[u8]) -> bool;
}
