//! `retrovane ls`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use trace_store::traces::{TraceListing, list};

use crate::columns::{Side, lines};
use crate::exit::CommandError;
use crate::settings::Settings;
use crate::wording;

const EXAMPLES: &str = "\
Examples:
  retrovane ls
  retrovane ls --json | jq -r '.[] | select(.exit.exited != 0) | .name'

With --json: an array of objects with the fields name, path, when (UTC),
command (a list), exit ({\"exited\": N}, {\"killed\": N}, {\"stopped\": N} or
\"unknown\"; null if the trace is cut), events (null if the trace is cut),
size_bytes, cut, recording, problem (null if there is none).";

/// Widest command in the table, in characters.
const COMMAND_CHARS_MAX: usize = 48;

/// List the traces, the newest last
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LsArguments {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Lists.
pub fn run(arguments: &LsArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let home = settings.home()?;
    let mut traces = list(&home)?;
    traces.reverse();
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let all: Vec<Value> = traces.iter().map(as_json).collect();
        serde_json::to_writer_pretty(&mut out, &all)?;
        writeln!(out)?;
    } else if traces.is_empty() {
        if !settings.quiet {
            diagnostics::tell!(
                "retrovane: there is no trace in {} yet: make one with `retrovane record`",
                home.display()
            );
        }
    } else {
        out.write_all(table(&traces).as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn table(traces: &[TraceListing]) -> String {
    let header = ["NAME", "WHEN (UTC)", "COMMAND", "EXIT", "EVENTS", "SIZE"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(traces.iter().map(row)).collect();
    lines(&[Side::Left, Side::Left, Side::Left, Side::Left, Side::Right, Side::Right], &rows)
}

fn row(trace: &TraceListing) -> Vec<String> {
    let command = match &trace.problem {
        Some(problem) => format!("({})", wording::printable(problem.as_bytes())),
        None => wording::command(&trace.command),
    };
    let exit = match (trace.exit, trace.recording) {
        (Some(trace_store::LaneEnd::Exited(code)), _) => code.to_string(),
        (Some(trace_store::LaneEnd::Stopped(_)), _) => "stopped".to_owned(),
        (Some(trace_store::LaneEnd::Unknown), _) => "unknown".to_owned(),
        (Some(trace_store::LaneEnd::Killed(signal)), _) => wording::signal(signal),
        (None, true) => "recording".to_owned(),
        (None, false) if trace.problem.is_some() => "-".to_owned(),
        (None, false) => "cut".to_owned(),
    };
    vec![
        wording::printable(trace.name.as_bytes()),
        wording::time(&trace.when),
        wording::cut(&command, COMMAND_CHARS_MAX),
        exit,
        trace.events.map_or_else(|| "-".to_owned(), wording::count),
        wording::bytes(trace.size_bytes),
    ]
}

fn as_json(trace: &TraceListing) -> Value {
    json!({
        "name": trace.name,
        "path": trace.path.to_string_lossy(),
        "when": trace.when,
        "command": trace.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>(),
        "exit": trace.exit,
        "events": trace.events,
        "size_bytes": trace.size_bytes,
        "cut": trace.cut,
        "recording": trace.recording,
        "problem": trace.problem,
    })
}
