//! `retrovane retry`: the recorded program again, with something changed.

mod changes;

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use clap::Args;
use injector::{ExitReport, Side, StdinKind, TryProgram, enter_sandbox};
use serde_json::json;
use trace_store::{LaneEnd, TraceReader, traces};

use crate::diff;
use crate::exit::{self, CommandError};
use crate::failure::Crash;
use crate::recorded::{Recorded, World};
use crate::settings::Settings;
use crate::stack_at;
use crate::wording;

const EXAMPLES: &str = "\
Examples:
  retrovane retry parser-0 --program ./parser-fixed      is the recorded crash cured?
  retrovane retry --stdin shorter.txt --arg 2=--verbose
  retrovane retry --input /etc/app.conf=new.conf --env LANG=C
  retrovane retry --seed 7                               another schedule of its threads

The program runs again in a sandbox, with the recorded arguments, environment, directory, standard
input and files (those that have changed since, or are gone, stand as they were). Nothing reaches the
network, other processes or files outside. It is recorded: the new trace is a trace like any other, and
`latest` stays the recording that you made.
Time, random numbers and process ids are those of today.

Ends with 0 if the recorded failure is gone, with 1 if it is the same, with 118 if it is another, with
the recorder's code if nothing could be run.";

/// Run a recorded program again in its recorded world, with something changed
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RetryArguments {
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    /// Another standard input
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// Other content for files that the program reads: a path or a pattern (* and ?), and a file
    #[arg(long, value_name = "PATTERN=FILE")]
    input: Vec<String>,
    /// Another argument number N (0 is the program's name), or one more
    #[arg(long, value_name = "N=TEXT")]
    arg: Vec<String>,
    /// A variable of the environment; without `=`, it is removed
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Another build of the program
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Another schedule: chance decides, and begins with this number
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Directory of the new trace [default: NAME-N in RETROVANE_HOME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// One JSON object on standard output, which the program's output is then kept from
    #[arg(long)]
    json: bool,
}

/// How a recording failed.
struct End {
    end: LaneEnd,
    crash: Option<Crash>,
}

impl End {
    fn of(trace: &TraceReader, settings: &Settings) -> Result<End, CommandError> {
        let end = trace.summary().map_or(LaneEnd::Unknown, |summary| summary.exit);
        let crash = stack_at::crash(trace, None, settings)?.map(|(_, crash, _)| crash);
        Ok(End { end, crash })
    }

    fn failed(&self) -> bool {
        self.crash.is_some() || self.end != LaneEnd::Exited(0)
    }

    fn text(&self) -> String {
        match &self.crash {
            Some(crash) => {
                format!("{} in {}", wording::signal(crash.signal), crash.frames.join(" < "))
            }
            None => wording::lane_end(self.end),
        }
    }
}

/// What became of the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Gone,
    Same,
    Another,
}

impl Verdict {
    fn of(before: &End, now: &End) -> Verdict {
        if !now.failed() {
            return Verdict::Gone;
        }
        let is_same = before.end == now.end && before.crash == now.crash;
        if is_same { Verdict::Same } else { Verdict::Another }
    }

    fn text(self) -> &'static str {
        match self {
            Verdict::Gone => "gone",
            Verdict::Same => "the same",
            Verdict::Another => "another",
        }
    }

    fn code(self) -> u8 {
        match self {
            Verdict::Gone => 0,
            Verdict::Same => exit::NOT_CAUGHT,
            Verdict::Another => exit::ANOTHER_FAILURE,
        }
    }
}

/// Runs it again.
pub fn run(arguments: &RetryArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let trace = settings.open(arguments.trace.as_deref())?;
    let mut recorded = Recorded::of(&trace)?;
    let replaced = changes::apply(arguments, &mut recorded)?;
    let home = settings.home_to_write()?;
    std::fs::create_dir_all(&home).map_err(|source| CommandError::Write { path: home.clone(), source })?;
    let dir = match &arguments.output {
        Some(dir) => absolute(dir)?,
        None => traces::new_dir(&home, &recorded.program.command[0].to_string_lossy())?,
    };
    std::fs::create_dir_all(&dir).map_err(|source| CommandError::Write { path: dir.clone(), source })?;
    let mut outside = vec![home.clone()];
    if !dir.starts_with(&home) {
        outside.push(dir.clone());
    }
    let mut world = World::of(&trace, &recorded, outside, settings.home().ok().as_deref());
    for placed in replaced {
        world.plan.placed.retain(|other| other.at != placed.at);
        world.plan.placed.push(placed);
    }
    let code = match recorded_inside(&world, &recorded.program, arguments, &home, &dir)? {
        Some(code) => code,
        // This is the process inside.
        None => return Ok(ExitCode::SUCCESS),
    };
    if !dir.join("trace.json").exists() {
        let _ = std::fs::remove_dir(&dir);
        return Ok(ExitCode::from(code));
    }
    let now = TraceReader::open(&dir)?;
    tell(&trace, &now, arguments, settings)
}

