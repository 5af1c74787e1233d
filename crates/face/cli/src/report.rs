//! `retrovane report`: one page that tells a stranger what happened.

mod page;
mod values;
mod wrap;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use replayer::Frame;
use serde_json::json;
use trace_store::{SourceFile, TraceReader, pack};

use crate::births::Image;
use crate::crash_place::{CrashPlace, Moment};
use crate::dump::{Showing, line_of};
use crate::exit::CommandError;
use crate::lane_events::{LaneEvents, WholeEvent};
use crate::redact::{Masked, RedactArguments};
use crate::settings::Settings;
use crate::stack_at;
use crate::wording;
use page::Page;

const EXAMPLES: &str = "\
Examples:
  retrovane report crash -o crash.html                    the page, and crash.rvpack beside it
  retrovane report crash -o crash.html --minimal small    with what `minimize -o small` found
  retrovane report crash -o crash.html --redact           for strangers
  retrovane report crash --redact --mask stdin            the same, and a masked pack
  retrovane report --wrap -o reports -- make check        a page for each process that failed

The page holds: how the program ended, the stack with source lines, the values in it and who wrote the
pointer that led to a crash (where gdb is installed), the last events, the minimal input, machine and versions, how to replay. It refers to nothing outside of itself. The pack is the whole
trace for `retrovane replay`.

--wrap records the command behind `--` and ends with its exit code. A process that died of a fault leaves a
page, and one that failed, if all processes above it failed, too; not those above it, which pass its
failure on. Without a failure nothing is left. The pages have one pack in common.

--redact leaves values of the environment, and data that was read from or sent to connections and files,
out of the page, as well as values of variables, and makes no pack: a pack holds the program's whole memory. It says what it left out. With
--mask WHAT the pack is made, and masked as `pack --redact` does it.";

/// Events that are shown.
const EVENTS_SHOWN: usize = 60;
/// Bytes of a text in them.
const STRING_BYTES: usize = 48;
/// Lines of a source file above and below.
const SOURCE_LINES: usize = 3;

/// Write one self-contained page about a recorded failure, and the pack beside it
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ReportArguments {
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    /// The page to write [default: NAME.html here]; with --wrap the directory of pages [default: reports]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Directory that `retrovane minimize -o` left
    #[arg(long, value_name = "DIR")]
    minimal: Option<PathBuf>,
    /// Leave data out that may be secret, and make no pack, or with --mask a masked one
    #[arg(long)]
    redact: bool,
    /// Make no pack
    #[arg(long, conflicts_with_all = ["mask", "leave", "wrap"])]
    no_pack: bool,
    #[command(flatten)]
    masking: RedactArguments,
    /// Only of this process of the recorded ones
    #[arg(long)]
    pid: Option<i32>,
    /// Record the command behind `--`, and write a page for each process of it that fails
    #[arg(long, conflicts_with_all = ["trace", "minimal", "redact", "json", "pid"])]
    wrap: bool,
    /// The command, with --wrap
    #[arg(last = true, requires = "wrap", value_name = "COMMAND")]
    command: Vec<OsString>,
    /// One JSON object that names what was written
    #[arg(long)]
    json: bool,
}

/// What one page is of, and where it goes.
struct Written<'a> {
    output: &'a Path,
    /// The pack beside it.
    pack: Option<&'a Path>,
    /// The process; `None`: all of them.
    pid: Option<i32>,
    /// For strangers: it holds no data of the program's.
    is_redacted: bool,
}

