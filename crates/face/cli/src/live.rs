//! `retrovane live`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lane_protocol::Interception;
use recorder::live::{CheckpointWay, LiveOptions, OnCrash, Recover, ServeDebugger};
use recorder::{ExitReport, RecordOptions, record};
use trace_store::TraceReader;

use crate::answer_file::{self, JsonArguments};
use crate::exit;
use crate::record::{code_of, options_of};
use crate::settings::Settings;

const EXAMPLES: &str = "\
Examples:
  retrovane live -- ./server                         a program that may call rv_checkpoint()
  retrovane live --checkpoint-every 1s -- ./server   with a past of its own
  retrovane live --checkpoints fork -- ./server      each checkpoint is a copy of the process
  retrovane live --log-max 256M --on-crash save -- ./server
                                                     a flight recorder
  retrovane live --checkpoint-every 1s --on-crash rollback:9 -- ./server
                                                     survives requests that crash it
  retrovane live --checkpoint-every 1s --on-crash rollback:9 --recover pad -- ./server
                                                     the same, by longer allocations only
  retrovane live --files snapshot -- ./server        rollbacks restore files as well
  retrovane live --attach 4711                       a process that runs already
  retrovane ctl 4711 detach                          which goes on without us
  retrovane ctl server list                          from another terminal
  retrovane ctl server rollback 3

Ends with the program's own exit code; with --attach, which is not told of it in all cases,
with 0 if that is not known. Ctrl-C lets an attached program go.";

/// Run a program that can go back in time, or let one that runs already.
///
/// Its recent past is kept in memory: the log of all that came into it, and
/// checkpoints (see retrovane.h, `--checkpoint-every`, and `retrovane ctl`).
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LiveArguments {
    /// What `retrovane ctl` calls the session [default: the program's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Take a checkpoint of each process so often, as 500ms, 2s, 1m
    #[arg(long, value_name = "T", value_parser = duration)]
    checkpoint_every: Option<Duration>,
    /// Keep at most so many of these: dense near the present, sparse long ago
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = at_least_one)]
    keep: usize,
    /// Most memory for checkpoints of all processes, as 500M, 2G
    #[arg(long, value_name = "BYTES", value_parser = limit)]
    memory_max: Option<u64>,
    /// How checkpoints after the first are made
    #[arg(long, value_enum, value_name = "WAY", default_value_t)]
    checkpoints: Checkpoints,
    /// Most memory for the log: what is older falls off
    ///
    /// The log is kept from a checkpoint on, which the recorder takes by itself whenever the
    /// log has grown by half of that: a trace that is saved begins there. A process that
    /// shares memory with others cannot be saved so, which is said.
    #[arg(long, value_name = "BYTES", value_parser = limit)]
    log_max: Option<u64>,
    /// What is done where the program would die of a signal
    ///
    /// die: it dies. hold: it stands still, and waits for `retrovane ctl`. save: the past
    /// is saved as a trace, then it dies. save:TERM,INT: also where somebody sends one of these
    /// signals. rollback:N: it goes back to its last checkpoint and on, N times at most;
    /// `--recover` says how.
    #[arg(long, value_name = "WHAT", value_parser = on_crash, default_value = "die")]
    on_crash: AtCrash,
    /// How a program goes on after `--on-crash rollback:N`
    #[arg(long, value_enum, value_name = "WAY", default_value_t)]
    recover: RecoverWay,
    /// What a rollback does with regular files that were changed since the checkpoint
    #[arg(long, value_enum, default_value_t)]
    files: Files,
    /// What a rollback does with processes that share memory
    #[arg(long, value_enum, default_value_t)]
    shared_memory: SharedMemory,
    /// What a rollback does with processes that were made since the checkpoint
    #[arg(long, value_enum, default_value_t)]
    children: Children,
    /// Where `--on-crash save` puts the trace [default: NAME-crash-PID in RETROVANE_HOME]
    #[arg(long, value_name = "DIR")]
    crash_dir: Option<PathBuf>,
    /// Take over this process, with all of its threads, instead of starting a program
    ///
    /// Nothing is restarted. The log begins there, with a checkpoint. Processes of one's own
    /// can be taken over where /proc/sys/kernel/yama/ptrace_scope is 0, all by root.
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "seccomp"])]
    attach: Option<i32>,
    /// Intercept system calls by seccomp instead of syscall user dispatch
    #[arg(long)]
    seccomp: bool,
    #[command(flatten)]
    json: JsonArguments,
    /// The program and its arguments
    #[arg(required_unless_present = "attach", trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// How checkpoints after the first are made.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Checkpoints {
    /// By whichever costs less
    #[default]
    Auto,
    /// By a fork of the process, as the first
    Fork,
    /// By saving the pages written since the one before, where that is possible
    Pages,
}

