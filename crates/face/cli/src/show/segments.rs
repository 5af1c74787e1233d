//! Memory that a replayed program shares with its display.

use std::fs::File;
use std::os::unix::fs::FileExt;

use display::{Segment, Segments};

use crate::control_messages::passed_descriptors;
use crate::policy::{Attached, Moment, Shown};

/// The largest image that a display takes.
const BYTES_MAX: usize = 1 << 28;
/// What a descriptor leads to that leads to no memory.
const NOTHING: u32 = 0;

/// Segments of a process that stands still in a call.
pub struct OfProcess<'a> {
    pub pid: i32,
    pub at: Moment,
    pub attached: &'a [Attached],
}

/// The most control data of one message (`net.core.optmem_max`), with room.
const CONTROL_BYTES_MAX: u64 = 1 << 20;

impl OfProcess<'_> {
    fn memory(&self, address: u64, bytes: usize) -> Option<Vec<u8>> {
        let mut memory = vec![0; bytes];
        let process = File::open(format!("/proc/{}/mem", self.pid)).ok()?;
        process.read_exact_at(&mut memory, address).ok()?;
        Some(memory)
    }

    /// Numbers of what the descriptors lead to that go along with a message (`struct msghdr` of sendmsg(2)).
    pub fn passed(&self, shown: &Shown) -> Vec<u32> {
        let control = || {
            let header = self.memory(shown.message?, 56)?;
            let word = |index: usize| {
                let bytes = header.get(index * 8..index * 8 + 8)?.try_into().ok()?;
                Some(u64::from_le_bytes(bytes))
            };
            let (address, bytes) = (word(4)?, word(5)?);
            self.memory(address, usize::try_from(bytes).ok().filter(|_| bytes <= CONTROL_BYTES_MAX)?)
        };
        let lead_to =
            |fd: i32| shown.shared.iter().find(|(own, _)| *own == fd).map_or(NOTHING, |(_, id)| *id);
        passed_descriptors(&control().unwrap_or_default()).into_iter().map(lead_to).collect()
    }
}

impl Segments for OfProcess<'_> {
    fn read(&self, segment: Segment, offset: u64, bytes: usize) -> Option<Vec<u8>> {
        let is_it = |one: &&Attached| one.segment == segment && one.at.is_until(&self.at);
        let attached = self.attached.iter().rev().find(is_it)?;
        self.memory(attached.address.checked_add(offset)?, (bytes <= BYTES_MAX).then_some(bytes)?)
    }
}
