//! What a debugger needs of a live session: the mailbox of the process that is debugged, its past
//! as a trace, its checkpoints, its end.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use injector::{ExitReport, Segment, SessionMemory, has_ended, kill_process};
use lane_protocol::lane_state;

use crate::listing::{explain, list};
use crate::live::Work;

/// How often it is looked whether the log has arrived.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A process of a live session, which is debugged: the first one, or one that it makes.
pub struct Debuggee {
    work: Arc<Work>,
    /// The number of its log.
    lane: u32,
    /// Where it is, and its process id; empty: it has not been made yet.
    found: OnceLock<(Segment, i32)>,
}

impl Debuggee {
    pub(crate) fn new(work: Arc<Work>) -> Debuggee {
        let lane = work.options.debugged;
        let found = OnceLock::new();
        if lane == 0 {
            let _ = found.set((Segment::FIRST, work.session.main_pid));
        }
        Debuggee { work, lane, found }
    }

    /// The same process, for another part of the debugger.
    pub fn another(&self) -> Debuggee {
        let Debuggee { work, lane, found } = self;
        Debuggee { work: Arc::clone(work), lane: *lane, found: found.clone() }
    }

    /// The memory that all processes of the session share.
    pub fn memory(&self) -> &SessionMemory {
        &self.work.session.memory
    }

    /// True once the process is there.
    pub fn is_made(&self) -> bool {
        let memory = self.memory();
        let found = || {
            let mut segments = memory.segments_in_use().into_iter();
            let segment = segments.find(|segment| memory.lane(*segment).ids().0 == self.lane)?;
            let pid = memory.lane(segment).pid().load(Ordering::Acquire);
            (pid != 0).then_some((segment, pid))
        };
        self.found.get().is_some() || found().is_some_and(|found| self.found.set(found).is_ok())
    }

    /// True if it is the first process of its session.
    pub fn is_first(&self) -> bool {
        self.lane == 0
    }

    /// True if it ran before its session began.
    pub fn ran_already(&self) -> bool {
        self.is_first() && self.work.session.boarded
    }

    /// Where its mailbox is.
    pub fn segment(&self) -> Segment {
        self.found.get().map_or(Segment::FIRST, |found| found.0)
    }

    pub fn pid(&self) -> i32 {
        self.found.get().map_or(0, |found| found.1)
    }

    /// How it ended, if it has. Of a process that is not the first, its parent learns that.
    pub fn end(&self) -> Option<ExitReport> {
        match self.is_first() {
            true => self.work.session.status.main(),
            false => self.is_gone().then_some(ExitReport::Killed(libc::SIGKILL)),
        }
    }

    /// True if it is not there any more, about to go, or will never be made.
    pub fn is_gone(&self) -> bool {
        if !self.is_first() && !self.is_made() {
            return self.work.session.status.main().is_some();
        }
        let lane = self.memory().lane(self.segment());
        let is_there = lane.ids().0 == self.lane && lane.state().load(Ordering::Acquire) == lane_state::LIVE;
        let is_over = match self.is_first() {
            true => self.end().is_some(),
            false => has_ended(self.pid()),
        };
        lane.pid().load(Ordering::Acquire) != 0 && !is_there || is_over
    }

    /// Interrupts the process, wherever its threads are.
    pub fn interrupt(&self) {
        let lane = self.memory().lane(self.segment());
        for entry in std::fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten() {
            if let Some(tid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                lane.interrupt_thread(tid);
            }
        }
    }

    /// Saves the past as a trace, in a directory that is not there or empty. The
    /// process stands still, and has logged so many bytes.
    ///
    /// # Errors
    /// A text that says why it cannot be saved.
    pub fn save(&self, dir: &Path, log_bytes: u64) -> Result<(), String> {
        let lane = self.memory().lane(self.segment()).ids().0;
        let arrived = || {
            let position = self.work.session.sink.with_history(|history| history.position(lane));
            position.is_none_or(|position| position >= log_bytes)
        };
        while !arrived() && !self.is_gone() {
            std::thread::sleep(LOOK_EVERY);
        }
        self.work.save(dir, None, None).map(|_| ())
    }

    /// How often the end of what it logged was dropped, since it went back.
    pub fn cuts(&self) -> u64 {
        let lane = self.memory().lane(self.segment()).ids().0;
        self.work.session.sink.with_history(|history| history.cuts(lane)).unwrap_or_default()
    }

    /// Its checkpoints, as text.
    pub fn list_checkpoints(&self) -> String {
        list(self.memory().lane(self.segment()))
    }

    /// What the last rollback to a checkpoint did not restore, as text.
    pub fn notes_on_rollback(&self, number: u64) -> String {
        let lane = self.memory().lane(self.segment());
        u32::try_from(number).map_or_else(|_| String::new(), |id| self.work.session.lost.of(lane, id))
    }

    /// Why an order failed: an errno as words.
    pub fn explain(&self, errno: i32, number: u64) -> String {
        explain(errno, number)
    }

    /// Sets how often a checkpoint is taken while the program runs; `None`: never.
    pub fn set_checkpoint_every(&self, every: Option<Duration>) {
        *self.work.every.lock().unwrap_or_else(PoisonError::into_inner) = every;
    }

    /// How often a checkpoint is taken.
    pub fn checkpoint_every(&self) -> Option<Duration> {
        *self.work.every.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the processes go on without us. The one that is debugged stands, and finds out
    /// when it goes on.
    pub fn detach(&self) {
        crate::waiting::let_go(self.memory());
    }

    /// Kills all processes of the session.
    pub fn kill(&self) {
        let memory = self.memory();
        for segment in memory.segments_in_use() {
            let pid = memory.lane(segment).pid().load(Ordering::Acquire);
            if pid > 0 {
                kill_process(pid, libc::SIGKILL);
            }
        }
        if self.work.session.status.main().is_none() {
            kill_process(self.work.session.main_pid, libc::SIGKILL);
        }
    }
}
