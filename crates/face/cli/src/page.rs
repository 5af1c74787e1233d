//! `retrovane timeline`: the events of a recording as one page, or for Perfetto.
//!
//! The page is one file that loads nothing: columns of numbers and blocks of text, compressed, and a
//! script that draws them. Events are in the order in which `dump` shows them.
//!
//! What runs from left to right is the number of events, with the time of the wall clock at which they were logged.
//!
//! Deliberately absent: a replay, but for pictures of windows (the log holds all else), and names that a thread is given by
//! others.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use events::Kind;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::{Value, json};
use syscall_model::row;
use trace_store::{LaneEnd, TraceReader};

use crate::dump;
use crate::event_index::{BLOCK_EVENTS, EventIndex, Sort};
use crate::exit::CommandError;
use crate::senders::{Arrow, Meeting, Place};
use crate::settings::Settings;
use crate::wording;

mod own_display;
mod perfetto;
mod pictures;

const EXAMPLES: &str = "\
Examples:
  retrovane timeline -o page.html           a page of the latest recording, for any browser
  retrovane timeline make-3 -o make.html
  retrovane timeline xterm-2 -o page.html   what its windows showed is in it, where Xvfb is installed
  retrovane timeline xterm-2 -o page.html --pictures :5     drawn on this display
  retrovane timeline --perfetto make.pftrace    for ui.perfetto.dev, which reads it in the browser
  retrovane timeline --perfetto make.json   the same as JSON, which chrome://tracing reads, too

The page holds what the program read and wrote: it is as secret as the trace, and readable for you only.";

const PAGE: &str = include_str!("page/page.html");
/// Longest text of an event, in characters.
const TEXT_CHARS_MAX: usize = 300;

/// Classes of events, and how much each of them stands out where many are drawn as one.
const CLASSES: [(&str, u32); 8] = [
    ("files", 1),
    ("network, pipes", 3),
    ("memory", 2),
    ("processes", 6),
    ("signals, deaths", 7),
    ("waiting, threads", 4),
    ("other", 0),
    ("output", 5),
];

/// Draw a recording as a page: processes, calls, signals, outputs, from left to right
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TimelineArguments {
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    /// The page
    #[arg(short, long, value_name = "FILE", required_unless_present = "perfetto")]
    output: Option<PathBuf>,
    /// Pictures of what an X11 program showed, which this display draws in a replay; or none [default: an
    /// Xvfb of its own draws them, where that is installed]
    #[arg(long, value_name = "DISPLAY", requires = "output")]
    pictures: Option<String>,
    /// A file for Perfetto, in its own format; as JSON, which chrome://tracing reads too, if it ends in .json
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// One JSON object that names what was written
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &TimelineArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let trace = settings.open(arguments.trace.as_deref())?;
    let index = EventIndex::of(&trace, &|| false)?;
    if let Some(path) = &arguments.output {
        let pictures = match arguments.pictures.as_deref() {
            None if own_display::has_windows(&index) => None,
            None | Some("none") => Some(Vec::new()),
            Some(display) => Some(pictures::take(trace.dir(), display, settings)?),
        };
        let without = pictures.is_none().then(|| own_display::write_page(trace.dir(), path, settings));
        if let Some(Err(why)) = &without
            && !settings.quiet
        {
            diagnostics::tell!(
                "retrovane: no pictures of its windows: {why} (--pictures DISPLAY draws them on another display)"
            );
        }
        if !matches!(without, Some(Ok(()))) {
            let pictures = drawn_pictures(&trace, &index, &pictures.unwrap_or_default());
            write_page(&trace, &index, &pictures, path)?;
        }
        say_written(path, settings);
    }
    if let Some(path) = &arguments.perfetto {
        perfetto::write(&trace, &index, path)?;
        say_written(path, settings);
    }
    if arguments.json {
        let (page, perfetto) = (&arguments.output, &arguments.perfetto);
        let (events, processes) = (index.events.len(), trace.lanes().len());
        let written = json!({"page": page, "perfetto": perfetto, "events": events, "processes": processes});
        writeln!(std::io::stdout(), "{written}")?;
    }
    if let Some(cut) = trace.cut()
        && !settings.quiet
    {
        diagnostics::tell!("retrovane: {cut}");
    }
    Ok(ExitCode::SUCCESS)
}