/// Reports.
pub fn run(arguments: &ReportArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    if arguments.wrap {
        let dir = arguments.output.clone().unwrap_or_else(|| PathBuf::from("reports"));
        return wrap::run(&arguments.command, &dir, settings);
    }
    let trace = settings.open(arguments.trace.as_deref())?;
    if let Some(pid) = arguments.pid
        && !trace.lanes().iter().any(|info| info.pid == pid)
    {
        return Err(CommandError::NoSuchProcess { pid });
    }
    let output = arguments.output.clone().unwrap_or_else(|| {
        let name = trace.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
        PathBuf::from(format!("{name}.html"))
    });
    let minimal = arguments.minimal.as_deref().map(minimal_files).transpose()?;
    let masked = match arguments.masking.is_given() {
        true => Some(arguments.masking.masked(&trace, settings)?),
        false => None,
    };
    let has_pack = !arguments.no_pack && (!arguments.redact || masked.is_some());
    let pack_path = has_pack.then(|| output.with_extension("rvpack"));
    let is_redacted = arguments.redact;
    let written = Written { output: &output, pack: pack_path.as_deref(), pid: arguments.pid, is_redacted };
    let mut text = page_text(&trace, settings, &written, minimal.as_deref())?;
    let mut names = Vec::new();
    if arguments.redact {
        (text, names) = redacted(text, &trace)?;
    }
    if let Some(masked) = &masked {
        text = masked.mask_text(text);
    }
    write_private(&output, &text)?;
    if let Some(path) = &pack_path {
        let dir = masked.as_ref().map_or_else(|| trace.dir().to_owned(), Masked::dir);
        pack::pack(&dir, path, &mut |_, _| {})?;
    }
    tell(arguments, &written, &names, masked.as_ref())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes one page; its pack is there.
fn write_page(trace: &TraceReader, settings: &Settings, what: &Written<'_>) -> Result<(), CommandError> {
    write_private(what.output, &page_text(trace, settings, what, None)?)
}

/// The page.
fn page_text(
    trace: &TraceReader,
    settings: &Settings,
    what: &Written<'_>,
    minimal: Option<&[(String, Vec<u8>)]>,
) -> Result<String, CommandError> {
    let is_redacted = what.is_redacted;
    let mut page = Page::new(&wording::command(&trace.meta().command));
    add_end(&mut page, trace, settings, what, is_redacted)?;
    for (name, content) in minimal.unwrap_or_default() {
        page.section(&format!("Minimal input: {name} ({} bytes)", content.len()));
        page.text(&String::from_utf8_lossy(content));
    }
    add_events(&mut page, trace, what.pid, is_redacted)?;
    add_machine(&mut page, trace, what.pack);
    Ok(page.finish())
}

/// What the program read may be secret: for its owner only.
fn write_private(path: &Path, text: &str) -> Result<(), CommandError> {
    let mut file = std::fs::File::options();
    let file = file.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|source| CommandError::Write { path: path.to_owned(), source })
}

fn tell(
    arguments: &ReportArguments,
    written: &Written<'_>,
    names: &[String],
    masked: Option<&Masked>,
) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let (page, pack) = (written.output, written.pack);
        let masked = masked.map(Masked::json);
        let report = json!({ "page": page, "pack": pack, "redacted": arguments.redact, "masked": masked });
        writeln!(out, "{report}")?;
        return Ok(());
    }
    writeln!(out, "{}", written.output.display())?;
    if let Some(pack) = written.pack {
        writeln!(out, "{}", pack.display())?;
    }
    if written.is_redacted {
        writeln!(
            out,
            "left out: values of the environment{}, data of reads and writes{}",
            if names.is_empty() { String::new() } else { format!(" (on the page: {})", names.join(", ")) },
            match masked {
                Some(_) => "",
                None => ", and the pack (it holds the program's memory)",
            }
        )?;
    }
    for line in masked.iter().flat_map(|masked| masked.lines()) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Files of a minimal input, with their names.
fn minimal_files(dir: &Path) -> Result<Vec<(String, Vec<u8>)>, CommandError> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|source| CommandError::Read { path: path.to_owned(), source })
    };
    let mut files = Vec::new();
    for name in ["stdin", "reproduce.sh"] {
        let path = dir.join(name);
        if path.is_file() {
            files.push((name.to_owned(), read(&path)?));
        }
    }
    for entry in std::fs::read_dir(dir.join("files")).into_iter().flatten().flatten() {
        files.insert(0, (entry.file_name().to_string_lossy().into_owned(), read(&entry.path())?));
    }
    if files.is_empty() {
        return Err(CommandError::Usage(format!("{}: no result of `retrovane minimize`", dir.display())));
    }
    Ok(files)
}

fn add_end(
    page: &mut Page,
    trace: &TraceReader,
    settings: &Settings,
    what: &Written<'_>,
    is_redacted: bool,
) -> Result<(), CommandError> {
    let of_process = what.pid.and_then(|pid| trace.lanes().iter().find(|info| info.pid == pid));
    let exit = match of_process {
        Some(info) => info.end,
        None => trace.summary().map(|summary| summary.exit),
    };
    let end = exit.map_or_else(|| "the trace does not say how it ended".to_owned(), wording::lane_end);
    page.section("What happened");
    let place = CrashPlace::of(trace, what.pid)?;
    if let Some((pid, crash, frames)) = stack_at::crash(trace, what.pid, settings)? {
        page.line(&format!("{} in {}", wording::signal(crash.signal), crash.frames.join(", called by ")));
        page.line(&format!("The program's end: {end}"));
        add_stack(page, trace, &frames);
        if !is_redacted {
            values::add(page, trace, pid, settings.sandbox);
        }
    } else if let Some((_, frames)) = stack_at::panic(trace, what.pid, settings)? {
        page.line("It panicked.");
        page.line(&format!("The program's end: {end}"));
        add_stack(page, trace, &frames);
    } else {
        page.line(&format!("The program's end: {end}"));
    }
    if let Some(CrashPlace { pid, moment: Moment::Panic(_) | Moment::EndOfGo }) = place
        && !is_redacted
    {
        values::add_frames(page, trace, pid, settings.sandbox);
    }
    Ok(())
}

