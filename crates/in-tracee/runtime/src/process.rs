//! Births and ends of processes and threads, and joining or leaving a recording.
//!
//! Deliberately absent: what the parent outside does at an execve(2) (the crate `injector`).

pub mod birth;
pub mod boarded_sharing;
pub mod boarding;
pub mod detach;
pub mod given_filters;
pub mod namespaces;
pub mod processes;
pub mod threads;