/// What is different when a program goes on that would have died.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum RecoverWay {
    /// Of those below one after the other; then the same at the checkpoint before
    #[default]
    Auto,
    /// Nothing
    Same,
    /// Each allocation is longer, so that what is written behind its end does no harm
    Pad,
    /// Allocations are filled with zeros
    Zero,
    /// What is freed is kept for some time, and what is freed twice is freed once
    KeepFreed,
    /// What it read last is dropped; a connection ends there
    Drop,
    /// All that it read since the checkpoint is dropped
    DropAll,
}

/// What becomes of changes to files of a dropped future.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Files {
    /// Their content and names stay; offsets return
    #[default]
    Keep,
    /// They are as they were: what is overwritten, cut or removed is kept until then
    Snapshot,
}

/// Which processes a checkpoint is of.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum SharedMemory {
    /// All that share memory take checkpoints and go back together
    #[default]
    Together,
    /// Each is alone; what is in shared memory stays as it is
    Keep,
}

impl From<Checkpoints> for CheckpointWay {
    fn from(way: Checkpoints) -> CheckpointWay {
        match way {
            Checkpoints::Auto => CheckpointWay::Auto,
            Checkpoints::Fork => CheckpointWay::Fork,
            Checkpoints::Pages => CheckpointWay::Pages,
        }
    }
}

impl From<RecoverWay> for Recover {
    fn from(way: RecoverWay) -> Recover {
        match way {
            RecoverWay::Auto => Recover::Auto,
            RecoverWay::Same => Recover::Same,
            RecoverWay::Pad => Recover::Pad,
            RecoverWay::Zero => Recover::Zero,
            RecoverWay::KeepFreed => Recover::KeepFreed,
            RecoverWay::Drop => Recover::Drop,
            RecoverWay::DropAll => Recover::DropAll,
        }
    }
}

/// What becomes of processes of a dropped future.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Children {
    /// They go on by themselves
    #[default]
    Keep,
    /// They are killed
    Kill,
}

/// What is done at a crash, and how often the program goes back instead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct AtCrash {
    what: OnCrash,
    recoveries_max: u32,
    /// Other signals that the past is saved at, a bit each.
    saved_signals: u64,
}

fn on_crash(text: &str) -> Result<AtCrash, String> {
    let only = |what: OnCrash| AtCrash { what, ..AtCrash::default() };
    match text.split_once(':') {
        None if text == "die" => Ok(only(OnCrash::Die)),
        None if text == "hold" => Ok(only(OnCrash::Hold)),
        None if text == "save" => Ok(only(OnCrash::Save)),
        Some(("save", names)) => {
            let saved_signals =
                names.split(',').try_fold(0, |all, name| signal(name).map(|one| all | 1 << (one - 1)))?;
            Ok(AtCrash { saved_signals, ..only(OnCrash::Save) })
        }
        Some(("rollback", count)) => match count.parse() {
            Ok(0) => Err("a program that goes back 0 times dies: say `die`".to_owned()),
            Ok(recoveries_max) => Ok(AtCrash { recoveries_max, ..only(OnCrash::Rollback) }),
            Err(_) => Err(format!("`{count}` is no number of times")),
        },
        _ => Err("there are die, hold, save, save:SIGNALS, and rollback:N".to_owned()),
    }
}

/// A signal that ends a process and can be caught, by its name.
fn signal(name: &str) -> Result<u32, String> {
    const NAMES: [(&str, u32); 9] = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ABRT", 6),
        ("USR1", 10),
        ("USR2", 12),
        ("PIPE", 13),
        ("ALRM", 14),
        ("TERM", 15),
    ];
    let short = name.strip_prefix("SIG").unwrap_or(name);
    let found = NAMES.iter().find(|(known, _)| *known == short).map(|(_, number)| *number);
    found.ok_or_else(|| {
        let known: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
        format!("`{name}` is no signal that can be waited for: there are {}", known.join(", "))
    })
}

