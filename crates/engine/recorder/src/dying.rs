//! Live: processes that are about to die, or were killed: what led to it is saved, as was asked.

use std::sync::atomic::Ordering;

use injector::{Lane, futex_wake};
use lane_protocol::request;

use crate::live::Work;
use crate::live_options::OnCrash;

impl Work {
    /// Processes that would die now, or were killed and left what only their shadows know.
    pub fn look_at_crashes(&self) {
        for segment in self.lanes() {
            let lane = self.session.memory.lane(segment);
            let sent = lane.dying().load(Ordering::Acquire);
            if sent != 0 {
                self.save_crash(lane, u64::from(sent));
                lane.dying().store(0, Ordering::Release);
                futex_wake(lane.dying());
            }
            if lane.request().state.load(Ordering::Acquire) == request::CRASH {
                self.save_crash(lane, lane.request().arguments[0].load(Ordering::Relaxed));
                lane.answer(0);
            }
        }
    }

    fn save_crash(&self, lane: Lane, signal: u64) {
        let pid = lane.pid().load(Ordering::Acquire);
        if self.options.on_crash == OnCrash::Hold {
            diagnostics::tell!(
                "retrovane: process {pid} would die of signal {signal}, and stands: see `retrovane ctl {pid} list`"
            );
        }
        if self.options.on_crash == OnCrash::Save {
            let text = self.save_at_crash(pid, i32::try_from(signal).ok());
            let dies = if signal == libc::SIGKILL as u64 { "was killed by" } else { "would die of" };
            diagnostics::tell!("retrovane: process {pid} {dies} signal {signal}: {}", text.trim_end());
        }
    }

    pub fn save_at_crash(&self, pid: i32, killed_by: Option<i32>) -> String {
        self.saved_main.fetch_or(pid == self.session.main_pid, Ordering::AcqRel);
        self.save(&self.options.crash_dir, Some(pid), killed_by)
            .unwrap_or_else(|text| format!("could not be saved: {text}\n"))
    }
}

/// True if a process is about to die, and waits until we have seen to that.
pub(crate) fn is_dying(lane: Lane) -> bool {
    lane.request().state.load(Ordering::Acquire) == request::CRASH
        || lane.dying().load(Ordering::Acquire) != 0
}
