//! Stopping a thread between two calls, and finding the same place again in replay.
//!
//! Deliberately absent: when that is to happen (`scheduler`, `signals`).

pub mod circles;
pub mod counters;
pub mod executed_functions;
pub mod left_handlers;
pub mod loop_iterations;
pub mod preempt;
pub mod preemption_place;
pub mod preemption_point;
pub mod preemption_timer;
pub mod replay_trap;
pub mod replay_trap_body;
pub mod replay_trap_guard;
pub mod replay_trap_stub;
pub mod sampled_places;
pub mod single_steps;
pub mod volatile_words;
