//! Live sessions: checkpoints by time, and commands from outside.
//!
//! A socket that only its owner can reach takes one command a connection: a line of
//! words, answered by lines of which the last is `ok` or begins with `error:`.

mod reach;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use injector::{Lane, Segment, SessionMemory};
use lane_protocol::{checkpoint_origin, command, lane_state};
use trace_store::{LaneEnd, Meta};

use crate::asker::Asker;
use crate::debuggee::Debuggee;
use crate::dying::is_dying;
use crate::file_journals::FileJournals;
use crate::listing::{Shown, checkpoints, explain, list};
pub use crate::live_options::{CheckpointWay, LiveOptions, OnCrash, Recover, ServeDebugger};
use crate::lost::{Back, Lost, input_lost_by};
use crate::sink::Sink;
use crate::sockets;
use crate::waiting::Status;
use crate::window::Windows;

/// How long a process may take to obey where nobody waits for it.
const WAIT_MAX: Duration = Duration::from_secs(30);
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Longest wait for the drainer, which takes a twentieth of a second.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(2);

/// What the session's parts share.
pub(crate) struct Session {
    pub memory: Arc<SessionMemory>,
    pub sink: Arc<Sink>,
    pub status: Arc<Status>,
    pub trace_dir: PathBuf,
    pub meta: Meta,
    pub main_pid: i32,
    /// The main process ran already: its past begins with a checkpoint.
    pub boarded: bool,
    pub quiet: bool,
    /// What was changed in files, if rollbacks restore them.
    pub journals: Option<Arc<FileJournals>>,
    /// What ways back did not restore.
    pub lost: Arc<Lost>,
}

/// The threads that take commands and the checkpoints that are due.
pub(crate) struct Control {
    pub(crate) work: Arc<Work>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    socket: PathBuf,
}

impl Control {
    pub fn start(mut options: LiveOptions, session: Session) -> Control {
        let stop = Arc::new(AtomicBool::new(false));
        let debugger = options.debugger.take();
        // A debugger takes the first checkpoint, where the process stands.
        let begins_boarded = session.boarded && debugger.is_none();
        let every = Mutex::new(options.checkpoint_every);
        let work = Arc::new(Work {
            session,
            options,
            every,
            obeying: Mutex::new(()),
            askers: AtomicU32::new(0),
            windows: Windows::default(),
            saved_main: AtomicBool::new(false),
        });
        let mut threads = Vec::new();
        if let Some(serve) = debugger {
            let debuggee = Debuggee::new(Arc::clone(&work));
            threads.push(injector::start_thread("debugger", move || serve(debuggee)));
        }
        match listen(&work.options.socket) {
            Ok(listener) => {
                let (work, stop) = (Arc::clone(&work), Arc::clone(&stop));
                threads.push(injector::start_thread("commands", move || work.serve(&listener, &stop)));
            }
            Err(error) => {
                diagnostics::tell!(
                    "retrovane: no commands can be given to this session: {}: {error}",
                    work.options.socket.display()
                );
            }
        }
        let socket = work.options.socket.clone();
        let (own, stopped) = (Arc::clone(&work), Arc::clone(&stop));
        threads.push(injector::start_thread("checkpoints", move || {
            if begins_boarded {
                own.begin_boarded(&stopped);
            }
            own.keep_time(&stopped);
        }));
        Control { work, stop, threads, socket }
    }

