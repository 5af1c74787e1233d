//! One run of a lab, beside its recording.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use injector::SessionMemory;

use crate::LabError;
use crate::capture::Capture;
use crate::checkpoints::{Checkpoints, Halt, Notice};
use crate::clock_log::{CLOCK, ClockLog};
use crate::control::Control;
use crate::digest::Digest;
use crate::engine::{Engine, Kept};
use crate::log::{Log, Show};
use crate::memory_sums::{MEMORY, MemorySums};
use crate::nodes::NodeEnd;
use crate::places::{PLACES, Places};
use crate::processor::Processor;
use crate::silence::SilenceNotice;
use crate::spec::Spec;
use crate::stop::{StopReason, Stopper};

/// The description in a run's folder, as it was understood; with what was wished while it ran.
pub const SPEC: &str = "spec.json";

/// How a lab ended.
#[derive(Debug)]
pub struct SessionEnd {
    /// How each node did.
    pub ends: Vec<Option<NodeEnd>>,
    pub digest: Digest,
    /// Why it ended before its nodes had.
    pub error: Option<LabError>,
    /// Who asked it to.
    pub stopped: Option<StopReason>,
    /// From when on the run is not the same again, as a thread was preempted that computed.
    pub preempted_ns: Option<u64>,
}

/// What a lab has to do with another one of its kind.
#[derive(Default)]
pub struct Kin {
    /// The clock's log of a run that this one is to be the same as.
    pub clock: Option<PathBuf>,
    /// Where it stands; nothing is shown until then.
    pub halt: Option<Halt>,
    /// Hashes of the nodes' memory are wanted.
    pub sums_memory: bool,
    /// Told of each checkpoint.
    pub notice: Option<Notice>,
    /// Told once for each node of which a thread keeps all others from running for long: the node's number.
    pub silent: Option<SilenceNotice>,
    /// Told when no process of the lab is left.
    pub left: Option<Box<dyn FnOnce() + Send>>,
    /// Labs with different numbers run on different processors, as far as there are enough.
    pub number: usize,
}

/// The engine's thread.
pub struct Session {
    thread: Option<JoinHandle<()>>,
    stop: Stopper,
    end: Arc<Mutex<Option<SessionEnd>>>,
}

fn in_dir(dir: &Path, name: &str) -> Result<File, LabError> {
    let path = dir.join(name);
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
    file.map_err(|source| LabError::File { path, source })
}

/// When the folder of the nodes' folders was made: nothing of the run is older.
fn machine_began_ns(dir: &Path) -> u64 {
    const NODES: &str = "nodes";
    let made = std::fs::metadata(dir.join(NODES)).and_then(|folder| folder.created());
    // Where that is not known, files that were furnished keep their times.
    let made = made.unwrap_or_else(|_| std::time::SystemTime::now());
    made.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Opens the pipe that a node writes to.
fn output(dir: &Path, name: &str) -> Result<File, LabError> {
    let path = dir.join(name);
    let failed = |source: std::io::Error| LabError::File { path: path.clone(), source };
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
        .map_err(|error| failed(error.into()))?;
    // For both: it does not wait for who writes, and does not end when they do.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path).map_err(failed)
}

/// The name of a node's pipe in the lab's folder.
pub fn output_name(node: usize, stream: usize) -> String {
    format!("{node}.{}", ["out", "err"][stream])
}

impl Session {
    /// Makes what the lab needs in its folder, before any process is.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn prepare(
        memory: &Arc<SessionMemory>,
        spec: &Spec,
        dir: &Path,
        show: Show,
        kin: Kin,
    ) -> Result<Prepared, LabError> {
        let stop = Stopper::default();
        let pcap = in_dir(dir, "packets.pcapng")?;
        let path = dir.join("packets.pcapng");
        let capture = Capture::new(pcap).map_err(|source| LabError::File { path, source })?;
        let mut log = Log::new(in_dir(dir, "log.jsonl")?, spec.nodes.len(), show, Some(capture));
        if kin.halt.is_some() {
            log.be_silent();
        }
        Engine::prepare(memory, spec);
        memory.lab().machine_began_ns.store(machine_began_ns(dir), std::sync::atomic::Ordering::Relaxed);
        let clock_log = ClockLog::new(in_dir(dir, CLOCK)?, kin.clock.as_deref())?;
        let mut checkpoints = Checkpoints::new(dir)?;
        (checkpoints.notice, checkpoints.halt, checkpoints.clock) = (kin.notice, kin.halt, kin.clock);
        let places = Places::new(in_dir(dir, PLACES)?);
        let memory_sums = match kin.sums_memory {
            true => MemorySums::new(spec.nodes.len(), in_dir(dir, MEMORY)?),
            false => MemorySums::default(),
        };
        memory.lab().sums_memory.store(u32::from(kin.sums_memory), std::sync::atomic::Ordering::Relaxed);
        let processor = Processor::choose(memory, kin.number);
        let (spec_path, silent) = (dir.join(SPEC), kin.silent);
        let kept = Kept { clock_log, checkpoints, places, memory_sums, spec_path, processor, silent };
        let mut engine = Engine::new(Arc::clone(memory), spec.clone(), log, stop.clone(), kept)?;
        for node in 0..spec.nodes.len() {
            let outputs = vec![output(dir, &output_name(node, 0))?, output(dir, &output_name(node, 1))?];
            engine.add_outputs(node, outputs)?;
        }
        Ok(Prepared { engine, stop, left: kin.left })
    }

    /// Asks the lab to end.
    pub fn stop(&self) {
        self.stop.stop(StopReason::Recording);
    }

    /// Waits for the lab's end.
    pub fn wait(mut self) -> Option<SessionEnd> {
        if let Some(thread) = self.thread.take() {
            // A panic has ended the whole command before.
            let _ = thread.join();
        }
        self.end.lock().ok()?.take()
    }
}

/// A lab whose processes are not there yet.
pub struct Prepared {
    engine: Engine,
    stop: Stopper,
    left: Option<Box<dyn FnOnce() + Send>>,
}

impl Prepared {
    /// What it is told while it runs.
    pub fn control(&self) -> Control {
        self.engine.control.clone()
    }

    /// What ends it early.
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Begins.
    pub fn start(self) -> Session {
        let Prepared { mut engine, stop, left } = self;
        let end = Arc::new(Mutex::new(None));
        let told = Arc::clone(&end);
        let stopper = stop.clone();
        let thread = injector::start_thread("engine", move || {
            let error = engine.run().err();
            let stopped = stopper.reason();
            // What a lab that is to end waited for does not matter.
            let error = error.filter(|_| stopped.is_none());
            engine.end();
            if let Some(left) = left {
                left();
            }
            let digest = Digest { memory: engine.memory_sums.texts(), ..engine.log.digest(engine.now_ns) };
            let preempted_ns = engine.preemption.first_ns;
            let ended = SessionEnd { ends: engine.nodes.ends(), digest, error, stopped, preempted_ns };
            if let Ok(mut end) = told.lock() {
                *end = Some(ended);
            }
        });
        Session { thread: Some(thread), stop, end }
    }
}
