//! Why nothing could be printed.

use timeline::TimelineError;
use trace_store::StoreError;

/// Why nothing could be printed.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    #[error(transparent)]
    Timeline(#[from] TimelineError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The text of an expression, the place in it (a number of characters), what is wrong.
    #[error("`{0}`, at character {1}: {2}")]
    Syntax(String, usize, String),
    #[error(
        "no file of the recording has debug information: compile the program with -g, or install the debug information of its package"
    )]
    NoDebugInformation,
    #[error("no source file `{0}` in the debug information of the recording")]
    NoSuchFile(String),
    #[error("line {line} of {file} has no code; {nearest}")]
    NoSuchLine { file: String, line: u64, nearest: String },
    #[error("no function `{0}` in the debug information of the recording{1}")]
    NoSuchFunction(String, String),
    #[error("function `{0}` was always inlined: it has no calls; print its lines with `retrovane print`")]
    OnlyInlined(String),
    #[error("no variable `{name}` at {place}{hint}")]
    NoSuchVariable { name: String, place: String, hint: String },
    /// An expression, and what it does that cannot be done.
    #[error("`{0}`: {1}")]
    Expression(String, String),
    #[error("the trace has no process {0}: `retrovane info` lists the processes")]
    NoSuchProcess(i32),
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}
