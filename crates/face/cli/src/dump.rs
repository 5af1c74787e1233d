//! `retrovane dump`: what a trace says the program did, as strace would have
//! shown it. Nothing is replayed: the log holds it all.

mod arguments;
mod call;
mod each;
mod filter;
mod json;
mod line;
mod messages;
mod names;
mod order;
mod quote;
mod shapes;
mod waits;

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

use clap::Args;
use trace_store::{LaneInfo, TraceReader};

use crate::exit::{self, CommandError};
use crate::info::in_tree_order;
use crate::lane_events::WholeEvent;
use crate::settings::Settings;
use crate::wording;
pub use each::{Seen, class_has, each_event};
pub use filter::Filter;
pub use line::ticket;
pub use names::error_name;
use order::{Merge, Step};
pub use waits::waited_for;

const EXAMPLES: &str = "\
Examples:
  retrovane dump | less
  retrovane dump --times --call network
  retrovane dump make-3 --call file --path .h
  retrovane dump --pid 4711 --call execve,process,signal
  retrovane dump --json | jq -r 'select(.error == \"ENOENT\") | .text'";

const DETAILS: &str = "\
Each line is `PID name(arg, ...) = result`, as strace has it, `PID/THREAD` where that is not the
first thread (threads are counted from 1, as in print and gdb). Besides:
  --- SIGCHLD {...} ---         a signal was given to the program's handler
  execve(\"path\", [...]) = 0     a new image; a process that was forked begins with clone(...) = 0
  +++ exited with 0 +++         the end of a process, after the call that ended it
  rdtsc() = 12, cpuid(...)      instructions whose results come from outside
  === ... ===                   what retrovane itself noted: islands of rewritten code, checksums
                                of memory, pause points, why recording stopped
  <refused>                     retrovane answered the call itself, because it cannot be recorded
  <filtered>                    a seccomp filter of the program's own held the call back
  <detected: N bytes at A>      memory that the kernel wrote in a call that nobody described
What a program sends is recorded by its first 48 bytes. The memory that a call
reads is not always in the log: then its address is shown.

Every process has a log of its own. They are merged so that what a process does
comes after the call that made it and before the wait that reports its end, and
output comes in the order in which it was shown; beside that, processes that ran
at the same time are shown one after the other.

Classes for --call, with or without a % before them: file (takes a path), desc
(takes a descriptor), network, process, memory, signal, ipc, time, poll,
instruction.

With --json: one object a line, with the fields
  pid, thread, lane, event    who, and where: the event's index in its lane
  time                when it was logged, RFC 3339 in UTC: up to 50 ms after it happened; not
                      there in recordings of earlier versions and of live sessions
  kind                syscall, signal, fault, instruction, birth, exit, checksum, island, stop,
                      pause, or end (of a lane whose log does not tell its end)
  text                the line without its pid
and for a syscall: number, call, request (of ioctl and its kin, if known), arguments (each with
name, raw (hexadecimal) and text), result, error (name, if it failed), refused, filtered,
detected, child (pid, lane), output (stream, order); for a signal or a fault: signal, address; for an instruction:
call, outputs; for a birth: path, command; for an exit: code; for a checksum: sum; for a
pause: address, sum; for an island: address, bytes; for a stop: reason.";

/// Show what a trace says, call by call, without replaying it
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"))]
pub struct DumpArguments {
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    /// Only these processes
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pid: Vec<i32>,
    /// Only these calls, or classes of calls (file, network, process, memory, signal, ...)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    call: Vec<String>,
    /// Only calls that name a path with this in it
    #[arg(long, value_name = "SUBSTRING")]
    path: Option<String>,
    /// Show this many bytes of a string
    #[arg(short, long, value_name = "BYTES", default_value_t = 32)]
    string_limit: usize,
    /// One process after the other, instead of all merged
    #[arg(long)]
    by_process: bool,
    /// With the time of the day (UTC) at which each was logged, up to 50 ms after it happened
    #[arg(short = 't', long)]
    times: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// What the leaves need to know to show an event.
pub struct Showing<'t> {
    /// Bytes of a string that are shown.
    pub string_bytes_max: usize,
    /// Original paths of the kept files, by their ids.
    pub files: HashMap<u32, &'t [u8]>,
    /// Those of which the trace has a digest only.
    pub referred: HashMap<u32, &'t [u8]>,
    /// Pids by lane.
    pub pids: HashMap<u32, i32>,
}

impl<'t> Showing<'t> {
    pub fn new(trace: &'t TraceReader, string_bytes_max: usize) -> Showing<'t> {
        Showing {
            string_bytes_max,
            files: trace.files().iter().map(|kept| (kept.id, kept.file.path.as_slice())).collect(),
            referred: trace
                .files()
                .iter()
                .filter(|kept| trace.is_referred(&kept.file.hash))
                .map(|kept| (kept.id, kept.file.path.as_slice()))
                .collect(),
            pids: trace.lanes().iter().map(|info| (info.lane, info.pid)).collect(),
        }
    }
}

/// An event as its line.
pub fn line_of(whole: &WholeEvent, showing: &Showing<'_>) -> String {
    line::text(whole, showing)
}

/// Shows a trace.
pub fn run(arguments: &DumpArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let filter = Filter::new(&arguments.call, arguments.path.as_deref(), &arguments.pid)?;
    let trace = settings.open(arguments.trace.as_deref())?;
    let lanes = trace.lanes();
    if let Some(&pid) = arguments.pid.iter().find(|pid| !lanes.iter().any(|info| info.pid == **pid)) {
        return Err(CommandError::NoSuchProcess { pid });
    }
    let mut merge = if arguments.by_process || arguments.pid.len() == 1 {
        let wanted = in_tree_order(lanes).into_iter().map(|(position, _)| position);
        Merge::one_by_one(&trace, wanted.filter(|&position| filter.has_pid(lanes[position].pid)))
    } else {
        Merge::new(&trace)
    };
    let showing = Showing::new(&trace, arguments.string_limit);
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let shown = show_all(&mut merge, &trace, &showing, &filter, arguments, &mut out);
    // What was shown before an error belongs before it.
    out.flush()?;
    shown?;
    Ok(exit::of_shown(trace.cut()))
}

fn show_all(
    merge: &mut Merge<'_>,
    trace: &TraceReader,
    showing: &Showing<'_>,
    filter: &Filter,
    arguments: &DumpArguments,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let (lanes, meta) = (trace.lanes(), trace.meta());
    let mut text = String::new();
    let mut last_lane = None;
    let mut time = None;
    loop {
        text.clear();
        let position = match merge.next()? {
            Step::Done => return Ok(()),
            Step::Event(position) => {
                let whole = merge.event(position);
                if !filter.wants(whole, lanes[position].pid) {
                    continue;
                }
                time = whole.logged.map(|since| meta.time_after(since));
                if arguments.json {
                    text = json::event(whole, &lanes[position], merge.thread(position), time.take(), showing)
                        .to_string();
                } else {
                    line::event(&mut text, whole, showing);
                }
                position
            }
            Step::End(position) => {
                let (info, tells_end) = (&lanes[position], merge.tells_end(position));
                if tells_end || !filter.wants_ends() || !filter.has_pid(info.pid) {
                    continue;
                }
                if arguments.json {
                    text = json::end(info).to_string();
                } else {
                    line::end(&mut text, info);
                }
                position
            }
        };
        if arguments.by_process && !arguments.json && last_lane != Some(position) {
            heading(&lanes[position], showing, last_lane.is_some(), out)?;
        }
        last_lane = Some(position);
        for line in text.lines() {
            if !arguments.json {
                let process = wording::process(lanes[position].pid, merge.thread(position).into());
                write!(out, "{process:<5} ")?;
                if arguments.times {
                    write_time(out, time.as_deref())?;
                }
            }
            writeln!(out, "{line}")?;
        }
    }
}

/// The time of day of an RFC 3339 time, or as many blanks.
fn write_time(out: &mut impl Write, time: Option<&str>) -> std::io::Result<()> {
    let of_day = time.and_then(|time| time.split_once('T')).map_or("", |(_, of_day)| of_day);
    write!(out, "{:<12} ", of_day.trim_end_matches('Z'))
}

fn heading(
    info: &LaneInfo,
    showing: &Showing<'_>,
    is_later: bool,
    out: &mut impl Write,
) -> std::io::Result<()> {
    if is_later {
        writeln!(out)?;
    }
    write!(out, "# process {}, lane {}, {} events", info.pid, info.lane, wording::count(info.events))?;
    match showing.pids.get(&info.parent) {
        Some(parent) => writeln!(out, ", made by {parent}"),
        None => writeln!(out),
    }
}