fn add_stack(page: &mut Page, trace: &TraceReader, frames: &[Frame]) {
    page.section("Stack");
    let sources = trace.sources();
    for (depth, frame) in frames.iter().enumerate() {
        page.line(&format!("#{depth} {}", stack_at::frame_text(frame)));
        if let Some(lines) = source_of(frame, &sources) {
            page.text(&lines);
        }
    }
}

/// Lines around a frame, where the source file is there, or came with the trace.
fn source_of(frame: &Frame, sources: &[SourceFile]) -> Option<String> {
    let (path, line) = frame.source.as_ref()?;
    let brought = sources.iter().find(|source| source.named == *path);
    let text = std::fs::read_to_string(brought.map_or(Path::new(path), |source| &source.content)).ok()?;
    let line = *line as usize;
    let from = line.saturating_sub(SOURCE_LINES + 1);
    let shown = text.lines().enumerate().skip(from).take(2 * SOURCE_LINES + 1);
    let numbered = shown.map(|(index, text)| {
        let mark = if index + 1 == line { ">" } else { " " };
        format!("{mark} {:5} {text}\n", index + 1)
    });
    Some(numbered.collect())
}

fn add_events(
    page: &mut Page,
    trace: &TraceReader,
    pid: Option<i32>,
    redact: bool,
) -> Result<(), CommandError> {
    let showing = Showing::new(trace, if redact { 0 } else { STRING_BYTES });
    for info in trace.lanes().iter().filter(|info| pid.is_none_or(|pid| info.pid == pid)) {
        let mut events = LaneEvents::open(trace, info.lane)?;
        let mut whole = WholeEvent::default();
        let mut last = VecDeque::new();
        while events.read(&mut whole)? {
            if last.len() == EVENTS_SHOWN {
                last.pop_front();
            }
            last.push_back(format!("{:6} {}", whole.index, line_of(&whole, &showing)));
        }
        page.section(&format!("Process {}: the last of {} events", info.pid, info.events));
        page.text(&last.into_iter().map(|line| line + "\n").collect::<String>());
    }
    Ok(())
}

fn add_machine(page: &mut Page, trace: &TraceReader, pack: Option<&Path>) {
    let meta = trace.meta();
    page.section("Machine and versions");
    page.line(&format!("recorded {} by Retrovane {}", wording::time(&meta.started), meta.tool));
    page.line(&format!("Linux {}, {}", meta.kernel, meta.cpu));
    page.line(&format!("in {}", wording::printable(meta.cwd.as_os_str().as_bytes())));
    page.section("Again");
    match pack.and_then(Path::file_name) {
        Some(name) => {
            let words: [OsString; 3] = ["retrovane".into(), "replay".into(), name.to_owned()];
            page.text(&wording::command(&words));
        }
        None => page.line("The pack was left out: ask whoever made this page."),
    }
}

/// Takes values of the environment out. Returns the names of those that the page had, too.
fn redacted(mut text: String, trace: &TraceReader) -> Result<(String, Vec<String>), CommandError> {
    let mut values: Vec<(String, String)> = environments(trace)?.into_iter().collect();
    // The longest first: another may be a part of it.
    values.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    let mut masked = BTreeSet::new();
    for (value, name) in values {
        let value = page::escaped(&value);
        if text.contains(&value) {
            text = text.replace(&value, "[redacted]");
            masked.insert(wording::printable(name.as_bytes()));
        }
    }
    Ok((text, masked.into_iter().collect()))
}

/// Values of the environment, with a name of each, of every program that was executed: one gives another what it had
/// not itself.
fn environments(trace: &TraceReader) -> Result<HashMap<String, String>, CommandError> {
    /// Shorter values would take words apart, and tell nothing.
    const VALUE_BYTES_MIN: usize = 4;
    let mut values = HashMap::new();
    let mut whole = WholeEvent::default();
    for info in trace.lanes() {
        let mut events = LaneEvents::open(trace, info.lane)?;
        while events.read(&mut whole)? {
            for entry in Image::of(&whole).map(|image| image.environment).unwrap_or_default() {
                let entry = String::from_utf8_lossy(entry.as_bytes());
                if let Some((name, value)) =
                    entry.split_once('=').filter(|(_, value)| value.len() >= VALUE_BYTES_MIN)
                {
                    values.insert(value.to_owned(), name.to_owned());
                }
            }
        }
    }
    Ok(values)
}
