//! `bt`, `who-wrote` and `when`: the questions that are asked most, by the names that debuggers give them.
//!
//! They are verbs of [`crate::query`], with an answer for people, or the verb's object with `--json`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::exit::{self, CommandError};
use crate::query::{Place, ask};
use crate::settings::Settings;
use crate::verbs::{Arguments, bounded, table};

const SECONDS_MAX: u64 = 600;
/// Frames that people are shown.
const FRAMES_MAX: u64 = 40;

/// Where it is asked, and how it is answered.
#[derive(Args, Debug)]
struct Asking {
    /// Where to ask: start, end, crash, or a position [default: the crash, or the end]
    #[arg(long, value_name = "start|end|crash|POSITION")]
    at: Option<String>,
    /// Of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u64>,
    /// One JSON object, as `retrovane query` gives it; an error too
    #[arg(long)]
    json: bool,
}

/// Show the stack of a recorded program where it crashed, or at a position
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  retrovane bt                     where the latest recording crashed, or ended\n  retrovane bt make-3 --at 97+120\n  retrovane bt --json"
)]
pub struct BtArguments {
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

/// Show which line wrote a value last, with the position of the write
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  retrovane who-wrote 'cache->log'           before the crash of the latest recording\n  retrovane who-wrote total make-3 --at end"
)]
pub struct WhoWroteArguments {
    /// An expression of the program's language, whose place in memory is meant
    expression: String,
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

/// Show the position at which a recorded program crashed, ended, or is looked at
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  retrovane when                   of the crash, or the end, of the latest recording\n  retrovane when make-3 --at end"
)]
pub struct WhenArguments {
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

pub fn backtrace(arguments: &BtArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let mut given = Arguments::new();
    if !arguments.asking.json {
        // Whoever reads them skips some more easily than an agent does.
        given.insert("frames".to_owned(), Value::from(FRAMES_MAX));
    }
    run("backtrace", arguments.trace.as_deref(), &given, &arguments.asking, settings)
}

pub fn who_wrote(arguments: &WhoWroteArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let mut given = Arguments::new();
    given.insert("expression".to_owned(), Value::from(arguments.expression.as_str()));
    run("last_write", arguments.trace.as_deref(), &given, &arguments.asking, settings)
}

pub fn when(arguments: &WhenArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    run("where", arguments.trace.as_deref(), &Arguments::new(), &arguments.asking, settings)
}

fn run(
    verb: &'static str,
    trace: Option<&str>,
    given: &Arguments,
    asking: &Asking,
    settings: &Settings,
) -> Result<ExitCode, CommandError> {
    let verb = table::find(verb).expect("it is in the table of verbs");
    let place = Place { trace, pid: asking.pid, at: asking.at.as_deref() };
    let mut out = std::io::stdout().lock();
    match ask(verb, &place, given, SECONDS_MAX, settings)? {
        Ok(answer) if asking.json => writeln!(out, "{}", bounded(answer))?,
        Ok(answer) => write!(out, "{}", in_words(&answer))?,
        Err(error) if asking.json => {
            writeln!(out, "{}", json!({"error": error.to_string()}))?;
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Ok(exit::failure(1, &error)),
    }
    Ok(ExitCode::SUCCESS)
}

/// The position first, then what was written, then the frames.
fn in_words(answer: &Value) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut text = plain(&answer["position"]);
    if let Some(process) = answer["process"].as_u64() {
        text += &format!(" of process {process}");
    }
    if answer["written"] == Value::Bool(false) {
        text += "  not written before";
    } else if !answer["new"].is_null() {
        text += &format!("  {} -> {}", plain(&answer["old"]), plain(&answer["new"]));
    }
    text.push('\n');
    // `who-wrote` alone says more: what is to be known of a write.
    for said in answer["said"].as_array().filter(|_| !answer["new"].is_null()).into_iter().flatten() {
        text += &format!("{}\n", plain(said));
    }
    let one = [answer["frame"].clone(), answer["from"].clone()];
    let one = &one[..if answer["from"].is_null() { 1 } else { 2 }];
    let mut level = 0;
    for frame in answer["frames"].as_array().map_or(one, Vec::as_slice) {
        if frame["level"].as_u64().is_some_and(|this| this > level) {
            text += "...\n";
        }
        level = frame["level"].as_u64().unwrap_or(level) + 1;
        text += &format!("#{}  ", frame["level"]);
        let Some(name) = frame["function"].as_str() else {
            // Code without a name, as a compiler at run time makes it.
            text += &format!("?? at {}\n", plain(&frame["pc"]));
            continue;
        };
        text += name;
        let arguments = frame["arguments"].as_object();
        let shown = arguments.into_iter().flatten().map(|(name, value)| format!("{name}={}", plain(value)));
        text += &format!("({})", shown.collect::<Vec<_>>().join(", "));
        if let Some(place) = frame["at"].as_str() {
            text += &format!(" at {place}");
        }
        text.push('\n');
    }
    if answer["more"] == Value::Bool(true) || answer["cut"] == Value::Bool(true) {
        text += "...\n";
    }
    // Names and values are the recorded program's.
    text.chars().map(|each| if each.is_control() && each != '\n' { '?' } else { each }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_position_and_frames() {
        let answer = json!({"position": "97+120", "old": "1", "new": "2", "written": true, "frames": [
            {"level": 0, "function": "add", "arguments": {"n": "4"}, "at": "a.c:3"},
            {"level": 1, "function": "m\u{1b}ain"}, {"level": 2, "function": null, "pc": "0x12"},
        ]});
        let said = "97+120  1 -> 2\n#0  add(n=4) at a.c:3\n#1  m?ain()\n#2  ?? at 0x12\n";
        assert_eq!(in_words(&answer), said);
    }
}
