//! The processes of a replay under the debugger, and the thread that feeds them.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use injector::{
    ExitReport, Lane, Segment, SessionMemory, futex_wait, futex_wake, kill_group, kill_process, reap_group,
    start_from_image, start_replay_in_group,
};
use lane_protocol::lane_state;
use replayer::{
    Feed, FeedError, Finding, LOG_TOO_SHORT, OF_RECORDING_MAX, Prepared, PrivateFolder, Watchdog, Way,
    tells_its_end,
};
use trace_store::TraceReader;

use crate::error::TimelineError;
use crate::others::Stall;

const SLEEP: Duration = Duration::from_millis(20);

/// What the feeding thread and others share.
pub(crate) struct Shared {
    /// The lane that is debugged.
    pub lane: u32,
    pub memory: Arc<SessionMemory>,
    /// What is replayed; of a live program more of it may come.
    pub trace: Mutex<Arc<TraceReader>>,
    pub feeds: Mutex<BTreeMap<Segment, Feed>>,
    pub ends: Mutex<HashMap<i32, ExitReport>>,
    pub failure: Mutex<Option<String>>,
    /// Why one of the others did not go on.
    pub others_failure: Mutex<Option<String>>,
    /// The process that goes with the others of its group, where copies go without them.
    pub lead: Mutex<Option<Segment>>,
    /// Commands that were given so far, and what the last one does to the speed of processes: how many
    /// times as long as the recording they may take between two events.
    commands: AtomicU32,
    of_recording_max: AtomicU32,
    closing: AtomicBool,
}

/// A replay under the debugger. Its processes end with it.
pub struct Session {
    shared: Arc<Shared>,
    pub lane: u32,
    pub parent_lane: u32,
    /// The group of its processes.
    group: i32,
    threads: Vec<JoinHandle<()>>,
    objects: PrivateFolder,
    /// Which process of those that are debugged shared the token with others.
    met: Cell<Met>,
    /// Up to this event the process was seen alone.
    alone_until: Cell<u64>,
}

