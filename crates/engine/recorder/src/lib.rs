//! Recording a program.
//!
//! The program's processes write their logs into rings by themselves; this crate
//! is the other side: the [`Drainer`](drainer) empties the rings into the trace,
//! the [`Keeper`](keeper) keeps files and finds their sites, the injector's
//! threads give birth to new images, and the caller's thread waits for the
//! program as a shell would.
//!
//! Architecture invariant: no process ever waits for the disk. A ring that fills
//! makes its process wait for the drainer; when the disk is full, recording ends
//! and the drainer goes on emptying the rings.
//!
//! Deliberately absent: what events mean, beyond their ends.
#![forbid(unsafe_code)]

mod aliases;
mod analysis;
mod asker;
mod channels;
mod crash;
pub mod debuggee;
mod drainer;
mod dying;
mod environment;
mod error;
mod file_journal;
mod file_journals;
mod file_places;
mod file_undo;
mod growth;
mod history;
mod keeper;
mod lane_log;
mod leaving;
mod lending;
mod listing;
pub mod live;
mod live_options;
mod log_bytes;
mod logged_calls;
mod lost;
mod lost_input;
mod memory_limit;
mod messages;
mod numbers;
mod partners;
mod polled;
mod read_files;
mod records;
mod sink;
pub mod sockets;
mod strangers;
mod takeover;
mod thinning;
mod undo;
mod undoing;
mod waiting;
mod waits;
mod watchdog;
mod window;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use injector::{
    AttachService, Features, ForwardSignals, Place, SessionMemory, Setup, board, futex_wake,
    keep_mapped_files, resolve, spawn,
};
use lane_protocol::{Detection, ForcedSwitch, Interception, Mode};
use trace_store::{FileStore, LaneEnd, Meta, Pressure, RINGS_NAME, Summary, TraceWriter};

pub use environment::described as described_environment;
pub use error::RecordError;
pub use injector::{ExitReport, InjectError, PreparedMemory, ProgramError, Refusal};

use analysis::Analyst;
use drainer::Drainer;
use file_journals::FileJournals;
use growth::Growth;
use keeper::{KeepThread, Keeper, KeeperWishes};
use live::LiveOptions;
use lost::Lost;
use sink::Sink;
use strangers::StrangersThread;
pub use takeover::{TakenOver, take_over};
pub use thinning::densest;
use undoing::Undoing;
use waiting::{Status, wait_for_main};

/// How far a recording is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    pub processes: usize,
    pub events: u64,
    pub raw_bytes: u64,
}

/// What to record, and how.
pub struct RecordOptions {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Take this process over, which runs already, instead of starting the program; only
    /// with `live`.
    pub running: Option<i32>,
    /// The trace's directory: absent, or empty.
    pub trace_dir: PathBuf,
    /// Where kept files are, for all traces.
    pub home: PathBuf,
    /// Checksum memory every so many events; 0: never.
    pub check_every_events: u32,
    /// `None`: the fastest that the machine offers.
    pub interception: Option<Interception>,
    pub rewriting_off: bool,
    /// How the effects of undescribed calls are found.
    pub detection: Detection,
    /// Treat described calls as undescribed, to test the detection.
    pub detect_all: bool,
    /// Randomise what recording may choose, from this seed; `None`: do not.
    pub chaos_seed: Option<u64>,
    /// Switch threads only where they wait, and where this says.
    pub schedule: Option<Vec<ForcedSwitch>>,
    /// Keep the past in memory, and be able to go back there; `trace_dir` is then a
    /// place for the files of the session.
    pub live: Option<live::LiveOptions>,
    /// Most bytes of the log on the disk: recording stops there, and the program goes on.
    pub size_max_bytes: Option<u64>,
    /// Keep what is not written yet where a kill of all processes leaves it: in a file of the
    /// trace, which costs some milliseconds.
    pub outlives_kills: bool,
    /// One of many recordings that follow each other, nearly all of which are thrown away: where its
    /// memory is.
    pub prepared: Option<Arc<PreparedMemory>>,
    /// Told once when the program has begun: from here on there is a trace.
    pub begun: Option<Box<dyn FnOnce()>>,
    /// What answers the processes' questions, if they are those of a lab.
    pub companion: Option<Companion>,
    /// Files of which only a digest is kept; `None`: none.
    pub referred: Option<Referred>,
    /// Say nothing on stderr but errors.
    pub quiet: bool,
    /// Told now and then by the drainer.
    pub progress: Option<Box<dyn Fn(Progress) + Send>>,
}

