//! The state of threads, processes and address spaces, which every room above it reads.
//!
//! Deliberately absent: behaviour; a function in here reads or sets state and decides nothing.

pub mod block;
pub mod call_state;
pub mod deliverable;
pub mod group_replay;
pub mod in_lab;
pub mod live;
pub mod log_end;
pub mod outside_memory;
pub mod own_descriptors;
pub mod patched_code;
pub mod preemption;
pub mod proc_dir;
pub mod recorded_processes;
pub mod report;
pub mod runtime_log;
pub mod scheduling;
pub mod signal_numbers;
pub mod signal_state;
pub mod stacks;
pub mod unborn;
pub mod writers;