/// A time with its unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| format!("`{text}` is no time: try 500ms, 2s, 1m"))?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" | "" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(format!("`{unit}` is no unit of time: there are us, ms, s, m, h")),
    };
    if !(1e-3..1e6).contains(&seconds) {
        return Err("a time between 1 ms and ten days is wanted".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("one at least is kept: without `--checkpoint-every` none is taken by time".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err(format!("`{text}` is no number")),
    }
}

/// A limit of memory in which something has room.
fn limit(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 256 << 10;
    let bytes = bytes(text)?;
    if bytes < LEAST { Err(format!("{bytes} bytes are too few: 256K at least")) } else { Ok(bytes) }
}

/// A number of bytes, with a unit or without.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is no number of bytes: try 500M, 2G"))?;
    let shift = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "k" | "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("`{unit}` is no unit of bytes: there are K, M, G, T")),
    };
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too much"))
}

/// Where a home keeps the sockets and files of its live sessions.
pub fn sessions_dir(home: &Path) -> PathBuf {
    home.join("live")
}

impl LiveArguments {
    /// Those of a session that a debugger looks at.
    pub fn for_debugger(
        checkpoint_every: Option<Duration>,
        seccomp: bool,
        attach: Option<i32>,
        command: Vec<OsString>,
    ) -> LiveArguments {
        LiveArguments {
            name: None,
            checkpoint_every,
            keep: 16,
            memory_max: None,
            checkpoints: Checkpoints::default(),
            log_max: None,
            on_crash: AtCrash::default(),
            recover: RecoverWay::Auto,
            files: Files::Keep,
            shared_memory: SharedMemory::Together,
            children: Children::Keep,
            crash_dir: None,
            attach,
            seccomp,
            json: JsonArguments::default(),
            command,
        }
    }
}

/// The command line of a process; its number where that is not known.
fn command_of(pid: i32) -> Vec<OsString> {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = text.strip_suffix(b"\0").unwrap_or(&text).split(|byte| *byte == 0);
    let mut command: Vec<OsString> = words.map(|word| OsString::from_vec(word.to_vec())).collect();
    if command[0].is_empty() {
        command[0] = format!("process{pid}").into();
    }
    command
}

/// Where a session keeps its files, and its socket.
fn places(home: &Path, name: &str) -> Result<(PathBuf, PathBuf), String> {
    let sessions = sessions_dir(home);
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&sessions);
    if let Err(error) = made {
        return Err(format!("cannot make {}: {error}", sessions.display()));
    }
    let socket = sessions.join(format!("{name}.sock"));
    if name.len() > 75 {
        return Err(format!("{name} is too long for the name of a session: give a shorter one (--name)"));
    }
    Ok((sessions.join(name), socket))
}

/// Runs the session, and ends as the program ended.
pub fn run(arguments: LiveArguments, settings: &Settings) -> ExitCode {
    run_session(arguments, None, None, settings)
}

