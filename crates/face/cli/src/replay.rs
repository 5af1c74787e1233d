//! `retrovane replay`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use replayer::{ReplayOptions, ReportKind, replay};
use trace_store::pack::is_pack;

use crate::exit::{self, CommandError};
use crate::gdb::{self, GdbArguments};
use crate::pack::unpack;
use crate::policy::PolicyArguments;
use crate::progress;
use crate::settings::Settings;

const EXAMPLES: &str = "\
Examples:
  retrovane replay                  what was recorded last
  retrovane replay make-3           a trace by its name
  retrovane replay make.rvpack      a pack: it is unpacked into the directory of traces
  retrovane replay make-3 --pid 4711
  retrovane replay --at crash       gdb where the program died
  retrovane replay --run --output 'stdout=to out.txt' --output stderr=drop
  retrovane replay --batch -ex 'break main' -ex continue -ex reverse-stepi

On a terminal it opens gdb at the start, where all of gdb's reverse- commands
work, and `help retrovane` lists more. Elsewhere, or with --run, it replays to
the end.

It shows what the program wrote to its standard output and error, and --run ends with its
exit code.";

/// Replay a trace: the program does the same again, touching nothing outside.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ReplayArguments {
    /// Name or directory of the trace, or a pack [default: the latest]
    trace: Option<String>,
    /// Only this process of the recorded ones
    #[arg(long)]
    pid: Option<i32>,
    /// Never rewrite code: every system call traps (slow)
    #[arg(long)]
    no_rewrite: bool,
    #[command(flatten)]
    policies: PolicyArguments,
    #[command(flatten)]
    gdb: GdbArguments,
}

/// Replays, and ends with the recorded exit code.
pub fn run(arguments: ReplayArguments, settings: &Settings) -> ExitCode {
    let trace_dir = match find(arguments.trace.as_deref(), settings) {
        Ok(dir) => dir,
        Err(error) => return exit::failure(error.code(), &error),
    };
    if arguments.gdb.are_wanted() {
        return gdb::run(&arguments.gdb, &trace_dir, arguments.pid, settings);
    }
    if let Err(error) = arguments.policies.apply() {
        return exit::failure(error.code(), &error);
    }
    let bar = progress::events(settings, "replaying");
    let shown = bar.clone();
    let options = ReplayOptions {
        trace_dir,
        home: settings.home().ok(),
        pid: arguments.pid,
        show_output: true,
        interception: None,
        rewriting_off: arguments.no_rewrite,
        sandbox: settings.sandbox,
        progress: Some(Box::new(move |now| progress::show(&shown, now.events_done, now.events_total))),
    };
    let replayed = replay(options);
    bar.finish_and_clear();
    let outcome = match replayed {
        Ok(outcome) => outcome,
        Err(error) => return exit::failure(exit::code_of_replay(&error), &error),
    };
    if !settings.quiet {
        for note in &outcome.notes {
            telling::tell!("retrovane: {note}");
        }
    }
    if let Some(divergence) = &outcome.divergence {
        let code = match divergence.kind {
            ReportKind::Divergence => exit::DIVERGED,
            ReportKind::Missing | ReportKind::Failed => exit::BAD_TRACE,
        };
        return exit::failure(code, divergence);
    }
    match (outcome.cut, outcome.status) {
        // Also where the end of the first process is in it: of the others it may not be.
        (Some(cut), _) => exit::of_shown(Some(&cut)),
        (None, Some(status)) => exit::of_program(status),
        // What a live session saved, or what left the recording, ends where it is meant to.
        (None, None) => ExitCode::SUCCESS,
    }
}

/// The directory of the trace that is meant.
fn find(name: Option<&str>, settings: &Settings) -> Result<PathBuf, CommandError> {
    match name {
        Some(name) if is_pack(Path::new(name)) => unpack(Path::new(name), settings),
        Some(_) | None => settings.trace_dir(name),
    }
}
