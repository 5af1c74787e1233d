//! What recorded X11 clients drew, shown on a display of today.
//!
//! A client's requests are sent on, each to a connection of its own to the display. What they name
//! (resources, atoms, visuals, formats of pictures, opcodes of extensions) has other numbers there: which
//! fields hold such numbers say the tables of [`core_requests`] and [`extensions`]. A window stands for the
//! recorded screen, so that nothing of the user's is touched beside it.
//!
//! Invariant: bytes of a recording are untrusted, and are parsed and bounded here. What cannot be sent on is named
//! ([`World::unsent`]). Deliberately absent: replies to the program, which replay feeds from the trace; requests that
//! only ask, and those about input, grabs, selections and settings of the server, which draw nothing; any
//! knowledge of traces.
#![forbid(unsafe_code)]

mod arguments;
mod client;
mod core_requests;
mod error;
mod extensions;
mod ids;
mod images;
mod packets;
mod picture;
mod server;
mod stage;
mod table;
mod world;

pub use client::{Client, Segment, Segments};
pub use error::Error;
pub use picture::Picture;
pub use world::World;
