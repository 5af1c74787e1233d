//! One way through a recording, from its beginning to its end, on which breakpoints
//! record what the program had there.
//!
//! Deliberately absent: going back, and checkpoints, which would be for that.

use std::rc::Rc;
use std::sync::Arc;

use lane_protocol::{AgentStop, NONE, RECORDS_START, agent_stop};
use replayer::{ReplayOptions, prepare};
use trace_store::TraceReader;

use crate::error::TimelineError;
use crate::limits::{Limits, Patience};
use crate::position::Stops;
use crate::process::Process;
use crate::session::Session;

/// Why a passage stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pausing {
    /// Code was mapped, or an image begins: breakpoints may have to be set elsewhere.
    NewCode,
    /// There are records: their memory is full, or another part begins.
    Recorded,
    /// One of `report_kind`, and an exit code or signal.
    End { report: u32, code: i32 },
}

/// A process on its way.
pub struct Passage {
    process: Process,
    session: Rc<Session>,
}

impl Passage {
    /// Starts to replay the process that the options name; it stands at its first
    /// instruction.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn open(options: &ReplayOptions) -> Result<Passage, TimelineError> {
        let session = Rc::new(Session::start(prepare(options, true)?)?);
        match Process::first(&session, &|| Patience::Wait) {
            Ok(process) => Ok(Passage { process, session }),
            Err(error) => {
                if let Ok(session) = Rc::try_unwrap(session) {
                    session.close();
                }
                Err(error)
            }
        }
    }

    /// The lane of the process.
    pub fn lane(&self) -> u32 {
        self.session.lane
    }

    pub fn trace(&self) -> Arc<TraceReader> {
        self.session.trace()
    }

    /// The process that replays.
    pub fn pid(&self) -> i32 {
        self.process.pid
    }

    /// Where it stands.
    pub fn stop(&self) -> &AgentStop {
        &self.process.stop
    }

    /// Runs until there is something to do. From the first event of each pair of `counted` to its second, instructions are
    /// counted, so that records have their positions; all else goes by at full speed.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn run(&mut self, stops: &Stops, counted: &[(u64, u64)]) -> Result<Pausing, TimelineError> {
        loop {
            let now = self.process.stop.event;
            let next = counted.get(counted.partition_point(|(_, to)| *to <= now));
            let (counts, until_event) = match next {
                Some((from, to)) if *from <= now => (true, *to),
                Some((from, _)) => (false, *from),
                None => (false, NONE),
            };
            let limits = Limits { until_event, stops_at_code: true, ..Limits::ALL_HITS };
            let patience = || Patience::Wait;
            if counts {
                self.process.step(stops, limits, &patience)?;
            } else {
                self.process.run(stops, limits, &patience)?;
            }
            let stop = &self.process.stop;
            return Ok(match stop.kind {
                agent_stop::END => Pausing::End { report: stop.report, code: stop.code },
                agent_stop::REACHED if stop.recorded_bytes == 0 => continue,
                agent_stop::RECORDED | agent_stop::REACHED => Pausing::Recorded,
                _ => Pausing::NewCode,
            });
        }
    }

    /// What it said where it ended, or of why it cannot go on.
    pub fn said(&self) -> String {
        self.process.said()
    }

    /// What was recorded by the last run.
    ///
    /// # Errors
    /// [`TimelineError::Died`] if it cannot be read.
    pub fn records(&self) -> Result<Vec<u8>, TimelineError> {
        let mut bytes = vec![0; self.process.stop.recorded_bytes.min(lane_protocol::RECORDS_BYTES) as usize];
        if self.process.read(RECORDS_START, &mut bytes) != bytes.len() {
            return Err(TimelineError::Died("its records cannot be read".to_owned()));
        }
        Ok(bytes)
    }

    /// Ends the replay; another one can be started then.
    pub fn close(self) {
        drop(self.process);
        if let Ok(session) = Rc::try_unwrap(self.session) {
            session.close();
        }
    }
}
