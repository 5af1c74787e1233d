//! The thread that feeds all lanes, looks at reports and at ends.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use injector::{ExitReport, Segment, SessionMemory, cpu_time, futex_wait, futex_wake, kill_process};
use lane_protocol::{lane_state, report_kind};
use trace_store::{LaneEnd, LaneInfo, TraceReader};

use crate::Progress;
use crate::describe::Divergence;
use crate::error::ReplayError;
use crate::feeder::{Feed, FeedError};

const SLEEP: Duration = Duration::from_millis(20);
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
const LOOK_AT_TIME_EVERY: Duration = Duration::from_millis(250);
/// Processor time after the last event that a process may use whose end the log
/// does not tell: it was killed in its own code, where nothing ends it now.
const TIME_AFTER_LOG: Duration = Duration::from_secs(2);

/// Ends of processes, from the thread that reaps them.
#[derive(Default)]
pub(crate) struct Ends {
    pub processes: Vec<(i32, ExitReport)>,
    pub all_gone: bool,
}

/// What a replay leads to.
#[derive(Default)]
pub(crate) struct Supervised {
    pub divergence: Option<Divergence>,
    pub notes: Vec<String>,
    pub events: u64,
}

/// Makes the supervising thread look.
pub(crate) fn ring(memory: &SessionMemory) {
    memory.doorbell().fetch_add(1, Ordering::Release);
    futex_wake(memory.doorbell());
}

/// A process that replays a lane.
struct Process {
    feed: Feed,
    pid: i32,
    recorded: Option<LaneInfo>,
    /// It reported its recorded end, or was ended by us for a good reason.
    ended_well: bool,
    /// Processor time when its log was first found consumed.
    time_at_log_end: Option<Duration>,
}

pub(crate) struct Supervisor {
    memory: Arc<SessionMemory>,
    trace: TraceReader,
    lanes: HashMap<u32, LaneInfo>,
    /// Lanes to follow; `None`: all.
    wanted: Option<Vec<u32>>,
    ends: Arc<Mutex<Ends>>,
    processes: BTreeMap<Segment, Process>,
    /// Ends that no lane is known for yet, since the last look.
    result: Supervised,
    error: Option<ReplayError>,
    /// Everything is being ended: what dies now does not count.
    ending: bool,
    looked_at_time: Instant,
    first_pid: i32,
}

impl Supervisor {
    pub fn new(
        memory: Arc<SessionMemory>,
        trace: TraceReader,
        lanes: HashMap<u32, LaneInfo>,
        wanted: Option<Vec<u32>>,
        ends: Arc<Mutex<Ends>>,
        first_pid: i32,
    ) -> Supervisor {
        Supervisor {
            memory,
            trace,
            lanes,
            wanted,
            ends,
            processes: BTreeMap::new(),
            result: Supervised::default(),
            error: None,
            ending: false,
            looked_at_time: Instant::now(),
            first_pid,
        }
    }

    /// Works until no process is left.
    pub fn run(&mut self, progress: Option<&(dyn Fn(Progress) + Send)>) {
        let memory = Arc::clone(&self.memory);
        let events_total = self.events_total();
        let mut told = Instant::now();
        loop {
            let seen = memory.doorbell().load(Ordering::Acquire);
            let (ended, all_gone) = {
                let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
                (std::mem::take(&mut ends.processes), ends.all_gone)
            };
            self.find_processes();
            let moved = self.feed_all();
            self.look_at_reports();
            for (pid, how) in ended {
                self.process_ended(pid, how);
            }
            if all_gone {
                return;
            }
            if self.ending {
                self.kill_all();
            } else {
                self.look_at_outputs();
                self.look_at_time();
            }
            if let Some(progress) = progress
                && told.elapsed() >= PROGRESS_EVERY
            {
                told = Instant::now();
                progress(Progress { events_done: self.events_done(), events_total });
            }
            if !moved {
                futex_wait(memory.doorbell(), seen, SLEEP);
            }
        }
    }

