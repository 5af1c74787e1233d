//! gdb on a recording: what `replay` opens on a terminal, and the server behind it.

use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Args;
use gdb_server::{Connection, serve};
use object::read::elf::{Dyn, FileHeader};
use replayer::ReplayOptions;
use timeline::{Position, Reason, Timeline};
use trace_store::{TraceReader, hash_hex};

use crate::crash_place::CrashPlace;
use crate::exit::{self, CommandError};
use crate::keyframe::Use;
use crate::policy::Outputs;
use crate::settings::Settings;
use crate::sources;

/// The commands that gdb gets.
const COMMANDS: &str = include_str!("../../../../gdb/retrovane.py");
pub const SOCKET: &str = "socket";
const ROOT: &str = "root";

/// Options of `replay` that concern gdb.
#[derive(Args, Debug, Default)]
pub struct GdbArguments {
    /// Open gdb, also where there is no terminal
    #[arg(long, help_heading = "gdb")]
    gdb: bool,
    /// Replay to the end without gdb, also on a terminal
    #[arg(long, conflicts_with_all = ["gdb", "batch", "ex", "at", "keyframes", "server"], help_heading = "gdb")]
    run: bool,
    /// Begin at the start, the end, the crash, or at a position (EVENT or EVENT+STEPS)
    #[arg(long, value_name = "start|end|crash|POSITION", help_heading = "gdb")]
    at: Option<String>,
    /// Write a keyframe whenever the program has run for so long, and near its end; or use none
    /// of those that are there (see `retrovane keyframe`)
    #[arg(long, value_name = "TIME|off", help_heading = "gdb")]
    keyframes: Option<Use>,
    /// gdb takes no commands but those of -ex, and ends
    #[arg(long, help_heading = "gdb")]
    batch: bool,
    /// A command for gdb; may be given several times
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true, help_heading = "gdb")]
    ex: Vec<String>,
    /// Serve another debugger at this Unix socket, and open none
    #[arg(long, value_name = "PATH", help_heading = "gdb")]
    server: Option<PathBuf>,
}

impl GdbArguments {
    /// gdb at a position.
    pub fn beginning(position: String, batch: bool, ex: Vec<String>) -> GdbArguments {
        GdbArguments { gdb: true, at: Some(position), batch, ex, ..GdbArguments::default() }
    }

    /// True if gdb, or another debugger, is wanted rather than a plain replay, which is what a program asks for.
    pub fn are_wanted(&self, by_program: bool) -> bool {
        let asked = self.gdb
            || self.batch
            || self.at.is_some()
            || self.keyframes.is_some()
            || !self.ex.is_empty()
            || self.server.is_some();
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        asked || (terminal && !self.run && !by_program)
    }
}

/// Serve gdb (started by `replay`).
#[derive(Args, Debug)]
#[command(hide = true, after_help = "Example:\n  retrovane serve-gdb DIRECTORY --folder FOLDER")]
pub struct ServeArguments {
    trace: PathBuf,
    /// A private folder: the socket is made in it, and it is removed at the end
    #[arg(long)]
    folder: PathBuf,
    #[arg(long)]
    pid: Option<i32>,
    #[arg(long)]
    at: Option<String>,
    #[arg(long)]
    keyframes: Option<Use>,
}

/// Where a debugger begins.
struct Beginning<'a> {
    trace_dir: &'a Path,
    pid: Option<i32>,
    at: Option<&'a str>,
    keyframes: Use,
}

/// Opens gdb on a trace, or serves another debugger. What the program wrote goes to the outputs.
pub fn run(
    arguments: &GdbArguments,
    trace_dir: &Path,
    pid: Option<i32>,
    outputs: Outputs,
    settings: &Settings,
) -> ExitCode {
    let at = arguments.at.as_deref();
    let keyframes = arguments.keyframes.unwrap_or_default();
    let result = match &arguments.server {
        Some(_) if outputs.are_some() => {
            Err(CommandError::Usage("--server shows outputs as its own: redirect those".to_owned()))
        }
        Some(path) => serve_at(path, &Beginning { trace_dir, pid, at, keyframes }, settings),
        None => open(arguments, trace_dir, pid, &outputs, settings),
    };
    result.unwrap_or_else(|error| exit::failure(error.code(), &error))
}

pub fn doing(what: &'static str) -> impl Fn(io::Error) -> CommandError {
    move |source| CommandError::Try { doing: what, source }
}

