//! Replaying a trace.
//!
//! The processes replay by themselves; this crate starts the first of them, feeds
//! each lane's log into its ring, keeps the order of outputs going where a trace
//! has gaps, and looks at what processes report.
//!
//! Architecture invariant: a replay ends well only if every process reported its
//! recorded end. Whatever else happens to a process is a failure that is told.
//!
//! Deliberately absent: any influence of the outside on the processes.
#![forbid(unsafe_code)]

mod backtrace;
mod describe;
mod error;
mod feeder;
mod private_folder;
mod real;
mod sandbox;
mod supervise;
mod tickets;
mod unlogged_end;
mod watchdog;

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use injector::{Confinement, Features, Reach, SessionMemory, Setup, reap_any, start_replay};
use lane_protocol::{Interception, Mode};
use sites::Loops;
use trace_store::{Cut, FileStore, LaneEnd, LaneInfo, TraceFile, TraceReader};

pub use backtrace::Stacks;
pub use describe::{Divergence, Frame, ReportKind, in_words};
pub use error::ReplayError;
pub use feeder::{Feed, FeedError};
pub use injector::ExitReport;
pub use private_folder::PrivateFolder;
pub use real::{Real, RealOp, RealPlan};
pub use sandbox::Sandbox;
pub use tickets::{Taken, for_each_token};
pub use unlogged_end::{LOG_TOO_SHORT, tells_its_end, time_behind_log};
pub use watchdog::{Finding, OF_RECORDING_MAX, Watchdog, Way};

use supervise::{Ends, Supervisor};

/// How far a replay is, in events of all lanes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    pub events_done: u64,
    pub events_total: u64,
}

/// What to replay, and how.
pub struct ReplayOptions {
    pub trace_dir: PathBuf,
    /// Where analyses of files are cached; `None`: nowhere.
    pub home: Option<PathBuf>,
    /// Only this process, and its ancestors as far as they lead to it, and whom it shares memory with.
    pub pid: Option<i32>,
    /// Show what the program wrote to standard output and error.
    pub show_output: bool,
    /// `None`: as it was recorded, if this machine can.
    pub interception: Option<Interception>,
    pub rewriting_off: bool,
    pub sandbox: Sandbox,
    /// What is real; `None`: nothing.
    pub real: Option<Real>,
    /// Told now and then.
    pub progress: Option<Box<dyn Fn(Progress) + Send>>,
}

impl ReplayOptions {
    /// All processes as they were recorded, with nothing shown, told or real.
    pub fn new(trace_dir: PathBuf, home: Option<PathBuf>, sandbox: Sandbox) -> ReplayOptions {
        ReplayOptions {
            trace_dir,
            home,
            pid: None,
            show_output: false,
            interception: None,
            rewriting_off: false,
            sandbox,
            real: None,
            progress: None,
        }
    }

    /// The same for another replay, of which nobody is told how far it is.
    pub fn again(&self) -> ReplayOptions {
        ReplayOptions {
            trace_dir: self.trace_dir.clone(),
            home: self.home.clone(),
            real: None,
            progress: None,
            ..*self
        }
    }
}

/// How a replay went.
#[derive(Debug)]
pub struct ReplayOutcome {
    /// How the program ended when it was recorded; `None` where the trace does not say.
    pub status: Option<ExitReport>,
    /// The trace ends where its recorder did, as by a kill.
    pub cut: Option<Cut>,
    /// What went wrong, if something did.
    pub divergence: Option<Divergence>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// What is to be said of real streams.
    pub real: Vec<events::real::Note>,
    pub events: u64,
}

/// A session that is ready to replay, and what is known of it.
pub struct Prepared {
    pub memory: Arc<SessionMemory>,
    pub trace: TraceReader,
    pub lanes: HashMap<u32, LaneInfo>,
    /// The lane whose end is the replay's.
    pub shown: LaneInfo,
    /// Lanes to follow; `None`: all.
    pub wanted: Option<Vec<u32>>,
    /// Files that stand for shared memory are in it.
    pub objects: PrivateFolder,
}

