//! `retrovane screenshot`: what a recorded program's windows showed at a position.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use replayer::{Real, ReplayOptions, replay};
use serde_json::json;
use timeline::Position;
use trace_store::TraceReader;

use crate::exit::{self, CommandError};
use crate::lane_events::{LaneEvents, WholeEvent};
use crate::policy::{Moment, PolicyArguments};
use crate::replay::begin;
use crate::settings::Settings;
use crate::show::{Show, Wanted, title_of};

const EXAMPLES: &str = "\
Examples:
  retrovane screenshot                            the last picture, to screenshot.png
  retrovane screenshot xterm-2 -o then.png --at 1200
  Xvfb :5 -screen 0 1280x1024x24 & retrovane screenshot --display :5

The requests of the recorded program are sent to the display, into a window that stands for the recorded
screen; nothing else there is touched. In gdb `screenshot FILE` does it for the present position.";

/// Make a picture of what a recorded X11 program showed
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ScreenshotArguments {
    /// Name or directory of the trace, or a pack [default: the latest]
    trace: Option<String>,
    /// Where the picture goes: PNG, or PPM if its name ends so
    #[arg(short, long, value_name = "FILE", default_value = "screenshot.png")]
    output: PathBuf,
    /// Behind so many events of the process [default: the last that was drawn]
    #[arg(long, value_name = "POSITION")]
    at: Option<String>,
    /// Whose position it is [default: the first process]
    #[arg(long, value_name = "PID", requires = "at")]
    pid: Option<i32>,
    /// The display that draws it [default: that of the environment]
    #[arg(long, value_name = "DISPLAY")]
    display: Option<String>,
    /// One JSON object that names the picture
    #[arg(long)]
    json: bool,
}

/// Replays up to the position, and asks the display for what is there.
pub fn run(arguments: &ScreenshotArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let trace_dir = settings.trace_dir(arguments.trace.as_deref())?;
    let until = match &arguments.at {
        Some(text) => Some(moment(&trace_dir, text, arguments.pid)?),
        None => None,
    };
    let title = title_of(&trace_dir);
    let wanted = Wanted { display: arguments.display.clone(), until, pace: None, title };
    let (applied, show) = Show::apply(wanted, &PolicyArguments::default(), &trace_dir)?;
    let (mut applied, show) = (begin(applied, &trace_dir, settings)?, Arc::new(show));
    let options = ReplayOptions {
        real: applied.plan.take().map(|plan| Real { plan, begun: Some(threads(&show, arguments, settings)) }),
        ..settings.replay_of(trace_dir)
    };
    let outcome = match replay(options) {
        Ok(outcome) => outcome,
        Err(error) => return Ok(exit::failure(exit::code_of_replay(&error), &error)),
    };
    if let Some(divergence) = outcome.divergence {
        return Err(CommandError::BadReplay(divergence.to_string()));
    }
    show.end_waiting();
    // The picture ends the command.
    loop {
        std::thread::park();
    }
}

/// All threads of the show, and one that ends the command when the picture is there: the replay goes on no further.
fn threads(show: &Arc<Show>, arguments: &ScreenshotArguments, settings: &Settings) -> Box<dyn FnOnce()> {
    let connections = show.begin();
    let (show, output, is_quiet) = (Arc::clone(show), arguments.output.clone(), settings.quiet);
    let as_json = arguments.json;
    Box::new(move || {
        connections();
        injector::start_thread("picture", move || {
            let code = match show.picture().and_then(|picture| picture.save(&output)) {
                Ok(()) => {
                    if as_json {
                        // Who reads no more needs no name.
                        let _ = writeln!(std::io::stdout(), "{}", json!({ "picture": output }));
                    }
                    0
                }
                Err(error) => {
                    exit::failure(exit::FAILED, &error);
                    exit::FAILED
                }
            };
            show.tell(is_quiet);
            std::process::exit(code.into());
        });
    })
}

/// The moment of a position, whose instructions draw nothing.
fn moment(trace_dir: &Path, text: &str, pid: Option<i32>) -> Result<Moment, CommandError> {
    let trace = TraceReader::open(trace_dir)?;
    let position: Position = text.parse().map_err(|_| {
        CommandError::Usage(format!("{text} is no position: EVENTS or EVENTS+INSTRUCTIONS is wanted"))
    })?;
    let lane = match pid {
        Some(pid) => {
            let found = trace.lanes().iter().rev().find(|info| info.pid == pid);
            found.ok_or(CommandError::NoSuchProcess { pid })?.lane
        }
        None => 0,
    };
    let mut events = LaneEvents::open(&trace, lane)?;
    let mut whole = WholeEvent::default();
    let mut moment = Moment { lane, event: position.event, logged: 0 };
    while events.read(&mut whole)? && whole.index < position.event {
        moment.logged = whole.logged.unwrap_or(moment.logged);
    }
    Ok(moment)
}
