//! What the command's exit code says, and what it says when it fails.

use std::io::{self, Write};
use std::process::ExitCode;

use printer::PrintError;
use replayer::{ExitReport, ReplayError};
use serde_json::json;
use timeline::TimelineError;
use trace_store::{Cut, StoreError};

use crate::answer_file;

/// A hunt ended and nothing had failed.
pub const NOT_CAUGHT: u8 = 1;
/// The command line makes no sense.
pub const USAGE: u8 = 2;
/// What a trace refers to, or what a policy makes real, is not what it was at recording.
pub const CHANGED: u8 = 117;
/// A run with something changed failed in another way than the recording.
pub const ANOTHER_FAILURE: u8 = 118;
/// All that a cut trace holds was shown, and what came after it is missing.
pub const CUT: u8 = 119;
/// Replay diverged.
pub const DIVERGED: u8 = 120;
/// The trace is damaged, missing or unusable.
pub const BAD_TRACE: u8 = 121;
/// The program, or any program on this machine, cannot be recorded.
pub const NOT_RECORDABLE: u8 = 122;
/// This user may not attach to that process.
pub const NOT_PERMITTED: u8 = 123;
/// Retrovane itself failed.
pub const FAILED: u8 = 125;
/// The program was found and is not executable.
pub const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
pub const NOT_FOUND: u8 = 127;