/// Opens a trace and makes the memory for replaying it. With `debugged` the agent in
/// the shown lane's process stops it at its first instruction, and no other process
/// is followed than its ancestors, and those that took tokens from each other if one of them did.
///
/// # Errors
/// As for [`replay`].
pub fn prepare(options: &ReplayOptions, debugged: bool) -> Result<Prepared, ReplayError> {
    let trace = TraceReader::open(&options.trace_dir)?;
    trace.verify_files(options.home.as_deref())?;
    let shown = shown_lane(&trace, options.pid)?;
    let lanes: HashMap<u32, LaneInfo> = trace.lanes().iter().map(|info| (info.lane, info.clone())).collect();
    let is_part = options.pid.is_some() || debugged;
    let wanted = is_part.then(|| tickets::needed(&trace, &lanes, shown.lane)).transpose()?;
    let files_dir = trace.files_dir().canonicalize().unwrap_or_else(|_| trace.files_dir());
    let features = Features::probe();
    let objects = PrivateFolder::in_memory().map_err(ReplayError::Objects)?;
    let interception = options.interception.unwrap_or_else(|| recorded_interception(&trace, &features));
    let setup = Setup {
        mode: Mode::Replay,
        interception,
        features,
        check_every_events: 0,
        rewriting_off: options.rewriting_off || debugged,
        detection: lane_protocol::Detection::Best,
        detect_all: false,
        chaos_seed: None,
        schedule: None,
        refers: false,
        live: None,
        running: None,
        files_dir: Some(&files_dir),
        objects_dir: Some(objects.path()),
        show_output: options.show_output,
        real: real::which(options.real.as_ref().map(|real| &real.plan)),
        wanted_lanes: wanted.as_deref(),
        debugged_lane: debugged.then_some(shown.lane),
    };
    let memory = Arc::new(SessionMemory::create(&setup)?);
    if options.sandbox.is_wanted_for(&trace) {
        let referred: Vec<PathBuf> = trace
            .files()
            .iter()
            .filter(|entry| trace.is_referred(&entry.file.hash))
            .map(|entry| entry.file.original())
            .collect();
        let reach = Reach { read: &files_dir, referred: &referred, write: objects.path() };
        memory.confine(Confinement::new(&reach).map_err(ReplayError::Sandbox)?);
    }
    offer_files(&memory, &trace, options.home.as_deref());
    Ok(Prepared { memory, trace, lanes, shown, wanted, objects })
}

/// Replays a trace to its end. To be called while the process has one thread,
/// and no children: it waits for all there are.
///
/// # Errors
/// [`ReplayError`] if the trace cannot be used, or the machine lacks something.
/// A divergence is no error but an outcome.
pub fn replay(mut options: ReplayOptions) -> Result<ReplayOutcome, ReplayError> {
    let Prepared { memory, trace, lanes, shown, wanted, objects } = prepare(&options, false)?;
    let (real, begun) = options.real.take().map_or_else(Default::default, |real| (real.plan, real.begun));
    let mut notes = notes_of(&trace, &shown);
    // The program's own end is known even where its recording stopped before.
    let program_end = trace.summary().filter(|_| shown.lane == 0).map(|summary| summary.exit);
    let status = match program_end.or(shown.end) {
        Some(LaneEnd::Exited(code)) => Some(ExitReport::Exited(code)),
        Some(LaneEnd::Killed(signal)) => Some(ExitReport::Killed(signal)),
        Some(LaneEnd::Unknown | LaneEnd::Stopped(_)) | None => None,
    };
    let cut = trace.cut().copied();
    let first_pid = start_replay(&memory)?;
    if let Some(begun) = begun {
        begun();
    }
    let ends = Arc::new(Mutex::new(Ends::default()));
    let mut supervisor =
        Supervisor::new(Arc::clone(&memory), trace, lanes, wanted, Arc::clone(&ends), first_pid, real);
    let thread = injector::start_thread("supervisor", move || {
        supervisor.run(options.progress.as_deref());
        supervisor.into_result()
    });
    while let Some((pid, how)) = reap_any() {
        ends.lock().unwrap_or_else(PoisonError::into_inner).processes.push((pid, how));
        supervise::ring(&memory);
    }
    ends.lock().unwrap_or_else(PoisonError::into_inner).all_gone = true;
    supervise::ring(&memory);
    let result = thread.join().map_err(|_| ReplayError::Panicked)??;
    memory.finish_outputs();
    notes.extend(result.notes);
    let real = real::notes(objects.path());
    Ok(ReplayOutcome { status, cut, divergence: result.divergence, notes, real, events: result.events })
}

