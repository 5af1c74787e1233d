//! What a debugger needs of a live session: the first process's mailbox, its past as a
//! trace, its checkpoints, its end.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use injector::{ExitReport, Segment, SessionMemory, kill_process};
use lane_protocol::lane_state;

use crate::listing::{explain, list};
use crate::live::Work;

/// How often it is looked whether the log has arrived.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The program of a live session, whose first process is debugged.
pub struct Debuggee(pub(crate) Arc<Work>);

impl Debuggee {
    /// The same program, for another part of the debugger.
    pub fn another(&self) -> Debuggee {
        Debuggee(Arc::clone(&self.0))
    }

    /// The memory that all processes of the session share.
    pub fn memory(&self) -> &SessionMemory {
        &self.0.session.memory
    }

    /// Where the first process's mailbox is.
    pub fn segment(&self) -> Segment {
        Segment::FIRST
    }

    /// The first process.
    pub fn pid(&self) -> i32 {
        self.0.session.main_pid
    }

    /// How the first process ended, if it has.
    pub fn end(&self) -> Option<ExitReport> {
        self.0.session.status.main()
    }

    /// True if the first process is not there any more, or about to go.
    pub fn is_gone(&self) -> bool {
        let lane = self.memory().lane(Segment::FIRST);
        lane.pid().load(Ordering::Acquire) != 0 && lane.state().load(Ordering::Acquire) != lane_state::LIVE
            || self.end().is_some()
    }

    /// Interrupts the first process, wherever its threads are.
    pub fn interrupt(&self) {
        let lane = self.memory().lane(Segment::FIRST);
        for entry in std::fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten() {
            if let Some(tid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                lane.interrupt_thread(tid);
            }
        }
    }

    /// Saves the past as a trace, in a directory that is not there or empty. The first
    /// process stands still, and has logged so many bytes.
    ///
    /// # Errors
    /// A text that says why it cannot be saved.
    pub fn save(&self, dir: &Path, log_bytes: u64) -> Result<(), String> {
        let lane = self.memory().lane(Segment::FIRST).ids().0;
        let arrived = || {
            let position = self.0.session.sink.with_history(|history| history.position(lane));
            position.is_none_or(|position| position >= log_bytes)
        };
        while !arrived() && !self.is_gone() {
            std::thread::sleep(LOOK_EVERY);
        }
        self.0.save(dir, None, None).map(|_| ())
    }

    /// How often the end of what the first process logged was dropped, since it went back.
    pub fn cuts(&self) -> u64 {
        let lane = self.memory().lane(Segment::FIRST).ids().0;
        self.0.session.sink.with_history(|history| history.cuts(lane)).unwrap_or_default()
    }

    /// The checkpoints of the first process, as text.
    pub fn list_checkpoints(&self) -> String {
        list(self.memory().lane(Segment::FIRST))
    }

    /// What the last rollback to a checkpoint did not restore, as text.
    pub fn notes_on_rollback(&self, number: u64) -> String {
        let lane = self.memory().lane(Segment::FIRST);
        u32::try_from(number).map_or_else(|_| String::new(), |id| self.0.session.lost.of(lane, id))
    }

    /// Why an order failed: an errno as words.
    pub fn explain(&self, errno: i32, number: u64) -> String {
        explain(errno, number)
    }

    /// Sets how often a checkpoint is taken while the program runs; `None`: never.
    pub fn set_checkpoint_every(&self, every: Option<Duration>) {
        *self.0.every.lock().unwrap_or_else(PoisonError::into_inner) = every;
    }

    /// How often a checkpoint is taken.
    pub fn checkpoint_every(&self) -> Option<Duration> {
        *self.0.every.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the processes go on without us. The first one stands, and finds out
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
        if self.end().is_none() {
            kill_process(self.pid(), libc::SIGKILL);
        }
    }
}
