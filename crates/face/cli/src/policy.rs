//! Policies of streams: what a trace keeps of inputs, and what becomes of inputs and outputs in a replay.
//!
//! A policy is written `PATTERN=POLICY`, on the command line or as a line of a file. Deliberately absent:
//! whatever would reach outside without having been named.

mod check;
mod descriptors;
mod file;
mod pattern;
mod plan;
mod recording;
mod replaying;

pub use descriptors::{Description, Descriptors, Thing, cloexec, text_at};
pub use pattern::{Pattern, StreamKind};
pub use plan::{Attached, DISPLAY_PORTS, DISPLAY_SOCKETS, Moment, Screen, ScreenPlan, Shown, of_address};
pub use recording::InputArguments;
pub use replaying::{Applied, Outputs, PolicyArguments};
