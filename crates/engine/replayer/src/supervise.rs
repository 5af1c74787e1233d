//! The thread that feeds all lanes, looks at reports and at ends.

mod missed;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use injector::{ExitReport, Segment, SessionMemory, cpu_time, futex_wait, futex_wake, kill_process};
use lane_protocol::{lane_state, report_kind};
use trace_store::{LaneEnd, LaneInfo, TraceReader, hash_hex};

use crate::Progress;
use crate::backtrace::{Start, backtrace};
use crate::describe::Divergence;
use crate::error::ReplayError;
use crate::feeder::{Feed, FeedError};
use crate::real::{Additions, RealPlan};
use crate::unlogged_end::{LOG_TOO_SHORT, tells_its_end, time_behind_log};
use crate::watchdog::Watchdog;

const SLEEP: Duration = Duration::from_millis(20);
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// How long all processes have to wait before an output that none has is a gap: it
/// was lost with a killed process.
const GAP_WAIT_MAX: Duration = Duration::from_millis(300);
const LOOK_AT_TIME_EVERY: Duration = Duration::from_millis(250);

/// All processes wait so long for tickets before one counts as missing.
const TICKET_WAIT_MAX: Duration = Duration::from_secs(1);
/// And were seen to wait so often meanwhile, and nobody to get on: one look, which takes the
/// processes one after the other, may be wrong, and the machine may stand still behind it.
const TICKET_LOOKS: u32 = 20;

/// Places of registers in a report.
const RBP: usize = 6;
const RSP: usize = 7;
const RIP: usize = 16;

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
    /// Recorded paths of kept files, by their hash in hex.
    originals: HashMap<String, Vec<u8>>,
    processes: BTreeMap<Segment, Process>,
    result: Supervised,
    error: Option<ReplayError>,
    /// Everything is being ended: what dies now does not count.
    ending: bool,
    looked_at_time: Instant,
    /// The output that all wait for a gap before, and since when.
    stalled: Option<(u64, Instant)>,
    /// All processes wait for tickets.
    ticket_stalled: Option<Stall>,
    first_pid: i32,
    watchdog: Watchdog,
    real: RealPlan,
}

/// Processes that wait for each other.
struct Stall {
    since: Instant,
    looks: u32,
    /// Of the tickets that they wait for, and of their events: it grows when one gets on.
    sum: u64,
}

