//! `retrovane minimize`.

mod callers;
mod crew;
mod orders;
mod pasts;
mod present;
mod results;
mod schedule;
mod search;
mod switches;
mod tries;
mod undo;

use std::cell::RefCell;
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use injector::{ExitReport, SandboxPlan, Side, StdinKind, TryLimits, enter_sandbox};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use trace_store::{LaneEnd, TraceReader};

use crate::exit::{self, CommandError};
use crate::recorded::{Recorded, World};
use crate::settings::Settings;
use crate::wording;
use crew::{Crew, Launcher};
use search::Search;
use tries::Ended;

const EXAMPLES: &str = "\
Examples:
  retrovane record -- ./parser < crash.txt     once, where it fails
  retrovane minimize -o small                  small/stdin is the smallest input that fails the same
  sh small/reproduce.sh                        the failure, from nothing but that script
  retrovane minimize gcc-3 --input bug.c -o small
  retrovane minimize -o small --until 'grep -q \"out of range\" \"$RETROVANE_STDERR\"'

  retrovane minimize queue-0 --schedule -o small
                                               the fewest forced switches with which a race still fails

Runs the recorded program again and again in a sandbox, with less of its input each time: standard
input, files that are named on its command line or lie in its directory, what clients sent to it, arguments, variables of
the environment; then which files have to be there at all. A try is a copy of the program that stands right before it reads the input, where
that can be; nothing reaches the network, other processes, or files outside of DIR.