/// The other processes of a group are in a session once, and go on with one of the copies of
/// the process that is debugged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Met {
    Nobody,
    By(Segment),
    /// By one that is gone.
    Gone,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Starts the replay; the process that is debugged stops at its first instruction.
    pub fn start(prepared: Prepared) -> Result<Session, TimelineError> {
        let Prepared { memory, trace, shown, objects, .. } = prepared;
        // Other children than those of this replay are not its own to reap.
        let group = start_replay_in_group(&memory).map_err(replayer::ReplayError::from)?;
        let shared = Arc::new(Shared {
            lane: shown.lane,
            memory,
            trace: Mutex::new(Arc::new(trace)),
            feeds: Mutex::default(),
            ends: Mutex::default(),
            failure: Mutex::default(),
            others_failure: Mutex::default(),
            lead: Mutex::default(),
            commands: AtomicU32::new(0),
            of_recording_max: AtomicU32::new(OF_RECORDING_MAX),
            closing: AtomicBool::new(false),
        });
        let feeder = Arc::clone(&shared);
        let feeding = injector::start_thread("feeder", move || feeder.feed());
        let reaper = Arc::clone(&shared);
        let reaping = injector::start_thread("reaper", move || reaper.reap(group));
        let threads = vec![feeding, reaping];
        let (met, alone_until) = (Cell::new(Met::Nobody), Cell::new(0));
        let (lane, parent_lane) = (shown.lane, shown.parent);
        Ok(Session { shared, lane, parent_lane, group, threads, objects, met, alone_until })
    }

    /// There are no copies that go without the others of a group.
    pub fn let_no_copy_go_alone(&self) {
        self.memory().imports().wants.store(0, Ordering::Release);
    }

    /// None of its processes goes on: those that do are of other sessions.
    pub fn abandon(&self) {
        *lock(&self.shared.lead) = None;
        self.met.set(Met::Gone);
        self.alone_until.set(0);
    }

    /// The process of this segment goes with the others from now on, where a copy needs it.
    pub fn send_out(&self, segment: Segment) {
        *lock(&self.shared.lead) = Some(segment);
        self.met.set(Met::Nobody);
    }

    /// A process of the segment stands after so many events; whether it shared the token with
    /// others.
    pub fn note_stand(&self, segment: Segment, event: u64, met_others: bool) {
        if lock(&self.shared.lead).is_some() {
            // It is the only one that can meet them.
            return;
        }
        if !met_others {
            self.alone_until.set(self.alone_until.get().max(event));
        } else if self.met.get() == Met::Nobody {
            self.met.set(Met::By(segment));
        }
    }

    /// True if the others of a group go on with another process than this one.
    pub fn is_with_another(&self, segment: Segment) -> bool {
        ![Met::Nobody, Met::By(segment)].contains(&self.met.get())
    }

    /// True if another copy can go on up to this event: none of a group has gone on with
    /// another one, or nobody has to.
    pub fn serves(&self, until_event: u64) -> bool {
        self.met.get() == Met::Nobody || until_event <= self.alone_until.get()
    }

    /// Ends all processes, and waits until they and the session's threads are gone: then
    /// another session can be started.
    pub fn close(mut self) {
        // A process that is just being made shows up a little later.
        while !self.is_over() {
            self.kill_all();
            std::thread::sleep(Duration::from_micros(200));
        }
        futex_wake(self.shared.memory.doorbell());
        for thread in std::mem::take(&mut self.threads) {
            // It has failed: there is nothing to be had from it.
            let _ = thread.join();
        }
    }

    fn kill_all(&self) {
        // Not by their segments: one that has ended its part of the replay, and waits, may
        // have none.
        kill_group(self.group, libc::SIGKILL);
    }

    pub fn memory(&self) -> &SessionMemory {
        &self.shared.memory
    }

    pub fn trace(&self) -> Arc<TraceReader> {
        self.shared.trace()
    }

    /// What is replayed goes on: it is this trace from now on, which begins with what it was.
    /// Copies that are made from now on are fed from it.
    pub fn replace_trace(&self, trace: TraceReader) {
        replayer::offer_more_files(self.memory(), &trace, &self.trace());
        *lock(&self.shared.trace) = Arc::new(trace);
    }

    /// True if what is replayed can go on: no other process shared the token with a copy, and nothing
    /// has failed.
    pub fn can_go_on(&self) -> bool {
        self.met.get() == Met::Nobody
            && !self.is_over()
            && lock(&self.shared.failure).is_none()
            && lock(&self.shared.others_failure).is_none()
    }

    /// Outputs that another session showed are not shown again.
    pub fn show_after(&self, other: &Session) {
        let shown = other.memory().output_order().load(Ordering::Acquire);
        self.memory().output_order().fetch_max(shown, Ordering::AcqRel);
    }

    /// The process id that the process had when it was recorded.
    pub fn recorded_pid(&self) -> i32 {
        self.trace().lanes().iter().find(|lane| lane.lane == self.lane).map_or(1, |lane| lane.pid)
    }

    /// The segment of the process that is debugged, once it has begun.
    pub fn first_segment(&self) -> Option<Segment> {
        let memory = &self.shared.memory;
        let is_wanted = |segment: &Segment| {
            let lane = memory.lane(*segment);
            lane.ids().0 == self.lane && lane.pid().load(Ordering::Acquire) != 0 && lane.stands_still()
        };
        memory.segments_in_use().into_iter().find(is_wanted)
    }

    /// A process is given a command which may make it so many times slower.
    pub fn note_command(&self, slower: u32) {
        self.shared.of_recording_max.store(OF_RECORDING_MAX.saturating_mul(slower), Ordering::Relaxed);
        self.shared.commands.fetch_add(1, Ordering::Release);
    }

    /// Why the process ends behind its log, though the log should tell its end; `None` if it need not.
    pub fn ends_too_soon(&self) -> Option<TimelineError> {
        let trace = self.trace();
        let too_soon = tells_its_end(&trace, trace.lane_info(self.lane))
            && self.memory().stop().load(Ordering::Acquire) == 0;
        too_soon.then(|| TimelineError::Feed(LOG_TOO_SHORT.to_owned()))
    }

    /// Takes a segment for a copy of the process, and feeds it from there on.
    pub fn prepare_copy(&self, position_bytes: u64) -> Result<Segment, TimelineError> {
        let mut feeds = lock(&self.shared.feeds);
        let segment = self
            .shared
            .memory
            .take_segment_for_copy(self.lane, self.parent_lane, position_bytes)
            .ok_or(TimelineError::Copy(libc::EAGAIN))?;
        let feed = self.trace().lane(self.lane).map_err(replayer::ReplayError::from)?;
        let feed = Feed::from(segment, self.lane, feed, position_bytes)
            .map_err(|error| TimelineError::Feed(format!("{error:?}")))?;
        feeds.insert(segment, feed);
        Ok(segment)
    }

    /// Starts a process of an image, in the segment.
    pub fn start_from_image(&self, segment: Segment, image: &File) -> Result<i32, TimelineError> {
        let started = start_from_image(self.memory(), segment, image, self.group);
        Ok(started.map_err(replayer::ReplayError::from)?)
    }

    /// A private folder, in memory if there is room.
    pub fn objects(&self) -> &Path {
        self.objects.path()
    }

    /// Ends a process, and frees its segment.
    pub fn end(&self, segment: Segment, pid: i32) {
        let is_with_others = self.met.get() == Met::By(segment);
        if is_with_others {
            self.met.set(Met::Gone);
        }
        if pid > 0 {
            kill_process(pid, libc::SIGKILL);
            while !lock(&self.shared.ends).contains_key(&pid) && !self.shared.closing.load(Ordering::Relaxed)
            {
                std::thread::sleep(Duration::from_micros(50));
            }
            lock(&self.shared.ends).remove(&pid);
        }
        if is_with_others {
            self.shared.end_others();
        }
        self.remove_objects(pid);
        // The feeding thread must not find the segment between the two.
        let mut feeds = lock(&self.shared.feeds);
        self.shared.memory.free_segment(segment);
        feeds.remove(&segment);
    }

    /// Removes the files that stand for what a copy, and those that it made, shared: they begin
    /// with its process id.
    fn remove_objects(&self, pid: i32) {
        let prefix = format!("{pid:016x}");
        for file in std::fs::read_dir(self.objects()).into_iter().flatten().flatten() {
            if pid > 0 && file.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
                // What is left goes with the folder.
                let _ = std::fs::remove_file(file.path());
            }
        }
    }

    /// How a process ended, or what made feeding it impossible.
    pub fn failure_of(&self, pid: i32) -> Option<TimelineError> {
        if let Some(how) = lock(&self.shared.ends).get(&pid) {
            return Some(TimelineError::Died(how.to_string()));
        }
        self.failure()
    }

    /// What makes it impossible that the processes go on.
    pub fn failure(&self) -> Option<TimelineError> {
        lock(&self.shared.failure).clone().map(TimelineError::Feed)
    }

    /// Why the process that is debugged was never come to.
    pub fn failure_before(&self) -> TimelineError {
        let others = lock(&self.shared.others_failure).clone();
        let why = others.map_or(String::new(), |why| format!(": {why}"));
        TimelineError::Died(format!("before it came to the process that is debugged{why}"))
    }

    /// True once no process is left.
    pub fn is_over(&self) -> bool {
        self.shared.closing.load(Ordering::Relaxed)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        self.kill_all();
        self.shared.memory.finish_outputs();
    }
}

