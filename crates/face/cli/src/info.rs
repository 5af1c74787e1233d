//! `retrovane info`.

mod facts;
mod tree;

pub use facts::stop_text;
pub use tree::in_tree_order;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use trace_store::{LaneEnd, TraceReader};

use crate::exit::{self, CommandError};
use crate::settings::Settings;
use crate::wording;
use facts::{CallCounts, Facts};

const EXAMPLES: &str = "\
Examples:
  retrovane info                   the trace recorded last
  retrovane info make-3
  retrovane info make-3 --json | jq '.processes[] | .command'

A refused call was answered with an error, so that the program would do without
it. A filtered call is one that a seccomp filter of the program's own held back.
A detected call is one that nobody described: what the kernel wrote was
found by comparing memory.

With --json: one object with the fields name, path, meta, summary (null if the
trace is cut), cut (null if it is whole), totals, kept_files, processes (each
with lane, parent_lane, pid, command, images, events, raw_bytes, stored_bytes,
end, stop), refused, filtered and detected (each a list of call, count, reason).";

/// Tell what a trace holds: its processes, what was refused, how it ended
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct InfoArguments {
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Tells.
pub fn run(arguments: &InfoArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let trace = settings.open(arguments.trace.as_deref())?;
    let facts = Facts::gather(&trace, settings)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &as_json(&trace, &facts))?;
        writeln!(out)?;
    } else {
        out.write_all(text(&trace, &facts).as_bytes())?;
    }
    out.flush()?;
    trace.verify_files(settings.home().ok().as_deref())?;
    Ok(exit::of_shown(trace.cut()))
}

/// Kept files, and the bytes of theirs that no other trace shares.
struct KeptFiles {
    count: usize,
    bytes: u64,
    own_bytes: u64,
    missing: usize,
    /// Of which the trace has a digest only.
    referred: Vec<PathBuf>,
}

fn kept_files(trace: &TraceReader) -> KeptFiles {
    let mut kept = KeptFiles { count: 0, bytes: 0, own_bytes: 0, missing: 0, referred: Vec::new() };
    let mut seen = HashSet::new();
    for entry in trace.files() {
        if !seen.insert(entry.file.hash) {
            continue;
        }
        if trace.is_referred(&entry.file.hash) {
            kept.referred.push(entry.file.original());
            continue;
        }
        kept.count += 1;
        kept.bytes += entry.file.size;
        match trace.file_path(&entry.file).ok().and_then(|path| std::fs::metadata(path).ok()) {
            Some(found) if found.nlink() == 1 => kept.own_bytes += found.len(),
            Some(_) => {}
            None => kept.missing += 1,
        }
    }
    kept
}

