//! Processor time of processes: what passes of the lab's clock for who computes (docs/adr/0119).

use std::sync::atomic::Ordering;

use injector::kill_process;

use crate::calls::Call;
use crate::engine::Engine;
use crate::questions::Answer;

/// What the timers send.
const SIGNALS: [i32; 2] = [libc::SIGVTALRM, libc::SIGPROF];

impl Engine {
    /// Time has passed for a thread that computes, from `from_ns` on: its timers of that may end.
    pub fn charge(&mut self, slot: u32, from_ns: u64) {
        let passed_ns = self.now_ns.saturating_sub(from_ns);
        let Some(pid) = self.processes.pid_of(slot).filter(|_| passed_ns != 0) else { return };
        let Some(process) = self.processes.processes.get_mut(&pid) else { return };
        let time = &mut process.processor;
        time.ran_ns += passed_ns;
        let mut rung = Vec::new();
        for (alarm, signal) in time.alarms.iter_mut().zip(SIGNALS) {
            let Some((at_ns, interval_ns)) = alarm.filter(|&(at_ns, _)| at_ns <= time.ran_ns) else {
                continue;
            };
            // What was missed meanwhile is not made up for.
            let missed = (time.ran_ns - at_ns).checked_div(interval_ns);
            *alarm = missed.map(|missed| (at_ns + (missed + 1) * interval_ns, interval_ns));
            rung.push(signal);
        }
        for &signal in &rung {
            kill_process(pid, signal);
        }
        if !rung.is_empty() {
            self.signal(pid);
        }
        self.fire_signal_timers();
    }

    /// What passes until the first timer of a thread's process ends by its processor time.
    pub fn left_of_processor(&self, slot: u32) -> Option<u64> {
        let pid = self.processes.pid_of(slot)?;
        let time = self.processes.processes.get(&pid)?.processor;
        let alarms = time.alarms.into_iter().flatten().map(|(at_ns, _)| at_ns);
        let timers = self.timers.signals.of_processor(pid);
        alarms.chain(timers).min().map(|at_ns| at_ns.saturating_sub(time.ran_ns).max(1))
    }

    /// The processor time of another process (clock_getcpuclockid(3)), as a number.
    pub fn tell_time_of_other(&self, call: &Call) -> Answer {
        let whose = !(call.args[0] as i32 >> 3);
        let own = self.processes.pid_of(call.slot);
        let node = self.processes.node_of(call.slot);
        match own.and_then(|own| self.processes.known_as(own, node, whose)) {
            Some(pid) => self.put_or_fault(call, call.args[1], &self.processes.ran_ns(pid).to_le_bytes()),
            None => Answer::error(libc::EINVAL),
        }
    }

    /// The thread, which runs, is told what its process has had.
    pub fn tell_processor_time(&self, slot: u32) {
        let ran_ns = self.processes.ran_ns_of_slot(slot);
        self.memory.lab().processor_ns.store(ran_ns, Ordering::Relaxed);
    }
}
