//! After-the-fact printing: expressions at every execution of a line of a recording, and
//! every call of a function with its arguments and its result.
//!
//! Expressions are compiled here, for each instruction at which the line begins, from
//! the program's debug information into bytecode (`lane_protocol::bytecode`), which the
//! runtime evaluates in the replaying process. What it records is read here.
//!
//! Architecture invariant: a value that is not known at an instruction is said to be
//! missing; nothing is guessed. Deliberately absent: calls of the program's functions,
//! assignments, calculation with numbers of x87's 80 bits.
#![forbid(unsafe_code)]

mod calls;
mod code;
mod compile;
mod conversions;
mod cpp;
mod debug_file;
mod display;
mod dynamic;
mod error;
mod float_text;
mod floats;
mod functions;
mod go_maps;
mod go_results;
mod lines;
mod lists;
mod location;
mod nodes;
mod parse;
mod parts;
mod passing;
mod plan;
mod print;
mod recorded;
mod rust_nodes;
mod scope;
mod shape;
mod shown;
mod types;
mod value;
mod variants;

pub use error::PrintError;
pub use lines::source_files;
pub use parse::{Expression, Named, parse, parse_list};
pub use plan::Wanted;
pub use print::{Failing, Outcome, Request, Row, print};
pub use shown::Shown;
