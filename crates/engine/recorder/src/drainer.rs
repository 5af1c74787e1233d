//! The thread that empties the rings into the trace.
//!
//! It sleeps on the session's doorbell, which processes ring when a ring is half
//! full, when they wait for space, and when a lane ends; a timeout finds the
//! rest: little data that is old, and processes that were killed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use injector::{ExitReport, PidFd, Segment, SessionMemory, futex_wait, is_gone, kill_process, poll_exited};
use lane_protocol::{RING_BYTES, lane_state};
use trace_store::{LaneEnd, Pressure};

use crate::Progress;
use crate::lane_log::LaneLog;
use crate::sink::Sink;
use crate::undoing::Undoing;
use crate::waiting::Status;
use crate::waits::Waits;
use crate::watchdog::Watchdog;

/// Longest sleep.
const SLEEP: Duration = Duration::from_millis(20);
/// How often ends of processes are looked for.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// A segment that stays reserved so long, while no process is left to use it, is freed.
const RESERVED_MAX: Duration = Duration::from_millis(200);
/// After that time of waiting for other processes than the main one, the user is told.
const NOTE_AFTER: Duration = Duration::from_secs(1);
/// How long processes have to notice that recording was ended.
const LEAVE_AFTER: Duration = Duration::from_secs(1);
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// What the drainer knows at the end.
#[derive(Debug, Default)]
pub(crate) struct DrainReport {
    pub processes: u64,
    pub events: u64,
    pub raw_bytes: u64,
    pub notes: Vec<String>,
}

/// The running thread.
pub(crate) struct Drainer {
    thread: JoinHandle<DrainReport>,
    tell_waiting: Arc<std::sync::atomic::AtomicBool>,
}

impl Drainer {
    pub fn start(
        memory: Arc<SessionMemory>,
        sink: Arc<Sink>,
        status: Arc<Status>,
        main_pid: i32,
        undoing: Option<Undoing>,
        progress: Option<Box<dyn Fn(Progress) + Send>>,
    ) -> Drainer {
        let tell_waiting = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mut work = Work {
            memory,
            sink,
            status,
            main_pid,
            undoing,
            logs: BTreeMap::new(),
            reserved: HashMap::new(),
            report: DrainReport::default(),
            polled: Instant::now(),
            pressure: Pressure::Idle,
            main_ended: None,
            told_waiting: false,
            watchdog: Watchdog::new(),
            waits: Waits::default(),
        };
        let tell = Arc::clone(&tell_waiting);
        let thread = injector::start_thread("drainer", move || {
            work.run(&tell, progress.as_deref());
            for (lane, end) in work.waits.learned() {
                work.sink.learn_end(lane, end);
            }
            work.report
        });
        Drainer { thread, tell_waiting }
    }

    /// Waits until all processes have ended; says so if it takes long and `tell`.
    pub fn wait(self, tell: bool) -> DrainReport {
        self.tell_waiting.store(tell, Ordering::Release);
        // A thread that panicked has said so on stderr; the trace is then cut.
        self.thread.join().unwrap_or_default()
    }
}

struct Work {
    memory: Arc<SessionMemory>,
    sink: Arc<Sink>,
    status: Arc<Status>,
    main_pid: i32,
    /// In a live session: how branches undo what happened.
    undoing: Option<Undoing>,
    logs: BTreeMap<Segment, LaneLog>,
    /// Segments that a parent took for a child that is about to be, since when.
    reserved: HashMap<Segment, Instant>,
    report: DrainReport,
    polled: Instant,
    pressure: Pressure,
    main_ended: Option<Instant>,
    told_waiting: bool,
    watchdog: Watchdog,
    waits: Waits,
}

impl Work {
    fn run(&mut self, tell: &std::sync::atomic::AtomicBool, progress: Option<&(dyn Fn(Progress) + Send)>) {
        let memory = Arc::clone(&self.memory);
        let mut told = Instant::now();
        loop {
            let seen = memory.doorbell().load(Ordering::Acquire);
            // Looked at before the lanes: a main process that has ended made its
            // last child, or reserved the child's segment, before that.
            let main_ended = self.status.main().is_some();
            self.find_lanes();
            let busy = self.drain_all();
            self.end_lanes();
            let segments: Vec<Segment> = self.logs.keys().copied().collect();
            for text in self.watchdog.look(&memory, &segments) {
                diagnostics::tell!("retrovane: {text}");
                self.report.notes.push(text);
            }
            if let Some(progress) = progress
                && told.elapsed() >= PROGRESS_EVERY
            {
                told = Instant::now();
                progress(self.progress());
            }
            if main_ended && self.is_over(tell.load(Ordering::Acquire)) {
                self.report.notes.extend(self.status.take_notes());
                return;
            }
            if !busy {
                futex_wait(memory.doorbell(), seen, SLEEP);
            }
        }
    }

