//! The program's system calls, from the dispatcher to what each special one does.
//!
//! Invariant: what is true of one call stands in its row of the crate `syscall-model`; code in here is for what a row cannot say.

pub mod bounce;
pub mod calls;
pub mod calls_of_32_bits;
pub mod descriptors;
pub mod direct_calls;
pub mod dispatch;
pub mod filters;
pub mod foreign_memory;
pub mod instructions;
pub mod memory_calls;
pub mod mremap;
pub mod page_diff;
pub mod pass_through;
pub mod priority_futexes;
pub mod proc_opens;
pub mod protection_faults;
pub mod shared_segments;
pub mod specials;
pub mod spins;
pub mod time_calls;
pub mod tracing;
pub mod tracing_outside;
pub mod visible_descriptors;
pub mod visible_maps;