/// Starts the server and becomes gdb.
fn open(
    arguments: &GdbArguments,
    trace_dir: &Path,
    pid: Option<i32>,
    outputs: &Outputs,
    settings: &Settings,
) -> Result<ExitCode, CommandError> {
    let trace = TraceReader::open(trace_dir)?;
    trace.verify_files(settings.home().ok().as_deref())?;
    let mut ex = arguments.ex.clone();
    if let Some(cut) = trace.cut() {
        diagnostics::tell!("retrovane: {}", exit::cut_in_words(cut));
        if arguments.batch {
            ex.push(format!("quit {}", exit::CUT));
        }
    }
    let trusts_files = !settings.sandbox.is_wanted_for(&trace);
    let recording = Some((trace_dir, settings));
    let gdb = Gdb { batch: arguments.batch, ex: &ex, root: None, trusts_files, recording };
    gdb.open(&|folder| {
        prepare_folder(folder, &trace)?;
        let command = server_command(arguments, trace_dir, pid, folder, settings)?;
        outputs.given_to(command).map_err(doing("open an output"))
    })
}

/// gdb as it is opened on a server of ours.
pub struct Gdb<'a> {
    pub batch: bool,
    pub ex: &'a [String],
    /// Where the program's files are; `None`: in the folder.
    pub root: Option<PathBuf>,
    /// Whether scripts that the program's files bring may run, where the user lets gdb do so.
    pub trusts_files: bool,
    /// What is debugged, for commands that open another process of it; `None`: a live program.
    pub recording: Option<(&'a Path, &'a Settings)>,
}

