//! `retrovane record`.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use lane_protocol::{Detection, Interception};
use recorder::{
    ExitReport, InjectError, PreparedMemory, ProgramError, RecordError, RecordOptions, Refusal, record,
};
use serde_json::{Value, json};
use trace_store::{TraceReader, traces};

use crate::answer_file::{self, JsonArguments};
use crate::crash_place::CrashPlace;
use crate::exit;
use crate::policy::InputArguments;
use crate::seeds;
use crate::settings::Settings;
use crate::wording;

const EXAMPLES: &str = "\
Examples:
  retrovane record -- make -j2
  retrovane record -o /tmp/trace -- ./server --port 8080
  retrovane record --check 1000 -- ./flaky-test
  retrovane record --chaos -- ./flaky-test
  retrovane record --input 'file:/usr/**=refer' -- gcc -c main.c
  (ulimit -c 0; retrovane record sh -c 'sort < in | uniq -c')

Ends with the program's own exit code. --json FILE says in one object what was recorded. Everything after the program belongs to
it; `--` makes that clear.";

/// Run a program and record what it does.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RecordArguments {
    /// Directory of the trace [default: NAME-N in RETROVANE_HOME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Checksum the program's memory every N events, for replay to verify
    #[arg(long, value_name = "N", default_value_t = 0)]
    check: u32,
    /// Let chance decide what recording may choose, so that rare interleavings happen
    #[arg(long)]
    chaos: bool,
    /// The number that chance starts from; implies --chaos [default: a random one, which is said]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Switch threads only where they wait, and where this file says: for tries of `minimize`
    #[arg(long, hide = true, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Most bytes of the trace's log, as 500M, 2G: recording stops there, and the program goes on
    #[arg(long, value_name = "BYTES", value_parser = crate::live::bytes)]
    max_size: Option<u64>,
    /// Intercept system calls by seccomp instead of syscall user dispatch
    #[arg(long)]
    seccomp: bool,
    /// Never rewrite code: every system call traps (slow)
    #[arg(long)]
    no_rewrite: bool,
    /// Treat described calls as undescribed (for tests of the detection)
    #[arg(long, hide = true)]
    detect_all: bool,
    /// How the effects of undescribed calls are found (for tests)
    #[arg(long, hide = true, value_enum, default_value_t)]
    detection: DetectionArgument,
    /// Lose the last moments where all processes are killed at once: for tries of a hunt
    #[arg(long, hide = true)]
    volatile: bool,
    #[command(flatten)]
    policies: InputArguments,
    #[command(flatten)]
    json: JsonArguments,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// [`Detection`], as an argument.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum DetectionArgument {
    #[default]
    Best,
    WriteProtection,
    Sums,
}

impl From<DetectionArgument> for Detection {
    fn from(argument: DetectionArgument) -> Detection {
        match argument {
            DetectionArgument::Best => Detection::Best,
            DetectionArgument::WriteProtection => Detection::WriteProtection,
            DetectionArgument::Sums => Detection::Sums,
        }
    }
}

impl RecordArguments {
    /// The program and its arguments.
    pub fn command(&self) -> &[OsString] {
        &self.command
    }
}

