//! Going back to a checkpoint: memory, threads, and the log that is fed again.

pub mod agent;
pub mod aside;
pub mod copying;
pub mod crash;
pub mod debugging;
pub mod environment;
pub mod fetching;
pub mod file_pages;
pub mod lost;
pub mod memory_back;
pub mod rollback;
pub mod seats;
pub mod stand_ins;
pub mod standing;
pub mod then;
pub mod ways;