/// The lane whose end is the replay's: the wanted process's last, else the first.
fn shown_lane(trace: &TraceReader, pid: Option<i32>) -> Result<LaneInfo, ReplayError> {
    let found = match pid {
        Some(pid) => trace.lanes().iter().rev().find(|info| info.pid == pid),
        None => trace.lanes().iter().find(|info| info.lane == 0),
    };
    found.cloned().ok_or(match pid {
        Some(pid) => ReplayError::NoSuchProcess { pid },
        None => ReplayError::Empty,
    })
}

fn recorded_interception(trace: &TraceReader, features: &Features) -> Interception {
    let recorded_so = trace.meta().interception == "seccomp" && features.seccomp_trap;
    if recorded_so || !features.user_dispatch { Interception::Seccomp } else { Interception::UserDispatch }
}

/// Puts the trace's files into the session's table, with the recipes for those
/// that are programs. A file that is missing stays unknown: who needs it reports.
fn offer_files(memory: &SessionMemory, trace: &TraceReader, home: Option<&Path>) {
    offer(memory, trace, home, trace.files().iter());
}

/// Puts those files of a trace into the session's table that came since it was `before`.
pub fn offer_more_files(memory: &SessionMemory, trace: &TraceReader, before: &TraceReader) {
    let known: HashSet<u32> = before.files().iter().map(|entry| entry.id).collect();
    offer(memory, trace, None, trace.files().iter().filter(|entry| !known.contains(&entry.id)));
}

/// The formats of traces in which passes of loops that wait without `pause` count: at first those of loops that count
/// up to a number in memory, too.
const IDLE_LOOPS_SINCE: u32 = 12;
const COUNTING_LOOPS_UNTIL: u32 = 13;

fn offer<'a>(
    memory: &SessionMemory,
    trace: &TraceReader,
    home: Option<&Path>,
    files: impl Iterator<Item = &'a TraceFile>,
) {
    let store = home.and_then(|home| FileStore::open(home).ok());
    for entry in files {
        let (Some(slot), Ok(path)) = (memory.file(entry.id as usize), trace.file_path(&entry.file)) else {
            continue;
        };
        slot.set_kept(&entry.file.hash, entry.file.size);
        if !is_elf(&path) {
            memory.announce_recipes(entry.id, &[], true);
            continue;
        }
        let analysis = sites::analyse_cached(
            |name| store.as_ref()?.side_read(&entry.file.hash, name),
            // A cache that cannot be written costs time only.
            |name, bytes| drop(store.as_ref().map(|store| store.side_write(&entry.file.hash, name, bytes))),
            || std::fs::read(&path),
        );
        // Without recipes, sites go on trapping.
        let Ok(mut found) = analysis else {
            memory.announce_recipes(entry.id, &[], false);
            continue;
        };
        found.keep_loops(loops_that_count(trace));
        memory.announce_recipes(entry.id, &found.recipes, !found.unresolved_time_sites);
    }
}

/// Which passes of loops that wait without `pause` counted when the trace was recorded: none with chaos or forced
/// switches, which come between any two of their instructions.
fn loops_that_count(trace: &TraceReader) -> Loops {
    let meta = trace.meta();
    let switches_anywhere = ["chaos", "forced-switches"].iter().any(|name| meta.options.contains_key(*name));
    match meta.format {
        format if format < IDLE_LOOPS_SINCE || switches_anywhere => Loops::None,
        format if format <= COUNTING_LOOPS_UNTIL => Loops::Counting,
        _ => Loops::Waiting,
    }
}

fn is_elf(path: &Path) -> bool {
    let mut head = [0u8; 4];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *b"\x7fELF"
}

/// What the trace itself says that a user should know.
fn notes_of(trace: &TraceReader, shown: &LaneInfo) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(trace.summary().map(|summary| summary.notes.clone()).unwrap_or_default());
    if let (None, Some(LaneEnd::Unknown), false) =
        (trace.cut(), shown.end, trace.meta().options.contains_key("saved"))
    {
        notes.push(format!("how process {} ended is not known", shown.pid));
    }
    let is_traced = |info: &&LaneInfo| info.end == Some(LaneEnd::Stopped(events::StopReason::Traced as u16));
    match trace.lanes().iter().filter(is_traced).count() {
        0 => {}
        1 => notes.push(
            "a process was traced (ptrace), and left the recording: what it wrote is missing".to_owned(),
        ),
        count => notes.push(format!(
            "{count} processes were traced (ptrace), and left the recording: what they wrote is missing"
        )),
    }
    notes
}
