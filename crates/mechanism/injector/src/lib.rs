//! Births of traced processes.
//!
//! The memory that supervisor and runtime share ([`SessionMemory`]), the start
//! of a recorded program ([`spawn`]) and of a replaying process
//! ([`start_replay`]), and the only ptrace there is: the stop at execve, where
//! the runtime is mapped into the new image ([`AttachService`]), and the one at which a
//! process that runs already gets it ([`board`]).
//!
//! Architecture invariant: all unsafe code of the tools is in this crate; what it
//! exports is safe. Nothing here stops a process in steady state: a process is
//! traced from shortly before an execve until the stop that ends it, or while it is
//! boarded.

mod agent;
mod attach;
mod birth;
mod boarding;
mod channels;
mod confinement;
mod error;
mod facts;
mod files;
mod futex;
mod image;
mod lane;
mod lane_ring;
mod limits;
mod locks;
mod maps;
mod prepared_memory;
mod process;
mod process_facts;
mod program;
mod remote;
mod replay_start;
mod runtime_log;
mod sandbox;
mod segments;
mod session_file;
mod session_memory;
mod session_tokens;
mod shared_mappings;
mod signals;
mod spawn;
mod standard_files;
mod threads;
mod together;
mod tracee;
mod tries;
mod vdso;

pub use attach::{AttachEvents, AttachService};
pub use boarding::{board, keep_mapped_files};
pub use channels::{
    ChannelEnd, borrow_descriptor, channel_ends, drain, ends_allowed, held_outside, is_packet_pipe,
    keeps_bounds, peer_of, put,
};
pub use confinement::{Confinement, ConfinementError, Reach, confinement_lacks};
pub use error::{InjectError, Refusal};
pub use facts::image_facts;
pub use files::{FileKey, FileSlot, KeepFile};
pub use futex::{futex_wait, futex_wake, monotonic_time};
pub use lane::{Lane, ReportCopy, Segment};
pub use lane_ring::RingDamaged;
pub use limits::{
    allocate_from_one_arena, close_descriptors_at_exec, file_sizes_are_limited, may_have_threads,
    raise_open_files, spare_address_space, start_thread, with_enough_stack,
};
pub use locks::LifeLock;
pub use maps::{Mapping, read_maps};
pub use prepared_memory::PreparedMemory;
pub use process::{
    ExitReport, MainEvent, MainWait, PidFd, cpu_time, die_by_signal, fork_bound, kill_group, kill_process,
    lab_call, peek_main, poll_exited, queue_signal, reap_any, reap_group, reap_main, send_descriptor,
    start_bound, stop_along_with, stop_self, unnamed_file,
};
pub use process_facts::{has_ended, is_gone, is_recorded, is_stopped, pending_signals, waiting_signals};
pub use program::{Program, ProgramError, resolve};
pub use replay_start::{start_from_image, start_replay, start_replay_in_group};
pub use sandbox::{Placed, SandboxError, SandboxPlan, Side, Written, enter_sandbox};
pub use session_memory::{Features, LiveSetup, Place, SessionMemory, Setup};
pub use signals::{ForwardSignals, Forwarded};
pub use spawn::{Spawned, become_program, spawn};
pub use standard_files::append_from_now_on;
pub use tries::{
    Connection, Readiness, RecordedAnswers, StdinKind, Stopping, TryEnd, TryError, TryInput, TryLimits,
    TryProgram, TryServer, Watcher, run_whole,
};