impl Gdb<'_> {
    /// Starts the server by the command that is made for a private folder, in which it
    /// makes its socket, and becomes gdb.
    pub fn open(
        &self,
        command_for: &dyn Fn(&Path) -> Result<Command, CommandError>,
    ) -> Result<ExitCode, CommandError> {
        if Command::new("gdb").arg("--version").output().is_err() {
            let text = "gdb is not installed: install it (Debian: apt-get install gdb)".to_owned();
            return Err(CommandError::Usage(text));
        }
        let folder = private_folder()?;
        let prepared = std::fs::write(folder.join("retrovane.py"), COMMANDS)
            .map_err(doing("fill the private folder"))
            .and_then(|()| command_for(&folder))
            .and_then(|mut command| {
                // The terminal's interrupt key is gdb's.
                command.process_group(0).spawn().map_err(doing("start the server"))
            });
        let mut server = match prepared {
            Ok(server) => server,
            Err(error) => {
                let _ = std::fs::remove_dir_all(&folder);
                return Err(error);
            }
        };
        let socket = folder.join(SOCKET);
        while !socket.exists() {
            if let Some(status) = server.try_wait().map_err(doing("wait for the server"))? {
                // It has said why.
                let _ = std::fs::remove_dir_all(&folder);
                return Ok(ExitCode::from(status.code().map_or(exit::FAILED, |code| code as u8)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let error = self.command(&folder).exec();
        let _ = server.kill();
        let _ = std::fs::remove_dir_all(&folder);
        Err(doing("start gdb")(error))
    }

    fn command(&self, folder: &Path) -> Command {
        let mut gdb = Command::new("gdb");
        gdb.arg("-q");
        if let (Some((trace_dir, settings)), Ok(own)) = (self.recording, std::env::current_exe()) {
            settings.pass_on(&mut gdb);
            gdb.env("RETROVANE_OWN", own).env("RETROVANE_TRACE", trace_dir);
            if let Ok(home) = settings.home() {
                gdb.env("RETROVANE_HOME", home);
            }
        }
        if !self.batch && io::stdin().is_terminal() {
            gdb.env("RETROVANE_GREETS", "1");
        }
        if self.batch {
            gdb.arg("-batch");
        }
        for setting in [
            "set debuginfod enabled off",
            "set remotetimeout 100000",
            "set confirm off",
            "set breakpoint pending on",
        ] {
            gdb.args(["-iex", setting]);
        }
        for setting in self.recording.iter().flat_map(|(trace_dir, _)| source_settings(trace_dir, folder)) {
            gdb.args(["-iex", &setting]);
        }
        if !self.trusts_files {
            // What gdb begins with: files of its own installation.
            gdb.args(["-iex", "set auto-load safe-path $debugdir:$datadir/auto-load"]);
        }
        let root = self.root.clone().unwrap_or_else(|| folder.join(ROOT));
        gdb.arg("-iex").arg(format!("set sysroot {}", root.display()));
        gdb.arg("-iex").arg(format!("target remote {}", folder.join(SOCKET).display()));
        gdb.arg("-x").arg(folder.join("retrovane.py"));
        for command in self.ex {
            // There is no prompt between them, at which it would notice by itself.
            gdb.args(["-ex", command, "-ex", "python calls.done()"]);
        }
        gdb
    }
}

/// Settings by which gdb finds the sources that came with a trace.
fn source_settings(trace_dir: &Path, folder: &Path) -> Vec<String> {
    let trace = TraceReader::open(trace_dir);
    trace.map_or_else(|_| Vec::new(), |trace| sources::for_gdb(&trace, folder))
}

/// A folder for one debugger, which only its user sees.
pub fn private_folder() -> Result<PathBuf, CommandError> {
    let parent = std::env::temp_dir();
    for number in 0..1000 {
        let folder = parent.join(format!("retrovane-gdb-{}-{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(doing("make a private folder")(error)),
        }
    }
    Err(CommandError::Usage("no private folder can be made in TMPDIR".to_owned()))
}

/// Fills the folder with what gdb reads: the recorded files under the paths that they had.
fn prepare_folder(folder: &Path, trace: &TraceReader) -> Result<(), CommandError> {
    let failed = doing("fill the private folder");
    let root = folder.join(ROOT);
    std::fs::create_dir(&root).map_err(&failed)?;
    let files_dir = trace.files_dir().canonicalize().unwrap_or_else(|_| trace.files_dir());
    for kept in trace.files() {
        let path = Path::new(std::ffi::OsStr::from_bytes(&kept.file.path));
        let content = files_dir.join(hash_hex(&kept.file.hash));
        link_into(&root, path, &content);
        // Loaders name a library by its short name, programs their loader as below.
        if let (Some(name), Some(folder)) = (short_name(&content), path.parent()) {
            if name.starts_with("ld-linux") {
                link_into(&root, &Path::new("/usr/lib64").join(&name), &content);
            }
            link_into(&root, &folder.join(name), &content);
        }
    }
    // Since the folders of /usr were merged, their old names are links.
    for name in ["lib", "lib64", "bin", "sbin"] {
        let _ = symlink(format!("usr/{name}"), root.join(name));
    }
    Ok(())
}

/// Shows a kept file under a path of the program's.
fn link_into(root: &Path, path: &Path, content: &Path) {
    let Ok(relative) = path.strip_prefix("/") else { return };
    // A path from a trace stays in the folder.
    if relative.components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
        return;
    }
    let link = root.join(relative);
    if let Some(parent) = link.parent() {
        let _ = std::fs::create_dir_all(parent);
    }
    // Of two files with one path the first is shown.
    let _ = symlink(content, link);
}

/// The name by which a library is asked for (DT_SONAME).
fn short_name(content: &Path) -> Option<String> {
    const FILE_BYTES_MAX: u64 = 1 << 28;
    std::fs::metadata(content).ok().filter(|about| about.len() <= FILE_BYTES_MAX)?;
    let bytes = std::fs::read(content).ok()?;
    let bytes = &bytes[..];
    let header = object::elf::FileHeader64::<object::Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let (entries, strings) = sections.dynamic(endian, bytes).ok()??;
    let strings = sections.strings(endian, bytes, strings).ok()?;
    let entry = entries.iter().find(|entry| entry.tag32(endian) == Some(object::elf::DT_SONAME))?;
    let name = String::from_utf8(entry.string(endian, strings).ok()?.to_vec()).ok()?;
    (!name.contains('/')).then_some(name)
}

fn server_command(
    arguments: &GdbArguments,
    trace_dir: &Path,
    pid: Option<i32>,
    folder: &Path,
    settings: &Settings,
) -> Result<Command, CommandError> {
    let own = std::env::current_exe().map_err(doing("find retrovane itself"))?;
    let mut command = Command::new(own);
    settings.pass_on(&mut command);
    command.arg("serve-gdb").arg("--folder").arg(folder);
    if let Ok(home) = settings.home() {
        command.arg("--home").arg(home);
    }
    if let Some(pid) = pid {
        command.arg("--pid").arg(pid.to_string());
    }
    if let Some(at) = &arguments.at {
        command.arg("--at").arg(at);
    }
    if let Some(keyframes) = arguments.keyframes {
        command.arg("--keyframes").arg(keyframes.to_string());
    }
    command.arg("--").arg(trace_dir).stdin(std::process::Stdio::null());
    Ok(command)
}

/// `serve-gdb`.
pub fn serve_one(arguments: &ServeArguments, settings: &Settings) -> ExitCode {
    let parent = parent_id();
    let socket = arguments.folder.join(SOCKET);
    // It may be a long way to where gdb is to begin.
    let nobody_comes = move || parent_id() != parent;
    end_when(nobody_comes, &arguments.folder);
    let beginning = Beginning {
        trace_dir: &arguments.trace,
        pid: arguments.pid,
        at: arguments.at.as_deref(),
        keyframes: arguments.keyframes.unwrap_or_default(),
    };
    let result = open_timeline(&beginning, settings, &nobody_comes)
        .and_then(|opened| {
            let listener = listen(&socket)?;
            Ok(accept(&listener, nobody_comes)?.map(|stream| (opened, stream)))
        })
        .and_then(|connected| connected.map_or(Ok(()), |(opened, stream)| serve_stream(opened, stream)));
    let _ = std::fs::remove_dir_all(&arguments.folder);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // What was given up concerns nobody any more.
        Err(_) if nobody_comes() => ExitCode::SUCCESS,
        Err(error) => exit::failure(error.code(), &error),
    }
}

/// Ends the server when nobody is there any more, also if what it does for them never ends.
fn end_when(nobody_comes: impl Fn() -> bool + Send + 'static, folder: &Path) {
    /// So long it may take to end by itself.
    const WAIT_MAX: Duration = Duration::from_secs(3);
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        while !nobody_comes() {
            std::thread::sleep(Duration::from_millis(200));
        }
        std::thread::sleep(WAIT_MAX);
        let _ = std::fs::remove_dir_all(&folder);
        // What replays ends with this process.
        std::process::exit(0);
    });
}