/// Says what came of it.
fn tell(
    before: &TraceReader,
    now: &TraceReader,
    arguments: &RetryArguments,
    settings: &Settings,
) -> Result<ExitCode, CommandError> {
    let difference = diff::first_difference(before, now, false, settings)?;
    let (then, end) = (End::of(before, settings)?, End::of(now, settings)?);
    let verdict = Verdict::of(&then, &end);
    if arguments.json {
        let facts = json!({
            "trace": now.dir(),
            "first_difference": difference.as_ref().map(diff::Difference::json),
            "recorded_end": then.text(),
            "end": end.text(),
            "failure": verdict.text(),
        });
        writeln!(std::io::stdout(), "{facts}")?;
    } else if !settings.quiet {
        match &difference {
            Some(difference) => {
                diagnostics::tell!("retrovane: it first differs from the recording here:");
                for line in difference.lines(["recorded", "now"]) {
                    diagnostics::tell!("{line}");
                }
            }
            None => diagnostics::tell!("retrovane: it does not differ from the recording"),
        }
        diagnostics::tell!("retrovane: recorded: {}", then.text());
        diagnostics::tell!("retrovane: now:      {}", end.text());
        diagnostics::tell!("retrovane: the failure: {}", verdict.text());
        diagnostics::tell!(
            "retrovane: its trace is {}",
            wording::printable(now.dir().as_os_str().as_bytes())
        );
    }
    Ok(ExitCode::from(verdict.code()))
}

/// Records in the sandbox. `None` in the process inside, which has nothing more to do.
fn recorded_inside(
    world: &World,
    program: &TryProgram,
    arguments: &RetryArguments,
    home: &Path,
    dir: &Path,
) -> Result<Option<u8>, CommandError> {
    match enter_sandbox(&world.plan).map_err(|error| CommandError::Sandbox(error.to_string()))? {
        Side::Outside(ExitReport::Exited(code)) => return Ok(Some(code as u8)),
        Side::Outside(ExitReport::Killed(signal)) => return Ok(Some(128u8.wrapping_add(signal as u8))),
        Side::Inside => {}
    }
    let failed = |source| CommandError::Try { doing: "record in the sandbox", source };
    let seed = arguments.seed.map(|seed| seed.to_string());
    let options = seed.as_ref().map_or(vec![], |seed| vec!["--seed", seed]);
    let mut recorder = recorder(program, home, dir, &options);
    if arguments.json {
        recorder.stdout(Stdio::null());
    }
    let mut child = start(&mut recorder, program).map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    let code = status.code().map_or(exit::FAILED, |code| code as u8);
    std::process::exit(i32::from(code));
}

/// The command that records the program again, inside of the sandbox.
pub fn recorder(program: &TryProgram, home: &Path, dir: &Path, options: &[&str]) -> Command {
    let mut recorder = Command::new("/proc/self/exe");
    recorder.args(["--quiet", "record", "--home"]).arg(home).arg("-o").arg(dir).args(options);
    recorder.arg("--").args(&program.command).current_dir(&program.directory).env_clear();
    for entry in &program.environment {
        let bytes = entry.as_bytes();
        if let Some(at) = bytes.iter().position(|byte| *byte == b'=').filter(|at| *at > 0) {
            let [name, value] = [&bytes[..at], &bytes[at + 1..]].map(std::ffi::OsStr::from_bytes);
            recorder.env(name, value);
        }
    }
    recorder
}

/// Starts it with the program's standard input.
pub fn start(recorder: &mut Command, program: &TryProgram) -> std::io::Result<Child> {
    let is_pipe = program.stdin_kind == StdinKind::Pipe;
    recorder.stdin(match program.stdin_kind {
        StdinKind::Nothing => Stdio::null(),
        StdinKind::Pipe => Stdio::piped(),
        StdinKind::File => Stdio::from(stdin_file(&program.stdin)?),
    });
    let mut child = recorder.spawn()?;
    if is_pipe && let Some(mut pipe) = child.stdin.take() {
        // A program may end without reading all of it.
        let _ = pipe.write_all(&program.stdin);
    }
    Ok(child)
}

/// A file of the sandbox's own, at its beginning.
fn stdin_file(content: &[u8]) -> std::io::Result<File> {
    let path = Path::new("/dev/.layers/stdin");
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path).map_err(|source| CommandError::Read { path: path.to_owned(), source })
}
