//! The one processor on which all of a lab runs: its engine, and each thread of its nodes.
//!
//! One of them runs at a time, so a second processor makes nothing faster. It makes each hand-over slower: who is woken
//! on another processor waits until that one has left its sleep, which takes ten times as long as a switch.

use std::sync::atomic::Ordering;

use injector::SessionMemory;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// Where a lab runs; `None`: where the kernel likes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Processor(Option<usize>);

impl Processor {
    /// Chooses one of those that this process may use, and keeps for nodes which these are. Labs with different numbers
    /// run on different ones, as far as there are enough.
    pub fn choose(memory: &SessionMemory, number: usize) -> Processor {
        let Ok(allowed) = sched_getaffinity(None) else { return Processor(None) };
        let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&one| allowed.is_set(one)).collect();
        let words = &memory.lab().processors;
        for &one in &usable {
            words[one / 64].fetch_or(1 << (one % 64), Ordering::Relaxed);
        }
        Processor((usable.len() > 1).then(|| usable[number % usable.len()]))
    }

    /// From here on a process's first thread (the calling thread for `None`), and all that it makes, run there.
    pub fn hold(self, pid: Option<i32>) {
        let Some(processor) = self.0 else { return };
        let mut only = CpuSet::new();
        only.set(processor);
        // Where that is refused all is as it was, but slower.
        let _ = sched_setaffinity(pid.and_then(Pid::from_raw), &only);
    }
}
