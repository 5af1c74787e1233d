//! `retrovane timeline`: the events of a recording as one page, or for Perfetto.
//!
//! The page is one file that loads nothing: columns of numbers and blocks of text, compressed, and a
//! script that draws them. Events are in the order in which `dump` shows them.
//!
//! Deliberately absent: a replay (the log holds it all), and times of the wall clock, which the log does not have for
//! each event: what runs from left to right is the number of events.

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
use trace_store::{LaneEnd, TraceReader};

use crate::dump::{self, Seen};
use crate::exit::CommandError;
use crate::settings::Settings;
use crate::wording;

const EXAMPLES: &str = "\
Examples:
  retrovane timeline -o page.html           a page of the latest recording, for any browser
  retrovane timeline make-3 -o make.html
  retrovane timeline --perfetto make.json   for ui.perfetto.dev, which reads it in the browser

The page holds what the program read and wrote: it is as secret as the trace, and readable for you only.";

const PAGE: &str = include_str!("page/page.html");
/// Events whose texts are compressed together: as many as are read for one look at the page.
const BLOCK_EVENTS: usize = 2048;
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
    /// A file in the format that Perfetto and chrome://tracing read
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
}

pub fn run(arguments: &TimelineArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let dir = settings.trace_dir(arguments.trace.as_deref())?;
    let trace = settings.open(arguments.trace.as_deref())?;
    if let Some(path) = &arguments.output {
        write_page(&trace, &dir, path)?;
        say_written(path, settings);
    }
    if let Some(path) = &arguments.perfetto {
        write_perfetto(&trace, path)?;
        say_written(path, settings);
    }
    if let Some(cut) = trace.cut()
        && !settings.quiet
    {
        telling::tell!("retrovane: {cut}");
    }
    Ok(ExitCode::SUCCESS)
}

fn say_written(path: &Path, settings: &Settings) {
    if !settings.quiet {
        telling::tell!("retrovane: written to {}", path.display());
    }
}

fn create(path: &Path) -> Result<BufWriter<std::fs::File>, CommandError> {
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let file = opened.map_err(|source| CommandError::Write { path: path.to_owned(), source })?;
    Ok(BufWriter::with_capacity(1 << 16, file))
}

/// What is gathered of the events; the class of a name is looked up once.
#[derive(Default)]
struct Columns {
    lanes: Vec<u8>,
    names: Vec<u8>,
    threads: Vec<u8>,
    known: HashMap<String, u16>,
    listed: Vec<(String, usize)>,
    block: String,
    in_block: usize,
    blocks: Vec<String>,
    events: usize,
}

