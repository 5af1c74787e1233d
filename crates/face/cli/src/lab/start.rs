//! `retrovane lab run`: the recording, and the engine beside it.

use std::fmt::Write as _;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

use lab::{
    Action, Changes, Control, GoOn, Halt, Kin, NodeEnd, Session, SessionEnd, SilenceNotice, Spec, StopReason,
    Stopper, Taken, read_discarded,
};
use nix::sys::personality::{self, Persona};
use nix::sys::signal::{SigSet, Signal};
use recorder::{Beside, Companion, RecordOptions, record};
use trace_store::traces;

use clap::Args;

use crate::exit;
use crate::lab::future_process::Said;
use crate::lab::futures::{Event, Keeper, not_the_same, said_the_same};
use crate::lab::kept::{KEPT, Kept, SPEC, read_json};
use crate::lab::layers;
use crate::lab::running::{self, Answering};
use crate::lab::show::Shown;
use crate::record::{code_of, options_of};
use crate::settings::Settings;

/// A lab that has begun.
type Running = Arc<Mutex<Option<Session>>>;
/// The keeper's thread, which gives the code of the last future; and what answers for the run.
type Keeping = Arc<Mutex<Option<(JoinHandle<Option<u8>>, Option<Answering>)>>>;
/// Told when it has.
type Begun = Box<dyn FnOnce(Stopper, Control) + Send>;
type Heard = Box<dyn Fn(i32) + Send>;

/// A lab failed: a node did.
const NODE_FAILED: u8 = 1;

/// Reads a description; that of a run in its folder is JSON.
fn read_spec(file: &Path) -> Result<Spec, ExitCode> {
    match file.extension().is_some_and(|name| name == "json") {
        true => read_json(file).map_err(|error| exit::failure(exit::BAD_TRACE, &error)),
        false => lab::read(file).map_err(|error| exit::failure(exit::USAGE, &error)),
    }
}

#[derive(Args, Debug, Default)]
pub struct RunArguments {
    /// The lab's description
    pub file: PathBuf,
    /// Where everything about the run is kept [default: lab-N in RETROVANE_HOME/labs]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Another seed than the description's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// At how many checkpoints, the latest ones, processes stand that the lab goes back to at once; to others
    /// it runs again
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub standing: usize,
    /// Take a checkpoint each time so much lab time has passed, as 1s
    #[arg(long, value_name = "TIME")]
    pub checkpoint_every: Option<String>,
    /// With `--checkpoint-every`: how many of these to keep, dense near the present, sparse long ago
    #[arg(long, value_name = "N", default_value_t = lab::KEPT_CHECKPOINTS)]
    pub keep: usize,
    /// The log of the clock of a run that this one is to be the same as
    #[arg(long, hide = true, value_name = "FILE")]
    pub clock: Option<PathBuf>,
    /// Keep hashes of the nodes' memory, too
    #[arg(long, hide = true)]
    pub sums_memory: bool,
    /// Say everything as JSON, an object a line
    #[arg(long)]
    pub json: bool,
}

/// A lab that is run.
#[derive(Debug, Clone)]
pub struct Run {
    pub dir: PathBuf,
    pub home: PathBuf,
    pub spec: Spec,
    pub as_json: bool,
    pub quiet: bool,
    /// At how many checkpoints processes stand.
    pub shadows: usize,
    /// Hashes of the nodes' memory are kept.
    pub sums_memory: bool,
}

/// A place in the past of another run to which a lab runs silently; from there on it is shown.
pub struct There {
    /// The number of the checkpoint.
    pub number: usize,
    /// What the lab was there, if that is known.
    pub expected: Option<Taken>,
    /// The other run.
    pub past: PathBuf,
    pub changes: Changes,
}

/// Runs a lab; gives the folder of the run, and how to end.
pub fn run_into(arguments: &RunArguments, settings: &Settings) -> Result<(PathBuf, ExitCode), ExitCode> {
    let mut spec = read_spec(&arguments.file)?;
    spec.seed = arguments.seed.unwrap_or(spec.seed);
    if let Some(every) = &arguments.checkpoint_every {
        let every_ns = lab::every_ns(every).map_err(|reason| exit::failure(exit::USAGE, &reason))?;
        let action = Action::Every { every_ns, keep: arguments.keep };
        spec.events.insert(0, lab::Event { at_ns: 0, action, is_wish: false });
    }
    let home = settings.home_to_write().map_err(|error| exit::failure(error.code(), &error))?;
    let dir =
        new_dir(arguments.output.as_ref(), &home).map_err(|error| exit::failure(exit::FAILED, &error))?;
    let (as_json, quiet) = (arguments.json, settings.quiet);
    let run = Run {
        dir,
        home,
        spec,
        as_json,
        quiet,
        shadows: arguments.standing,
        sums_memory: arguments.sums_memory,
    };
    run.furnish().map_err(|error| exit::failure(exit::FAILED, &error))?;
    let code = run.present(arguments.clock.clone(), None)?;
    Ok((run.dir, code))
}