fn say_written(path: &Path, settings: &Settings) {
    if !settings.quiet {
        diagnostics::tell!("retrovane: written to {}", path.display());
    }
}

fn create(path: &Path) -> Result<BufWriter<std::fs::File>, CommandError> {
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let file = opened.map_err(|source| CommandError::Write { path: path.to_owned(), source })?;
    Ok(BufWriter::with_capacity(1 << 16, file))
}

/// The name that an event is drawn with.
fn name_of(sort: Sort) -> &'static str {
    let call = row(u64::from(sort.code)).map_or("syscall", |row| row.name);
    match sort.kind {
        Kind::Syscall if sort.is_output && call == "writev" => "output (writev)",
        Kind::Syscall if sort.is_output => "output",
        Kind::Syscall => call,
        Kind::Birth => "execve",
        Kind::Exit => "exit",
        Kind::Fault => "fault",
        Kind::Signal => "signal",
        Kind::Preemption => "preempted",
        Kind::Token => "thread",
        Kind::Stop => "stop",
        Kind::Instruction => "instruction",
        Kind::Checksum | Kind::Data | Kind::Trampoline | Kind::Store | Kind::Change | Kind::Edit => "note",
    }
}

/// The number in [`CLASSES`].
fn class_of(sort: Sort) -> usize {
    match sort.kind {
        Kind::Syscall if sort.is_output => 7,
        Kind::Syscall => class_of_call(name_of(sort)),
        Kind::Birth => 3,
        Kind::Exit | Kind::Fault | Kind::Signal | Kind::Stop => 4,
        Kind::Preemption | Kind::Token => 5,
        Kind::Instruction
        | Kind::Checksum
        | Kind::Data
        | Kind::Trampoline
        | Kind::Store
        | Kind::Change
        | Kind::Edit => 6,
    }
}

fn class_of_call(call: &str) -> usize {
    // The first that fits.
    const OF_DUMP: [(&str, usize); 5] =
        [("network", 1), ("memory", 2), ("process", 3), ("signal", 4), ("file", 0)];
    match call {
        "read" | "write" | "pread64" | "pwrite64" | "readv" | "writev" | "close" | "lseek" | "fstat" => 0,
        "futex" | "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait" | "nanosleep"
        | "clock_nanosleep" | "sched_yield" => 5,
        "pipe" | "pipe2" | "splice" | "tee" => 1,
        call => {
            OF_DUMP.iter().find(|(class, _)| dump::class_has(class, call)).map_or(6, |(_, number)| *number)
        }
    }
}

fn compressed(bytes: &[u8]) -> String {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    BASE64.encode(written.expect("memory takes all that is written"))
}

fn write_page(
    trace: &TraceReader,
    index: &EventIndex,
    pictures: &[Value],
    path: &Path,
) -> Result<(), CommandError> {
    let about = about(trace, index);
    let bytes = |numbers: &[u16]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let arrows: Vec<u8> = drawn_arrows(index).into_iter().flatten().flat_map(u32::to_le_bytes).collect();
    let times: Vec<u8> = index.times.iter().flat_map(|time| time.to_le_bytes()).collect();
    let columns = [bytes(&index.processes), bytes(&index.sorts_of), bytes(&index.threads), arrows, times];
    let blocks = (0..index.block_count()).map(|number| {
        let block = index.block(number).unwrap_or_default();
        let mut short = String::with_capacity(block.len());
        for (place, line) in block.split('\n').enumerate() {
            if place != 0 {
                short.push('\n');
            }
            short.extend(line.chars().take(TEXT_CHARS_MAX));
        }
        compressed(short.as_bytes())
    });
    let blocks: Vec<String> = blocks.collect();
    let mut out = create(path)?;
    let failed = |source| CommandError::Write { path: path.to_owned(), source };
    let mut rest = PAGE;
    for (mark, value) in [
        ("@TITLE@", escaped(&format!("{} - retrovane", about["command"].as_str().unwrap_or_default()))),
        ("@ABOUT@", in_script(&about)),
        ("@COLUMNS@", in_script(&json!(columns.map(|column| compressed(&column))))),
        ("@BLOCKS@", in_script(&json!(blocks))),
        ("@PICTURES@", in_script(&json!(pictures))),
        ("@BLOCK_EVENTS@", BLOCK_EVENTS.to_string()),
    ] {
        let (before, after) = rest.split_once(mark).expect("the page has each mark once, in this order");
        out.write_all(before.as_bytes()).and_then(|()| out.write_all(value.as_bytes())).map_err(failed)?;
        rest = after;
    }
    out.write_all(rest.as_bytes()).and_then(|()| out.flush()).map_err(failed)
}

