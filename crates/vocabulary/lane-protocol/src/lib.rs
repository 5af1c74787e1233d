//! The memory that the supervisor and the runtime inside each process share.
//!
//! One memfd holds everything: the runtime's image, the session's header, the
//! recipes for rewriting sites, and a segment with a ring for each lane. Every
//! process maps it at the same fixed addresses. The words that both sides touch
//! are atomics; everything else is written by one side before it stores the
//! atomic that announces it.
//!
//! The runtime is the hot side of a ring in both directions (it produces when
//! recording and consumes when replaying); the supervisor is the cold side and
//! pays for the fences.
#![no_std]
#![forbid(unsafe_code)]

mod agent;
mod boarding;
pub mod borrowed;
pub mod bytecode;
mod file_slots;
mod image;
mod imports;
mod lab;
mod layout;
mod live;
mod numbered_words;
mod output_places;
mod outside_files;
mod ring;
mod runtime_log;
mod session;
mod together;
mod token;
mod token_sleepers;
mod unlogged_deaths;
mod written_files;

pub use agent::{
    AGENT_THREADS_MAX, ASKING, Agent, AgentCommand, AgentStop, AgentThread, BOUNDARIES_MAX, BREAKPOINTS_MAX,
    Boundary, CALL_WORDS, Hit, NONE, WATCHES_MAX, Watch, agent_interrupt, agent_stop, agent_verb, watch_kind,
};
pub use boarding::*;
pub use file_slots::{FILE_PROBES, file_slot};
pub use image::*;
pub use imports::*;
pub use lab::*;
pub use layout::*;
pub use live::*;
pub use output_places::OutputPlaces;
pub use outside_files::{OUTSIDE_FILES_MAX, OutsideFile, OutsideFiles, outside_state, untimely};
pub use ring::Ring;
pub use runtime_log::{
    LOG_ENTRIES, LOG_SUBJECTS, LOG_TEXT_BYTES, LogEntry, LogSubject, RuntimeLog, log_mask,
};
pub use session::*;
pub use together::*;
pub use token::{
    ExecutionToken, OLDEST, TICKETS_NEAR, Wake, lane_of_identity, sleeper_bits, thread_identity, ticket_bit,
    ticket_in_place, ticket_of_place,
};
pub use token_sleepers::TokenSleepers;
pub use unlogged_deaths::{SharedPart, UnloggedDeaths};
pub use written_files::{Written, WrittenFiles, WrittenPart, mark_of};
