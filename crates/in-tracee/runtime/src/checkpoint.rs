//! Going back in time: checkpoints of the running process, and the ways back.
//!
//! A checkpoint forks a *shadow* of the process while the token is held: its memory
//! is the state. Going back happens in place: all threads leave their stacks, the
//! agent (a thread of the runtime's) copies from the shadow what differs, and the
//! kernel's threads take up the threads of then. The log is then fed again to its
//! end (replay), or cut there (branch).
//!
//! Invariant: nothing in here that has to outlive the way back lies in memory that
//! goes back: it is in the lane's header, or in the live area (see `Area`).
//!
//! Deliberately absent: when checkpoints are taken, and how many are kept (the
//! supervisor's).

pub mod area;
pub mod asked_calls;
pub mod group;
pub mod kept_memory;
pub mod kept_resources;
pub mod observed_calls;
pub mod resources;
pub mod restore;
pub mod take;