impl Columns {
    fn add(&mut self, seen: &Seen<'_>) {
        let name = name_of(seen);
        let next = self.listed.len().min(usize::from(u16::MAX)) as u16;
        let number = match self.known.get(name) {
            Some(number) => *number,
            None => {
                self.known.insert(name.to_owned(), next);
                self.listed.push((name.to_owned(), class_of(seen)));
                next
            }
        };
        let lane = u16::try_from(seen.position).unwrap_or(u16::MAX);
        self.lanes.extend(lane.to_le_bytes());
        self.names.extend(number.to_le_bytes());
        self.threads.extend(seen.thread.to_le_bytes());
        if self.in_block != 0 {
            self.block.push('\n');
        }
        let line = seen.text.lines().collect::<Vec<_>>().join(" ");
        self.block.extend(line.chars().take(TEXT_CHARS_MAX));
        self.in_block += 1;
        self.events += 1;
        if self.in_block == BLOCK_EVENTS {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        if self.in_block != 0 {
            self.blocks.push(compressed(self.block.as_bytes()));
            self.block.clear();
            self.in_block = 0;
        }
    }
}

/// The name that an event is drawn with.
fn name_of(seen: &Seen<'_>) -> &'static str {
    match seen.kind {
        Kind::Syscall if seen.is_output => match seen.call {
            "writev" => "output (writev)",
            _ => "output",
        },
        Kind::Syscall => seen.call,
        Kind::Birth => "execve",
        Kind::Exit => "exit",
        Kind::Fault => "fault",
        Kind::Signal => "signal",
        Kind::Pause => "preempted",
        Kind::Turn => "thread",
        Kind::Stop => "stop",
        Kind::Instruction => "instruction",
        Kind::Checksum | Kind::Data | Kind::Island | Kind::Store | Kind::Change | Kind::Edit => "note",
    }
}

/// The number in [`CLASSES`].
fn class_of(seen: &Seen<'_>) -> usize {
    match seen.kind {
        Kind::Syscall if seen.is_output => 7,
        Kind::Syscall => class_of_call(seen.call),
        Kind::Birth => 3,
        Kind::Exit | Kind::Fault | Kind::Signal | Kind::Stop => 4,
        Kind::Pause | Kind::Turn => 5,
        Kind::Instruction
        | Kind::Checksum
        | Kind::Data
        | Kind::Island
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

fn write_page(trace: &TraceReader, dir: &Path, path: &Path) -> Result<(), CommandError> {
    let mut columns = Columns::default();
    let programs = dump::each_event(trace, &mut |seen| {
        columns.add(seen);
        Ok(())
    })?;
    columns.end_block();
    let about = about(trace, dir, &columns, &programs);
    let three = json!([compressed(&columns.lanes), compressed(&columns.names), compressed(&columns.threads)]);
    let mut out = create(path)?;
    let failed = |source| CommandError::Write { path: path.to_owned(), source };
    let mut rest = PAGE;
    for (mark, value) in [
        ("@TITLE@", escaped(&format!("{} - retrovane", about["command"].as_str().unwrap_or_default()))),
        ("@ABOUT@", in_script(&about)),
        ("@COLUMNS@", in_script(&three)),
        ("@BLOCKS@", in_script(&json!(columns.blocks))),
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

fn about(trace: &TraceReader, dir: &Path, columns: &Columns, programs: &HashMap<u32, String>) -> Value {
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
        .map(|info| {
            json!({
                "pid": info.pid,
                "program": programs.get(&info.lane).map_or("", String::as_str),
                "depth": depth_of(info.lane),
                "failed": matches!(info.end, Some(LaneEnd::Killed(_))),
            })
        })
        .collect();
    json!({
        "command": wording::command(&trace.meta().command),
        "trace": dir.display().to_string(),
        "end": format!("ended {}", crate::info::ended(trace)),
        "events": columns.events,
        "processes": processes,
        "names": columns.listed.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "classOf": columns.listed.iter().map(|(_, class)| class).collect::<Vec<_>>(),
        "classes": CLASSES.map(|(title, _)| title),
        "rank": CLASSES.map(|(_, rank)| rank),
    })
}

/// The trace-event format: https://perfetto.dev/docs/getting-started/other-formats
fn write_perfetto(trace: &TraceReader, path: &Path) -> Result<(), CommandError> {
    let mut out = create(path)?;
    let failed = |source| CommandError::Write { path: path.to_owned(), source };
    out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n").map_err(failed)?;
    let mut number = 0u64;
    let mut classes: HashMap<&str, usize> = HashMap::new();
    let programs = dump::each_event(trace, &mut |seen| {
        let class = *classes.entry(name_of(seen)).or_insert_with(|| class_of(seen));
        let event = json!({
            "name": name_of(seen), "cat": CLASSES[class].0, "ph": "X", "ts": number, "dur": 1,
            "pid": seen.pid, "tid": seen.thread,
            "args": {"text": seen.text.chars().take(TEXT_CHARS_MAX).collect::<String>(), "position": seen.index},
        });
        number += 1;
        writeln!(out, "{event},").map_err(failed)
    })?;
    for info in trace.lanes() {
        let program = programs.get(&info.lane).map_or("", String::as_str);
        let named = json!({"name": "process_name", "ph": "M", "pid": info.pid, "args": {"name": program}});
        writeln!(out, "{named},").map_err(failed)?;
    }
    // The list's last element has no comma behind it.
    let last = json!({"name": "one event of the recording is 1 us", "ph": "M", "pid": 0});
    writeln!(out, "{last}\n]}}").and_then(|()| out.flush()).map_err(failed)
}