    fn progress(&self) -> Progress {
        Progress {
            processes: self.logs.len(),
            events: self.report.events + self.logs.values().map(|log| log.events).sum::<u64>(),
            raw_bytes: self.report.raw_bytes + self.logs.values().map(|log| log.raw_bytes).sum::<u64>(),
        }
    }

    /// Begins the lanes that are new, and notes those that are about to be.
    fn find_lanes(&mut self) {
        let mut reserved = HashMap::new();
        for segment in self.memory.segments_in_use() {
            if self.logs.contains_key(&segment) {
                continue;
            }
            let lane = self.memory.lane(segment);
            let pid = lane.pid().load(Ordering::Acquire);
            let state = lane.state().load(Ordering::Acquire);
            if (state == lane_state::LIVE || state == lane_state::ENDED) && pid != 0 {
                let (id, parent) = lane.ids();
                self.sink.begin_lane(id, parent, pid);
                self.logs.insert(segment, LaneLog::new(segment, id, pid));
                self.report.processes += 1;
            } else if self.memory.is_stillborn(segment) {
                self.memory.free_segment(segment);
            } else {
                let since = self.reserved.get(&segment).copied().unwrap_or_else(Instant::now);
                reserved.insert(segment, since);
            }
        }
        self.reserved = reserved;
    }

    /// Empties all rings. True if one was so full that it should be looked at
    /// again at once.
    fn drain_all(&mut self) -> bool {
        let mut fullest_bytes = 0;
        for log in self.logs.values_mut() {
            if let Some(undoing) = &self.undoing {
                log.serve(&self.memory, &self.sink, undoing);
                if let Some(text) = log.failed_replay(self.memory.lane(log.segment)) {
                    diagnostics::tell!("retrovane: {text}");
                    self.report.notes.push(text);
                }
            }
            let drained = log.drain(self.memory.lane(log.segment), &self.sink);
            log.waited.drain(..).for_each(|child| self.waits.add(log.lane, child));
            fullest_bytes = fullest_bytes.max(drained.bytes);
            if let Some(message) = drained.message {
                let text =
                    format!("recording of process {} stopped: {message}; the program goes on", log.pid);
                diagnostics::tell!("retrovane: {text}");
                self.report.notes.push(text);
            }
        }
        // Reaching three quarters means that the program is faster than this thread.
        let pressure =
            if fullest_bytes as u64 > RING_BYTES / 4 * 3 { Pressure::Behind } else { Pressure::Idle };
        if pressure != self.pressure {
            self.pressure = pressure;
            self.sink.set_pressure(pressure);
        }
        fullest_bytes as u64 > RING_BYTES / 4
    }

    /// Ends the lanes whose log is complete, and those whose process is gone.
    fn end_lanes(&mut self) {
        let poll = self.polled.elapsed() >= POLL_EVERY;
        if poll {
            self.polled = Instant::now();
        }
        let gone = if poll { self.gone() } else { Vec::new() };
        let ended: Vec<Segment> = self
            .logs
            .keys()
            .copied()
            .filter(|segment| {
                let state = self.memory.lane(*segment).state().load(Ordering::Acquire);
                state == lane_state::ENDED || gone.contains(segment)
            })
            .collect();
        for segment in ended {
            self.end_lane(segment);
        }
    }

    /// Lanes whose process no longer runs.
    fn gone(&self) -> Vec<Segment> {
        let held: Vec<(&Segment, &PidFd)> =
            self.logs.iter().filter_map(|(segment, log)| Some((segment, log.process.as_ref()?))).collect();
        let exited = poll_exited(&held.iter().map(|(_, process)| *process).collect::<Vec<_>>());
        let is_unheld = |log: &&LaneLog| log.process.is_none() && is_gone(log.pid);
        let never_held = self.logs.values().filter(is_unheld).map(|log| log.segment);
        held.iter()
            .zip(exited)
            .filter(|(_, exited)| *exited)
            .map(|((segment, _), _)| **segment)
            .chain(never_held)
            .collect()
    }