fn serve_at(path: &Path, beginning: &Beginning, settings: &Settings) -> Result<ExitCode, CommandError> {
    let opened = open_timeline(beginning, settings, &|| false)?;
    let listener = listen(path)?;
    if !settings.quiet {
        diagnostics::tell!("retrovane: waiting for a debugger; in gdb: target remote {}", path.display());
    }
    let stream = accept(&listener, || false)?;
    let _ = std::fs::remove_file(path);
    stream.map_or(Ok(()), |stream| serve_stream(opened, stream))?;
    Ok(ExitCode::SUCCESS)
}

/// A socket that is there once it can be connected to.
pub fn listen(path: &Path) -> Result<UnixListener, CommandError> {
    let mut early = path.as_os_str().to_owned();
    early.push(".new");
    let failed = |source| CommandError::Write { path: path.to_owned(), source };
    if path.exists() {
        return Err(failed(io::ErrorKind::AlreadyExists.into()));
    }
    let listener = UnixListener::bind(&early).map_err(failed)?;
    std::fs::rename(&early, path).map_err(failed)?;
    Ok(listener)
}

/// Waits for a client; `None` if nobody will come.
pub fn accept(
    listener: &UnixListener,
    nobody_comes: impl Fn() -> bool,
) -> Result<Option<UnixStream>, CommandError> {
    let failed = doing("wait for the debugger");
    listener.set_nonblocking(true).map_err(&failed)?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(&failed)?;
                return Ok(Some(stream));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed(error)),
        }
        if nobody_comes() {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn serve_stream((timeline, reason): (Timeline, Reason), stream: UnixStream) -> Result<(), CommandError> {
    let connection = Connection::new(stream);
    serve(timeline, &connection, reason)
        .map(|_| ())
        .map_err(|error| CommandError::Debugger(error.to_string()))
}

fn crash_of(trace_dir: &Path, pid: Option<i32>) -> Result<CrashPlace, CommandError> {
    CrashPlace::of(&TraceReader::open(trace_dir)?, pid)?.ok_or_else(|| {
        CommandError::Usage(
            "no process of this trace was killed by a signal, or panicked: there is no crash".to_owned(),
        )
    })
}

/// Opens the recording and goes to where it is to begin, or less far if that is given up.
fn open_timeline(
    beginning: &Beginning,
    settings: &Settings,
    give_up: &dyn Fn() -> bool,
) -> Result<(Timeline, Reason), CommandError> {
    let Beginning { trace_dir, pid, at, keyframes } = *beginning;
    let crash = match at {
        Some("crash") => Some(crash_of(trace_dir, pid)?),
        _ => None,
    };
    let pid = crash.map_or(pid, |crash| Some(crash.pid));
    let options = ReplayOptions {
        pid,
        show_output: true,
        rewriting_off: true,
        ..settings.replay_of(trace_dir.to_owned())
    };
    let mut timeline = Timeline::open(&options, give_up)?;
    keyframes.begin(&mut timeline);
    let reason = match at {
        None | Some("start") => Reason::Begin,
        Some("end" | "crash") => match crash.and_then(|crash| crash.panic()) {
            Some(event) => {
                timeline.seek(Position { event, steps: 0 }, give_up)?;
                Reason::Stepped
            }
            None => timeline.seek_end(give_up)?,
        },
        Some(position) => {
            let target: Position = position.parse().map_err(|_| {
                CommandError::Usage(format!("--at {position}: neither start, end, crash nor a position"))
            })?;
            timeline.seek(target, give_up)?;
            Reason::Stepped
        }
    };
    Ok((timeline, reason))
}
