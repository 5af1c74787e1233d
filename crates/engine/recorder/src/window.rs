//! The log of a live session stays below `--log-max`, and can be saved all the same.
//!
//! What falls off is older than some checkpoint from which the log is kept: of each process
//! the recorder takes one by itself whenever its log has grown by half of what it may take.
//! A trace of such a log begins with an image of the process at that checkpoint, which its
//! shadow writes when it is asked.
//!
//! Invariant: a log that lost its beginning and cannot be saved is told of, when it comes to
//! that and when it is asked for.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use injector::{Lane, Segment};
use lane_protocol::{Checkpoint, checkpoint_origin, checkpoint_state, command, image_result};
use trace_store::{LaneEnd, Meta, StoreError, Summary, TraceWriter};

use crate::dying::is_dying;
use crate::history::History;
use crate::listing::{Shown, checkpoints, explain};
use crate::live::Work;

/// How long a shadow may take to write more of its image.
const IMAGE_PATIENCE: Duration = Duration::from_secs(30);
/// How long what was logged may take to arrive.
const LOG_PATIENCE: Duration = Duration::from_secs(10);
/// After an attempt that failed.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// So long a process that was made is replayed with the one that made it.
const YOUNG: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What the recorder knows of the windows of its lanes.
#[derive(Default)]
pub(crate) struct Windows {
    /// Held while logs are saved or dropped.
    saving: Mutex<()>,
    lanes: Mutex<HashMap<u32, LaneState>>,
}

struct LaneState {
    seen: Instant,
    /// When the last attempt failed, and why.
    failed: Option<(Instant, String)>,
    /// It was said that its log cannot be saved.
    told: bool,
}

/// Where a trace begins.
enum Beginning {
    /// At the program's beginning.
    Start,
    /// At a checkpoint of this lane: the earliest of those from which its log is kept.
    Window { lane: u32, segment: Segment, candidates: Vec<Shown> },
}

