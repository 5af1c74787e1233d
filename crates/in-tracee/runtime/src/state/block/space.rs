//! What threads of one address space share.

use crate::state::patched_code::Sites;

/// State of an address space; `boarded`: the session came to it when it ran already.
#[repr(C)]
pub struct Space {
    pub break_start: u64,
    pub break_now: u64,
    pub clocks: crate::state::patched_code::Clocks,
    /// Shared writable mappings of the program.
    pub shared: [lane_protocol::MemoryRange; 64],
    pub shared_count: usize,
    pub boarded: bool,
    /// Live: what is different of allocations, a set of `lane_protocol::environment`.
    pub environment: u32,
    /// What is different of the code.
    pub changes: crate::state::patched_code::Changes,
    /// Live: memory that children do not get.
    pub unforked: crate::state::outside_memory::UnforkedRanges,
    /// Areas of threads beyond the first blocks that are mapped.
    pub areas: usize,
    /// Blocks behind so many were never a thread's, or a process's: they are all zero.
    pub(super) threads_used: usize,
    pub(super) processes_used: usize,
    pub futexes: crate::state::scheduling::Queues,
    pub translates_code: bool,
    pub non_executable: crate::state::patched_code::NonExecutable,
    pub sites: Sites,
    pub mapped: crate::state::outside_memory::MappedFiles,
    pub outsiders: crate::state::outside_memory::Outsiders,
}
