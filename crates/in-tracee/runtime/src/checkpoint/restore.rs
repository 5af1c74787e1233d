//! Going back to a checkpoint: memory, threads, and the log whose result is injected again.

pub mod agent;
pub mod copying;
pub mod crash;
pub mod debugging;
pub mod environment;
pub mod fetching;
pub mod file_pages;
pub mod lost;
pub mod memory_back;
pub mod parked_threads;
pub mod placeholders;
pub mod resume_state;
pub mod rollback;
pub mod set_aside;
pub mod snapshot_view;
pub mod ways;
