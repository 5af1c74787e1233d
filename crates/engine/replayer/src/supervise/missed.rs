//! Processes that do not come to what their log has next.

use std::sync::atomic::Ordering;

use super::Supervisor;
use crate::describe::Divergence;
use crate::unlogged_end::tells_its_end;
use crate::watchdog::{Finding, OF_RECORDING_MAX, Way};

impl Supervisor {
    /// Says which process may have missed what its log has next.
    pub(super) fn look_for_missed(&mut self) {
        if !self.watchdog.is_due() {
            return;
        }
        let mut lost = None;
        for (segment, process) in self.processes.iter().filter(|(_, process)| !process.ended_well) {
            let recorded_pid = process.recorded.as_ref().map_or(process.pid, |info| info.pid);
            let log_is_over = process.feed.closed && tells_its_end(&self.trace, process.recorded.as_ref());
            // Of a trace that is cut it counts as killed before it counts as lost (`look_at_time`).
            let way = Way {
                memory: &self.memory,
                segment: *segment,
                pid: process.pid,
                log_is_over,
                log_is_cut: false,
            };
            match self.watchdog.look(&way, OF_RECORDING_MAX) {
                Some(Finding::Late(text)) => diagnostics::tell!(
                    "retrovane: process {recorded_pid} {text}; `retrovane record --check 100` finds the place where \
                     it left the recorded way"
                ),
                Some(Finding::Lost(text)) => {
                    let done = self.memory.lane(*segment).events_done().load(Ordering::Relaxed);
                    lost = Some(Divergence::of_death(recorded_pid, process.feed.lane, done, text));
                }
                None => {}
            }
        }
        if let Some(lost) = lost {
            self.fail(lost);
        }
    }
}
