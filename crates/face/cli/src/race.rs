//! `retrovane race`: conflicting accesses of two threads, with both stacks.
//!
//! The recording is gone through instruction by instruction ([`walk`]), and what nothing orders is told
//! ([`order`]); then each side is gone to, for its stack.

mod order;
mod variables;
mod walk;

use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use replayer::Frame;
use serde_json::{Value, json};
use trace_store::{LaneEnd, TraceReader, hash_hex};

use crate::exit::CommandError;
use crate::hunt::duration;
use crate::settings::Settings;
use crate::stack_at::{Past, frame_text};
use order::{Conflict, Seen};
use walk::{Walk, Walked};

const EXAMPLES: &str = "\
Examples:
  retrovane race                     the latest recording, say of `retrovane hunt`
  retrovane race test-3 --most 20
  retrovane race --json

Shows pairs of accesses to the same memory by two threads of one process, at least one of them a
write, that nothing orders: no lock, no atomic instruction, no futex, no thread's beginning or end, no
pipe, no signal. Each has the stacks of both. One is by the program's own code, or by the C library's on
a variable of the program; what the C library does for itself is not told.

It looks at instructions one by one, some ten thousand a second, from the first thread's beginning:
first at those that come next behind each event, and while it finds nothing at more of them, for as
long as --timeout says. It says what it has not seen. A value that is stored by a plain move and meant
to be atomic cannot be told from one that is not.

Ends with 0 if there are conflicts, with 1 if none was found.";

/// Instructions behind each event that a passage looks at; the last one sees all.
const DENSE: [u64; 4] = [2_000, 32_000, 512_000, u64::MAX];
/// Nothing is found: the exit code.
const NONE_FOUND: u8 = 1;

/// Show conflicting accesses of two threads in a recording, with both stacks
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RaceArguments {
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    /// Of this process [default: the one that failed, or the first with threads]
    #[arg(long, value_name = "PID")]
    pid: Option<i32>,
    /// Show so many pairs, the last ones before the end
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    most: u16,
    /// Look for so long (30s, 5m)
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    timeout: Duration,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &RaceArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let trace = TraceReader::open(&settings.trace_dir(arguments.trace.as_deref())?)?;
    let pids = match arguments.pid {
        Some(pid) if trace.lanes().iter().all(|info| info.pid != pid) => {
            return Err(CommandError::NoSuchProcess { pid });
        }
        Some(pid) => vec![pid],
        None => likeliest(&trace),
    };
    let until = Instant::now() + arguments.timeout;
    for pid in pids {
        let mut past = Past::open(&trace, pid, settings)?;
        // Nothing is gone back to before the end.
        past.timeline.checkpoint_every = None;
        for dense in DENSE {
            let beginning = past.timeline.beginning();
            past.timeline.seek(beginning, &|| false)?;
            let mut walk = Walk::new(&mut past.timeline, originals(&trace));
            let Some(walked) = walk.run(dense, until)? else { break };
            let conflicts = std::mem::take(&mut walk.order.conflicts);
            if conflicts.is_empty() && walked.gaps != 0 && walked.is_at_end && Instant::now() < until {
                continue;
            }
            let skipped = conflicts.len().saturating_sub(arguments.most.into());
            let mut races = Vec::new();
            for conflict in &conflicts[skipped..] {
                races.push(Race::of(conflict, &mut past, &originals(&trace))?);
            }
            return tell(arguments, pid, (&walked, dense), &races, skipped);
        }
    }
    let why = "no process of it has two threads: their accesses are all in order";
    if arguments.json {
        println!("{}", json!({ "conflicts": [], "why": why }));
    } else {
        println!("no conflicting accesses: {why}");
    }
    Ok(ExitCode::from(NONE_FOUND))
}

/// The processes that failed, then the others.
fn likeliest(trace: &TraceReader) -> Vec<i32> {
    let failed = |end: Option<LaneEnd>| matches!(end, Some(LaneEnd::Killed(_)) | Some(LaneEnd::Exited(1..)));
    let mut lanes: Vec<_> = trace.lanes().iter().collect();
    lanes.sort_by_key(|info| !failed(info.end));
    lanes.iter().map(|info| info.pid).collect()
}

fn originals(trace: &TraceReader) -> HashMap<String, String> {
    let path = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    trace.files().iter().map(|kept| (hash_hex(&kept.file.hash), path(&kept.file.path))).collect()
}

