//! Measures recording and replay against native runs, in one session: rounds
//! alternate native, recorded and replayed runs, so that a machine that slows
//! down slows all of them.
//!
//! Micro rows time their inner loop themselves; replay feeds the clock, so
//! there the whole process counts, less the replay of a program that does
//! nothing. Of servers the requests per second count, as their clients see them,
//! and in replay the time of the whole. All other rows are wall-clock times of
//! whole processes.
//! Deliberately absent: any pass or fail of the build. A missed target is
//! printed, not returned.
#![forbid(unsafe_code)]

mod checkpoints;
mod measure;
mod peers;
mod printing;
mod report;
mod rows;
mod server_rows;
mod session;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::report::Results;
use crate::session::Session;

/// Rounds of a quick look.
const ROUNDS_QUICK: u32 = 3;

/// Measure recording and replay against native runs.
#[derive(Parser)]
#[command(name = "bench")]
pub struct Options {
    /// Rounds of native, recorded and replayed runs
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Three rounds with smaller sizes
    #[arg(long)]
    quick: bool,
    /// Only rows whose name contains this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Leave out strace, gdb, rr and valgrind
    #[arg(long)]
    no_peers: bool,
    /// Write the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The tool [default: target/release/retrovane beside this binary]
    #[arg(long, value_name = "PATH")]
    tool: Option<PathBuf>,
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.quick {
        options.rounds = ROUNDS_QUICK;
    }
    match measure_all(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(options: &Options) -> Result<(), String> {
    let session = Session::new(options)?;
    let start_up = session.start_up_times()?;
    let mut results = Results::default();
    for row in rows::all() {
        let wanted = options.only.as_ref().is_none_or(|part| row.name.contains(part.as_str()));
        if wanted {
            eprintln!("measuring {}", row.name);
            results.rows.push(measure::measure_row(&session, row, &start_up));
        }
    }
    print!("{}", report::table(&results));
    if options.only.as_ref().is_none_or(|part| "checkpoints".contains(part.as_str())) {
        checkpoints::measure(&session.tool)?;
    }
    if options.only.as_ref().is_none_or(|part| "printing".contains(part.as_str())) {
        printing::measure(&session.tool)?;
    }
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&results).map_err(|error| error.to_string())?;
        std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}
