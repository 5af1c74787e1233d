//! `retrovane replay`.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use events::real::{DIFFERS, GOES_ON, Note};
use replayer::{ExitReport, Real, ReplayOptions, ReplayOutcome, ReportKind, replay};
use trace_store::TraceReader;

use crate::answer_file::{self, JsonArguments};
use crate::exit::{self, CommandError};
use crate::gdb::{self, GdbArguments};
use crate::policy::{Applied, PolicyArguments};
use crate::progress;
use crate::settings::Settings;
use crate::show::{Show, Wanted, title_of};

const EXAMPLES: &str = "\
Examples:
  retrovane replay                  what was recorded last
  retrovane replay make-3           a trace by its name
  retrovane replay make.rvpack      a pack: it is unpacked into the directory of traces
  retrovane replay make-3 --pid 4711
  retrovane replay --at crash       gdb where the program died
  retrovane replay --run --output 'stdout=to out.txt' --output stderr=drop
  retrovane replay --run --input 'file:/etc/*=real' --output 'tcp:*:5432=real'
  retrovane replay --show --speed 4 what it drew, in a window of this display
  retrovane replay --batch -ex 'break main' -ex continue -ex reverse-stepi

On a terminal it opens gdb at the start, where all of gdb's reverse- commands
work, and `help retrovane` lists more. Elsewhere, or with --run, it replays to
the end.

It shows what the program wrote to its standard output and error, and --run ends with its
exit code. --json FILE says in one object how it ended.";

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
    /// Show what the program drew on an X11 display, in a window of the present one, at the speed of then
    #[arg(long)]
    show: bool,
    /// The display on which it is shown [default: that of the environment]
    #[arg(long, value_name = "DISPLAY", requires = "show")]
    display: Option<String>,
    /// So many times as fast as then
    #[arg(long, value_name = "N", requires = "show", value_parser = speed, default_value = "1")]
    speed: f64,
    #[command(flatten)]
    policies: PolicyArguments,
    #[command(flatten)]
    gdb: GdbArguments,
    #[command(flatten)]
    json: JsonArguments,
}

/// Replays, and ends with the recorded exit code.
pub fn run(arguments: ReplayArguments, settings: &Settings) -> ExitCode {
    let found = arguments.json.open().and_then(|()| settings.trace_dir(arguments.trace.as_deref()));
    let trace_dir = match found {
        Ok(dir) => dir,
        Err(error) => return exit::failure(error.code(), &error),
    };
    if arguments.gdb.are_wanted(arguments.json.is_given()) && !arguments.show {
        if arguments.json.is_given() {
            return exit::failure(exit::USAGE, &"--json is for a replay to the end, without gdb");
        }
        let outputs = match arguments.policies.for_gdb() {
            Ok(outputs) => outputs,
            Err(error) => return exit::failure(error.code(), &error),
        };
        return gdb::run(&arguments.gdb, &trace_dir, arguments.pid, outputs, settings);
    }
    let (mut applied, show) = match apply(&arguments, &trace_dir, settings) {
        Ok(applied) => applied,
        Err(error) => return exit::failure(error.code(), &error),
    };
    let bar = progress::events(settings, "replaying");
    let shown = bar.clone();
    let options = ReplayOptions {
        pid: arguments.pid,
        show_output: true,
        rewriting_off: arguments.no_rewrite,
        real: applied.plan.take().map(|plan| Real { plan, begun: show.as_ref().map(Show::begin) }),
        progress: Some(Box::new(move |now| progress::show(&shown, now.events_done, now.events_total))),
        ..settings.replay_of(trace_dir.clone())
    };
    let replayed = replay(options);
    bar.finish_and_clear();
    if let Some(show) = show {
        show.end(settings.quiet);
    }
    let outcome = match replayed {
        Ok(outcome) => outcome,
        Err(error) => return exit::failure(exit::code_of_replay(&error), &error),
    };
    if !settings.quiet {
        for note in &outcome.notes {
            diagnostics::tell!("retrovane: {note}");
        }
    }
    match ended(&outcome, &applied) {
        Ok(Ended::As(status)) => {
            answer_file::write(&answer_file::object_of_run(&trace_dir, status));
            status.map_or(ExitCode::SUCCESS, exit::of_program)
        }
        Ok(Ended::Failed(code)) => code,
        Err(error) => exit::failure(error.code(), &error),
    }
}