/// Records, and ends as the program ended.
pub fn run(arguments: RecordArguments, settings: &Settings) -> ExitCode {
    let home = match arguments.json.open().and_then(|()| settings.home_to_write()) {
        Ok(home) => home,
        Err(error) => return exit::failure(error.code(), &error),
    };
    let referred = match arguments.policies.referred() {
        Ok(referred) => referred,
        Err(error) => return exit::failure(error.code(), &error),
    };
    let Some((program, rest)) = arguments.command.split_first() else {
        return exit::failure(exit::USAGE, &"no program given");
    };
    let is_named = arguments.output.is_none();
    let trace_dir = match arguments.output {
        Some(dir) => dir,
        None => match traces::new_dir(&home, &program.to_string_lossy()) {
            Ok(dir) => dir,
            Err(error) => return exit::failure(exit::FAILED, &error),
        },
    };
    let chaos_seed = arguments.seed.or_else(|| arguments.chaos.then(|| drawn_seed(settings)));
    let schedule = match arguments.schedule.as_deref().map(crate::schedule::read).transpose() {
        Ok(schedule) => schedule,
        Err(error) => return exit::failure(error.code(), &error),
    };
    let options = RecordOptions {
        check_every_events: arguments.check,
        interception: arguments.seccomp.then_some(Interception::Seccomp),
        rewriting_off: arguments.no_rewrite,
        detection: arguments.detection.into(),
        detect_all: arguments.detect_all,
        chaos_seed,
        schedule,
        size_max_bytes: arguments.max_size,
        outlives_kills: !arguments.volatile,
        begun: is_named.then(|| {
            let (home, trace_dir) = (home.clone(), trace_dir.clone());
            Box::new(move || name_latest(&home, &trace_dir)) as Box<dyn FnOnce()>
        }),
        referred,
        quiet: settings.quiet,
        ..options_of(program, rest, &home, &trace_dir)
    };
    let outcome = match record(options) {
        Ok(outcome) => outcome,
        Err(error) if error.is_limit() => {
            // The directory was made for the trace, and holds nothing of one.
            let _ = std::fs::remove_dir(&trace_dir);
            return ExitCode::from(run_unrecorded(program, rest, &error));
        }
        Err(error) => {
            if is_named {
                // Nothing was recorded: no name is used up. What holds anything stays.
                let _ = std::fs::remove_dir(&trace_dir);
            }
            return exit::failure(code_of(&error), &error);
        }
    };
    if is_named {
        // Another one may have begun meanwhile.
        name_latest(&home, &outcome.trace_dir);
    }
    tell_recorded(&outcome.trace_dir, is_named, settings);
    if arguments.json.is_given() {
        answer_file::write(&recorded(&outcome.trace_dir, outcome.status, chaos_seed));
    }
    if let ExitReport::Killed(signal) = outcome.status {
        injector::die_by_signal(signal);
    }
    exit::of_program(outcome.status)
}

/// What became of a recording, for programs.
fn recorded(trace_dir: &Path, status: ExitReport, seed: Option<u64>) -> Value {
    let trace_dir = std::path::absolute(trace_dir).unwrap_or_else(|_| trace_dir.to_owned());
    let mut object = answer_file::object_of_run(&trace_dir, Some(status));
    if let Some(seed) = seed {
        object["seed"] = Value::from(seed);
    }
    object
}

/// For somebody at a terminal: what was recorded, and what can be done next.
fn tell_recorded(trace_dir: &Path, is_named: bool, settings: &Settings) {
    if settings.quiet || !std::io::stderr().is_terminal() {
        return;
    }
    let Ok(trace) = TraceReader::open(trace_dir) else { return };
    let has_name = is_named && settings.has_usual_home();
    let (events, lanes) = (trace.totals().events, trace.lanes().len());
    let has_crash = matches!(CrashPlace::of(&trace, None), Ok(Some(_)));
    let name = trace_dir.file_name().filter(|_| has_name).unwrap_or(trace_dir.as_os_str()).to_owned();
    let processes = if lanes == 1 { "1 process".to_owned() } else { format!("{lanes} processes") };
    diagnostics::tell!(
        "retrovane: recorded {} events of {processes} as {}",
        wording::count(events),
        wording::command(std::slice::from_ref(&name))
    );
    let words = |verb: &str| wording::command(&["retrovane".into(), verb.into(), name.clone()]);
    match has_crash {
        true => diagnostics::tell!("retrovane: next: {} --at crash, or {}", words("replay"), words("bt")),
        false => diagnostics::tell!("retrovane: next: {}, or {}", words("replay"), words("dump")),
    }
}

/// A seed that chance has drawn, of which the user is told.
fn drawn_seed(settings: &Settings) -> u64 {
    let seed = seeds::random();
    if !settings.quiet {
        diagnostics::tell!("retrovane: chaos has the seed {seed}");
    }
    seed
}

/// Records a try of a hunt in this process, and nothing else; the code that it ends with.
pub fn run_try(
    command: &[OsString],
    seed: u64,
    (home, trace_dir): (&Path, &Path),
    prepared: Option<Arc<PreparedMemory>>,
) -> u8 {
    let Some((program, arguments)) = command.split_first() else { return exit::USAGE };
    injector::allocate_from_one_arena();
    let options = RecordOptions {
        chaos_seed: Some(seed),
        outlives_kills: false,
        prepared,
        quiet: true,
        ..options_of(program, arguments, home, trace_dir)
    };
    match record(options) {
        Ok(outcome) => {
            if let ExitReport::Killed(signal) = outcome.status {
                injector::die_by_signal(signal);
            }
            exit::code_of_program(outcome.status)
        }
        Err(error) if error.is_limit() => {
            let _ = std::fs::remove_dir(trace_dir);
            run_unrecorded(program, arguments, &error)
        }
        Err(error) => {
            exit::failure(code_of(&error), &error);
            code_of(&error)
        }
    }
}

