//! Which thread runs: one token for all that share memory, passed on in an order that is logged.
//!
//! Deliberately absent: how a thread that computes is stopped (`preemption`).

pub mod chaos;
pub mod encounters;
pub mod forced;
pub mod looks;
pub mod patience;
pub mod private_futexes;
pub mod starvation;
pub mod strategy;
pub mod tickets;
pub mod turn;
pub mod turn_end;
