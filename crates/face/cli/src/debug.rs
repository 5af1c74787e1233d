//! `retrovane debug`: gdb on a live program with its past.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Args;
use gdb_server::{Connection, Farewell, serve};
use recorder::debuggee::Debuggee;
use recorder::live::ServeDebugger;
use timeline::{Reason, Timeline};

use crate::exit::{self, CommandError};
use crate::gdb::{self, Gdb, doing};
use crate::live::{self, LiveArguments};
use crate::settings::Settings;

const EXAMPLES: &str = "\
Examples:
  retrovane debug -- ./server --port 8080      gdb at its first instruction; `continue` runs it
  retrovane debug --input data.txt -- ./filter
  retrovane debug --batch -ex 'break parse' -ex continue -ex backtrace -- ./program
  retrovane debug --attach 4711                a process that runs already; its past begins now
  retrovane debug --child 1 -- make test       the first process that it makes
  retrovane debug --server /tmp/socket -- ./program      for another debugger

In gdb: reverse-continue and its like lead into the program's past, `live` back to the
present; checkpoint, rollback N (live from there), info checkpoints, when, last-write.
At the present `set var x = 5`, `print $rax = 0`, `return` and `jump` change the program.
Ctrl-C stops the program. It ends with gdb, unless gdb detaches.";

/// Debug a live program, with its past, under gdb.
///
/// The program runs as a live session. At each stop all that it has done so far can be
/// gone back into; going forward leads to the present again, and on from there, with its
/// connections intact.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DebugArguments {
    /// The program's standard input [default: none, which leaves the terminal to gdb; with
    /// --batch and --server: ours]
    #[arg(long, value_name = "FILE", conflicts_with = "attach")]
    input: Option<PathBuf>,
    /// gdb takes no commands but those of -ex, and ends
    #[arg(long)]
    batch: bool,
    /// A command for gdb; may be given several times
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    ex: Vec<String>,
    /// Serve another debugger at this Unix socket, and open none
    #[arg(long, value_name = "PATH", conflicts_with_all = ["batch", "ex"])]
    server: Option<PathBuf>,
    #[command(flatten)]
    debugged: Debugged,
}

/// What is debugged, and how it is run.
#[derive(Args, Debug)]
struct Debugged {
    /// Take a checkpoint so often while the program runs, as 500ms, 2s
    #[arg(long, value_name = "T", value_parser = live::duration)]
    checkpoint_every: Option<Duration>,
    /// Debug the Nth process that is made, instead of the first one, from its first instruction on
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    child: u32,
    /// Debug a process that runs already, from here on; when gdb ends, it goes on alone
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "child"])]
    attach: Option<i32>,
    /// Intercept system calls by seccomp instead of syscall user dispatch
    #[arg(long)]
    seccomp: bool,
    /// The program and its arguments
    #[arg(required_unless_present = "attach", trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

impl Debugged {
    /// Runs it under whoever debugs it; `folder` goes when it ends.
    fn run(self, serve: ServeDebugger, folder: Option<&Path>, settings: &Settings) -> ExitCode {
        let child = self.child;
        let live =
            LiveArguments::for_debugger(self.checkpoint_every, self.seccomp, self.attach, self.command);
        live::run_session(live, Some((serve, child)), folder, settings)
    }
}

/// Run a program for gdb (started by `debug`).
#[derive(Args, Debug)]
#[command(hide = true, after_help = "Example:\n  retrovane serve-live --folder FOLDER -- ./program")]
pub struct ServeLiveArguments {
    /// A private folder: the socket is made in it, and it is removed at the end
    #[arg(long)]
    folder: PathBuf,
    #[command(flatten)]
    debugged: Debugged,
}

/// Opens gdb on the program, or serves another debugger.
pub fn run(arguments: DebugArguments, settings: &Settings) -> ExitCode {
    if let Some(path) = arguments.server {
        let quiet = settings.quiet;
        let serve = move |debuggee: Debuggee| {
            serve_debuggee(
                debuggee,
                &path,
                || {
                    if !quiet {
                        diagnostics::tell!(
                            "retrovane: waiting for a debugger; in gdb: target remote {}",
                            path.display()
                        );
                    }
                },
                || false,
            );
        };
        return arguments.debugged.run(Box::new(serve), None, settings);
    }
    exit::of_command(open(&arguments, settings))
}

