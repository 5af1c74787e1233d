//! Signals as clients number them, and what is known of the one at hand.
//!
//! gdb has numbers of its own, the same for all systems; lldb takes a server's numbers for those of
//! the system that it says to be.

use timeline::{Reason, agent_stop, report_kind};
use trace_store::LaneEnd;

use crate::packet::number;
use crate::server::Server;

/// What gdb calls a signal that it does not know.
const UNKNOWN: i32 = 143;
/// gdb's numbers of Linux's signals, from 1 on.
const FIRST: [u8; 31] = [
    1,
    2,
    3,
    4,
    5,
    6,
    10,
    8,
    9,
    30,
    11,
    31,
    13,
    14,
    15,
    UNKNOWN as u8,
    20,
    19,
    17,
    18,
    21,
    22,
    16,
    24,
    25,
    26,
    27,
    28,
    23,
    32,
    12,
];

/// gdb's number of a signal of Linux.
fn gdb_number(signal: i32) -> i32 {
    match signal {
        1..=31 => i32::from(FIRST[signal as usize - 1]),
        32 => 77,
        33..=63 => signal + 12,
        64 => 78,
        _ => UNKNOWN,
    }
}

impl Server<'_> {
    /// A signal's number as the client means it.
    pub(crate) fn signal_for_client(&self, signal: i32) -> i32 {
        if self.is_lldb { signal } else { gdb_number(signal) }
    }

    /// `QPassSignals`: those that the client wants to hear nothing of; it stops at all others. False if
    /// it is no list of them.
    pub(crate) fn pass_signals(&mut self, list: &str) -> bool {
        let numbers: Option<Vec<u64>> = list.split(';').filter(|text| !text.is_empty()).map(number).collect();
        let Some(numbers) = numbers else { return false };
        let is_passed = |signal: &i32| numbers.contains(&(self.signal_for_client(*signal) as u64));
        self.inserted.signals =
            (1..=64).filter(|signal| !is_passed(signal)).fold(0, |bits, signal| bits | 1 << (signal - 1));
        true
    }

    /// The signal that the program dies of where it stands, at the end of its history.
    pub(crate) fn death(&self) -> Option<i32> {
        match self.reason {
            Reason::End { report: report_kind::FAULTED, code } => Some(code),
            Reason::End { report: report_kind::LOG_ENDED, .. } => {
                let trace = self.timeline.trace()?;
                match trace.lanes().iter().find(|lane| lane.lane == self.timeline.lane())?.end? {
                    LaneEnd::Killed(signal) => Some(signal),
                    LaneEnd::Exited(_) | LaneEnd::Unknown | LaneEnd::Stopped(_) => None,
                }
            }
            _ => None,
        }
    }

    /// What the kernel said of the signal at hand (siginfo_t), if that is known.
    pub(crate) fn signal_info(&self) -> Option<Vec<u8>> {
        let stop = self.timeline.stop();
        let is_told = stop.signal != 0
            || stop.kind == agent_stop::FAULTED
            || stop.kind == agent_stop::END && stop.report == report_kind::FAULTED;
        let is_known = is_told && stop.signal_info[0] as u32 != 0;
        is_known.then(|| stop.signal_info.iter().flat_map(|word| word.to_le_bytes()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_the_numbers_that_gdb_gives_them() {
        let numbers = |signals: &[i32]| signals.iter().map(|signal| gdb_number(*signal)).collect::<Vec<_>>();
        // SIGABRT, SIGBUS, SIGUSR1, SIGSEGV, SIGUSR2, SIGCHLD, SIGSYS, real-time ones.
        assert_eq!(numbers(&[6, 7, 10, 11, 12, 17, 31]), [6, 10, 30, 11, 31, 20, 12]);
        assert_eq!(numbers(&[32, 33, 34, 63, 64]), [77, 45, 46, 75, 78]);
        assert_eq!(numbers(&[0, 16, 65, -1]), [UNKNOWN; 4]);
    }
}