/// For `--help`: what the codes mean.
pub const CODES: &str = "\
Exit codes:
  record and replay end with the program's own code (128+N if signal N killed it), the others with 0;
  1    hunt: no try failed; minimize: the failure does not come again; retry: it does; diff: a difference
  2    the command line makes no sense
  117  a file that the trace only refers to, or what a policy makes real, is not what it was
  118  retry: it fails in another way than the recording
  119  the trace is cut (its recorder was killed, say): what it holds was shown, and the rest is missing
  120  replay diverged from the recording
  121  the trace is damaged, missing, or cannot be used here
  122  the program cannot be recorded, or nothing can on this machine
  123  live --attach: not permitted (another user, Yama, a debugger has it)
  125  retrovane failed otherwise
  126  the program is not executable
  127  the program was not found; live --attach: there is no such process";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "neither --home nor RETROVANE_HOME nor HOME says where traces are, and /var/tmp has no place for them: set RETROVANE_HOME"
    )]
    NoHome,
    #[error("{0}")]
    Usage(String),
    #[error(
        "the log of lane {lane} is damaged after {events} events: {source}; record again, or take another copy of the trace"
    )]
    BadEvents {
        lane: u32,
        events: u64,
        #[source]
        source: events::DecodeError,
    },
    #[error("the trace has no process {pid}: `retrovane info` lists the processes")]
    NoSuchProcess { pid: i32 },
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    #[error("cannot write {}: {source}", path.display())]
    Write {
        path: std::path::PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot read {}: {source}", path.display())]
    Read {
        path: std::path::PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot {doing}: {source}")]
    Try {
        doing: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{0}")]
    Sandbox(String),
    /// A value is left in what would be handed out.
    #[error("nothing was written: {0}; mask what it comes from (--mask)")]
    NotMasked(String),
    #[error("{0}")]
    Live(String),
    #[error("{0}")]
    Debugger(String),
    #[error(transparent)]
    Print(PrintError),
    #[error(transparent)]
    Timeline(TimelineError),
    /// A trace shows that it is damaged while it is replayed.
    #[error("{0}")]
    BadReplay(String),
    #[error(transparent)]
    Display(#[from] display::Error),
    #[error("cannot make JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> CommandError {
        CommandError::Output(error)
    }
}

impl From<PrintError> for CommandError {
    fn from(error: PrintError) -> CommandError {
        match error {
            PrintError::Output(error) => CommandError::Output(error),
            PrintError::Store(error) => CommandError::Store(error),
            PrintError::Timeline(error) => CommandError::from(error),
            other => CommandError::Print(other),
        }
    }
}

impl From<TimelineError> for CommandError {
    fn from(error: TimelineError) -> CommandError {
        match error {
            TimelineError::Replay(ReplayError::Store(error)) | TimelineError::Store(error) => {
                CommandError::Store(error)
            }
            other => CommandError::Timeline(other),
        }
    }
}

impl CommandError {
    /// The exit code that stands for it.
    pub fn code(&self) -> u8 {
        match self {
            CommandError::Usage(_) => USAGE,
            CommandError::NoHome => FAILED,
            CommandError::Store(error) => code_of_store(error),
            CommandError::Print(error) => code_of_print(error),
            CommandError::Timeline(error) => code_of_timeline(error),
            CommandError::BadReplay(_) => BAD_TRACE,
            CommandError::BadEvents { .. }
            | CommandError::NoSuchProcess { .. }
            | CommandError::Read { .. } => BAD_TRACE,
            CommandError::Output(_)
            | CommandError::Write { .. }
            | CommandError::Try { .. }
            | CommandError::Sandbox(_)
            | CommandError::NotMasked(_)
            | CommandError::Live(_)
            | CommandError::Debugger(_)
            | CommandError::Display(_)
            | CommandError::Json(_) => FAILED,
        }
    }

    /// True if the reader of our output is gone, as `head` is after its lines:
    /// nobody wants to hear of it.
    pub fn is_broken_pipe(&self) -> bool {
        let is_broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        match self {
            CommandError::Output(error) => is_broken(error),
            CommandError::Json(error) => error.io_error_kind() == Some(io::ErrorKind::BrokenPipe),
            CommandError::Store(_)
            | CommandError::NoHome
            | CommandError::Usage(_)
            | CommandError::Debugger(_)
            | CommandError::Print(_)
            | CommandError::Timeline(_)
            | CommandError::BadReplay(_)
            | CommandError::BadEvents { .. }
            | CommandError::NoSuchProcess { .. }
            | CommandError::Read { .. }
            | CommandError::Write { .. }
            | CommandError::Sandbox(_)
            | CommandError::NotMasked(_)
            | CommandError::Live(_)
            | CommandError::Display(_)
            | CommandError::Try { .. } => false,
        }
    }
}

/// The code for a failure of the trace store.
fn code_of_store(error: &StoreError) -> u8 {
    match error {
        StoreError::BadName { .. } => USAGE,
        StoreError::ReferredFile { .. } | StoreError::RealFile { .. } => CHANGED,
        StoreError::DiskFull { .. } | StoreError::NotEmpty { .. } => FAILED,
        _ => BAD_TRACE,
    }
}

/// The code for what keeps printing from the past.
fn code_of_print(error: &PrintError) -> u8 {
    match error {
        PrintError::Syntax(..)
        | PrintError::NoSuchFile(_)
        | PrintError::NoSuchLine { .. }
        | PrintError::NoSuchFunction(..)
        | PrintError::OnlyInlined(_)
        | PrintError::NoSuchVariable { .. }
        | PrintError::Expression(..) => USAGE,
        PrintError::Store(error) => code_of_store(error),
        PrintError::NoDebugInformation | PrintError::NoSuchProcess(_) => BAD_TRACE,
        PrintError::Timeline(error) => code_of_timeline(error),
        PrintError::Output(_) => FAILED,
    }
}

/// The code for a replay that did not begin, or could not go on.
pub fn code_of_replay(error: &ReplayError) -> u8 {
    match error {
        ReplayError::Inject(_) | ReplayError::Objects(_) | ReplayError::Panicked => FAILED,
        ReplayError::Store(error) => code_of_store(error),
        ReplayError::Empty
        | ReplayError::NoSuchProcess { .. }
        | ReplayError::BadEvents { .. }
        | ReplayError::Sandbox(_) => BAD_TRACE,
    }
}

/// The code for a replay under the debugger, or one that prints, which cannot go on.
fn code_of_timeline(error: &TimelineError) -> u8 {
    match error {
        TimelineError::Replay(error) => code_of_replay(error),
        TimelineError::Store(error) => code_of_store(error),
        // What is replayed dies of nothing but what its log says.
        TimelineError::Feed(_) | TimelineError::Died(_) | TimelineError::Lost(..) => BAD_TRACE,
        TimelineError::NoSuchPosition(_) => USAGE,
        TimelineError::Copy(_)
        | TimelineError::Ended
        | TimelineError::Past(_)
        | TimelineError::Order(_)
        | TimelineError::NoKeyframe(_)
        | TimelineError::Alone
        | TimelineError::Interrupted
        | TimelineError::TooMany(_)
        | TimelineError::TooLong(_)
        | TimelineError::Memory(_) => FAILED,
    }
}

/// What is told of a trace that is cut, by every command that has shown all that it holds.
pub fn cut_in_words(cut: &Cut) -> String {
    format!("{cut}: what came after is missing, and the trace does not say how the program ended")
}

/// The code of a command that has shown all that a trace holds; says if that was not all.
pub fn of_shown(trace: Option<&Cut>) -> ExitCode {
    trace.map_or(ExitCode::SUCCESS, |cut| failure(CUT, &cut_in_words(cut)))
}

/// Says what went wrong and gives the code that stands for it.
pub fn failure(code: u8, error: &dyn std::fmt::Display) -> ExitCode {
    diagnostics::tell!("retrovane: {error}");
    let is_written = answer_file::write(&error_object(code, error));
    if !is_written && is_json_wanted() && !answer_file::is_elsewhere() {
        as_json(code, error);
    }
    ExitCode::from(code)
}

/// The error for a program that reads the command's answer.
pub fn as_json(code: u8, error: &dyn std::fmt::Display) {
    // Who reads no more needs no error.
    let _ = writeln!(io::stdout(), "{}", error_object(code, error));
}

fn error_object(code: u8, error: &dyn std::fmt::Display) -> serde_json::Value {
    json!({"error": error.to_string(), "code": code})
}

/// True where the command was asked for JSON; behind `--` the words are the program's.
fn is_json_wanted() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// Ends where the command line makes no sense, or only asks for help.
pub fn of_command_line(error: &clap::Error) -> ! {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    let is_help =
        matches!(error.kind(), DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand);
    let is_query = std::env::args_os().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"));
    if !is_help && (is_json_wanted() || is_query.is_some_and(|word| word == "query")) {
        let text = error.render().to_string();
        // What is wrong, without how to call it.
        let what = text.lines().take_while(|line| !line.starts_with("Usage:"));
        let what = what.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        let what = what.trim_start_matches("error: ");
        if answer_file::is_elsewhere() {
            answer_file::open_of_bad_line();
            answer_file::write(&error_object(USAGE, &what));
        } else {
            as_json(USAGE, &what);
        }
    }
    error.exit()
}

/// The code of a command that ended like this; tells what went wrong.
pub fn of_command(result: Result<ExitCode, CommandError>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => failure(error.code(), &error),
    }
}

/// The code of a program's end, as shells have it.
pub fn of_program(status: ExitReport) -> ExitCode {
    ExitCode::from(code_of_program(status))
}

/// A program's end, as it stands in JSON.
pub fn end_object(status: ExitReport) -> serde_json::Value {
    match status {
        ExitReport::Exited(code) => json!({"exited": code}),
        ExitReport::Killed(signal) => json!({"killed": signal}),
    }
}

/// The same as a number.
pub fn code_of_program(status: ExitReport) -> u8 {
    match status {
        ExitReport::Exited(code) => code as u8,
        ExitReport::Killed(signal) => 128u8.wrapping_add(signal as u8),
    }
}