fn name_of(trace: &TraceReader) -> String {
    let path = trace.dir().canonicalize().unwrap_or_else(|_| trace.dir().to_owned());
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn text(trace: &TraceReader, facts: &Facts) -> String {
    let mut text = String::new();
    for (name, value) in headlines(trace, facts) {
        writeln!(text, "{name:<11}{value}").expect("writing to a String does not fail");
    }
    text.push_str("\nProcesses:\n");
    text.push_str(&tree::show(trace, facts));
    let mut counts = |title: &str, counts: &CallCounts, marks: bool| {
        if counts.is_empty() {
            return;
        }
        writeln!(text, "\n{title}:").expect("writing to a String does not fail");
        for (call, count) in counts {
            let reason = if marks { facts::refusal_reason(call) } else { None };
            let reason = reason.map_or(String::new(), |reason| format!("  {reason}"));
            writeln!(text, "  {:>8}  {call}{reason}", wording::count(*count)).expect("as above");
        }
    };
    counts("Refused, so that the program does without", &facts.refused, true);
    counts("Held back by seccomp filters of the program's own", &facts.filtered, false);
    counts("Recorded by finding what the kernel wrote, as nobody described the call", &facts.detected, false);
    text
}

fn headlines(trace: &TraceReader, facts: &Facts) -> Vec<(&'static str, String)> {
    let (meta, totals, kept) = (trace.meta(), trace.totals(), kept_files(trace));
    let printable = |text: &str| wording::printable(text.as_bytes());
    let mut lines = vec![
        ("trace", printable(&name_of(trace))),
        ("directory", printable(&trace.dir().to_string_lossy())),
        ("command", wording::command(&meta.command)),
        ("in", printable(&meta.cwd.to_string_lossy())),
        ("recorded", format!("{} UTC", wording::time(&meta.started))),
    ];
    if let Some(summary) = trace.summary() {
        lines.push(("took", wording::duration(summary.duration_ns)));
    }
    lines.push(("ended", ended(trace)));
    lines.push(("state", state(trace)));
    lines.extend(facts.stops().map(|stop| ("stopped", stop)));
    let notes = trace.summary().map(|summary| summary.notes.as_slice()).unwrap_or_default();
    lines.extend(notes.iter().map(|note| ("note", printable(note))));
    lines.push(("host", format!("Linux {}, {}", printable(&meta.kernel), printable(&meta.cpu))));
    lines.push(("retrovane", format!("{}, by {}", printable(&meta.tool), printable(&meta.interception))));
    if !meta.options.is_empty() {
        let options: Vec<String> =
            meta.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        lines.push(("options", printable(&options.join(" "))));
    }
    lines.push((
        "events",
        format!("{} in {} processes", wording::count(totals.events), wording::count(totals.lanes)),
    ));
    lines.push((
        "log",
        format!(
            "{} ({} before compression)",
            wording::bytes(totals.stored_bytes),
            wording::bytes(totals.raw_bytes)
        ),
    ));
    let mut files = format!(
        "{} kept, {} ({} in this trace alone)",
        wording::count(kept.count as u64),
        wording::bytes(kept.bytes),
        wording::bytes(kept.own_bytes)
    );
    if kept.missing > 0 {
        files.push_str(&format!("; {} missing: replay will stop where it needs them", kept.missing));
    }
    lines.push(("files", files));
    if !kept.referred.is_empty() {
        let count = wording::count(kept.referred.len() as u64);
        lines.push(("referred", format!("{count} files, of which the trace has digests only")));
    }
    lines
}

/// How the first process ended, behind "ended".
pub fn ended(trace: &TraceReader) -> String {
    let first =
        trace.lanes().iter().find(|info| info.parent == trace_store::NO_PARENT).and_then(|info| info.end);
    let was_saved = trace.meta().options.contains_key("saved");
    match trace.summary().map(|summary| summary.exit).or(first) {
        Some(LaneEnd::Unknown) if was_saved => "it went on: this is its past, saved while it ran".to_owned(),
        Some(LaneEnd::Exited(code)) => format!("with exit code {code}"),
        Some(LaneEnd::Killed(number)) => format!("killed by {}", wording::signal(number)),
        Some(LaneEnd::Unknown) => "nobody knows how".to_owned(),
        Some(LaneEnd::Stopped(reason)) => {
            format!("after the recording, which stopped: {}", wording::stop_reason(reason))
        }
        None => "after the trace's end".to_owned(),
    }
}

fn state(trace: &TraceReader) -> String {
    match trace.cut() {
        None => "whole".to_owned(),
        Some(cut) => format!("{cut}; what lies before can be replayed"),
    }
}

fn as_json(trace: &TraceReader, facts: &Facts) -> Value {
    let kept = kept_files(trace);
    let calls = |counts: &CallCounts| -> Vec<Value> {
        let one = |(call, count): (&String, &u64)| json!({ "call": call, "count": count, "reason": facts::refusal_reason(call) });
        counts.iter().map(one).collect()
    };
    json!({
        "name": name_of(trace),
        "path": trace.dir().to_string_lossy(),
        "meta": trace.meta(),
        "summary": trace.summary(),
        "cut": trace.cut().map(ToString::to_string),
        "totals": trace.totals(),
        "kept_files": {
            "count": kept.count, "bytes": kept.bytes, "own_bytes": kept.own_bytes, "missing": kept.missing,
            "referred": kept.referred.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        },
        "processes": trace.lanes().iter().zip(&facts.lanes).map(tree::as_json).collect::<Vec<_>>(),
        "refused": calls(&facts.refused),
        "filtered": calls(&facts.filtered),
        "detected": calls(&facts.detected),
    })
}
