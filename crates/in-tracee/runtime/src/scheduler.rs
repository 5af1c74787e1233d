//! Which thread runs: one token for all that share memory, passed on in an order that is logged.
//!
//! Deliberately absent: how a thread that computes is stopped (`preemption`).

pub mod adaptive_spinning;
pub mod asking;
pub mod chaos;
pub mod contention;
pub mod encounters;
pub mod fairness;
pub mod forced;
pub mod held_threads;
pub mod kept_registers;
pub mod kernel_threads;
pub mod output_lock;
pub mod own_token;
pub mod preemption_cost;
pub mod private_futexes;
pub mod shared_files;
pub mod short_calls;
pub mod spinning_threads;
pub mod strategy;
pub mod tickets;
pub mod token;
pub mod token_end;