/// Files that a replay reads by itself, as they are the same then.
pub struct Referred {
    /// In the user's words, for the trace's description.
    pub told: String,
    pub fits: Box<dyn Fn(&Path) -> bool + Send + Sync>,
}

/// What runs beside a recording: made before any process is, and begun when the first one is there.
pub type Companion = Box<dyn FnOnce(Arc<SessionMemory>) -> std::io::Result<Beside>>;

/// A companion that is there.
pub struct Beside {
    /// Begins it.
    pub begin: Box<dyn FnOnce()>,
    /// Told of a signal that asks the recording to end, in place of the main process: it ends all
    /// processes.
    pub end: Box<dyn Fn(i32) + Send>,
}

/// How a recording went.
#[derive(Debug)]
pub struct RecordOutcome {
    /// How the program ended.
    pub status: ExitReport,
    pub trace_dir: PathBuf,
    pub processes: u64,
    pub events: u64,
    pub raw_bytes: u64,
    /// Why and where recording stopped before the program did; empty: nowhere.
    pub notes: Vec<String>,
}

/// Records a program from its start until all of its processes have ended.
///
/// Blocks signals in the calling thread meanwhile, and stops itself when the
/// program is stopped. To be called while the process has one thread.
///
/// # Errors
/// [`RecordError::Program`] before anything runs if it cannot be recorded, others
/// if something is missing to record it with.
pub fn record(mut options: RecordOptions) -> Result<RecordOutcome, RecordError> {
    let features = Features::probe();
    if features.yama_scope >= 2 && !is_root() {
        return Err(RecordError::PtraceForbidden { scope: features.yama_scope });
    }
    if !features.has_proc {
        return Err(RecordError::NoProc);
    }
    let interception = choose_interception(options.interception, &features)?;
    if options.interception.is_none() && interception == Interception::Seccomp && !options.quiet {
        diagnostics::tell!(
            "retrovane: syscall user dispatch is refused here (Linux 5.11 has it, a sandbox may forbid it): recording by seccomp, as --seccomp does, where no setuid programs can run"
        );
    }
    let is_live = options.live.is_some();
    let journals = options
        .live
        .as_ref()
        .filter(|live| live.snapshots_files)
        .map(|_| Arc::new(FileJournals::new(&options.trace_dir)));
    let kills_children = options.live.as_ref().is_some_and(|live| live.kills_children);
    let lost = Arc::new(Lost::new(kills_children));
    let undoing = options.live.as_ref().map(|live| Undoing {
        dir: options.trace_dir.clone(),
        kills_children,
        saves_crashes: live.on_crash == live::OnCrash::Save,
        main_ran_already: options.running.is_some(),
        journals: journals.clone(),
        channels: std::sync::Mutex::default(),
        lost: Arc::clone(&lost),
    });
    let setup = Setup {
        mode: Mode::Record,
        interception,
        features,
        check_every_events: options.check_every_events,
        rewriting_off: options.rewriting_off,
        detection: options.detection,
        detect_all: options.detect_all,
        chaos_seed: options.chaos_seed,
        schedule: options.schedule.clone(),
        refers: options.referred.is_some(),
        real: lane_protocol::RealStreams::None,
        live: options.live.as_ref().map(LiveOptions::setup),
        running: options.running,
        files_dir: None,
        objects_dir: None,
        show_output: false,
        wanted_lanes: None,
        debugged_lane: options
            .live
            .as_ref()
            .and_then(|live| live.debugger.is_some().then_some(live.debugged)),
    };
    injector::may_have_threads(THREADS).map_err(RecordError::Threads)?;
    let store = FileStore::open(&options.home)?;
    let meta = meta(&options, interception);
    let writer = TraceWriter::create(&options.trace_dir, &meta)?;
    let rings = options.trace_dir.join(RINGS_NAME);
    let place = match &options.prepared {
        Some(prepared) => Place::Prepared(prepared),
        None if options.outlives_kills && !is_live => Place::File(&rings),
        None => Place::Memory,
    };
    let memory = SessionMemory::create_in(&setup, place).inspect_err(|_| {
        // What cannot be removed stays: a trace without lanes.
        let _ = std::fs::remove_dir_all(&options.trace_dir);
    })?;
    let memory = Arc::new(memory);
    let companion = options.companion.take().map(|make| make(Arc::clone(&memory))).transpose();
    let companion = companion.map_err(RecordError::Companion)?;
    let bytes_max = options.live.as_ref().and_then(|live| live.log_max_bytes);
    let history = match is_live {
        true => Some(history::History::new(bytes_max).map_err(RecordError::History)?),
        false => None,
    };
    let tells = !options.quiet && std::io::stderr().is_terminal();
    let growth = Growth::new(options.size_max_bytes, tells && !is_live);
    let sink = Arc::new(Sink::new(writer, Arc::clone(&memory), history, growth));
    if options.prepared.is_some() {
        // To compress well takes as long as many a program.
        sink.set_pressure(Pressure::Behind);
    }
    let (analyst, jobs) = Analyst::new(Arc::clone(&memory), options.trace_dir.clone());
    let status = Arc::new(Status::default());
    let keeper = Arc::new(Keeper::new(
        Arc::clone(&memory),
        store,
        Arc::clone(&sink),
        jobs,
        Arc::clone(&status),
        KeeperWishes { trace_dir: options.trace_dir.clone(), referred: options.referred.take(), tells },
    ));

    if let Some(pid) = options.running {
        // It would stand still for that otherwise.
        keep_mapped_files(pid, &*keeper)?;
        analyst.work_off(keeper.store());
    }
    let started = Instant::now();
    let signals = ForwardSignals::block();
    // The only thread forks; all others begin afterwards.
    let main_pid = match begin(&options, &memory, &signals, &keeper) {
        Ok(pid) => pid,
        Err(error) => {
            memory.remove_file();
            memory.restore_limits();
            sink.abandon(&options.trace_dir);
            return Err(error);
        }
    };
    if let Some(begun) = options.begun.take() {
        begun();
    }
    let end_beside = companion.map(|beside| {
        (beside.begin)();
        beside.end
    });
    // For files that the program changes, and to hold its processes.
    injector::raise_open_files();
    let drainer = Drainer::start(
        Arc::clone(&memory),
        Arc::clone(&sink),
        Arc::clone(&status),
        main_pid,
        undoing,
        options.progress,
    );
    let analyst = analyst.start(Arc::clone(&keeper));
    let keep_thread = KeepThread::start(Arc::clone(&memory), Arc::clone(&keeper), journals.clone());
    let strangers = StrangersThread::start(Arc::clone(&memory), Arc::clone(&status));
    let attach = AttachService::start(Arc::clone(&memory), keeper.clone(), main_pid);
    let forwarded = match options.running {
        Some(_) => waiting::end_by_signals(&signals, &memory),
        None => match end_beside {
            Some(end) => waiting::tell_of_signals(&signals, end),
            None => waiting::watch_signals(&signals, &memory, &status, main_pid),
        },
    };
    let control = options.live.map(|live| {
        let session = live::Session {
            memory: Arc::clone(&memory),
            sink: Arc::clone(&sink),
            status: Arc::clone(&status),
            trace_dir: options.trace_dir.clone(),
            meta,
            main_pid,
            boarded: options.running.is_some(),
            quiet: options.quiet,
            journals,
            lost,
        };
        live::Control::start(live, session)
    });

    let exit = match options.running {
        Some(pid) => waiting::wait_for_boarded(&memory, &status, pid, &|| {
            if let Some(control) = &control {
                control.ask_to_leave();
            }
        }),
        None => wait_for_main(&attach, &status, main_pid),
    };
    status.set_main(exit);
    memory.doorbell().fetch_add(1, Ordering::Release);
    futex_wake(memory.doorbell());
    let drained = drainer.wait(!options.quiet && std::io::stderr().is_terminal());

    if let (Some(control), ExitReport::Killed(signal)) = (&control, exit) {
        control.save_killed(signal);
    }
    drop(control);
    drop(forwarded);
    drop(attach);
    drop(keep_thread);
    drop(strangers);
    drop(keeper);
    drop(analyst);
    drop(signals);
    let mut notes = drained.notes;
    notes.extend(sink.failure());
    let summary = Summary {
        // How the program ended, also where its recording stopped before.
        exit: match exit {
            ExitReport::Exited(code) => LaneEnd::Exited(code),
            ExitReport::Killed(signal) => LaneEnd::Killed(signal),
        },
        duration_ns: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
        notes: notes.clone(),
    };
    sink.finish(&summary);
    memory.remove_file();
    Ok(RecordOutcome {
        status: exit,
        trace_dir: options.trace_dir,
        processes: drained.processes,
        events: drained.events,
        raw_bytes: drained.raw_bytes,
        notes,
    })
}

