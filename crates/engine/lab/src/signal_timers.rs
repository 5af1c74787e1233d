//! Timers that send signals (timer_create(2)).

use std::collections::BTreeMap;

const SIGINFO_BYTES: usize = 128;

/// A timer of a process.
#[derive(Debug, Clone, Copy)]
pub struct SignalTimer {
    /// 0: nobody is told.
    pub signal: i32,
    /// The thread that gets it, as the supervisor sees it; else any of the process.
    pub thread: Option<i32>,
    pub value: u64,
    /// By what it counts: CLOCK_REALTIME or CLOCK_MONOTONIC.
    pub of_the_wall: bool,
    /// It counts its process's processor time.
    pub of_processor: bool,
    pub next_ns: Option<u64>,
    pub interval_ns: u64,
    /// How often it ended while the signal that came last waited; and since the one that was sent last, which may wait.
    pub overrun: i32,
    pub missed: i32,
    pub is_sent: bool,
}

/// All of them: by process, and number.
#[derive(Debug, Default)]
pub struct SignalTimers {
    pub timers: BTreeMap<(i32, i32), SignalTimer>,
    pub next_numbers: BTreeMap<i32, i32>,
}

impl SignalTimers {
    pub fn next_ns(&self) -> Option<u64> {
        self.timers.values().filter(|timer| !timer.of_processor).filter_map(|timer| timer.next_ns).min()
    }

    /// When those of a process end that count its processor time.
    pub fn of_processor(&self, pid: i32) -> impl Iterator<Item = u64> {
        let of_it = self.timers.range((pid, i32::MIN)..=(pid, i32::MAX));
        of_it.filter(|(_, timer)| timer.of_processor).filter_map(|(_, timer)| timer.next_ns)
    }

    /// The process has ended, or has another image.
    pub fn forget(&mut self, pid: i32) {
        self.timers.retain(|&(of, _), _| of != pid);
        self.next_numbers.remove(&pid);
    }
}

/// True if a signal waits for a thread, or for its process.
pub fn is_pending(pid: i32, thread: Option<i32>, signal: i32) -> bool {
    let [own, of_all] = injector::pending_signals(thread.unwrap_or(pid));
    let set = if thread.is_some() { own } else { of_all };
    set >> (signal - 1) & 1 != 0
}

impl SignalTimer {
    /// The rest of `siginfo_t`: an error, the code SI_TIMER; the timer's number, how often it was missed, the value.
    pub fn info(&self, number: i32) -> [u8; SIGINFO_BYTES] {
        const SI_TIMER: i32 = -2;
        let mut info = [0; SIGINFO_BYTES];
        for (at, word) in [(0, self.signal), (8, SI_TIMER), (16, number), (20, self.missed)] {
            info[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        info[24..32].copy_from_slice(&self.value.to_le_bytes());
        info
    }
}