The same failure is the same signal in the same innermost three functions (libc's left out); or the
same exit code with the same line on standard error, numbers and quoted texts left out. The test of
--until decides instead, if there is one: a shell's, with RETROVANE_EXIT_CODE, RETROVANE_SIGNAL, and
the files RETROVANE_INPUT, RETROVANE_STDOUT and RETROVANE_STDERR. A try that has not ended within
--timeout has the exit code 124.

Ctrl-C keeps what was found; the same command again goes on from there.
The last line of the output says the sizes before and after.";

/// Find the smallest input with which a recorded program still fails
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct MinimizeArguments {
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    /// Directory for the result [default: NAME-minimal here]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Only this input: a file that the program read, `stdin`, or `connection:1` for what the first client sent
    /// [default: all that look like input]
    #[arg(long, value_name = "FILE")]
    input: Vec<PathBuf>,
    /// Shell test that decides what fails, instead of the recorded failure
    #[arg(long, value_name = "TEST")]
    until: Option<OsString>,
    /// Kill a try that runs for longer [default: ten times the recorded run, at least 2s]
    #[arg(long, value_name = "DURATION", value_parser = crate::hunt::duration)]
    timeout: Option<Duration>,
    /// Find the fewest switches between threads that must be forced for the failure, instead of the
    /// smallest input
    #[arg(long, conflicts_with_all = ["input", "until", "input_only"])]
    schedule: bool,
    /// Tries at the same time, each in a sandbox of its own; the result is the same with any number
    /// [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64), conflicts_with = "schedule")]
    jobs: Option<u8>,
    /// Leave arguments and environment as they are
    #[arg(long)]
    input_only: bool,
    /// Measure how many tries a second are made of the result (for the benchmark)
    #[arg(long, hide = true)]
    rate: bool,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The user's wish to end.
pub struct Interruption(SignalFd);

impl Interruption {
    fn begin() -> std::io::Result<Interruption> {
        let set = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT]);
        set.thread_block()?;
        Ok(Interruption(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// An error if it was uttered.
    pub fn check(&self) -> Result<(), Ended> {
        match self.0.read_signal() {
            Ok(Some(_)) => Err(Ended::Interrupted),
            Ok(None) | Err(_) => Ok(()),
        }
    }
}

/// Minimises.
pub fn run(arguments: &MinimizeArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let trace = settings.open(arguments.trace.as_deref())?;
    let recorded = Recorded::of(&trace)?;
    if arguments.schedule {
        schedule::check_before(&trace, &recorded)?;
        let output = output_dir(arguments, &trace)?;
        return schedule::run(arguments, settings, &trace, &recorded, &output);
    }
    let output = output_dir(arguments, &trace)?;
    check_before(arguments, &recorded)?;
    let world = World::of(&trace, &recorded, vec![output.clone()], settings.home().ok().as_deref());
    for path in &world.restored {
        tracing::debug!(path = %path.display(), "as it was when it was recorded");
    }
    let limits = TryLimits { time: arguments.timeout.unwrap_or_else(|| usual_limit(&trace)) };
    let mut plan = world.plan.clone();
    // What changes is a file of the sandbox's own.
    for input in chosen(arguments, &recorded)? {
        if let search::Stream::File(path) = &input
            && let Some(file) = recorded.file(path)
            && !plan.placed.iter().any(|placed| placed.at == file.path)
        {
            let (at, content) = (file.path.clone(), file.content.clone());
            plan.placed.push(injector::Placed { at, content, mode: 0o644 });
        }
    }
    // Files that are made absent go in the sandbox alone.
    if !arguments.input_only {
        let circumstances = recorded.circumstances();
        let folders = circumstances.iter().filter_map(|path| path.parent()).filter(|path| path.is_dir());
        plan.layered.extend(folders.map(std::path::Path::to_path_buf));
    }
    let streams = chosen(arguments, &recorded)?;
    Kit { recorded, limits, arguments, settings, output, streams }.run_inside(&plan)
}

/// What a search is made of, here and in each helper.
struct Kit<'a> {
    recorded: Recorded,
    limits: TryLimits,
    arguments: &'a MinimizeArguments,
    settings: &'a Settings,
    output: PathBuf,
    streams: Vec<search::Stream>,
}

impl Kit<'_> {
    /// Searches in a sandbox.
    fn run_inside(self, plan: &SandboxPlan) -> Result<ExitCode, CommandError> {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.arguments.jobs.map_or_else(all, usize::from);
        // Each process has it once: the search, and each helper, which are forks.
        let kit = RefCell::new(Some(self));
        let help = |socket| kit.take().map_or(1, |kit: Kit<'_>| kit.help(socket));
        let launcher = (jobs > 1).then(|| Launcher::fork(jobs - 1, plan, help)).transpose();
        let launcher =
            launcher.map_err(|source| CommandError::Try { doing: "start those who help", source })?;
        match enter_sandbox(plan).map_err(|error| CommandError::Sandbox(error.to_string()))? {
            Side::Outside(ExitReport::Exited(code)) => Ok(ExitCode::from(code as u8)),
            Side::Outside(ExitReport::Killed(signal)) => Ok(ExitCode::from(128u8.wrapping_add(signal as u8))),
            Side::Inside => {
                let failed = |source| CommandError::Try { doing: "listen to signals", source };
                let interruption = Interruption::begin().map_err(failed)?;
                let kit = kit.take().expect("the search's process has it still");
                Search::new(kit, &interruption, Crew::new(launcher))?.run()
            }
        }
    }

    /// Helps another search, as a process of its own.
    fn help(self, mut socket: UnixStream) -> u8 {
        let Ok(interruption) = Interruption::begin() else { return 1 };
        let Ok(mut search) = Search::new(self, &interruption, Crew::new(None)) else { return 1 };
        let Err(_) = search.help(&mut socket);
        0
    }
}

/// What to make smaller, in this order.
fn chosen(arguments: &MinimizeArguments, recorded: &Recorded) -> Result<Vec<search::Stream>, CommandError> {
    if arguments.input.is_empty() {
        let mut streams = Vec::new();
        if recorded.has_stdin() {
            streams.push(search::Stream::Stdin);
        }
        streams.extend(recorded.input_files().iter().map(|file| search::Stream::File(file.path.clone())));
        streams.extend((0..recorded.program.connections.len()).map(search::Stream::Connection));
        return Ok(streams);
    }
    let stream = |path: &PathBuf| {
        if path.as_os_str() == "stdin" && recorded.has_stdin() {
            return Ok(search::Stream::Stdin);
        }
        if let Some(number) =
            path.to_str().and_then(|text| text.strip_prefix("connection:")?.parse::<usize>().ok())
            && (1..=recorded.program.connections.len()).contains(&number)
        {
            return Ok(search::Stream::Connection(number - 1));
        }
        match recorded.file(path) {
            Some(file) if !file.content.is_empty() => Ok(search::Stream::File(file.path.clone())),
            Some(_) | None => Err(CommandError::Usage(format!(
                "the program did not read {}: `retrovane dump --call open,openat` lists what it opened",
                path.display()
            ))),
        }
    };
    arguments.input.iter().map(stream).collect()
}

/// What makes no sense is said before any long work.
fn check_before(arguments: &MinimizeArguments, recorded: &Recorded) -> Result<(), CommandError> {
    if arguments.until.is_none() && matches!(recorded.end, LaneEnd::Exited(0)) {
        return Err(CommandError::Usage(
            "the recorded program did not fail (exit code 0): say with --until what to look for".to_owned(),
        ));
    }
    if chosen(arguments, recorded)?.is_empty() && arguments.input_only {
        return Err(CommandError::Usage(
            "the recorded program read neither standard input nor a file that looks like input: name one with --input"
                .to_owned(),
        ));
    }
    if recorded.program.stdin_kind == StdinKind::Nothing && recorded.has_stdin() {
        return Err(CommandError::Usage("standard input is not in the trace".to_owned()));
    }
    Ok(())
}

/// A program that hangs is not waited for.
fn usual_limit(trace: &TraceReader) -> Duration {
    let recorded = trace.summary().map_or(0, |summary| summary.duration_ns);
    Duration::from_nanos(recorded.saturating_mul(10)).clamp(Duration::from_secs(2), Duration::from_secs(600))
}

fn output_dir(arguments: &MinimizeArguments, trace: &TraceReader) -> Result<PathBuf, CommandError> {
    let dir = arguments.output.clone().unwrap_or_else(|| {
        let name = trace.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
        PathBuf::from(format!("{name}-minimal"))
    });
    // It holds what the program read: for its owner only, unless it is there already.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    let made = made.and_then(|()| dir.canonicalize());
    made.map_err(|source| CommandError::Write { path: dir, source })
}

/// The exit code where the failure does not come again.
pub const NOT_THE_SAME: u8 = exit::NOT_CAUGHT;

/// A text for people, in front of which the name of the tool stands.
fn say(settings: &Settings, text: &str) {
    if !settings.quiet {
        diagnostics::tell!("retrovane: {}", wording::printable(text.as_bytes()));
    }
}