/// The folder of a new run, made.
pub fn new_dir(wanted: Option<&PathBuf>, home: &Path) -> Result<PathBuf, String> {
    let dir = match wanted {
        Some(dir) => make_dir(dir).map(|()| dir.clone()),
        None => traces::new_dir(&home.join("labs"), "lab").map_err(|error| error.to_string()),
    };
    dir.and_then(|dir| std::path::absolute(dir).map_err(|error| error.to_string()))
}

fn make_dir(dir: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| format!("{}: {error}", dir.display()))
}

impl Run {
    /// What the nodes find: a folder each, names of hosts, the description.
    pub fn furnish(&self) -> Result<(), String> {
        let Run { dir, spec, .. } = self;
        make_dir(dir)?;
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
                let dated =
                    File::options().append(true).open(&to).and_then(|file| file.set_modified(begins_at));
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

    /// Says of a node that it stops all others.
    fn tell_silence(&self) -> Option<SilenceNotice> {
        let names: Vec<String> = self.spec.nodes.iter().map(|node| node.name.clone()).collect();
        (!self.quiet).then(|| {
            Box::new(move |node: usize| {
                diagnostics::tell!(
                    "retrovane: `{}` has computed for {} s without a call, and all others wait for it: it is preempted only \
                     for others of its own node, and as `preempts_after` says",
                    names[node],
                    lab::SILENCE.as_secs()
                );
            }) as SilenceNotice
        })
    }

    /// Runs it here; where it goes back, other processes run what comes then.
    pub fn present(&self, clock: Option<PathBuf>, there: Option<There>) -> Result<ExitCode, ExitCode> {
        let (tell, events) = channel();
        let (took, left) = (tell.clone(), tell.clone());
        let kin = Kin {
            clock,
            halt: there.map(|there| self.halt(there)),
            sums_memory: self.sums_memory,
            notice: Some(Box::new(move |taken| {
                // A keeper that has ended needs nothing.
                let _ = took.send(Event::Said(0, Said::Took(taken.number)));
            })),
            silent: self.tell_silence(),
            left: Some(Box::new(move || drop(left.send(Event::Said(0, Said::Left))))),
            number: std::process::id() as usize,
        };
        let keeping = Keeping::default();
        let (run, kept, tells) = (self.clone(), Arc::clone(&keeping), tell.clone());
        let begun = move |stopper: Stopper, control| {
            let answers =
                running::answer(&run.dir, Some(&run.home), control, stopper.clone(), Some(tells.clone()));
            if let Err(error) = &answers {
                diagnostics::tell!("retrovane: `lab` commands cannot reach this lab: {error}");
            }
            let keeper = std::thread::spawn(move || Keeper::new(run, stopper, tells).keep(&events));
            if let Ok(mut kept) = kept.lock() {
                *kept = Some((keeper, answers.ok()));
            }
        };
        let hears = tell.clone();
        let heard = move |signal| {
            if let Ok(signal) = Signal::try_from(signal) {
                // A keeper that has ended needs nothing.
                let _ = hears.send(Event::Signal(signal));
            }
        };
        let end = self.record(kin, Box::new(begun), Box::new(heard));
        let is_left = matches!(&end, Ok(Some(end)) if end.stopped == Some(StopReason::Left));
        if is_left {
            forward_signals(tell.clone());
        }
        let code = end.map(|end| self.tell(end));
        // A keeper that has ended needs nothing.
        let _ = tell.send(Event::Recorded(is_left));
        let keeper = keeping.lock().ok().and_then(|mut kept| kept.take());
        let last = keeper.and_then(|(keeper, _answering)| keeper.join().ok().flatten());
        match last {
            Some(last) if is_left => Ok(ExitCode::from(last)),
            _ => code,
        }
    }

    /// It stands there, and goes on at once if it was the same until then.
    fn halt(&self, there: There) -> Halt {
        let (stands, stood) = channel();
        let (go, goes_on) = channel();
        let run = self.clone();
        let number = there.number;
        std::thread::spawn(move || {
            // A lab that did not come there says why.
            let Ok(taken) = stood.recv() else { return };
            let is_same = match &there.expected {
                Some(expected) => *expected == taken,
                None => said_the_same(&there.past, &run.dir, taken.at_ns),
            };
            if is_same {
                Shown::new(&run.spec, run.as_json, None).back(&taken);
                let discarded =
                    read_discarded(&there.past).into_iter().filter(|&one| one <= number).collect();
                let _ = go.send(GoOn::Live { changes: there.changes, discarded });
            } else {
                diagnostics::tell!("retrovane: {}", not_the_same(taken.at_ns));
            }
        });
        Halt { number, stands, goes_on }
    }

    /// Runs and records it; `begun` is told when it has begun.
    ///
    /// `heard` is told of signals that ask it to end; it may have been left before.
    pub fn record(&self, kin: Kin, begun: Begun, heard: Heard) -> Result<Option<SessionEnd>, ExitCode> {
        let own = std::env::current_exe()
            .map_err(|error| exit::failure(exit::FAILED, &format!("retrovane's own path: {error}")))?;
        // Addresses are the same in each run.
        if let Ok(before) = personality::get() {
            let _ = personality::set(before | Persona::ADDR_NO_RANDOMIZE);
        }
        let session: Running = Arc::new(Mutex::new(None));
        let arguments = ["lab-own".into(), "first".into(), self.dir.as_os_str().to_owned(), "0".into()];
        let options = RecordOptions {
            outlives_kills: false,
            companion: Some(self.companion(kin, begun, heard, &session)),
            quiet: true,
            ..options_of(own.as_os_str(), &arguments, &self.home, &self.dir.join("trace"))
        };
        let outcome = record(options);
        layers::tidy(&self.dir);
        let session = session.lock().ok().and_then(|mut session| session.take());
        if let Err(error) = outcome {
            return Err(exit::failure(code_of(&error), &error));
        }
        Ok(session.and_then(|session| {
            session.stop();
            session.wait()
        }))
    }

    fn companion(&self, kin: Kin, begun: Begun, heard: Heard, session: &Running) -> Companion {
        let (dir, spec, as_json) = (self.dir.clone(), self.spec.clone(), self.as_json);
        let session = Arc::clone(session);
        Box::new(move |memory| {
            let mut shown = Shown::new(&spec, as_json, None);
            let show = Box::new(move |record: &lab::Record| shown.record(record));
            let prepared = Session::prepare(&memory, &spec, &dir, show, kin)
                .map_err(|error| std::io::Error::other(error.to_string()))?;
            let (stopper, control) = (prepared.stopper(), prepared.control());
            let stops = stopper.clone();
            let begin = Box::new(move || {
                begun(stopper, control);
                if let Ok(mut session) = session.lock() {
                    *session = Some(prepared.start());
                }
            });
            let end = move |signal| {
                stops.stop(StopReason::Signal(signal));
                heard(signal);
            };
            Ok(Beside { begin, end: Box::new(end) })
        })
    }

    /// Says how it ended, and keeps that.
    pub fn tell(&self, end: Option<SessionEnd>) -> ExitCode {
        let Run { dir, spec, .. } = self;
        let silent = self.as_json || self.quiet;
        let Some(SessionEnd { ends, digest, error, stopped, preempted_ns }) = end else {
            return exit::failure(exit::FAILED, &"the lab ended without a result");
        };
        let failed: Vec<String> = spec
            .nodes
            .iter()
            .zip(&ends)
            .filter(|(_, end)| !end.is_some_and(NodeEnd::is_good))
            .map(|(node, _)| node.name.clone())
            .collect();
        let kept = Kept {
            is_good: failed.is_empty() && error.is_none() && stopped.is_none(),
            is_left: stopped == Some(StopReason::Left),
            digest,
            preempted_ns,
        };
        let path = dir.join(KEPT);
        let text = serde_json::to_string(&kept).unwrap_or_default();
        if let Err(error) = std::fs::write(&path, text) {
            return exit::failure(exit::FAILED, &format!("{}: {error}", path.display()));
        }
        if stopped == Some(StopReason::Left) {
            return ExitCode::SUCCESS;
        }
        if !silent {
            let seconds = kept.digest.ended_at_ns as f64 / 1e9;
            diagnostics::tell!(
                "retrovane: the lab ended at {seconds:.6} s; {} packets; everything about it is in {}",
                kept.digest.packet_count,
                dir.display()
            );
            if let Some(text) = kept.not_the_same_text() {
                diagnostics::tell!("retrovane: {text}; `retrovane lab log` names the thread and the place");
            }
        }
        if let Some(error) = error {
            return exit::failure(exit::FAILED, &error);
        }
        match stopped {
            Some(StopReason::Signal(signal)) => {
                let reason =
                    format!("stopped by signal {signal}; what was recorded until then can be replayed");
                return exit::failure(128 + u8::try_from(signal).unwrap_or(0), &reason);
            }
            Some(StopReason::Asked) => {
                return exit::failure(
                    NODE_FAILED,
                    &"stopped by `retrovane lab stop`; what was recorded until then can be replayed",
                );
            }
            Some(StopReason::Recording | StopReason::Left) | None => {}
        }
        match failed.is_empty() {
            true => ExitCode::SUCCESS,
            false => exit::failure(NODE_FAILED, &format!("failed: {}", failed.join(", "))),
        }
    }
}

/// Signals that ask the command to end are for the future that is the present.
fn forward_signals(tell: Sender<Event>) {
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT]);
    // Without that they end this process, and with it all futures.
    let _ = signals.thread_block();
    std::thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            let _ = tell.send(Event::Signal(signal));
        }
    });
}
