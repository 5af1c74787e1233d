//! The trace's writer, shared by the drainer and the keeper, and what happens
//! when it fails: recording stops once, with one message, and what comes later
//! is discarded.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::growth::Growth;
use crate::history::History;
use events::StopReason;
use injector::SessionMemory;
use trace_store::{FileEntry, LaneEnd, Pressure, StoreError, Summary, TraceWriter};

/// A writer that fails at most once.
pub(crate) struct Sink {
    memory: Arc<SessionMemory>,
    state: Mutex<State>,
}

struct State {
    writer: Option<TraceWriter>,
    /// Where the logs go instead, in a live session.
    history: Option<History>,
    growth: Growth,
    failure: Option<String>,
}

impl Sink {
    pub fn new(
        writer: TraceWriter,
        memory: Arc<SessionMemory>,
        history: Option<History>,
        growth: Growth,
    ) -> Sink {
        Sink { memory, state: Mutex::new(State { writer: Some(writer), history, growth, failure: None }) }
    }

    /// Does something with a live session's logs; `None` in another session.
    pub fn with_history<T>(&self, act: impl FnOnce(&mut History) -> T) -> Option<T> {
        self.lock().history.as_mut().map(act)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the writer unless it has failed already; false if it
    /// has, or does now.
    fn with(&self, act: impl FnOnce(&mut TraceWriter) -> Result<(), StoreError>) -> bool {
        let mut state = self.lock();
        if state.failure.is_some() {
            return false;
        }
        let State { writer, growth, .. } = &mut *state;
        let Some(writer) = writer.as_mut() else { return false };
        let failure = match act(writer) {
            Ok(()) => growth.reached(writer),
            Err(error) => Some(format!("recording stopped, because the trace cannot be written: {error}")),
        };
        let Some(text) = failure else {
            if let Some(line) = growth.line(writer) {
                diagnostics::tell!("retrovane: {line}");
            }
            return true;
        };
        self.memory.stop().store(StopReason::DiskFull as u32, Ordering::Release);
        diagnostics::tell!(
            "retrovane: {text}; the program goes on, and what was recorded so far can be replayed"
        );
        state.failure = Some(text);
        false
    }

    pub fn begin_lane(&self, lane: u32, parent: u32, pid: i32) -> bool {
        if self.with_history(|history| history.begin_lane(lane, parent, pid)).is_some() {
            return true;
        }
        self.with(|writer| writer.begin_lane(lane, parent, pid))
    }

    pub fn append(&self, lane: u32, events: u64, bytes: &[u8]) -> bool {
        if self.with_history(|history| history.append(lane, bytes)).is_some() {
            return true;
        }
        self.with(|writer| writer.append_now(lane, events, bytes))
    }

    pub fn end_lane(&self, lane: u32, end: LaneEnd) -> bool {
        if self.with_history(|history| history.end_lane(lane, end)).is_some() {
            return true;
        }
        self.with(|writer| writer.end_lane(lane, end))
    }

    /// How a lane ended becomes known after its end.
    pub fn learn_end(&self, lane: u32, end: LaneEnd) {
        if self.with_history(|history| history.end_lane(lane, end)).is_none() {
            self.with(|writer| {
                writer.learn_end(lane, end);
                Ok(())
            });
        }
    }

    pub fn add_file(&self, id: u32, file: &FileEntry) -> bool {
        self.with_history(|history| history.add_file(id, file));
        self.with(|writer| writer.add_file(id, file))
    }

    pub fn set_pressure(&self, pressure: Pressure) {
        self.with(|writer| {
            writer.set_pressure(pressure);
            Ok(())
        });
    }

    /// What went wrong, if something did.
    pub fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Completes the trace, also one whose writer has failed: there may be room
    /// for its end, which then says why it is not whole.
    pub fn finish(&self, summary: &Summary) {
        let mut state = self.lock();
        let result = state.writer.take().map(|writer| writer.finish(summary));
        if let Some(Err(error @ StoreError::Removed { .. })) = &result {
            diagnostics::tell!("retrovane: {error}");
            return;
        }
        if let (Some(Err(error)), None) = (result, &state.failure) {
            diagnostics::tell!(
                "retrovane: the trace could not be completed: {error}; it can be replayed, as one that was cut"
            );
        }
    }

    /// Removes a trace in which nothing was recorded.
    pub fn abandon(&self, trace_dir: &Path) {
        self.lock().writer = None;
        // What cannot be removed stays: a trace without lanes.
        let _ = std::fs::remove_dir_all(trace_dir);
    }
}
