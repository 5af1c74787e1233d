//! A distributed system on one machine: unchanged programs as the nodes of a closed network, under one
//! clock.
//!
//! The engine runs in the recorder's process. Threads of the lab ask it what they may sleep for, what
//! the time is and what goes over the network (`crates/in-tracee/runtime/src/lab`); it grants one of them
//! at a time. The network itself is the crate `fabric`.
//!
//! Architecture invariant: with the virtual clock and computing that takes no time, a run is a function
//! of its description and its seed.
//!
//! Deliberately absent: how a node's namespaces are made (the command does that, in the lab's own
//! programs), and what is on a terminal.
#![forbid(unsafe_code)]

mod addresses;
mod ancillary;
mod births;
mod calls;
mod capture;
mod checkpoints;
mod clock_log;
mod control;
mod digest;
mod engine;
mod files;
mod futexes;
mod held;
mod idle_turns;
mod log;
mod looks;
mod memory;
mod memory_sums;
mod net_tables;
mod nodes;
mod options;
mod placeholders;
mod places;
mod preemption;
mod proc_files;
mod proc_maps;
mod processes;
mod processor;
mod processor_time;
mod quantities;
mod questions;
mod real_time;
mod resolver;
mod session;
mod signal_timer_calls;
mod signal_timers;
mod silence;
mod sizes;
mod slices;
mod spec;
mod standing;
mod stop;
mod stopped;
mod timers;
mod waits;

pub use checkpoints::{
    CHECKPOINTS, Changes, GoOn, Halt, Notice, Place as PastPlace, Taken, discard, read_checkpoints,
    read_discarded, until,
};
pub use clock_log::CLOCK;
pub use control::{Control, Standing};
pub use digest::Digest;
pub use log::{Record, Show, Stream};
pub use memory_sums::memory_difference;
pub use nodes::{NodeEnd, order};
pub use places::{Place, read_places};
pub use quantities::time_ns;
pub use session::{Kin, Prepared, SPEC, Session, SessionEnd, output_name};
pub use silence::{SILENCE, SilenceNotice};
pub use spec::{
    Action, Clock, Cpu, Event, KEPT_CHECKPOINTS, NodeSpec, Spec, SpecError, every_ns, read, read_event,
};
pub use stop::{StopReason, Stopper};

/// Why a lab cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("the lab's descriptors cannot be watched: {0}")]
    Descriptors(std::io::Error),
    #[error("process {pid} of the lab cannot be looked at: {source}")]
    Process { pid: i32, source: std::io::Error },
    #[error("{}: {source}", .path.display())]
    File { path: std::path::PathBuf, source: std::io::Error },
    #[error("the lab has more than {} threads at a time", lane_protocol::LAB_SLOTS)]
    TooManyThreads,
    #[error("there is no checkpoint {number}: `retrovane lab tree` lists them")]
    NoCheckpoint { number: usize },
    #[error("the lab ran again, and from about {:.6} s on it did not go the same way: {what}", *at_ns as f64 / 1e9)]
    Parted { at_ns: u64, what: String },
    #[error("a thread of the lab was made, and does not begin")]
    Unborn,
    #[error(
        "at {:.6} s all nodes wait, and nothing will happen any more: {nodes}; a node waits for what never comes",
        *at_ns as f64 / 1e9
    )]
    Stuck { at_ns: u64, nodes: String },
    #[error("a thread of the lab asked for {what} that there is not: {number}")]
    Protocol { what: &'static str, number: u64 },
}

impl LabError {
    pub(crate) fn descriptors(error: rustix::io::Errno) -> LabError {
        LabError::Descriptors(error.into())
    }
}