    fn end_lane(&mut self, segment: Segment) {
        let main_ran_already = self.undoing.as_ref().is_some_and(|undoing| undoing.main_ran_already);
        let Some(log) = self.logs.get_mut(&segment) else { return };
        for pid in self.memory.leave_together(segment) {
            self.memory.note_killed(pid);
            kill_process(pid, libc::SIGKILL);
            let text = format!(
                "process {pid} was ended: process {}, which shares memory with it, died while both did again what they had done",
                log.pid
            );
            diagnostics::tell!("retrovane: {text}");
            self.report.notes.push(text);
        }
        self.memory.note_death(segment);
        self.memory.free_token(segment);
        // What was written between the last look and the end.
        log.drain(self.memory.lane(segment), &self.sink);
        let end = match log.end {
            Some(end) => end,
            None if log.pid == self.main_pid && !main_ran_already => match self.status.main() {
                Some(ExitReport::Killed(libc::SIGKILL))
                    if self.undoing.as_ref().is_some_and(|undoing| undoing.saves_crashes)
                        && log.is_being_saved(self.memory.lane(segment), &self.sink, false) =>
                {
                    return;
                }
                Some(ExitReport::Killed(signal)) => LaneEnd::Killed(signal),
                Some(ExitReport::Exited(_)) => LaneEnd::Unknown,
                // Its waiter will know in a moment.
                None => return,
            },
            None => {
                // Its log says nothing: it was killed, or nobody knows.
                let how = log.process.as_ref().and_then(|process| process.end(log.pid));
                let is_crash = matches!(how, None | Some(ExitReport::Killed(libc::SIGKILL)))
                    && self.undoing.as_ref().is_some_and(|undoing| undoing.saves_crashes)
                    && !self.memory.was_killed_inside(log.pid);
                if is_crash && log.is_being_saved(self.memory.lane(segment), &self.sink, true) {
                    return;
                }
                match how {
                    Some(ExitReport::Killed(signal)) => LaneEnd::Killed(signal),
                    Some(ExitReport::Exited(_)) | None => LaneEnd::Unknown,
                }
            }
        };
        log.flush(self.memory.lane(segment), &self.sink);
        log.waited.drain(..).for_each(|child| self.waits.add(log.lane, child));
        let lane = self.memory.lane(segment);
        let waited_pid = match lane.waited_pid().load(Ordering::Relaxed) {
            0 => log.pid,
            pid => pid,
        };
        self.waits.end_lane(log.lane, lane.ids().1, waited_pid, end);
        self.sink.end_lane(log.lane, end);
        if log.pid == self.main_pid {
            self.status.set_main_log(end);
        }
        self.report.events += log.events;
        self.report.raw_bytes += log.raw_bytes;
        self.logs.remove(&segment);
        self.memory.free_segment(segment);
    }

    /// After the end of the main process: true once nothing is left to record.
    fn is_over(&mut self, tell: bool) -> bool {
        if self.logs.is_empty() {
            let abandoned = |since: &Instant| since.elapsed() >= RESERVED_MAX;
            return self.reserved.values().all(abandoned);
        }
        let since = *self.main_ended.get_or_insert_with(Instant::now);
        if self.status.is_interrupted() {
            return self.leave();
        }
        if tell && !self.told_waiting && since.elapsed() >= NOTE_AFTER {
            self.told_waiting = true;
            let count = self.logs.len();
            let what = if count == 1 { "process that it started" } else { "processes that it started" };
            diagnostics::tell!(
                "retrovane: the program has ended; waiting for {count} {what} (Ctrl-C ends the recording, they go on)"
            );
        }
        false
    }

    /// The user wants no more: gives the processes a moment to notice, then ends
    /// their lanes as they are.
    fn leave(&mut self) -> bool {
        let since = Instant::now();
        while since.elapsed() < LEAVE_AFTER && !self.logs.is_empty() {
            self.drain_all();
            self.end_lanes();
            std::thread::sleep(Duration::from_millis(5));
        }
        for log in self.logs.values_mut() {
            log.flush(self.memory.lane(log.segment), &self.sink);
            self.sink.end_lane(log.lane, LaneEnd::Stopped(events::StopReason::RecorderDied as u16));
            self.report.notes.push(format!("recording of process {} was ended by the user", log.pid));
        }
        true
    }
}
