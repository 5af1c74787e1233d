//! `retrovane ctl`.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::exit::CommandError;
use crate::live::sessions_dir;
use crate::settings::Settings;

const EXAMPLES: &str = "\
Examples:
  retrovane ctl                      the live sessions
  retrovane ctl server list          the checkpoints of the session named server
  retrovane ctl 4711 checkpoint      take one of process 4711
  retrovane ctl server rollback 3    live from checkpoint 3 on
  retrovane ctl server replay 3      the same again from 3, then the present
  retrovane ctl server save /tmp/t   the past so far as a trace, for `retrovane replay`";

/// Talk to a live session: checkpoints, and the ways back.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CtlArguments {
    /// Name of the session, or the id of one of its processes
    session: Option<String>,
    /// One JSON object
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Take a checkpoint
    Checkpoint,
    /// Show the checkpoints
    List,
    /// Show the processes of the session, each with the number of its checkpoints
    Processes,
    /// Forget checkpoint N
    Discard { number: u64 },
    /// Go back to checkpoint N, and live on from there: what came after it is dropped
    Rollback {
        number: u64,
        /// Only say whether it could be done
        #[arg(long)]
        dry_run: bool,
        /// Refuse it if input would be lost: of connections that were accepted and closed since
        #[arg(long)]
        strict: bool,
    },
    /// Go back to checkpoint N, do the same again, and live on in the present
    Replay { number: u64 },
    /// Save the past so far as a trace
    ///
    /// Where the log's beginning has fallen off (`live --log-max`), the trace is of the process
    /// that is named, or of the first one, and begins at a checkpoint.
    Save { dir: PathBuf },
    /// Let the program go on without us
    Detach,
}

/// Nobody answers any more.
const ENDED: &str = "the session ended before it answered";

/// A socket of a session.
struct Session {
    name: String,
    path: PathBuf,
}

pub fn run(arguments: &CtlArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let sessions = find_sessions(&sessions_dir(&settings.home()?));
    let Some(wanted) = &arguments.session else {
        return list_sessions(&sessions, arguments.json);
    };
    let (session, pid) = choose(&sessions, wanted)?;
    let verb = match &arguments.verb {
        None | Some(Verb::List) => "list".to_owned(),
        Some(Verb::Checkpoint) => "checkpoint".to_owned(),
        Some(Verb::Processes) => "processes".to_owned(),
        Some(Verb::Discard { number }) => format!("discard {number}"),
        Some(Verb::Rollback { number, dry_run: true, .. }) => format!("try {number}"),
        Some(Verb::Rollback { number, strict: true, .. }) => format!("strict {number}"),
        Some(Verb::Rollback { number, .. }) => format!("rollback {number}"),
        Some(Verb::Replay { number }) => format!("replay {number}"),
        Some(Verb::Save { dir }) => {
            let dir = std::path::absolute(dir)
                .map_err(|source| CommandError::Write { path: dir.clone(), source })?;
            format!("save {}", dir.display())
        }
        Some(Verb::Detach) => "detach".to_owned(),
    };
    let tell = |progress: &str| {
        if !settings.quiet {
            diagnostics::tell!("retrovane: {progress}");
        }
    };
    let (text, error) = ask(&session.path, &format!("{} {verb}\n", pid.unwrap_or(0)), &tell).map_err(
        |source| match source.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                CommandError::Live(ENDED.to_owned())
            }
            _ => CommandError::Try { doing: "talk to the session", source },
        },
    )?;
    if arguments.json && error.is_none() {
        let said: Vec<&str> = text.lines().collect();
        let asked = verb.split(' ').next();
        writeln!(std::io::stdout(), "{}", json!({"session": session.name, "asked": asked, "said": said}))?;
    } else if !arguments.json {
        std::io::stdout().write_all(text.as_bytes())?;
    }
    match error {
        None => Ok(ExitCode::SUCCESS),
        Some(text) => Err(CommandError::Live(text)),
    }
}

fn find_sessions(dir: &Path) -> Vec<Session> {
    let mut sessions: Vec<Session> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_str()?.strip_suffix(".sock")?.to_owned();
            Some(Session { name, path })
        })
        .collect();
    sessions.sort_by(|one, other| one.name.cmp(&other.name));
    sessions
}

fn processes(session: &Session) -> Option<Vec<(i32, String)>> {
    let (text, error) = ask(&session.path, "0 processes\n", &|_| {}).ok()?;
    let parse = |line: &str| {
        let (pid, count) = line.split_once(' ')?;
        Some((pid.parse().ok()?, count.to_owned()))
    };
    error.is_none().then(|| text.lines().filter_map(parse).collect())
}

fn list_sessions(sessions: &[Session], as_json: bool) -> Result<ExitCode, CommandError> {
    let mut out = std::io::stdout().lock();
    if as_json {
        let about = |session: &Session| {
            let process = |(pid, count): (i32, String)| json!({"process": pid, "checkpoints": count.parse::<u64>().ok()});
            let processes: Vec<_> = processes(session)?.into_iter().map(process).collect();
            Some(json!({"session": session.name, "processes": processes}))
        };
        let found: Vec<_> = sessions.iter().filter_map(about).collect();
        writeln!(out, "{}", json!({ "sessions": found }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for session in sessions {
        let Some(processes) = processes(session) else { continue };
        writeln!(out, "{}", session.name)?;
        for (pid, count) in processes {
            writeln!(out, "  process {pid}: {count} checkpoints")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The session that is meant, and the process if one was named.
fn choose<'all>(
    sessions: &'all [Session],
    wanted: &str,
) -> Result<(&'all Session, Option<i32>), CommandError> {
    if let Ok(pid) = wanted.parse::<i32>() {
        let has = |session: &&Session| {
            processes(session).is_some_and(|all| all.iter().any(|(other, _)| *other == pid))
        };
        let found = sessions.iter().find(has);
        return found.map(|session| (session, Some(pid))).ok_or_else(|| {
            CommandError::Usage(format!("no live session has a process {pid}: `retrovane ctl` lists them"))
        });
    }
    let base = |session: &Session| session.name.rsplit_once('-').map(|(base, _)| base.to_owned());
    let matching: Vec<&Session> = sessions
        .iter()
        .filter(|session| session.name == wanted || base(session).as_deref() == Some(wanted))
        .filter(|session| processes(session).is_some())
        .collect();
    match matching[..] {
        [] => Err(CommandError::Usage(format!(
            "there is no live session `{wanted}`: `retrovane ctl` lists them"
        ))),
        [session] => Ok((session, None)),
        _ => {
            let names: Vec<&str> = matching.iter().map(|session| session.name.as_str()).collect();
            Err(CommandError::Usage(format!("several sessions have that name: {}", names.join(", "))))
        }
    }
}

/// Sends a line; gives the answer, and the error in it. Until it comes, `tell` is told how far
/// it is.
fn ask(path: &Path, line: &str, tell: &dyn Fn(&str)) -> std::io::Result<(String, Option<String>)> {
    let mut stream = recorder::sockets::connect(path)?;
    stream.write_all(line.as_bytes())?;
    let mut text = String::new();
    let mut error = Some(ENDED.to_owned());
    for line in BufReader::new(stream).lines() {
        let line = line?;
        if line == "ok" {
            error = None;
        } else if let Some(why) = line.strip_prefix("error: ") {
            error = Some(why.to_owned());
        } else if let Some(progress) = line.strip_prefix("progress: ") {
            tell(progress);
        } else {
            text.push_str(&line);
            text.push('\n');
        }
    }
    Ok((text, error))
}
