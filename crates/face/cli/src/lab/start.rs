//! `retrovane lab run`: the recording, and the engine beside it.

use std::fmt::Write as _;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use lab::{NodeEnd, Session, SessionEnd, Spec, StopReason};
use lane_protocol::Detection;
use nix::sys::personality::{self, Persona};
use recorder::{Beside, Companion, RecordOptions, record};
use trace_store::traces;

use crate::exit;
use crate::lab::running::{self, Answering};
use crate::lab::show::Shown;
use crate::lab::{KEPT, Kept, RunArguments, SPEC, read_json};
use crate::record::code_of;
use crate::settings::Settings;

/// A lab that has begun, and what answers for it.
type Begun = Arc<Mutex<Option<(Session, Option<Answering>)>>>;

/// A lab failed: a node did.
const NODE_FAILED: u8 = 1;

/// Reads a description; that of a run in its folder is JSON.
fn read_spec(file: &Path) -> Result<Spec, ExitCode> {
    match file.extension().is_some_and(|name| name == "json") {
        true => read_json(file).map_err(|error| exit::failure(exit::BAD_TRACE, &error)),
        false => lab::read(file).map_err(|error| exit::failure(exit::USAGE, &error)),
    }
}

/// Runs a lab; gives the folder of the run, and how to end.
pub fn run_into(arguments: &RunArguments, settings: &Settings) -> Result<(PathBuf, ExitCode), ExitCode> {
    let mut spec = read_spec(&arguments.file)?;
    spec.seed = arguments.seed.unwrap_or(spec.seed);
    let home = settings.home_to_write().map_err(|error| exit::failure(error.code(), &error))?;
    let dir = match &arguments.output {
        Some(dir) => make_dir(dir).map(|()| dir.clone()),
        None => traces::new_dir(&home.join("labs"), "lab").map_err(|error| error.to_string()),
    };
    let dir = dir.and_then(|dir| std::path::absolute(dir).map_err(|error| error.to_string()));
    let dir = dir.map_err(|error| exit::failure(exit::FAILED, &error))?;
    furnish(&dir, &spec).map_err(|error| exit::failure(exit::FAILED, &error))?;
    let end = run_in(&dir, &home, &spec, arguments.json)?;
    let code = tell(&dir, &spec, end, arguments.json || settings.quiet);
    Ok((dir, code))
}

fn make_dir(dir: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| format!("{}: {error}", dir.display()))
}

/// What the nodes find: a folder each, names of hosts, the description.
fn furnish(dir: &Path, spec: &Spec) -> Result<(), String> {
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let mut hosts = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n".to_owned();
    for node in &spec.nodes {
        let own = dir.join("nodes").join(&node.name);
        make_dir(&own)?;
        for (name, source) in &node.files {
            let to = own.join(name);
            if let Some(parent) = to.parent() {
                make_dir(parent)?;
            }
            let copied = std::fs::copy(source, &to);
            copied.map_err(|error| format!("{}: {error}", source.display()))?;
            // The same in each run.
            let begins_at = UNIX_EPOCH + Duration::from_nanos(spec.begins_at_ns);
            let dated = File::options().append(true).open(&to).and_then(|file| file.set_modified(begins_at));
            dated.map_err(|error| format!("{}: {error}", to.display()))?;
        }
        for address in &node.addresses {
            // Writing to a string does not fail.
            let _ = writeln!(hosts, "{address} {}", node.name);
        }
    }
    write("hosts", &hosts)?;
    write("resolv.conf", "nameserver 127.0.0.53\n")?;
    write(SPEC, &serde_json::to_string(spec).map_err(|error| error.to_string())?)
}

