//! What a debugger asks of a replayed or live process: breakpoints, watchpoints, steps, copies, edits.
//!
//! Deliberately absent: the protocol of gdb (the crate `gdb-server`), and where to go (the crate `timeline`).

pub mod agent;
pub mod agent_state;
pub mod branch;
pub mod breakpoints;
pub mod caught_signals;
pub mod copies;
pub mod displaced;
pub mod edits;
pub mod imports;
pub mod keyframes;
pub mod live_stops;
pub mod open_calls;
pub mod programs;
pub mod stop_report;
pub mod translate;
pub mod watchpoints;