/// JSON that ends no script, whatever the program was called.
fn in_script(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Row and picture, as the page shows them.
fn drawn_pictures(trace: &TraceReader, index: &EventIndex, pictures: &[pictures::Taken]) -> Vec<Value> {
    let row_of = |taken: &pictures::Taken| {
        let process = trace.lanes().iter().position(|info| info.lane == taken.at.lane)?;
        let mut rows = index.processes.iter().zip(&index.events);
        rows.position(|(of, event)| usize::from(*of) == process && *event == taken.at.event)
    };
    pictures.iter().filter_map(|taken| Some(json!([row_of(taken)?, taken.address]))).collect()
}

/// Arrows between rows, as the page draws them: from, to, and what they met by.
fn drawn_arrows(index: &EventIndex) -> Vec<[u32; 3]> {
    let mut rows: HashMap<Place, u32> = HashMap::new();
    for arrow in index.arrows.iter().filter(|arrow| arrow.from.is_some()) {
        rows.extend(arrow.from.into_iter().chain([arrow.to]).map(|place| (place, u32::MAX)));
    }
    for (row, (process, event)) in index.processes.iter().zip(&index.events).enumerate() {
        if let Some(found) = rows.get_mut(&Place { process: usize::from(*process), event: *event }) {
            *found = row as u32;
        }
    }
    let arrow = |arrow: &Arrow| {
        let ends = [*rows.get(&arrow.from?)?, *rows.get(&arrow.to)?];
        let are_drawn = ends.iter().all(|row| *row != u32::MAX);
        are_drawn.then_some([ends[0], ends[1], arrow.meeting as u32])
    };
    index.arrows.iter().filter_map(arrow).collect()
}

fn about(trace: &TraceReader, index: &EventIndex) -> Value {
    let lanes = trace.lanes();
    let depth_of = |mut lane: u32| {
        let mut depth = 0;
        while let Some(info) = lanes.iter().find(|info| info.lane == lane)
            && lanes.iter().any(|other| other.lane == info.parent)
            && depth < lanes.len()
        {
            lane = info.parent;
            depth += 1;
        }
        depth
    };
    let processes: Vec<Value> = lanes
        .iter()
        .enumerate()
        .map(|(position, info)| {
            let names = index.thread_names.iter().filter(|((process, _), _)| usize::from(*process) == position);
            json!({
                "pid": info.pid,
                "names": names.map(|((_, thread), name)| (thread.to_string(), name)).collect::<HashMap<_, _>>(),
                "program": index.programs.get(&info.lane).map_or("", String::as_str),
                "end": info.end.map_or_else(String::new, wording::lane_end),
                "depth": depth_of(info.lane),
                "failed": matches!(info.end, Some(LaneEnd::Killed(_))),
            })
        })
        .collect();
    json!({
        "command": wording::command(&trace.meta().command),
        "trace": trace.dir().display().to_string(),
        "end": format!("ended {}", crate::info::ended(trace)),
        "events": index.events.len(),
        "beganMs": trace.meta().started_unix_ns / 1_000_000,
        "processes": processes,
        "names": index.sorts.iter().map(|sort| name_of(*sort)).collect::<Vec<_>>(),
        "classOf": index.sorts.iter().map(|sort| class_of(*sort)).collect::<Vec<_>>(),
        "meetings": Meeting::ALL.map(Meeting::name),
        "classes": CLASSES.map(|(title, _)| title),
        "rank": CLASSES.map(|(_, rank)| rank),
    })
}
