//! Lets the processes of a live session go on without us.
//!
//! A process looks whether its recording is over where its log has no room left, which may be much later: so each is asked.
//!
//! Invariant: one that does not answer in time goes on all the same, once we are gone.

use std::time::{Duration, Instant};

use lane_protocol::command;

use crate::live::{Control, Work};

/// So long the processes may take to leave.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

impl Work {
    /// Each process leaves its recording, and goes on.
    pub fn detach(&self) {
        let begin = Instant::now();
        let waits = || begin.elapsed() < LEAVE_WITHIN;
        if let Ok(_obeying) = self.begin_obeying(&waits) {
            for segment in self.lanes() {
                let _ = self.order_while(segment, command::DETACH, 0, &mut || waits());
            }
        }
        crate::waiting::let_go(&self.session.memory);
    }
}

impl Control {
    /// Recording is over: those that have not noticed are told.
    pub fn ask_to_leave(&self) {
        self.work.detach();
    }
}