/// What a saved trace is told to be.
pub(crate) struct Saved {
    pub events: u64,
    pub notes: Vec<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Work {
    fn history<T>(&self, act: impl FnOnce(&mut History) -> T) -> Result<T, String> {
        self.session.sink.with_history(act).ok_or_else(|| "this is no live session".to_owned())
    }

    // --- below the limit ---

    /// Takes the checkpoints that windows begin at, and drops what is too much.
    pub fn keep_log_below(&self, bytes_max: u64) {
        let _saving = match self.windows.saving.try_lock() {
            Err(TryLockError::WouldBlock) => return,
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        let segments = self.lanes();
        self.session.sink.with_history(|history| {
            lock(&self.windows.lanes).retain(|lane, _| history.facts(*lane).is_some());
        });
        let part_bytes = bytes_max / (segments.len() as u64).max(1) / 2;
        for segment in &segments {
            self.follow(*segment, part_bytes);
        }
        let is_too_much =
            || self.session.sink.with_history(|history| history.stored_bytes()) > Some(bytes_max);
        // What there is of one that dies is about to be saved; it may be for that that a
        // checkpoint failed.
        let dies = || segments.iter().any(|segment| is_dying(self.session.memory.lane(*segment)));
        while is_too_much() && !dies() {
            if !self.drop_some(&segments, bytes_max, part_bytes) {
                return;
            }
        }
    }

    /// Takes a checkpoint if the lane's log has grown since the last one, or nothing else
    /// leads to the process any more.
    fn follow(&self, segment: Segment, part_bytes: u64) {
        let lane = self.session.memory.lane(segment);
        let id = lane.ids().0;
        let newest = windows(lane).last().map_or(0, |at| at.position);
        let since = self.session.sink.with_history(|history| {
            let orphan = newest == 0
                && history
                    .facts(id)
                    .is_some_and(|(parent, _, _)| parent != u32::MAX && !history.is_lane_whole(parent));
            (history.stored_since(id, newest), orphan)
        });
        let Some((stored, orphan)) = since else { return };
        let seen = lock(&self.windows.lanes).entry(id).or_insert_with(LaneState::new).seen;
        if stored >= part_bytes || (orphan && seen.elapsed() >= YOUNG) {
            self.begin_window(segment);
        }
    }

    /// Takes a checkpoint of the lane's process from which its log is kept; its position.
    fn begin_window(&self, segment: Segment) -> Option<u64> {
        let lane = self.session.memory.lane(segment);
        let id = lane.ids().0;
        let waits = lock(&self.windows.lanes)
            .get(&id)
            .and_then(|state| state.failed.as_ref())
            .is_some_and(|(since, _)| since.elapsed() < AGAIN_AFTER);
        if waits || lane.goes_again().load(Ordering::Acquire) != 0 || lane.stands_still() {
            return None;
        }
        let taken = self.order(segment, command::CHECKPOINT, u64::from(checkpoint_origin::WINDOW));
        let mut lanes = lock(&self.windows.lanes);
        let state = lanes.entry(id).or_insert_with(LaneState::new);
        match taken {
            Ok(number) => {
                *state = LaneState { failed: None, told: false, ..*state };
                windows(lane)
                    .into_iter()
                    .find(|at| i64::from(at.id) == i64::from(number))
                    .map(|at| at.position)
            }
            Err(why) => {
                state.failed = Some((Instant::now(), why));
                None
            }
        }
    }

    /// Forgets some of the logs: those of processes that have ended, else what is older than
    /// a checkpoint, else the oldest. Where a checkpoint can be had a little later, or what follows it
    /// is to grow to `part_bytes` first, the logs may take as much again until then.
    fn drop_some(&self, segments: &[Segment], bytes_max: u64, part_bytes: u64) -> bool {
        if self.session.sink.with_history(History::drop_ended) == Some(true) {
            return true;
        }
        let memory = &self.session.memory;
        let stored_since = |lane: u32, position: u64| {
            self.session.sink.with_history(|history| history.stored_since(lane, position)).unwrap_or(0)
        };
        let mut largest: Vec<(u64, u32)> = self
            .session
            .sink
            .with_history(|history| history.lanes())
            .unwrap_or_default()
            .into_iter()
            .map(|lane| (stored_since(lane, 0), lane))
            .filter(|(bytes, _)| *bytes != 0)
            .collect();
        largest.sort_unstable();
        let segment_of = |id: u32| segments.iter().copied().find(|one| memory.lane(*one).ids().0 == id);
        let drop_before = |id: u32, position: u64| {
            let drop = |history: &mut History| {
                let before = history.stored_bytes();
                history.drop_before(id, position);
                history.stored_bytes() < before
            };
            self.session.sink.with_history(drop) == Some(true)
        };
        let may_wait = self.session.sink.with_history(|history| history.stored_bytes()) < Some(2 * bytes_max);
        let mut waits = false;
        for (_, id) in largest.iter().rev() {
            let starts = segment_of(*id).map(|segment| windows(memory.lane(segment))).unwrap_or_default();
            for at in starts {
                let since = stored_since(*id, at.position);
                if may_wait && since < part_bytes {
                    // Who crashes now has nothing but that.
                    waits |= since < stored_since(*id, 0);
                } else if drop_before(*id, at.position) {
                    return true;
                }
            }
        }
        if waits {
            return false;
        }
        let Some((_, id)) = largest.last() else { return false };
        let begun = segment_of(*id).and_then(|segment| self.begin_window(segment));
        if begun.is_some_and(|position| drop_before(*id, position)) {
            return true;
        }
        let stored = self.session.sink.with_history(|history| history.stored_bytes()).unwrap_or(0);
        if stored < 2 * bytes_max && segment_of(*id).is_some() && !self.is_refused(*id) {
            return false;
        }
        self.session.sink.with_history(|history| history.drop_oldest(*id));
        self.tell_lost(*id);
        true
    }

    /// True if no checkpoint of the lane's process can ever begin a window.
    fn is_refused(&self, id: u32) -> bool {
        self.why_no_window(id) == explain(libc::EXDEV, 0)
    }

    /// Says, once, that a lane's log cannot be saved any more.
    fn tell_lost(&self, id: u32) {
        let why = self.why_no_window(id);
        let pid = self.session.sink.with_history(|history| history.facts(id).map(|facts| facts.1)).flatten();
        let mut lanes = lock(&self.windows.lanes);
        let state = lanes.entry(id).or_insert_with(LaneState::new);
        if !std::mem::replace(&mut state.told, true) {
            let pid = pid.unwrap_or_default();
            diagnostics::tell!(
                "retrovane: the beginning of process {pid}'s log has fallen off (--log-max), and what is left cannot be saved: {why}"
            );
        }
    }

    fn why_no_window(&self, id: u32) -> String {
        let lanes = lock(&self.windows.lanes);
        let failed = lanes.get(&id).and_then(|state| state.failed.as_ref());
        failed.map_or_else(
            || "no checkpoint of the process is held from which its log is kept".to_owned(),
            |(_, why)| why.clone(),
        )
    }

    // --- saving ---

    /// Saves what there is as a trace, of the process `pid` if not of all. `dying`: a process
    /// that is about to die, and of which signal.
    pub(crate) fn save_log(
        &self,
        dir: &Path,
        pid: Option<i32>,
        dying: Option<(i32, i32)>,
        exit: &dyn Fn(i32) -> LaneEnd,
    ) -> Result<Saved, String> {
        let _saving = lock(&self.windows.saving);
        self.history(|history| history.note_dying(dying))?;
        self.wait_for_log();
        let main = self.session.main_pid;
        let wanted = pid.unwrap_or(main);
        let id = self.history(|history| history.lane_of(wanted))?;
        let id =
            id.ok_or_else(|| format!("the log of process {wanted} is not there any more (--log-max)"))?;
        match self.beginning_of(id, wanted)? {
            Beginning::Start => {
                let notes = self.history(|history| left_out(history, &|lane| history.is_lane_whole(lane)))?;
                let summary = Summary { exit: exit(main), duration_ns: 0, notes: notes.clone() };
                let files_dir = self.session.trace_dir.join("files");
                let saved =
                    self.history(|history| history.save(dir, &self.saved_meta(), &files_dir, &summary))?;
                Ok(Saved { events: saved.map_err(|error| error.to_string())?, notes })
            }
            Beginning::Window { lane, segment, candidates } => {
                let mut why = String::new();
                for at in &candidates {
                    let meta = self.meta_of(at);
                    let writer = TraceWriter::create(dir, &meta).map_err(|error| error.to_string())?;
                    match self.save_window(writer, dir, (lane, segment), at, exit) {
                        Ok(saved) => return Ok(saved),
                        Err(text) => why = text,
                    }
                    crate::live::empty(dir);
                }
                Err(why)
            }
        }
    }

    /// What processes have logged so far has arrived.
    fn wait_for_log(&self) {
        let memory = &self.session.memory;
        let heads: Vec<(u32, u64)> = self
            .lanes()
            .into_iter()
            .map(|segment| memory.lane(segment))
            .filter(|lane| lane.goes_again().load(Ordering::Acquire) == 0)
            .map(|lane| (lane.ids().0, lane.ring().head.load(Ordering::Acquire)))
            .collect();
        let begin = Instant::now();
        let arrived = |history: &mut History| {
            heads.iter().all(|(id, head)| history.facts(*id).is_none() || history.position(*id) >= *head)
        };
        while self.session.sink.with_history(arrived) == Some(false) && begin.elapsed() < LOG_PATIENCE {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The checkpoints at which a trace of a lane can begin, the oldest first.
    fn candidates(&self, id: u32) -> Option<(Segment, Vec<Shown>)> {
        let memory = &self.session.memory;
        let segment = self.lanes().into_iter().find(|one| memory.lane(*one).ids().0 == id)?;
        let kept = |shown: &Shown| {
            self.session.sink.with_history(|history| history.reaches(id, shown.position)) == Some(true)
        };
        let all = checkpoints(memory.lane(segment)).into_iter();
        Some((segment, all.filter(|shown| shown.is_fork && kept(shown)).collect()))
    }

    /// Where a trace begins that shows the process of this lane: as early as possible.
    fn beginning_of(&self, id: u32, pid: i32) -> Result<Beginning, String> {
        let mut at = id;
        loop {
            let (whole, parent) = self.history(|history| {
                (history.is_lane_whole(at), history.facts(at).map_or(u32::MAX, |facts| facts.0))
            })?;
            if whole && parent == u32::MAX {
                return Ok(Beginning::Start);
            }
            let from = match whole && self.history(|history| history.is_lane_whole(parent))? {
                true => Some(0),
                false => self.candidates(parent).and_then(|(_, all)| all.first().map(|at| at.position)),
            };
            if let Some(from) = from.filter(|_| whole)
                && self.history(|history| history.made_since(parent, from).contains(&at))?
            {
                at = parent;
                continue;
            }
            return match self.candidates(at) {
                Some((segment, candidates)) if !candidates.is_empty() => {
                    Ok(Beginning::Window { lane: at, segment, candidates })
                }
                _ => Err(format!(
                    "the beginning of process {pid}'s log has fallen off (--log-max), and no trace can begin later: {}",
                    self.why_no_window(at)
                )),
            };
        }
    }

    /// What is said of a trace that is saved: it need not have the program's end.
    fn saved_meta(&self) -> Meta {
        let mut meta = self.session.meta.clone();
        meta.options.insert("saved".into(), "yes".into());
        meta
    }

    fn meta_of(&self, at: &Shown) -> Meta {
        let mut meta = self.saved_meta();
        meta.options.insert("begins".into(), format!("checkpoint {}", at.id));
        meta
    }

    fn save_window(
        &self,
        mut writer: TraceWriter,
        dir: &Path,
        (id, segment): (u32, Segment),
        at: &Shown,
        exit: &dyn Fn(i32) -> LaneEnd,
    ) -> Result<Saved, String> {
        let told = |error: StoreError| error.to_string();
        let lane = self.session.memory.lane(segment);
        let pid = lane.pid().load(Ordering::Acquire);
        writer.begin_lane(0, u32::MAX, pid).map_err(told)?;
        let image_events = self.write_image(&mut writer, lane, at.id)?;
        let files_dir = self.session.trace_dir.join("files");
        self.history(|history| {
            history.write_files(&mut writer, dir, &files_dir).map_err(told)?;
            let mut events = image_events + history.write_lane(&mut writer, id, 0, at.position).map_err(told)?;
            let mut written = BTreeSet::from([id]);
            let mut parents = vec![(id, at.position)];
            while let Some((parent, position)) = parents.pop() {
                for child in history.made_since(parent, position) {
                    let Some((_, pid, _)) = history.facts(child) else { continue };
                    if !written.insert(child) {
                        continue;
                    }
                    let parent = if parent == id { 0 } else { parent };
                    writer.begin_lane(child, parent, pid).map_err(told)?;
                    if history.is_lane_whole(child) {
                        events += history.write_lane(&mut writer, child, child, 0).map_err(told)?;
                        parents.push((child, 0));
                    }
                }
            }
            let mut notes = vec![format!(
                "it begins at checkpoint {} of process {pid}, event {}: what came before has fallen off (--log-max)",
                at.id, at.events
            )];
            let is_in = |lane: u32| lane == id || written.contains(&lane) && history.is_lane_whole(lane);
            notes.extend(left_out(history, &is_in));
            let summary = Summary { exit: exit(pid), duration_ns: 0, notes: notes.clone() };
            writer.finish(&summary).map_err(told)?;
            Ok(Saved { events, notes })
        })?
    }

    /// Lets the checkpoint's shadow write its image into the trace's first lane.
    fn write_image(&self, writer: &mut TraceWriter, lane: Lane, number: u32) -> Result<u64, String> {
        let memory = &self.session.memory;
        let is_it = |at: &&Checkpoint| {
            at.state.load(Ordering::Acquire) == checkpoint_state::TAKEN
                && at.id.load(Ordering::Relaxed) == number
        };
        let at = lane.checkpoints().iter().find(is_it).ok_or("the checkpoint is gone")?;
        let into = memory.take_segment().ok_or("there are too many processes at the same time")?;
        at.image_result.store(image_result::NONE, Ordering::Release);
        let written = self.receive_image(writer, lane, at, into);
        if written.is_ok() || at.image_segment.load(Ordering::Acquire) == 0 {
            memory.free_segment(into);
        }
        written
    }

    fn receive_image(
        &self,
        writer: &mut TraceWriter,
        lane: Lane,
        at: &Checkpoint,
        into: Segment,
    ) -> Result<u64, String> {
        let ring = self.session.memory.lane(into);
        let mut bytes = Vec::new();
        let (mut events, mut asked) = (0, false);
        let mut moved = Instant::now();
        loop {
            if events == 0 && bytes.is_empty() && (!asked || at.image_segment.load(Ordering::Acquire) != 0) {
                // A shadow that was about to sleep has not heard it.
                asked = true;
                lane.ask_for_image(at, into);
            }
            // Before looking: what was written by then is seen.
            let result = at.image_result.load(Ordering::Acquire);
            let copied = ring.copy_out(0, &mut bytes).map_err(|error| error.to_string())?;
            ring.release(copied as u64);
            if copied != 0 {
                let count = crate::log_bytes::count_in(&bytes);
                writer.append(0, count, &bytes).map_err(|error| error.to_string())?;
                events += count;
                bytes.clear();
                moved = Instant::now();
                continue;
            }
            if result == image_result::WRITTEN && events != 0 {
                return Ok(events);
            }
            if result != image_result::NONE {
                return Err(image_failure(result).to_owned());
            }
            if moved.elapsed() > IMAGE_PATIENCE {
                return Err("the shadow process of the checkpoint does not answer: it was killed".to_owned());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl LaneState {
    fn new() -> LaneState {
        LaneState { seen: Instant::now(), failed: None, told: false }
    }
}

/// The checkpoints from which a lane's log is kept, the oldest first.
fn windows(lane: Lane) -> Vec<Shown> {
    checkpoints(lane).into_iter().filter(|at| at.origin == checkpoint_origin::WINDOW).collect()
}

/// Removes what was made of a trace: it is of no use, and in the way of another try.
/// What is said of processes of which a trace has no log.
fn left_out(history: &History, is_in: &dyn Fn(u32) -> bool) -> Vec<String> {
    let out: Vec<String> = history
        .lanes()
        .into_iter()
        .filter(|lane| !is_in(*lane))
        .filter_map(|lane| history.facts(lane).map(|facts| facts.1.to_string()))
        .collect();
    match out.len() {
        0 => Vec::new(),
        1 => vec![format!("process {} is not in it", out[0])],
        _ => vec![format!("processes {} are not in it", out.join(", "))],
    }
}

fn image_failure(result: u32) -> &'static str {
    match result {
        image_result::TOO_MANY_MAPS => "the process has more mappings than the beginning of a trace can list",
        image_result::UNKNOWN_MAPS => "the mappings of the process cannot be listed",
        image_result::SHARES_MEMORY => "the process shares memory with other processes, or could",
        _ => "the image of the checkpoint could not be written: memory or processes are short",
    }
}