/// A conflict with what people want to know of it.
struct Race {
    conflict: Conflict,
    variable: Option<String>,
    stacks: [Vec<Frame>; 2],
}

impl Race {
    fn of(
        conflict: &Conflict,
        past: &mut Past,
        originals: &HashMap<String, String>,
    ) -> Result<Race, CommandError> {
        let first = past.at_position(conflict.first.position)?;
        let second = past.at_position(conflict.second.position)?;
        let variable = variables::name_of(past.timeline.pid(), conflict.second.access.address, originals);
        Ok(Race { conflict: *conflict, variable, stacks: [first, second] })
    }

    fn sides(&self) -> [(&Seen, &[Frame]); 2] {
        [(&self.conflict.first, &self.stacks[0]), (&self.conflict.second, &self.stacks[1])]
    }

    fn to_json(&self) -> Value {
        let frame = |(level, frame): (usize, &Frame)| {
            let function = frame.function.as_ref().map(|(name, _)| name);
            let mut about =
                json!({ "level": level, "function": function, "pc": format!("{:#x}", frame.address) });
            if let Some((file, line)) = &frame.source {
                about["at"] = json!(format!("{file}:{line}"));
            }
            about
        };
        let side = |(seen, frames): (&Seen, &[Frame])| {
            json!({
                "access": kind(seen),
                "bytes": seen.access.bytes,
                "position": seen.position.to_string(),
                "thread": seen.thread + 1,
                "frames": frames.iter().enumerate().map(frame).collect::<Vec<_>>(),
            })
        };
        json!({
            "address": format!("{:#x}", self.conflict.second.access.address),
            "variable": self.variable,
            "accesses": self.sides().map(side),
        })
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let address = format!("{:#x}", self.conflict.second.access.address);
        let place = self.variable.as_ref().map_or(address.clone(), |name| format!("{name} ({address})"));
        writeln!(out, "conflict at {place}:")?;
        for (seen, frames) in self.sides() {
            // Threads are counted from 1, as gdb does.
            let (thread, position) = (seen.thread + 1, seen.position);
            writeln!(
                out,
                "  {} of {} bytes by thread {thread} at {position}",
                kind(seen),
                seen.access.bytes
            )?;
            for (level, frame) in frames.iter().enumerate() {
                // Names are the recorded program's.
                let text: String = frame_text(frame).chars().filter(|each| !each.is_control()).collect();
                writeln!(out, "    #{level}  {text}")?;
            }
        }
        Ok(())
    }
}

fn kind(seen: &Seen) -> &'static str {
    if seen.access.writes { "write" } else { "read" }
}

fn tell(
    arguments: &RaceArguments,
    pid: i32,
    (walked, dense): (&Walked, u64),
    races: &[Race],
    skipped: usize,
) -> Result<ExitCode, CommandError> {
    let mut out = std::io::stdout().lock();
    let Walked { from, to, instructions, threads, is_at_end, gaps } = walked;
    let is_whole = *is_at_end && *gaps == 0;
    if arguments.json {
        let answer = json!({
            "process": pid,
            "conflicts": races.iter().map(Race::to_json).collect::<Vec<_>>(),
            "more": skipped,
            "from": from.to_string(),
            "to": to.to_string(),
            "instructions": instructions,
            "threads": threads,
            "whole": is_whole,
        });
        writeln!(out, "{answer}")?;
    } else {
        races.iter().try_for_each(|race| race.write(&mut out))?;
        let found = match races.len() + skipped {
            0 => "no conflicting accesses".to_owned(),
            1 => "1 conflict".to_owned(),
            count if skipped == 0 => format!("{count} conflicts"),
            count => format!("{count} conflicts, of which the last {} are shown", races.len()),
        };
        let how_far = match (is_whole, is_at_end) {
            (true, _) => "to its end".to_owned(),
            (false, true) => {
                format!("to its end; in {gaps} places only the first {dense} behind an event were looked at")
            }
            (false, false) => {
                format!("to {to}, where the time was over (--timeout): what comes behind cannot be told")
            }
        };
        writeln!(
            out,
            "{found} in process {pid}: {instructions} instructions of {threads} threads, from {from} {how_far}"
        )?;
    }
    Ok(if races.is_empty() { ExitCode::from(NONE_FOUND) } else { ExitCode::SUCCESS })
}