/// A factor of the speed.
fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed > 0.0 => Ok(speed),
        _ => Err("a number above 0 is wanted".to_owned()),
    }
}

/// What policies mean for the trace, and what shows its windows, if they are to be shown.
fn apply(
    arguments: &ReplayArguments,
    trace_dir: &Path,
    settings: &Settings,
) -> Result<(Applied, Option<Show>), CommandError> {
    let (applied, show) = if arguments.show {
        let (display, title) = (arguments.display.clone(), title_of(trace_dir));
        let wanted = Wanted { display, until: None, pace: Some(arguments.speed), title };
        let (applied, show) = Show::apply(wanted, &arguments.policies, trace_dir)?;
        (applied, Some(show))
    } else {
        (arguments.policies.apply(trace_dir, None)?, None)
    };
    Ok((begin(applied, trace_dir, settings)?, show))
}

/// Says what is about to be touched, before it is.
pub fn begin(applied: Applied, trace_dir: &Path, settings: &Settings) -> Result<Applied, CommandError> {
    /// More are counted.
    const SAID_MAX: usize = 20;
    if applied.plan.is_some() && settings.sandbox.is_wanted_for(&TraceReader::open(trace_dir)?) {
        return Err(CommandError::Usage(
            "a replay in the sandbox reaches nothing outside: give no policy that is real, or --sandbox never".to_owned(),
        ));
    }
    if !settings.quiet {
        for touch in applied.touches.iter().take(SAID_MAX) {
            diagnostics::tell!("retrovane: this replay {touch}");
        }
        if applied.touches.len() > SAID_MAX {
            diagnostics::tell!("retrovane: ... and {} more", applied.touches.len() - SAID_MAX);
        }
    }
    Ok(applied)
}

/// How a replay ended.
enum Ended {
    /// As the recording: `None` for what ends where it is meant to, which a live session saved, or which left
    /// the recording.
    As(Option<ExitReport>),
    /// Why not is told.
    Failed(ExitCode),
}

/// The end of a replay that is over.
fn ended(outcome: &ReplayOutcome, applied: &Applied) -> Result<Ended, CommandError> {
    let changes = changes(outcome, applied);
    for change in &changes {
        diagnostics::tell!("retrovane: {change}");
    }
    if let Some(divergence) = &outcome.divergence {
        let code = match divergence.kind {
            ReportKind::Divergence if changes.is_empty() => exit::DIVERGED,
            ReportKind::Missing | ReportKind::Failed if changes.is_empty() => exit::BAD_TRACE,
            ReportKind::Divergence | ReportKind::Missing | ReportKind::Failed => exit::CHANGED,
        };
        return Ok(Ended::Failed(exit::failure(code, divergence)));
    }
    if let Some(difference) = applied.difference()? {
        return Ok(Ended::Failed(exit::failure(exit::CHANGED, &difference)));
    }
    // Also where the end of the first process is in it: of the others it may not be.
    let cut = outcome.cut.map(|cut| Ended::Failed(exit::of_shown(Some(&cut))));
    Ok(cut.unwrap_or(Ended::As(outcome.status)))
}

/// In which way real streams were others than recorded: the first of each.
fn changes(outcome: &ReplayOutcome, applied: &Applied) -> Vec<String> {
    let mut said = HashSet::new();
    let is_news = |note: &&Note| note.what < DIFFERS || !applied.replaced.contains(&note.stream);
    let notes = outcome.real.iter().filter(is_news).filter(|note| said.insert(note.stream));
    let say = |note: &Note| {
        let name = applied.streams.get(note.stream as usize).map_or("a stream", String::as_str);
        let place = format!("event {} of lane {}", note.event, note.lane);
        match note.what {
            DIFFERS => {
                format!("{name} is not what it was: byte {} of what {place} read differs", note.offset)
            }
            GOES_ON => format!("{name} goes on where it ended when it was recorded ({place})"),
            error if error == u64::from(linux_abi::errno::ENODATA) => {
                format!("{name} ends before it did when it was recorded ({place})")
            }
            error => format!("{name}: {} ({place})", std::io::Error::from_raw_os_error(error as i32)),
        }
    };
    notes.map(say).collect()
}