    /// The outcome, once `run` has returned.
    pub fn into_result(mut self) -> Result<Supervised, ReplayError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let wanted = |info: &&LaneInfo| self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&info.lane));
        self.result.events = self.lanes.values().filter(wanted).map(|info| info.events).sum();
        Ok(self.result)
    }

    fn events_total(&self) -> u64 {
        let wanted = |info: &&LaneInfo| self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&info.lane));
        self.lanes.values().filter(wanted).map(|info| info.events).sum()
    }

    fn events_done(&self) -> u64 {
        let running =
            |process: &Process| self.memory.lane(process.feed.segment).events_done().load(Ordering::Relaxed);
        self.result.events + self.processes.values().map(running).sum::<u64>()
    }

    /// Takes notice of processes that are new.
    fn find_processes(&mut self) {
        for segment in self.memory.segments_in_use() {
            if self.processes.contains_key(&segment) {
                continue;
            }
            let lane = self.memory.lane(segment);
            let state = lane.state().load(Ordering::Acquire);
            let pid = lane.pid().load(Ordering::Acquire);
            if ![lane_state::LIVE, lane_state::ENDED, lane_state::REPORTED].contains(&state) || pid == 0 {
                continue;
            }
            let (id, _) = lane.ids();
            let feed = Feed::new(segment, id, self.trace.lane(id).ok());
            let recorded = self.lanes.get(&id).cloned();
            let process = Process { feed, pid, recorded, ended_well: false, time_at_log_end: None };
            self.processes.insert(segment, process);
        }
    }

    fn feed_all(&mut self) -> bool {
        let mut moved = false;
        for process in self.processes.values_mut() {
            let lane = self.memory.lane(process.feed.segment);
            if self.ending || lane.state().load(Ordering::Acquire) != lane_state::LIVE {
                continue;
            }
            match process.feed.pump(lane) {
                Ok(bytes) => moved |= bytes != 0,
                Err(FeedError::Store(error)) => {
                    self.error.get_or_insert(error.into());
                    self.ending = true;
                }
                Err(FeedError::BadEvents) => {
                    self.error.get_or_insert(ReplayError::BadEvents { lane: process.feed.lane });
                    self.ending = true;
                }
                Err(FeedError::Ring(error)) => {
                    let pid = process.recorded.as_ref().map_or(process.pid, |info| info.pid);
                    let done = lane.events_done().load(Ordering::Relaxed);
                    let failure = Divergence::of_death(pid, process.feed.lane, done, error.to_string());
                    self.result.divergence.get_or_insert(failure);
                    self.ending = true;
                }
            }
        }
        moved
    }

    fn look_at_reports(&mut self) {
        let reported: Vec<Segment> = self
            .processes
            .iter()
            .filter(|(segment, process)| {
                !process.ended_well
                    && self.memory.lane(**segment).state().load(Ordering::Acquire) == lane_state::REPORTED
            })
            .map(|(segment, _)| *segment)
            .collect();
        for segment in reported {
            self.look_at_report(segment);
        }
    }

    fn look_at_report(&mut self, segment: Segment) {
        let report = self.memory.lane(segment).report();
        let Some(process) = self.processes.get_mut(&segment) else { return };
        let recorded_pid = process.recorded.as_ref().map_or(process.pid, |info| info.pid);
        match report.kind {
            // It exits by itself.
            report_kind::EXITED => process.ended_well = true,
            report_kind::FAULTED | report_kind::LOG_ENDED | report_kind::STOPPED => {
                process.ended_well = true;
                if report.kind == report_kind::STOPPED {
                    let text = if report.text.is_empty() { "recording stopped there" } else { &report.text };
                    self.result.notes.push(format!("process {recorded_pid} was replayed up to where {text}"));
                }
                kill_process(process.pid, libc::SIGKILL);
            }
            _ => {
                if !self.ending {
                    let divergence = Divergence::of_report(&report, recorded_pid, process.feed.lane);
                    self.result.divergence = Some(divergence);
                    self.ending = true;
                }
            }
        }
    }

    fn process_ended(&mut self, pid: i32, how: ExitReport) {
        let segment =
            self.processes.iter().find(|(_, process)| process.pid == pid).map(|(segment, _)| *segment);
        let Some(segment) = segment else {
            if !self.ending {
                let lane = if pid == self.first_pid { 0 } else { u32::MAX };
                self.fail(Divergence::of_death(
                    pid,
                    lane,
                    0,
                    format!("a process of the replay {how} before it began"),
                ));
            }
            return;
        };
        // It may have reported between the last look and its end.
        self.look_at_reports();
        let Some(process) = self.processes.remove(&segment) else { return };
        let lane = self.memory.lane(segment);
        let done = lane.events_done().load(Ordering::Relaxed);
        if !process.ended_well && !self.ending {
            let recorded_pid = process.recorded.as_ref().map_or(pid, |info| info.pid);
            let text = format!("the replaying process {how} without a report");
            self.fail(Divergence::of_death(recorded_pid, process.feed.lane, done, text));
        }
        self.result.events += done;
        self.memory.free_segment(segment);
    }

    fn fail(&mut self, failure: Divergence) {
        self.result.divergence.get_or_insert(failure);
        self.ending = true;
    }

    fn kill_all(&self) {
        for segment in self.memory.segments_in_use() {
            kill_process(self.memory.lane(segment).pid().load(Ordering::Acquire), libc::SIGKILL);
        }
    }

    /// Where the trace is cut or filtered, an output may be missing that all
    /// others wait for: goes on with the next that there is.
    fn look_at_outputs(&self) {
        let mut next: Option<u64> = None;
        for segment in self.memory.segments_in_use() {
            let lane = self.memory.lane(segment);
            match lane.state().load(Ordering::Acquire) {
                lane_state::FREE | lane_state::ENDED | lane_state::REPORTED => {}
                _ => match lane.waits_for_output().load(Ordering::Acquire) {
                    0 => return,
                    order => next = Some(next.map_or(order - 1, |other| other.min(order - 1))),
                },
            }
        }
        let order = self.memory.output_order();
        if let Some(next) = next
            && order.load(Ordering::Acquire) < next
        {
            order.store(next, Ordering::Release);
            self.memory.output_wake().fetch_add(1, Ordering::Release);
            futex_wake(self.memory.output_wake());
        }
    }

    /// Ends processes that run on after a log that does not tell their end.
    fn look_at_time(&mut self) {
        if self.looked_at_time.elapsed() < LOOK_AT_TIME_EVERY {
            return;
        }
        self.looked_at_time = Instant::now();
        for process in self.processes.values_mut() {
            let lane = self.memory.lane(process.feed.segment);
            let end = process.recorded.as_ref().and_then(|info| info.end);
            let end_is_told = matches!(end, Some(LaneEnd::Exited(_) | LaneEnd::Stopped(_)));
            if process.ended_well || end_is_told || !process.feed.closed || lane.ring().filled_bytes() != 0 {
                continue;
            }
            let Some(time) = cpu_time(process.pid) else { continue };
            let since = *process.time_at_log_end.get_or_insert(time);
            if time.saturating_sub(since) > TIME_AFTER_LOG {
                let pid = process.recorded.as_ref().map_or(process.pid, |info| info.pid);
                self.result.notes.push(format!(
                    "process {pid} was ended in its own code, after its last recorded event, as when it was recorded"
                ));
                process.ended_well = true;
                kill_process(process.pid, libc::SIGKILL);
            }
        }
    }
}
