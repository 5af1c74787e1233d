//! Stopping a thread between two calls, and finding the same place again in replay.
//!
//! Deliberately absent: when that is to happen (`scheduler`, `signals`).

pub mod counters;
pub mod executed_functions;
pub mod hot_words;
pub mod left_handlers;
pub mod pause;
pub mod pause_place;
pub mod pause_point;
pub mod pause_timer;
pub mod probe;
pub mod probe_body;
pub mod probe_guard;
pub mod probe_stub;
pub mod rounds;
pub mod sampled_places;