impl Supervisor {
    pub fn new(
        memory: Arc<SessionMemory>,
        trace: TraceReader,
        lanes: HashMap<u32, LaneInfo>,
        wanted: Option<Vec<u32>>,
        ends: Arc<Mutex<Ends>>,
        first_pid: i32,
        real: RealPlan,
    ) -> Supervisor {
        let originals =
            trace.files().iter().map(|kept| (hash_hex(&kept.file.hash), kept.file.path.clone())).collect();
        let took = trace.summary().map(|summary| Duration::from_nanos(summary.duration_ns));
        Supervisor {
            memory,
            trace,
            lanes,
            wanted,
            ends,
            originals,
            processes: BTreeMap::new(),
            result: Supervised::default(),
            error: None,
            ending: false,
            looked_at_time: Instant::now(),
            stalled: None,
            ticket_stalled: None,
            first_pid,
            watchdog: Watchdog::new(took),
            real,
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
                self.look_at_survivors();
                self.look_at_misplaced();
                return;
            }
            if self.ending {
                self.kill_all();
            } else {
                self.look_at_outputs();
                self.look_at_tickets();
                self.look_at_time();
                self.look_for_missed();
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
            let lane = self.memory.lane(segment);
            let pid = lane.pid().load(Ordering::Acquire);
            if let Some(process) = self.processes.get_mut(&segment) {
                // A copy may have taken the lane over.
                process.pid = pid;
                continue;
            }
            let state = lane.state().load(Ordering::Acquire);
            if ![lane_state::LIVE, lane_state::ENDED, lane_state::REPORTED].contains(&state) || pid == 0 {
                continue;
            }
            let (id, _) = lane.ids();
            let additions = Additions::new(self.real.remove(&id).unwrap_or_default());
            let feed = Feed::new(segment, id, self.trace.lane(id).ok()).with(additions);
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
                Err(FeedError::BadEvents(source)) => {
                    self.error.get_or_insert(ReplayError::BadEvents { lane: process.feed.lane, source });
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
        let reporter = self.memory.lane(segment).pid().load(Ordering::Acquire);
        let Some(process) = self.processes.get_mut(&segment) else { return };
        // A copy may have taken the lane over since the last look, and reported: it is meant, and not who is on its
        // way out.
        process.pid = reporter;
        let recorded_pid = process.recorded.as_ref().map_or(process.pid, |info| info.pid);
        let ends_too_soon = tells_its_end(&self.trace, process.recorded.as_ref())
            && self.memory.stop().load(Ordering::Acquire) == 0;
        match report.kind {
            // It exits by itself.
            report_kind::EXITED => process.ended_well = true,
            report_kind::LOG_ENDED if ends_too_soon => {
                kill_process(process.pid, libc::SIGKILL);
                let failure = Divergence::of_death(
                    recorded_pid,
                    process.feed.lane,
                    report.event,
                    LOG_TOO_SHORT.to_owned(),
                );
                self.fail(failure);
            }
            report_kind::FAULTED | report_kind::LOG_ENDED | report_kind::STOPPED => {
                process.ended_well = true;
                let is_traced = report.code == events::StopReason::Traced as i32;
                if report.kind == report_kind::STOPPED && !is_traced {
                    let text = if report.text.is_empty() { "recording stopped there" } else { &report.text };
                    self.result.notes.push(format!("process {recorded_pid} was replayed up to where {text}"));
                }
                kill_process(process.pid, libc::SIGKILL);
            }
            _ => {
                if !self.ending {
                    let mut divergence = Divergence::of_report(&report, recorded_pid, process.feed.lane);
                    if report.registers[RIP] != 0 {
                        let [rip, rsp, rbp] = [RIP, RSP, RBP].map(|index| report.registers[index]);
                        divergence.stack = backtrace(process.pid, &Start { rip, rsp, rbp }, &self.originals);
                    }
                    self.result.divergence = Some(divergence);
                    self.ending = true;
                }
            }
        }
    }

    /// Takes notice of the end of a process.
    fn process_ended(&mut self, pid: i32, how: ExitReport) {
        let holder = |process: &&Process| process.pid == pid;
        let Some(segment) = self.processes.values().find(holder).map(|process| process.feed.segment) else {
            // A child of vfork that executed a new image left its lane to a copy of
            // itself, before anybody looked.
            if !self.ending && how != ExitReport::Exited(0) {
                let lane = if pid == self.first_pid { 0 } else { u32::MAX };
                let text = format!("a process of the replay {how} before it began");
                self.fail(Divergence::of_death(pid, lane, 0, text));
            }
            return;
        };
        // It may have reported between the last look and its end.
        self.look_at_reports();
        let lane = self.memory.lane(segment);
        let heir = lane.pid().load(Ordering::Acquire);
        let Some(process) = self.processes.get_mut(&segment) else { return };
        if heir != pid {
            process.pid = heir;
            return;
        }
        let done = lane.events_done().load(Ordering::Relaxed);
        if !process.ended_well && !self.ending {
            let recorded_pid = process.recorded.as_ref().map_or(pid, |info| info.pid);
            let text = format!("the replaying process {how} without a report");
            let failure = Divergence::of_death(recorded_pid, process.feed.lane, done, text);
            self.fail(failure);
        }
        self.result.events += done;
        self.memory.leave_ticket(segment);
        self.processes.remove(&segment);
        self.memory.free_segment(segment);
    }

    /// No process is left: lanes that did not end well lost theirs.
    fn look_at_survivors(&mut self) {
        let lost = self.processes.values().find(|process| !process.ended_well);
        if let Some(process) = lost
            && !self.ending
        {
            let pid = process.recorded.as_ref().map_or(process.pid, |info| info.pid);
            let text = "the replaying process vanished".to_owned();
            self.fail(Divergence::of_death(pid, process.feed.lane, 0, text));
        }
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

    /// Outputs that went elsewhere in the recorded file, which is none here, or one that only grows.
    fn look_at_misplaced(&mut self) {
        let count = self.memory.outputs_misplaced().load(Ordering::Acquire);
        if count > 0 {
            self.result.notes.push(format!(
                "{count} of the program's outputs went to another place of the file that its output was; they are shown in the order they were written: redirect the output to a file to get the same file"
            ));
        }
    }

    /// Where the trace is cut or filtered, or a process was killed as it wrote, an output may be
    /// missing that all others wait for: goes on with the next that there is.
    fn look_at_outputs(&mut self) {
        let mut next: Option<u64> = None;
        let mut patience = GAP_WAIT_MAX;
        for segment in self.memory.segments_in_use() {
            let lane = self.memory.lane(segment);
            match lane.state().load(Ordering::Acquire) {
                lane_state::ENDED | lane_state::REPORTED => {}
                // Also a child that is about to be, which counts as one that does not wait.
                _ => match lane.waits_for_output().load(Ordering::Acquire) {
                    0 if self.memory.waits_for_another(segment) => patience = TICKET_WAIT_MAX,
                    0 => return,
                    order => next = Some(next.map_or(order - 1, |other| other.min(order - 1))),
                },
            }
        }
        let order = self.memory.output_order();
        let Some(next) = next.filter(|next| order.load(Ordering::Acquire) < *next) else {
            self.stalled = None;
            return;
        };
        // A process that is being made is not seen yet: only what lasts is a gap.
        let since = match self.stalled {
            Some((awaited, since)) if awaited == next => since,
            _ => Instant::now(),
        };
        self.stalled = Some((next, since));
        if since.elapsed() >= patience {
            order.store(next, Ordering::Release);
            self.memory.output_wake().fetch_add(1, Ordering::Release);
            futex_wake(self.memory.output_wake());
            self.stalled = None;
        }
    }

    /// Where a trace is cut, or a process was killed, a ticket may be missing that all
    /// others wait for: their logs end there.
    fn look_at_tickets(&mut self) {
        let (mut waits, mut sum) = (false, 0u64);
        for segment in self.memory.segments_in_use() {
            let lane = self.memory.lane(segment);
            match lane.state().load(Ordering::Acquire) {
                // One that ends with its ticket hands it on when it is reaped.
                lane_state::ENDED | lane_state::REPORTED
                    if lane.has_ticket().load(Ordering::Acquire) == 0 => {}
                _ if self.memory.waits_for_another(segment) => {
                    waits = true;
                    let awaited = lane.waits_for_ticket().load(Ordering::Relaxed);
                    sum = sum.wrapping_add(awaited + lane.events_done().load(Ordering::Relaxed));
                }
                _ => {
                    self.ticket_stalled = None;
                    return;
                }
            }
        }
        if !waits {
            self.ticket_stalled = None;
            return;
        }
        let stall = match self.ticket_stalled.take() {
            Some(stall) if stall.sum == sum => Stall { looks: stall.looks + 1, ..stall },
            _ => Stall { since: Instant::now(), looks: 0, sum },
        };
        let lasts = stall.since.elapsed() >= TICKET_WAIT_MAX && stall.looks >= TICKET_LOOKS;
        self.ticket_stalled = Some(stall);
        if !lasts {
            return;
        }
        let complete = self.trace.cut().is_none()
            && self.lanes.values().all(|info| matches!(info.end, Some(LaneEnd::Exited(_))));
        if complete {
            let text = "its processes wait for each other's tokens, which the log gives to nobody".to_owned();
            self.fail(Divergence::of_death(self.first_pid, 0, 0, text));
        } else if self.memory.stop().swap(1, Ordering::AcqRel) == 0 && self.trace.cut().is_none() {
            self.result.notes.push(
                "processes were replayed up to where they wait for one that was killed, whose log ends before"
                    .to_owned(),
            );
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
            if process.ended_well || !process.feed.closed || lane.ring().filled_bytes() != 0 {
                continue;
            }
            let Some(time_max) = time_behind_log(&self.trace, process.recorded.as_ref()) else { continue };
            let Some(time) = cpu_time(process.pid) else { continue };
            let since = *process.time_at_log_end.get_or_insert(time);
            if time.saturating_sub(since) > time_max {
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
