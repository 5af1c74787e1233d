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

mod apache;
mod checkpoints;
mod figures;
mod flight;
mod limited;
mod logging;
mod measure;
mod peers;
mod plots;
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
    /// Only rows whose name contains this; tables are named checkpoints, logging, apache-paper,
    /// flight-recorder and printing
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Leave out strace, rr and valgrind
    #[arg(long)]
    no_peers: bool,
    /// Write the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw what was measured beside the paper's figures, as SVG files of this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
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
    if !results.rows.is_empty() {
        print!("{}", report::table(&results));
    }
    let wanted = |table: &str| options.only.as_ref().is_none_or(|part| table.contains(part.as_str()));
    if wanted("checkpoints") {
        results.figures.extend(checkpoints::measure(&session.tool)?);
    }
    if wanted("logging") {
        results.figures.extend(logging::measure(&session)?);
    }
    if wanted("apache-paper") {
        results.figures.extend(apache::measure(&session)?);
    }
    if wanted("flight-recorder") {
        flight::measure(&session)?;
    }
    if wanted("printing") {
        printing::measure(&session.tool)?;
    }
    if let Some(directory) = &options.plots {
        plots::write(directory, &results.figures)?;
        println!("\n{} plots are in {}", results.figures.len(), directory.display());
    }
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&results).map_err(|error| error.to_string())?;
        std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}