/// The same, with who debugs the first process, and a folder that goes when it ends.
pub fn run_session(
    arguments: LiveArguments,
    debugger: Option<(ServeDebugger, u32)>,
    folder: Option<&Path>,
    settings: &Settings,
) -> ExitCode {
    let home = match arguments.json.open().and_then(|()| settings.home_to_write()) {
        Ok(home) => home,
        Err(error) => return exit::failure(error.code(), &error),
    };
    let mut command = match arguments.attach {
        Some(pid) => command_of(pid).into_iter(),
        None => arguments.command.into_iter(),
    };
    let (debugger, debugged) = debugger.map_or((None, 0), |(serve, which)| (Some(serve), which));
    let Some(program) = command.next() else { return exit::failure(exit::USAGE, &"no program given") };
    let base = Path::new(&program).file_name().unwrap_or(&program).to_string_lossy().into_owned();
    let name = arguments.name.unwrap_or(base);
    if name.is_empty() || name.contains('/') || name.parse::<u64>().is_ok() {
        return exit::failure(exit::USAGE, &format!("`{name}` cannot be the name of a session"));
    }
    let own = std::process::id();
    let (trace_dir, socket) = match places(&home, &format!("{name}-{own}")) {
        Ok(places) => places,
        Err(error) => return exit::failure(exit::FAILED, &error),
    };
    let crash_dir = arguments.crash_dir.unwrap_or_else(|| home.join(format!("{name}-crash-{own}")));
    let crash_dir = std::path::absolute(&crash_dir).unwrap_or(crash_dir);
    let rest: Vec<OsString> = command.collect();
    let options = RecordOptions {
        running: arguments.attach,
        interception: arguments.seccomp.then_some(Interception::Seccomp),
        // Breakpoints and rewritten code do not mix.
        rewriting_off: debugger.is_some(),
        live: Some(LiveOptions {
            socket,
            checkpoint_every: arguments.checkpoint_every,
            keep: arguments.keep,
            log_max_bytes: arguments.log_max,
            memory_max_bytes: arguments.memory_max,
            checkpoint_way: arguments.checkpoints.into(),
            snapshots_files: matches!(arguments.files, Files::Snapshot),
            keeps_shared_memory: matches!(arguments.shared_memory, SharedMemory::Keep),
            on_crash: arguments.on_crash.what,
            recoveries_max: arguments.on_crash.recoveries_max,
            saved_signals: arguments.on_crash.saved_signals,
            recover: arguments.recover.into(),
            kills_children: matches!(arguments.children, Children::Kill),
            crash_dir: crash_dir.clone(),
            debugger,
            debugged,
        }),
        outlives_kills: false,
        quiet: settings.quiet,
        ..options_of(&program, &rest, &home, &trace_dir)
    };
    let outcome = record(options);
    let _ = fs::remove_dir_all(&trace_dir); // what stays of it, nobody needs
    let _ = folder.map(fs::remove_dir_all);
    if let (Ok(outcome), true) = (&outcome, arguments.json.is_given()) {
        answer_file::write(&session_object(&name, &crash_dir, outcome.status));
    }
    let ended = outcome.map(|outcome| end_as(outcome.status, arguments.attach.is_some()));
    ended.unwrap_or_else(|error| exit::failure(code_of(&error), &error))
}

/// What became of a session, for programs.
fn session_object(name: &str, crash_dir: &Path, status: ExitReport) -> serde_json::Value {
    let saved = TraceReader::open(crash_dir).ok().map(|_| crash_dir);
    serde_json::json!({
        "session": name, "trace": saved, "end": exit::end_object(status), "code": exit::code_of_program(status),
    })
}

/// Ends as the program did.
fn end_as(status: ExitReport, attached: bool) -> ExitCode {
    if let (ExitReport::Killed(signal), false) = (status, attached) {
        injector::die_by_signal(signal);
    }
    exit::of_program(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_bytes_have_units() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert!(duration("5 parsecs").is_err() && duration("").is_err() && duration("0s").is_err());
        assert_eq!(bytes("2G"), Ok(2 << 30));
        assert_eq!(bytes("64KiB"), Ok(65536));
        assert!(bytes("many").is_err() && bytes("99999999999T").is_err());
    }

    #[test]
    fn limits_that_leave_no_room_are_refused() {
        assert_eq!(limit("256K"), Ok(256 << 10));
        assert!(limit("0").is_err() && limit("5").is_err() && limit("many").is_err());
        assert_eq!(at_least_one("3"), Ok(3));
        assert!(at_least_one("0").is_err() && at_least_one("-1").is_err());
        assert!(on_crash("rollback:0").is_err() && on_crash("rollback:1").is_ok());
    }

    #[test]
    fn signals_can_be_chosen_at_which_the_past_is_saved() {
        let saved = |text: &str| on_crash(text).map(|at| (at.what, at.saved_signals));
        assert_eq!(saved("save"), Ok((OnCrash::Save, 0)));
        assert_eq!(saved("save:TERM,SIGINT"), Ok((OnCrash::Save, 1 << 14 | 1 << 1)));
        assert!(saved("save:KILL").is_err() && saved("save:").is_err() && saved("die:TERM").is_err());
    }
}