/// Threads that every recording has, and one more for the program itself.
const THREADS: usize = 8;

/// Starts the program, or takes over the process that runs already; gives its id.
fn begin(
    options: &RecordOptions,
    memory: &SessionMemory,
    signals: &ForwardSignals,
    keeper: &Keeper,
) -> Result<i32, RecordError> {
    if let Some(pid) = options.running {
        board(memory, pid, keeper)?;
        return Ok(pid);
    }
    let program = resolve(&options.program, &options.arguments)?;
    Ok(spawn(memory, &program, signals, keeper)?.pid)
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

fn choose_interception(
    wanted: Option<Interception>,
    features: &Features,
) -> Result<Interception, RecordError> {
    match wanted {
        Some(Interception::UserDispatch) if !features.user_dispatch => Err(RecordError::NoUserDispatch),
        Some(interception) => Ok(interception),
        None if features.user_dispatch => Ok(Interception::UserDispatch),
        None if features.seccomp_trap => Ok(Interception::Seccomp),
        None => Err(RecordError::NoInterception),
    }
}

fn meta(options: &RecordOptions, interception: Interception) -> Meta {
    let mut command = vec![options.program.clone()];
    command.extend(options.arguments.iter().cloned());
    let cwd = match options.running {
        Some(pid) => std::fs::read_link(format!("/proc/{pid}/cwd")),
        None => std::env::current_dir(),
    };
    let cwd = cwd.unwrap_or_default();
    let name = match interception {
        Interception::UserDispatch => "user-dispatch",
        Interception::Seccomp => "seccomp",
    };
    let mut meta = Meta::now(command, cwd, name);
    if options.check_every_events != 0 {
        meta.options.insert("check".into(), options.check_every_events.to_string());
    }
    if options.rewriting_off {
        meta.options.insert("rewriting".into(), "off".into());
    }
    if let Some(seed) = options.chaos_seed {
        meta.options.insert("chaos".into(), seed.to_string());
    }
    if let Some(referred) = &options.referred {
        meta.options.insert("input".into(), referred.told.clone());
    }
    if let Some(schedule) = &options.schedule {
        meta.options.insert("forced-switches".into(), schedule.len().to_string());
    }
    meta
}
