//! Memory that a replayed program shares with its display.

use std::fs::File;
use std::os::unix::fs::FileExt;

use display::Segments;

use crate::policy::{Attached, Moment};

/// The largest image that a display takes.
const BYTES_MAX: usize = 1 << 28;

/// Segments of a process that stands still in a call.
pub struct OfProcess<'a> {
    pub pid: i32,
    pub at: Moment,
    pub attached: &'a [Attached],
}

impl Segments for OfProcess<'_> {
    fn read(&self, segment: u32, offset: u64, bytes: usize) -> Option<Vec<u8>> {
        let is_it = |one: &&Attached| one.segment == segment && one.at.is_until(&self.at);
        let attached = self.attached.iter().rev().find(is_it)?;
        let address = attached.address.checked_add(offset)?;
        let mut memory = vec![0; (bytes <= BYTES_MAX).then_some(bytes)?];
        let process = File::open(format!("/proc/{}/mem", self.pid)).ok()?;
        process.read_exact_at(&mut memory, address).ok()?;
        Some(memory)
    }
}
