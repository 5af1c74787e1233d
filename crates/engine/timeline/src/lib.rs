//! A recording as a timeline.
//!
//! A *position* is a number of events and a number of instructions since then. One
//! process stands at the present position; others, *checkpoints*, stand at earlier
//! ones. Going back is going forward from a checkpoint: a copy of it is made (fork),
//! runs to the event at full speed, and counts instructions from there. Nothing is
//! ever undone.
//!
//! Architecture invariant: the same position is the same state, however it was
//! reached. Memory and registers are written in branches alone, which are copies that
//! are thrown away.
#![forbid(unsafe_code)]

mod accesses;
mod backward;
mod branch;
mod checkpoints;
mod command;
mod crowds;
mod edit;
mod error;
mod groups;
mod keyframes;
mod limits;
mod live;
mod others;
mod over_calls;
mod passage;
mod past;
mod position;
mod process;
mod ranges;
mod reason;
mod repeats;
mod session;
mod spectator;
mod timeline;
mod way;
mod ways;

pub use accesses::{Accesses, INSTRUCTION_BYTES_MAX, MemoryAccess};
pub use branch::Heard;
/// True for addresses in which the runtime lives, and nothing of the program.
pub fn is_of_runtime(address: u64) -> bool {
    address.checked_sub(REGION_START).is_some_and(|offset| offset < REGION_BYTES)
}

use lane_protocol::{REGION_BYTES, REGION_START};

pub use error::TimelineError;
pub use injector::Mapping;
pub use lane_protocol::{AgentStop, AgentThread, CALL_WORDS, Watch, agent_stop, report_kind, watch_kind};
pub use over_calls::{Calls, Standing, if_stack_is_at};
pub use passage::{Passage, Pausing};
pub use position::{Position, Stops};
pub use ranges::Passed;
pub use reason::{Going, Reason};
pub use recorder::debuggee::Debuggee;
pub use repeats::Seen;
pub use timeline::Timeline;
