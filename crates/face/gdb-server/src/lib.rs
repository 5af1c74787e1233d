//! gdb's remote serial protocol, served from a timeline.
//!
//! The protocol is served here and not by the crate `gdbstub`: what matters most are
//! its rarer parts (history's ends, stops of exec, vector registers that are not
//! known for waiting threads), and packets are untrusted bytes that are parsed in one
//! small module.
//!
//! Architecture invariant: nothing that a client sends changes history. What it writes, it
//! writes to a copy that is thrown away.
#![forbid(unsafe_code)]

mod apart;
mod birth_stack;
mod breakpoints;
mod children;
mod connection;
mod files;
mod history;
mod libraries;
mod lldb;
mod monitor;
mod names;
mod others;
mod packet;
mod page;
mod queries;
mod registers;
mod repeats;
mod resume;
mod server;
mod signals;
mod thread_local;
mod thread_names;

pub use connection::{Connection, ServeError};
pub use server::{Farewell, serve};
pub use thread_names::ThreadNames;