    /// The first process was killed, and all that it logged has arrived: saves what nobody could
    /// save before, as the kernel asks nobody (SIGKILL).
    pub fn save_killed(&self, signal: i32) {
        let (work, saved) = (&self.work, &self.work.saved_main);
        let is_wanted = work.options.on_crash == OnCrash::Save && signal == libc::SIGKILL;
        if is_wanted && !saved.load(Ordering::Acquire) {
            let pid = work.session.main_pid;
            let text = work.save_at_crash(pid, None);
            diagnostics::tell!("retrovane: process {pid} was killed by signal {signal}: {}", text.trim_end());
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn listen(path: &Path) -> std::io::Result<UnixListener> {
    // One of a session that was killed.
    let _ = std::fs::remove_file(path);
    let listener = sockets::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

pub(crate) struct Work {
    pub session: Session,
    pub(crate) options: LiveOptions,
    /// Time between two checkpoints.
    pub every: Mutex<Option<Duration>>,
    /// One command at a time.
    pub obeying: Mutex<()>,
    /// How many wait for the answer to a command: what the time asks for gives way.
    pub askers: AtomicU32,
    pub windows: Windows,
    /// The first process was about to die, and was asked what led to it.
    pub saved_main: AtomicBool,
}

impl Work {
    /// Lanes of processes that take part.
    pub fn lanes(&self) -> Vec<Segment> {
        let memory = &self.session.memory;
        let takes_part = |segment: &Segment| {
            let lane = memory.lane(*segment);
            lane.state().load(Ordering::Acquire) == lane_state::LIVE
                && lane.takes_part().load(Ordering::Acquire) != 0
        };
        memory.segments_in_use().into_iter().filter(takes_part).collect()
    }

    fn lane_of(&self, pid: Option<i32>) -> Option<Segment> {
        let wanted = pid.unwrap_or(self.session.main_pid);
        let memory = &self.session.memory;
        self.lanes().into_iter().find(|segment| memory.lane(*segment).pid().load(Ordering::Acquire) == wanted)
    }

    /// Gives the process a command; it may take so long as we have patience.
    pub fn order(&self, segment: Segment, kind: u32, argument: u64) -> Result<i32, String> {
        let begin = Instant::now();
        let _obeying = self.begin_obeying(&|| begin.elapsed() < WAIT_MAX)?;
        let begin = Instant::now();
        self.order_while(segment, kind, argument, &mut || begin.elapsed() < WAIT_MAX)
    }

    /// Waits for its turn among the commands.
    pub fn begin_obeying(&self, waits: &dyn Fn() -> bool) -> Result<MutexGuard<'_, ()>, String> {
        loop {
            match self.obeying.try_lock() {
                Ok(obeying) => return Ok(obeying),
                Err(TryLockError::Poisoned(error)) => return Ok(error.into_inner()),
                Err(TryLockError::WouldBlock) if waits() => std::thread::sleep(LOOK_EVERY),
                Err(TryLockError::WouldBlock) => return Err("another command is being obeyed".to_owned()),
            }
        }
    }

    /// True while a command is being obeyed, or somebody waits for one.
    fn is_obeying(&self) -> bool {
        self.askers.load(Ordering::Relaxed) != 0
            || matches!(self.obeying.try_lock(), Err(TryLockError::WouldBlock))
    }

    pub fn order_while(
        &self,
        segment: Segment,
        kind: u32,
        argument: u64,
        waits: &mut dyn FnMut() -> bool,
    ) -> Result<i32, String> {
        let lane = self.session.memory.lane(segment);
        let pid = lane.pid().load(Ordering::Acquire);
        // One that is dying stands with the token until we have seen to that.
        let gone = || !is_process(lane, pid) || is_dying(lane);
        let mut goes_on = || {
            if self.askers.load(Ordering::Relaxed) != 0 {
                lane.hurry();
            }
            waits() && !gone()
        };
        let mut answer = goes_on().then(|| lane.command(kind, argument, &mut goes_on)).flatten();
        // Another process that shares memory went first.
        while answer == Some(-libc::EDEADLK) && goes_on() {
            std::thread::sleep(LOOK_EVERY);
            answer = lane.command(kind, argument, &mut goes_on);
        }
        match answer {
            Some(answer) if answer >= 0 => Ok(answer),
            Some(error) => {
                let refused = self.session.journals.as_ref().and_then(|journals| journals.take_refused());
                Err(refused.unwrap_or_else(|| explain(-error, argument)))
            }
            None if gone() => Err("the process has ended".to_owned()),
            None => Err(format!("the process did not answer within {} s", WAIT_MAX.as_secs())),
        }
    }

    /// Each connection has a thread, so that a command that takes long keeps nobody from looking.
    fn serve(self: &Arc<Self>, listener: &UnixListener, stop: &AtomicBool) {
        let mut answering: Vec<JoinHandle<()>> = Vec::new();
        while !stop.load(Ordering::Acquire) {
            match listener.accept() {
                Ok((stream, _)) => {
                    answering.retain(|thread| !thread.is_finished());
                    let work = Arc::clone(self);
                    answering.push(injector::start_thread("command", move || {
                        // A client that goes away spoils its own answer only.
                        let _ = work.answer(&stream);
                    }));
                }
                Err(_) => std::thread::sleep(LOOK_EVERY),
            }
        }
        for thread in answering {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }

    fn answer(&self, mut stream: &UnixStream) -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut line = String::new();
        BufReader::new(stream.try_clone()?).read_line(&mut line)?;
        let answer = match self.obey(&Asker::new(stream), line.trim()) {
            Ok(text) => format!("{text}ok\n"),
            Err(text) => format!("error: {text}\n"),
        };
        stream.write_all(answer.as_bytes())
    }

    fn obey(&self, asker: &Asker, line: &str) -> Result<String, String> {
        let (pid, rest) = line.split_once(' ').unwrap_or((line, ""));
        let pid = pid.parse::<i32>().ok().filter(|pid| *pid > 0);
        let (verb, argument) = rest.split_once(' ').unwrap_or((rest, ""));
        let number = || {
            argument
                .trim()
                .parse::<u64>()
                .map_err(|_| format!("`{argument}` is not the number of a checkpoint"))
        };
        if verb == "save" {
            return self.save(Path::new(argument), pid, None);
        }
        if verb == "processes" {
            return Ok(self.processes());
        }
        if verb == "detach" {
            self.detach();
            return Ok("the processes go on without us\n".to_owned());
        }
        let segment = self.lane_of(pid).ok_or_else(|| match pid {
            Some(pid) => format!("process {pid} is not one of this session, or has ended"),
            None => "the session's first process has ended".to_owned(),
        })?;
        let lane = self.session.memory.lane(segment);
        match verb {
            "list" => Ok(list(lane)),
            "checkpoint" => {
                let id =
                    self.order_for(asker, segment, command::CHECKPOINT, u64::from(checkpoint_origin::USER))?;
                Ok(format!("checkpoint {id}\n"))
            }
            "discard" if is_window(lane, number()?) => {
                Err("the log is kept from that checkpoint on, until a later one takes its place".to_owned())
            }
            "discard" => self.order_for(asker, segment, command::DISCARD, number()?).map(|_| String::new()),
            "try" => {
                let number = number()?;
                self.order_for(asker, segment, command::TRY, number)?;
                self.catch_up(segment);
                Ok(format!("it can be done\n{}", self.notes(segment, number)))
            }
            "rollback" | "strict" => {
                let number = number()?;
                if verb == "strict" {
                    self.refuse_to_lose_input(asker, segment, number)?;
                }
                self.order_for(asker, segment, command::ROLLBACK, number)?;
                let notes = self.session.lost.of(lane, number as u32);
                Ok(format!("{notes}the program goes on from checkpoint {number}\n"))
            }
            "replay" => {
                let number = number()?;
                let begin = Instant::now();
                self.replay(asker, segment, number)?;
                Ok(format!(
                    "replayed from checkpoint {number} to the present in {:.3} s\n",
                    begin.elapsed().as_secs_f64()
                ))
            }
            _ => Err(format!("`{verb}` is no command")),
        }
    }

    /// Waits until what the process has logged by now is in the history, where it is looked up.
    fn catch_up(&self, segment: Segment) {
        let ring = self.session.memory.lane(segment).ring();
        let (head, since) = (ring.head.load(Ordering::Acquire), Instant::now());
        // A process that goes back meanwhile has its positions behind that.
        let is_behind = || ring.tail.load(Ordering::Acquire) < head;
        while is_behind() && since.elapsed() < CAUGHT_UP_WITHIN {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// An error if a rollback would lose input.
    fn refuse_to_lose_input(&self, asker: &Asker, segment: Segment, number: u64) -> Result<(), String> {
        self.order_for(asker, segment, command::TRY, number)?;
        self.catch_up(segment);
        let journals = self.session.journals.as_deref();
        let back = Back { memory: &self.session.memory, sink: &self.session.sink, journals, segment };
        let lost = u32::try_from(number).map_or_else(|_| Vec::new(), |id| input_lost_by(&back, id));
        if lost.is_empty() {
            return Ok(());
        }
        // One line, as answers end with it.
        Err(format!("nothing was rolled back, as input would be lost (--strict): {}", lost.join("; ")))
    }

    /// What a rollback would not restore.
    pub fn notes(&self, segment: Segment, number: u64) -> String {
        let journals = self.session.journals.as_deref();
        let back = Back { memory: &self.session.memory, sink: &self.session.sink, journals, segment };
        u32::try_from(number).map_or_else(|_| String::new(), |id| self.session.lost.of_next(&back, id))
    }

    fn processes(&self) -> String {
        let mut text = String::new();
        for segment in self.lanes() {
            let lane = self.session.memory.lane(segment);
            let pid = lane.pid().load(Ordering::Acquire);
            let count = checkpoints(lane).len();
            // Writing to a string does not fail.
            let _ = writeln!(text, "{pid} {count}");
        }
        text
    }

    /// The first checkpoint of a process that ran already.
    fn begin_boarded(&self, stop: &AtomicBool) {
        let pid = self.session.main_pid;
        while !stop.load(Ordering::Acquire) {
            let Some(segment) = self.lane_of(None) else {
                std::thread::sleep(LOOK_EVERY);
                continue;
            };
            if let Err(error) = self.order(segment, command::CHECKPOINT, u64::from(checkpoint_origin::USER)) {
                diagnostics::tell!("retrovane: no checkpoint could be taken of process {pid}: {error}");
            } else if !self.session.quiet {
                diagnostics::tell!("retrovane: attached to process {pid}: see `retrovane ctl {pid} list`");
            }
            return;
        }
    }

    /// Saves the past as a trace, where it begins later than the program that of the process
    /// `pid`. `killed_by`: the signal that this process is about to die of.
    pub fn save(&self, dir: &Path, pid: Option<i32>, killed_by: Option<i32>) -> Result<String, String> {
        if !dir.is_absolute() {
            return Err("the directory of the trace has to be absolute".to_owned());
        }
        let main = self.session.main_pid;
        let exit = |of: i32| match (killed_by, self.session.status.main()) {
            (Some(signal), _) if of == pid.unwrap_or(main) => LaneEnd::Killed(signal),
            (_, Some(injector::ExitReport::Exited(code))) if of == main => LaneEnd::Exited(code),
            (_, Some(injector::ExitReport::Killed(signal))) if of == main => LaneEnd::Killed(signal),
            (_, _) => LaneEnd::Unknown,
        };
        let dying = killed_by.map(|signal| (pid.unwrap_or(main), signal));
        let was_there = dir.symlink_metadata().is_ok();
        let is_full = std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
        let saved = self.save_log(dir, pid, dying, &exit).inspect_err(|_| {
            // Half of a trace is none: what was begun goes, but nothing that was there before.
            if !is_full {
                empty(dir);
            }
            if !was_there {
                let _ = std::fs::remove_dir(dir);
            }
        })?;
        let notes: String = saved.notes.into_iter().map(|note| note + "\n").collect();
        Ok(format!("saved {} events in {}\n{notes}", saved.events, dir.display()))
    }

    /// Takes checkpoints when they are due, and keeps below the limits.
    fn keep_time(&self, stop: &AtomicBool) {
        let every = || *self.every.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Instant::now() + every().unwrap_or_default();
        while !stop.load(Ordering::Acquire) {
            if let Some(bytes_max) = self.options.log_max_bytes {
                self.keep_log_below(bytes_max);
                self.drop_unreachable();
            }
            if let Some(journals) = &self.session.journals {
                let lanes: Vec<Lane> =
                    self.lanes().into_iter().map(|segment| self.session.memory.lane(segment)).collect();
                journals.forget(&lanes);
            }
            self.look_at_crashes();
            let Some(every) = every() else {
                std::thread::sleep(LOOK_EVERY);
                due = Instant::now();
                continue;
            };
            let now = Instant::now();
            // A command may take long, and meanwhile somebody may be about to die.
            if self.is_obeying() {
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            if now < due {
                std::thread::sleep(LOOK_EVERY.min(due - now));
                continue;
            }
            due = (due + every).max(now);
            // One that stands still under the debugger answers when it goes on.
            let stands = |segment: &Segment| self.session.memory.lane(*segment).stands_still();
            let mut taken_with_others = Vec::new();
            for segment in self.lanes().into_iter().filter(|segment| !stands(segment)) {
                // What could not be taken now can be taken the next time.
                if !taken_with_others.contains(&segment) {
                    let _ = self.order(segment, command::CHECKPOINT, u64::from(checkpoint_origin::TIME));
                    taken_with_others.extend(self.session.memory.sharers(segment));
                }
                self.thin(segment);
            }
            if let Some(bytes_max) = self.options.memory_max_bytes {
                self.keep_memory_below(bytes_max);
            }
        }
    }
}

/// True if this process still has the lane.
pub(crate) fn is_process(lane: Lane, pid: i32) -> bool {
    lane.state().load(Ordering::Acquire) == lane_state::LIVE && lane.pid().load(Ordering::Acquire) == pid
}

/// True if the log of a lane is kept from this checkpoint on.
fn is_window(lane: Lane, number: u64) -> bool {
    let is_it = |at: &Shown| u64::from(at.id) == number && at.origin == checkpoint_origin::WINDOW;
    checkpoints(lane).iter().any(is_it)
}

/// Removes what a trace that is being saved has in its directory.
pub(crate) fn empty(dir: &Path) {
    let _ = std::fs::remove_dir_all(dir.join("files"));
    for name in ["events.rvt", "trace.json"] {
        let _ = std::fs::remove_file(dir.join(name));
    }
}
