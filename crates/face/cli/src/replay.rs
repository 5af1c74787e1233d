//! `retrovane replay`.

use std::process::ExitCode;

use clap::Args;
use replayer::{ReplayError, ReplayOptions, ReportKind, replay};
use trace_store::{default_home, traces};

use crate::exit;

/// Replay a trace: the program does the same again, touching nothing outside.
#[derive(Args)]
pub struct ReplayArguments {
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    /// Only this process of the recorded ones
    #[arg(long)]
    pid: Option<i32>,
    /// Never rewrite code: every system call traps (slow)
    #[arg(long)]
    no_rewrite: bool,
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

/// Replays, and ends with the recorded exit code.
pub fn run(arguments: ReplayArguments) -> ExitCode {
    let Some(home) = default_home() else {
        return exit::failure(
            exit::BAD_TRACE,
            &"neither RETROVANE_HOME nor HOME is set: say where traces are",
        );
    };
    let trace_dir = match traces::resolve(&home, arguments.trace.as_deref()) {
        Ok(dir) => dir,
        Err(error) => return exit::failure(exit::BAD_TRACE, &error),
    };
    let options = ReplayOptions {
        trace_dir,
        home: Some(home),
        pid: arguments.pid,
        show_output: true,
        interception: None,
        rewriting_off: arguments.no_rewrite,
        progress: None,
    };
    let outcome = match replay(options) {
        Ok(outcome) => outcome,
        Err(error) => {
            let code = match error {
                ReplayError::Inject(_) | ReplayError::Panicked => exit::FAILED,
                ReplayError::Store(_)
                | ReplayError::Empty
                | ReplayError::NoSuchProcess { .. }
                | ReplayError::BadEvents { .. } => exit::BAD_TRACE,
            };
            return exit::failure(code, &error);
        }
    };
    if !arguments.quiet {
        for note in &outcome.notes {
            eprintln!("retrovane: {note}");
        }
    }
    if let Some(divergence) = &outcome.divergence {
        let code = match divergence.kind {
            ReportKind::Divergence => exit::DIVERGED,
            ReportKind::Missing => exit::BAD_TRACE,
            ReportKind::Failed => exit::FAILED,
        };
        return exit::failure(code, divergence);
    }
    outcome.status.map_or(ExitCode::SUCCESS, exit::of_program)
}