impl Shared {
    pub fn trace(&self) -> Arc<TraceReader> {
        Arc::clone(&lock(&self.trace))
    }

    fn feed(&self) {
        let mut stall = Stall::default();
        let took = self.trace().summary().map(|summary| Duration::from_nanos(summary.duration_ns));
        let mut watchdog = Watchdog::new(took);
        let mut commands = 0;
        while !self.closing.load(Ordering::Relaxed) {
            let seen = self.memory.doorbell().load(Ordering::Acquire);
            let moved = self.feed_all();
            self.look_at_lead();
            self.look_at_tickets(&mut stall);
            if watchdog.is_due() {
                self.look_for_lost(&mut watchdog, &mut commands);
            }
            if !moved {
                futex_wait(self.memory.doorbell(), seen, SLEEP);
            }
        }
    }

    fn feed_all(&self) -> bool {
        let mut feeds = lock(&self.feeds);
        let trace = self.trace();
        for segment in self.memory.segments_in_use() {
            let lane = self.memory.lane(segment);
            if lane.state().load(Ordering::Acquire) == lane_state::LIVE
                && lane.pid().load(Ordering::Acquire) != 0
            {
                let id = lane.ids().0;
                feeds.entry(segment).or_insert_with(|| Feed::new(segment, id, trace.lane(id).ok()));
            }
        }
        let mut moved = false;
        for (segment, feed) in feeds.iter_mut() {
            match feed.pump(self.memory.lane(*segment)) {
                Ok(bytes) => moved |= bytes != 0,
                Err(error) => {
                    lock(&self.failure).get_or_insert(describe(error));
                }
            }
        }
        feeds.retain(|segment, feed| feed.lane == self.lane || !self.is_over(*segment));
        moved
    }

    /// Ends the wait for a process that does not come to what its log has next.
    fn look_for_lost(&self, watchdog: &mut Watchdog, commands: &mut u32) {
        let given = self.commands.load(Ordering::Acquire);
        if std::mem::replace(commands, given) != given {
            watchdog.forget();
        }
        let of_recording_max = self.of_recording_max.load(Ordering::Relaxed);
        let trace = self.trace();
        for (segment, feed) in lock(&self.feeds).iter() {
            let lane = self.memory.lane(*segment);
            if lane.stands_still() || lane.state().load(Ordering::Acquire) != lane_state::LIVE {
                continue;
            }
            let pid = lane.pid().load(Ordering::Acquire);
            let log_is_over = feed.closed && tells_its_end(&trace, trace.lane_info(feed.lane));
            let log_is_cut = feed.closed && trace.cut().is_some();
            let way = Way { memory: &self.memory, segment: *segment, pid, log_is_over, log_is_cut };
            if let Some(Finding::Lost(text)) = watchdog.look(&way, of_recording_max) {
                lock(&self.failure).get_or_insert(text);
            }
        }
    }

    fn reap(&self, group: i32) {
        while let Some((pid, how)) = reap_group(group) {
            lock(&self.ends).insert(pid, how);
            futex_wake(self.memory.doorbell());
        }
        self.closing.store(true, Ordering::Relaxed);
    }
}

fn describe(error: FeedError) -> String {
    match error {
        FeedError::Store(error) => error.to_string(),
        FeedError::BadEvents(error) => format!(
            "the log holds something that is no event ({error}), though its checksums are right: record again, or take another copy of the trace"
        ),
        FeedError::Ring(error) => error.to_string(),
    }
}

/// Waits until a process stands that was asked to; `failed` says why it will not.
pub(crate) fn wait_standing(
    lane: Lane<'_>,
    failed: impl Fn() -> Option<TimelineError>,
) -> Result<(), TimelineError> {
    while !lane.wait_for_stop(SLEEP) {
        failed().map_or(Ok(()), Err)?;
    }
    Ok(())
}
