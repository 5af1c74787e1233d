//! `retrovane lab gdb`: a debugger on a node of a run, at a time of the lab.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use lab::{Place, Spec, read_places};
use trace_store::{LaneInfo, TraceReader};

use crate::births::Image;
use crate::exit::{self, CommandError};
use crate::gdb::{self, GdbArguments};
use crate::lab::kept::{SPEC, read_json};
use crate::lab::running::{RunName, find};
use crate::lane_events::{LaneEvents, WholeEvent};
use crate::policy::Outputs;
use crate::settings::Settings;

#[derive(Args, Debug)]
pub struct GdbAtArguments {
    #[command(flatten)]
    name: RunName,
    /// The node
    node: String,
    /// The lab's time, as 12.5s
    #[arg(long, value_name = "T")]
    at: String,
    /// This process of the node, by its id in the trace [default: the first one that is there then]
    #[arg(long)]
    pid: Option<i32>,
    /// gdb takes no commands but those of -ex, and ends
    #[arg(long)]
    batch: bool,
    /// A command for gdb; may be given several times
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    ex: Vec<String>,
    /// Say where it is, and open no debugger
    #[arg(long)]
    show: bool,
}

/// A process at a time: how many events it had behind it.
#[derive(Debug)]
struct Found {
    pid: i32,
    command: String,
    events: u64,
    /// There are no more: it was killed while it waited for what came next.
    is_end: bool,
}

pub fn run(arguments: &GdbAtArguments, settings: &Settings) -> ExitCode {
    let found = settings.home().map_err(|error| error.to_string()).and_then(|home| {
        let dir = find(&home, arguments.name.run())?;
        let spec: Spec = read_json(&dir.join(SPEC))?;
        let named = spec.nodes.iter().position(|node| node.name == arguments.node);
        let node = named.ok_or_else(|| format!("there is no node `{}`", arguments.node))?;
        let at_ns = lab::time_ns(&arguments.at)?;
        Ok((processes_at(&dir, node, at_ns)?, dir))
    });
    let (found, dir) = match found {
        Ok(found) => found,
        Err(error) => return exit::failure(exit::USAGE, &error),
    };
    if arguments.show || arguments.name.json() {
        for Found { pid, command, events, .. } in &found {
            match arguments.name.json() {
                true => {
                    println!("{}", serde_json::json!({ "pid": pid, "command": command, "event": events }))
                }
                false => println!("{pid:8} {events:8} {command}"),
            }
        }
        return ExitCode::SUCCESS;
    }
    let Some(Found { pid, command, events, is_end }) =
        found.iter().find(|one| arguments.pid.is_none_or(|pid| pid == one.pid))
    else {
        let reason = format!("no such process of `{}` had begun at {}", arguments.node, arguments.at);
        return exit::failure(exit::USAGE, &reason);
    };
    if !settings.quiet {
        diagnostics::tell!(
            "retrovane: process {pid} of {}, `{command}`, after {events} events",
            arguments.node
        );
    }
    let at = if *is_end { "end".to_owned() } else { events.to_string() };
    let gdb = GdbArguments::beginning(at, arguments.batch, arguments.ex.clone());
    gdb::run(&gdb, &dir.join("trace"), Some(*pid), Outputs::default(), settings)
}

/// The programs of a node that had begun at a time and had not ended, in the order in which they were made.
fn processes_at(dir: &Path, node: usize, at_ns: u64) -> Result<Vec<Found>, String> {
    let places = read_places(dir).map_err(|error| format!("{}: {error}", dir.join("places").display()))?;
    let trace = TraceReader::open(&dir.join("trace")).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for info in trace.lanes() {
        let is_its = |place: &&Place| place.lane == u64::from(info.lane) && place.node == node as u64;
        let of_lane: Vec<&Place> = places.iter().filter(is_its).collect();
        let Some(place) = of_lane.iter().rfind(|place| place.at_ns <= at_ns) else { continue };
        let goes_on = of_lane.last().is_some_and(|last| last.at_ns > at_ns);
        let ended = matches!(info.end, Some(trace_store::LaneEnd::Exited(_)));
        if ended && !goes_on {
            continue;
        }
        found.extend(process_at(&trace, info, place.bytes).map_err(|error| error.to_string())?);
    }
    Ok(found)
}

/// The process at a place of its log; `None`: it has one of the lab's own programs.
fn process_at(trace: &TraceReader, info: &LaneInfo, bytes: u64) -> Result<Option<Found>, CommandError> {
    let mut all = LaneEvents::open(trace, info.lane)?;
    let (mut event, mut events, mut command) = (WholeEvent::default(), 0, String::new());
    let is_end = loop {
        if !all.read(&mut event)? {
            break true;
        }
        if all.position_bytes() > bytes {
            break false;
        }
        events += 1;
        if let Some(image) = Image::of(&event) {
            let words: Vec<_> =
                image.command().iter().map(|word| word.to_string_lossy().into_owned()).collect();
            command = words.join(" ");
        }
    };
    if command.is_empty() {
        "(forked)".clone_into(&mut command);
    }
    let is_own = command.contains("lab-own");
    Ok((!is_own).then_some(Found { pid: info.pid, command, events, is_end }))
}