/// Starts the program under its server, and becomes gdb.
fn open(arguments: &DebugArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let own = std::env::current_exe().map_err(doing("find retrovane itself"))?;
    let path = match &arguments.input {
        None if arguments.batch => None,
        None => Some(PathBuf::from("/dev/null")),
        Some(path) => Some(path.clone()),
    };
    let open = |path: PathBuf| File::open(&path).map_err(|source| CommandError::Read { path, source });
    let input = path.map(open).transpose()?;
    // A rollback takes the program's offsets back, and gdb and others write to the same file.
    injector::append_from_now_on(std::io::stdout().as_fd());
    injector::append_from_now_on(std::io::stderr().as_fd());
    let gdb = Gdb {
        batch: arguments.batch,
        ex: &arguments.ex,
        root: Some("/".into()),
        trusts_files: true,
        recording: None,
    };
    gdb.open(&|folder| {
        let mut command = Command::new(&own);
        command.arg("serve-live").arg("--folder").arg(folder);
        if let Ok(home) = settings.home() {
            command.arg("--home").arg(home);
        }
        let debugged = &arguments.debugged;
        if let Some(every) = debugged.checkpoint_every {
            command.arg("--checkpoint-every").arg(format!("{}ms", every.as_secs_f64() * 1e3));
        }
        if debugged.child != 0 {
            command.arg("--child").arg(debugged.child.to_string());
        }
        if debugged.seccomp {
            command.arg("--seccomp");
        }
        if let Some(pid) = debugged.attach {
            command.arg("--attach").arg(pid.to_string());
        }
        command.arg("--").args(&debugged.command).stdin(match &input {
            None => Stdio::inherit(),
            Some(file) => Stdio::from(file.try_clone().map_err(doing("pass the input on"))?),
        });
        Ok(command)
    })
}

/// `serve-live`.
pub fn serve_one(arguments: ServeLiveArguments, settings: &Settings) -> ExitCode {
    let parent = parent_id();
    let folder = arguments.folder;
    let socket = folder.join(gdb::SOCKET);
    let serve = move |debuggee: Debuggee| {
        serve_debuggee(debuggee, &socket, || {}, move || parent_id() != parent);
    };
    let code = arguments.debugged.run(Box::new(serve), Some(&folder), settings);
    // It may not have begun.
    let _ = std::fs::remove_dir_all(&folder);
    code
}

/// The debugger is gone: so is the program, unless it ran before.
fn end(debuggee: &Debuggee) {
    if debuggee.ran_already() {
        // The session ends by it as by Ctrl-C, which lets the program go.
        let _ = nix::sys::signal::kill(nix::unistd::getpid(), nix::sys::signal::Signal::SIGTERM);
    } else {
        debuggee.kill();
    }
}

/// Serves one debugger.
fn serve_debuggee(debuggee: Debuggee, socket: &Path, listening: impl Fn(), nobody_comes: impl Fn() -> bool) {
    let killer = debuggee.another();
    // The debugger waits for an answer; a process may be made only after a long time.
    while !debuggee.is_made() && !debuggee.is_gone() {
        if nobody_comes() {
            return end(&killer);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    if !debuggee.is_made() {
        let text = "the first process has ended, and so many others were not made: see `retrovane info` of a recording";
        let error = CommandError::Debugger(text.to_owned());
        exit::failure(error.code(), &error);
        return;
    }
    let served = gdb::listen(socket).and_then(|listener| {
        listening();
        let stream = gdb::accept(&listener, || nobody_comes() || killer.is_gone())?;
        let _ = std::fs::remove_file(socket);
        let failed = |error: String| CommandError::Debugger(error);
        let Some(stream) = stream else {
            if debuggee.ran_already() {
                Timeline::of_live(debuggee).map_err(|error| failed(error.to_string()))?.detach();
                return Ok(Farewell::Detached);
            }
            return Ok(Farewell::Left);
        };
        let timeline = Timeline::of_live(debuggee).map_err(|error| failed(error.to_string()))?;
        serve(timeline, &Connection::new(stream), Reason::Stepped).map_err(|error| failed(error.to_string()))
    });
    match served {
        Ok(Farewell::Detached) => {}
        Ok(Farewell::Left) => end(&killer),
        Err(error) => {
            exit::failure(error.code(), &error);
            end(&killer);
        }
    }
}
