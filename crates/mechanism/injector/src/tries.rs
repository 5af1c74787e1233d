//! Tries of a program: the same run again and again, with another input each time.
//!
//! A program is run once up to where it first reads the input that changes; there it becomes a
//! server of forks ([`TryServer`]), so that a try costs a fork and what the program does with the
//! input. A whole run ([`run_whole`]) is the reference, and serves where such a checkpoint cannot be
//! made: the process has threads there.
//!
//! Invariant: tracing ends when the server begins; a try is traced only when somebody wants its
//! stack. To be used in a sandbox: what a try leaves outside of its process stays there.

mod begin;
mod clients;
mod observed;
mod recorded_answers;
mod resident;
mod resident_calls;
mod resident_code;
mod server;
mod server_code;
#[cfg(test)]
mod tests;
mod traced;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use clients::Connection;
pub use observed::{Stopping, Watcher};
pub use recorded_answers::RecordedAnswers;
pub use server::TryServer;
pub use traced::run_whole;

use crate::process::ExitReport;

/// What standard input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinKind {
    File,
    Pipe,
    /// /dev/null.
    Nothing,
}

/// A program and what it begins with.
#[derive(Debug, Clone)]
pub struct TryProgram {
    /// The program, as it was named, and its arguments.
    pub command: Vec<OsString>,
    /// `name=value`, in order.
    pub environment: Vec<OsString>,
    pub directory: PathBuf,
    pub stdin_kind: StdinKind,
    /// What standard input holds, unless it is the input that changes.
    pub stdin: Vec<u8>,
    /// Of whole runs only: what they get in place of today's time and random numbers.
    pub answers: RecordedAnswers,
    /// Of whole runs only: what clients send to it, in the order in which it accepts them.
    pub connections: Vec<Connection>,
}

/// The input that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TryInput {
    Stdin,
    /// A regular file, which exists and can be written to.
    File(PathBuf),
}

/// Where the checkpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Before the input is opened or read. What was asked about it before (its size, say) is that of the
    /// unchanged input.
    BeforeReading,
    /// Before anything is asked about it.
    BeforeAsking,
}

/// How one try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryEnd {
    Ended(ExitReport),
    /// It ran for longer than the limit, and was killed.
    Expired,
}

/// Limits of each try.
#[derive(Debug, Clone, Copy)]
pub struct TryLimits {
    pub time: Duration,
}

/// Why tries cannot be made like this.
#[derive(Debug, thiserror::Error)]
pub enum TryError {
    #[error("cannot start {program}: {source}")]
    Start {
        program: String,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot {doing}: {source}")]
    System {
        doing: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("the program ended without reading the input")]
    NeverRead(ExitReport),
    #[error("the process that reads the input has several threads")]
    Threads,
}

fn while_doing(doing: &'static str) -> impl FnOnce(std::io::Error) -> TryError {
    move |source| TryError::System { doing, source }
}
