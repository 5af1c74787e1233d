//! What threads of one address space share.

use crate::code::sites::Sites;

/// State of an address space; `boarded`: the session came to it when it ran already.
#[repr(C)]
pub struct Space {
    pub break_start: u64,
    pub break_now: u64,
    pub clocks: crate::code::clocks::Clocks,
    /// Shared writable mappings of the program.
    pub shared: [lane_protocol::MemoryRange; 64],
    pub shared_count: usize,
    pub boarded: bool,
    /// Live: what is different of allocations, a set of `lane_protocol::environment`.
    pub environment: u32,
    /// What is different of the code.
    pub changes: crate::syscalls::changes::Changes,
    /// Live: memory that children do not get.
    pub unforked: crate::checkpoint::UnforkedRanges,
    /// Areas of threads beyond the first blocks that are mapped.
    pub areas: usize,
    /// Blocks behind so many were never a thread's, or a process's: they are all zero.
    pub(super) threads_used: usize,
    pub(super) processes_used: usize,
    pub futexes: crate::scheduler::private_futexes::Queues,
    /// Bytes and features of the vector state, and its bytes in signal frames: not fewer.
    pub vector_bytes: u32,
    pub vector_frame_bytes: u32,
    pub vector_features: u64,
    /// Offset and length of each feature's part.
    pub vector_parts: [(u32, u32); 8],
    pub translates_code: bool,
    pub withheld: crate::code::withheld::Withheld,
    pub sites: Sites,
    pub mapped: crate::address_space::mapped_files::MappedFiles,
    pub outsiders: crate::address_space::outsiders::Outsiders,
}

impl Space {
    /// The parts of a whole area in use: those that hold anything, and those that begin otherwise
    /// than with zeroes.
    ///
    /// # Safety
    /// The area is as long as the vector state.
    pub unsafe fn vector_parts_in_use(&self, area: *const u8) -> u64 {
        let is_empty = |part: &u64| {
            let (offset, length) = self.vector_parts[*part as usize];
            // SAFETY: inside the area, the caller says.
            let words = (0..length as usize / 8)
                .map(|word| unsafe { area.add(offset as usize).cast::<u64>().add(word).read() });
            words.fold(0, |all, word| all | word) == 0
        };
        (2..8).filter(is_empty).fold(self.vector_features, |named, part| named & !(1 << part))
    }
}
