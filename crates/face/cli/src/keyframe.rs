//! `retrovane keyframe`, and what `replay` does with keyframes.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use replayer::ReplayOptions;
use serde_json::json;
use timeline::{Reason, Timeline, report_kind};
use trace_store::keyframes;

use crate::exit::{self, CommandError};
use crate::live::duration;
use crate::settings::Settings;

const EXAMPLES: &str = "\
Examples:
  retrovane keyframe                 of what was recorded last: near its end, and every 10 s
  retrovane keyframe long-3 --every 1m
  retrovane keyframe long-3 --pid 4711
  retrovane keyframe long-3 --remove
  retrovane replay long-3 --at end   begins at the last keyframe

A keyframe holds the program's memory at one place: a file of the user's own in the
trace's directory, of use on this machine and with this version of Retrovane alone.
Packs do not contain it.";

/// How long the program runs, while it is replayed, before another keyframe is written.
const EVERY: &str = "10s";

/// Write keyframes beside a trace, so that gdb comes to its end without replaying all of it
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct KeyframeArguments {
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    /// How long the program runs from one keyframe to the next, while it is replayed
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = EVERY)]
    every: Duration,
    /// This process of the recorded ones, in place of the first
    #[arg(long)]
    pid: Option<i32>,
    /// Remove the keyframes that there are
    #[arg(long, conflicts_with_all = ["every", "pid"])]
    remove: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What a debugger's replay does with keyframes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Use {
    /// It begins at one where that is nearer.
    #[default]
    Read,
    Off,
    /// The same, and it writes one each time that the program has run for so long.
    Write(Duration),
}

impl FromStr for Use {
    type Err = String;

    fn from_str(text: &str) -> Result<Use, String> {
        match text {
            "off" => Ok(Use::Off),
            "read" => Ok(Use::Read),
            time => duration(time).map(Use::Write).map_err(|error| format!("{error}, or off")),
        }
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Use::Off => f.write_str("off"),
            Use::Read => f.write_str("read"),
            Use::Write(every) => write!(f, "{}ms", every.as_millis()),
        }
    }
}

impl Use {
    /// Lets the timeline do so.
    pub fn begin(self, timeline: &mut Timeline) {
        if self != Use::Off {
            timeline.use_keyframes(Box::new(|text| diagnostics::tell!("retrovane: {text}")));
        }
        if let Use::Write(every) = self {
            timeline.write_keyframes(every);
        }
    }
}

/// Writes keyframes, or removes them.
pub fn run(arguments: &KeyframeArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let trace_dir = settings.trace_dir(arguments.trace.as_deref())?;
    if arguments.remove {
        let removed = keyframes::remove_all(&trace_dir)?;
        if arguments.json {
            writeln!(std::io::stdout(), "{}", json!({ "removed": removed }))?;
        }
        if !settings.quiet {
            diagnostics::tell!("retrovane: {removed} keyframes removed");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let options = ReplayOptions { pid: arguments.pid, rewriting_off: true, ..settings.replay_of(trace_dir) };
    let mut timeline = Timeline::open(&options, &|| false)?;
    Use::Write(arguments.every).begin(&mut timeline);
    let end = timeline.seek_end(&|| false)?;
    let event = timeline.stop().event;
    if let Reason::End { report: report_kind::DIVERGENCE, .. } = end {
        let text = format!("replay diverged after {event} events: {}", timeline.said());
        return Ok(exit::failure(exit::DIVERGED, &text));
    }
    if let Reason::End { report: report_kind::FAILED | report_kind::MISSING, .. } = end {
        let text = format!("the replay cannot go on after {event} events: {}", timeline.said());
        return Err(CommandError::BadReplay(text));
    }
    let positions = timeline.keyframes();
    if let Some(why) = timeline.no_keyframes() {
        return Err(CommandError::Debugger(format!("no keyframes are written: {why}")));
    }
    if positions.is_empty() && !settings.quiet {
        diagnostics::tell!("retrovane: no keyframe: the program ends too soon for one (see --every)");
    }
    if arguments.json {
        let positions: Vec<String> = positions.iter().map(ToString::to_string).collect();
        writeln!(std::io::stdout(), "{}", json!({ "keyframes": positions }))?;
    } else {
        for position in positions {
            writeln!(std::io::stdout(), "{position}")?;
        }
    }
    let trace = timeline.trace();
    Ok(exit::of_shown(trace.as_ref().and_then(|trace| trace.cut())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_read_as_it_is_written() {
        for (text, wanted) in [
            ("off", Use::Off),
            ("read", Use::Read),
            ("10s", Use::Write(Duration::from_secs(10))),
            ("1500ms", Use::Write(Duration::from_millis(1500))),
        ] {
            assert_eq!(text.parse(), Ok(wanted));
            assert_eq!(wanted.to_string().parse(), Ok(wanted));
        }
        assert!("often".parse::<Use>().is_err());
    }
}