/// A recording of which nothing special is asked.
pub fn options_of(program: &OsStr, arguments: &[OsString], home: &Path, trace_dir: &Path) -> RecordOptions {
    RecordOptions {
        running: None,
        program: program.to_owned(),
        arguments: arguments.to_vec(),
        trace_dir: trace_dir.to_owned(),
        home: home.to_owned(),
        check_every_events: 0,
        interception: None,
        rewriting_off: false,
        detection: Detection::Best,
        detect_all: false,
        chaos_seed: None,
        schedule: None,
        live: None,
        size_max_bytes: None,
        outlives_kills: true,
        prepared: None,
        begun: None,
        companion: None,
        referred: Default::default(),
        quiet: false,
        progress: None,
    }
}

/// A limit leaves no room to record the program: it runs as without us. Returns only if it cannot, with
/// the code that stands for that.
fn run_unrecorded(program: &OsStr, arguments: &[OsString], why: &RecordError) -> u8 {
    let error = match injector::resolve(program, arguments) {
        Ok(resolved) => {
            diagnostics::tell!("retrovane: {why}; the program runs unrecorded");
            answer_file::write(&json!({"error": format!("{why}; the program runs unrecorded")}));
            RecordError::Inject(injector::become_program(&resolved))
        }
        Err(error) => RecordError::Program(error),
    };
    exit::failure(code_of(&error), &error);
    code_of(&error)
}

/// `latest` is this trace: from its beginning on, as its recorder may be killed.
fn name_latest(home: &Path, trace_dir: &Path) {
    if let Err(error) = traces::set_latest(home, trace_dir) {
        diagnostics::tell!("retrovane: {error}");
    }
}

/// The code of a recording that did not begin.
pub fn code_of(error: &RecordError) -> u8 {
    match error {
        RecordError::Program(error) => match error {
            ProgramError::NotFound(_) => exit::NOT_FOUND,
            ProgramError::NotExecutable(_)
            | ProgramError::IsDirectory(_)
            | ProgramError::NotRegular(_)
            | ProgramError::NotAProgram(_)
            | ProgramError::Interpreter { .. }
            | ProgramError::TooManyInterpreters(_) => exit::NOT_EXECUTABLE,
            ProgramError::ThirtyTwoBit(_)
            | ProgramError::Foreign { .. }
            | ProgramError::SetId(_)
            | ProgramError::Capabilities(_)
            | ProgramError::Tracer(_)
            | ProgramError::Occupied(_)
            | ProgramError::Unreadable { .. } => exit::NOT_RECORDABLE,
            ProgramError::NulByte(_) => exit::FAILED,
        },
        RecordError::Inject(InjectError::Boarding { why, .. }) => code_of_refusal(why),
        RecordError::Inject(
            InjectError::NotRecordable { .. } | InjectError::NoRoom { .. } | InjectError::Attach { .. },
        )
        | RecordError::NoUserDispatch
        | RecordError::NoInterception
        | RecordError::NoProc
        | RecordError::PtraceForbidden { .. } => exit::NOT_RECORDABLE,
        RecordError::Inject(InjectError::Exec { .. }) => exit::NOT_EXECUTABLE,
        RecordError::Inject(_)
        | RecordError::Store(_)
        | RecordError::History(_)
        | RecordError::Threads(_)
        | RecordError::Companion(_) => exit::FAILED,
    }
}

/// The code for a process that is not taken over.
fn code_of_refusal(why: &Refusal) -> u8 {
    match why {
        Refusal::NoSuchProcess => exit::NOT_FOUND,
        Refusal::Ourselves | Refusal::IsThread(_) => exit::USAGE,
        why if why.is_permission() => exit::NOT_PERMITTED,
        _ => exit::NOT_RECORDABLE,
    }
}
