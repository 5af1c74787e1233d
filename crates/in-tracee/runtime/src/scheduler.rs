//! Which thread runs: one token for all that share memory, passed on in an order that is logged.
//!
//! Deliberately absent: how a thread that computes is stopped (`preemption`).

pub mod asking;
pub mod chaos;
pub mod encounters;
pub mod forced;
pub mod held_threads;
pub mod kept_registers;
pub mod kernel_threads;
pub mod looks;
pub mod output_lock;
pub mod own_turn;
pub mod patience;
pub mod pause_cost;
pub mod private_futexes;
pub mod shared_files;
pub mod short_calls;
pub mod spinning_threads;
pub mod starvation;
pub mod strategy;
pub mod tickets;
pub mod turn;
pub mod turn_end;
