//! The state of threads, processes and address spaces, which every room above it reads.
//!
//! Deliberately absent: behaviour; a function in here reads or sets state and decides nothing.

pub mod block;
pub mod own_descriptors;
pub mod stacks;