/// Runs and records it.
fn run_in(dir: &Path, home: &Path, spec: &Spec, as_json: bool) -> Result<Option<SessionEnd>, ExitCode> {
    let own = std::env::current_exe()
        .map_err(|error| exit::failure(exit::FAILED, &format!("retrovane's own path: {error}")))?;
    // Addresses are the same in each run.
    if let Ok(before) = personality::get() {
        let _ = personality::set(before | Persona::ADDR_NO_RANDOMIZE);
    }
    let session: Begun = Arc::new(Mutex::new(None));
    let options = RecordOptions {
        running: None,
        program: own.into_os_string(),
        arguments: vec!["lab-own".into(), "first".into(), dir.as_os_str().to_owned(), "0".into()],
        trace_dir: dir.join("trace"),
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
        outlives_kills: false,
        begun: None,
        companion: Some(companion(dir, home, spec, as_json, &session)),
        quiet: true,
        progress: None,
    };
    let outcome = record(options);
    let session = session.lock().ok().and_then(|mut session| session.take());
    if let Err(error) = outcome {
        return Err(exit::failure(code_of(&error), &error));
    }
    Ok(session.and_then(|(session, _answering)| {
        session.stop();
        session.wait()
    }))
}

fn companion(dir: &Path, home: &Path, spec: &Spec, as_json: bool, session: &Begun) -> Companion {
    let (dir, home, spec, session) = (dir.to_owned(), home.to_owned(), spec.clone(), Arc::clone(session));
    Box::new(move |memory| {
        let mut shown = Shown::new(&spec, as_json, None);
        let show = Box::new(move |record: &lab::Record| shown.record(record));
        let prepared = Session::prepare(&memory, &spec, &dir, show)
            .map_err(|error| std::io::Error::other(error.to_string()))?;
        let (stopper, control) = (prepared.stopper(), prepared.control());
        let stops = stopper.clone();
        let begin = Box::new(move || {
            let answering = running::answer(&dir, &home, control, stopper);
            if let Err(error) = &answering {
                telling::tell!(
                    "retrovane: `lab ps`, `exec`, `link` and `stop` cannot reach this lab: {error}"
                );
            }
            if let Ok(mut session) = session.lock() {
                *session = Some((prepared.start(), answering.ok()));
            }
        });
        Ok(Beside { begin, end: Box::new(move |signal| stops.stop(StopReason::Signal(signal))) })
    })
}

/// Says how it ended, and keeps that.
fn tell(dir: &Path, spec: &Spec, end: Option<SessionEnd>, silent: bool) -> ExitCode {
    let Some(SessionEnd { ends, digest, error, stopped }) = end else {
        return exit::failure(exit::FAILED, &"the lab ended without a result");
    };
    let failed: Vec<String> = spec
        .nodes
        .iter()
        .zip(&ends)
        .filter(|(_, end)| !end.is_some_and(NodeEnd::is_good))
        .map(|(node, _)| node.name.clone())
        .collect();
    let kept = Kept { is_good: failed.is_empty() && error.is_none() && stopped.is_none(), digest };
    let path = dir.join(KEPT);
    let text = serde_json::to_string(&kept).unwrap_or_default();
    if let Err(error) = std::fs::write(&path, text) {
        return exit::failure(exit::FAILED, &format!("{}: {error}", path.display()));
    }
    if !silent {
        let seconds = kept.digest.ended_at_ns as f64 / 1e9;
        telling::tell!(
            "retrovane: the lab ended at {seconds:.6} s; {} packets; everything about it is in {}",
            kept.digest.packet_count,
            dir.display()
        );
    }
    if let Some(error) = error {
        return exit::failure(exit::FAILED, &error);
    }
    match stopped {
        Some(StopReason::Signal(signal)) => {
            let reason = format!("stopped by signal {signal}; what was recorded until then can be replayed");
            return exit::failure(128 + u8::try_from(signal).unwrap_or(0), &reason);
        }
        Some(StopReason::Asked) => {
            return exit::failure(
                NODE_FAILED,
                &"stopped by `retrovane lab stop`; what was recorded until then can be replayed",
            );
        }
        Some(StopReason::Recording) | None => {}
    }
    match failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => exit::failure(NODE_FAILED, &format!("failed: {}", failed.join(", "))),
    }
}
