//! Processor time of processes: what passes of the lab's clock for who computes (docs/adr/0119).

use std::sync::atomic::Ordering;

use injector::kill_process;

use crate::calls::Call;
use crate::engine::Engine;
use crate::processes::ProcessorTime;
use crate::questions::Answer;
use crate::timers::{BILLION, bytes_of};

/// What the timers send.
const SIGNALS: [i32; 2] = [libc::SIGVTALRM, libc::SIGPROF];

impl ProcessorTime {
    /// What its limits send by now; the soft one each second once more.
    fn pass_limits(&mut self) -> Option<i32> {
        let seconds = self.ran_ns / BILLION;
        let [soft, hard] = self.limit.0;
        if seconds >= hard.max(1) {
            return Some(libc::SIGKILL);
        }
        let is_over = seconds >= soft.max(1);
        is_over.then(|| {
            self.limit.0[0] = seconds + 1;
            libc::SIGXCPU
        })
    }

    /// How much is left until then.
    fn left_of_limits(&self) -> Option<u64> {
        let seconds = self.limit.0.into_iter().min().filter(|&seconds| seconds != libc::RLIM_INFINITY)?;
        Some(seconds.max(1).saturating_mul(BILLION).saturating_sub(self.ran_ns).max(1))
    }
}

impl Engine {
    /// prlimit(2) of RLIMIT_CPU and its kin.
    pub fn limit_processor(&mut self, call: &Call) -> Answer {
        let args = call.args;
        let (whose, new, old) = match call.number {
            libc::SYS_setrlimit => (0, args[1], 0),
            libc::SYS_getrlimit => (0, 0, args[1]),
            _ => (args[0] as i32, args[2], args[3]),
        };
        let (own, node) = (self.processes.pid_of(call.slot), self.processes.node_of(call.slot));
        let pid = match whose {
            0 => own,
            id => own.and_then(|own| self.processes.known_as(own, node, id)),
        };
        let Some(pid) = pid else { return Answer::error(libc::ESRCH) };
        let was = self.processes.processes[&pid].processor.limit.0;
        if new != 0 {
            let given = self.memory_of(call).and_then(|memory| memory.words::<2>(new));
            let Some([soft, hard]) = given else { return Answer::error(libc::EFAULT) };
            if soft > hard {
                return Answer::error(libc::EINVAL);
            }
            if hard > was[1] && !rustix::process::geteuid().is_root() {
                return Answer::error(libc::EPERM);
            }
            if let Some(process) = self.processes.processes.get_mut(&pid) {
                process.processor.limit.0 = [soft, hard];
            }
        }
        if old == 0 { Answer::result(0) } else { self.put_or_fault(call, old, &bytes_of(&was)) }
    }

    /// What of processor time is left to a thread's process until its limit is reached.
    pub fn left_of_limit(&self, slot: u32) -> Option<u64> {
        self.processes.of_slot(slot)?.processor.left_of_limits()
    }

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
        rung.extend(time.pass_limits());
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
