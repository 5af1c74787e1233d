//! Checkpoints of processes that share memory: taken and gone back to as one.

pub mod objects;
pub mod together;
pub mod undertaking;
