//! The machine's clock as the lab's, and computing that takes the time that it takes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use injector::monotonic_time;
use lane_protocol::{LAB_READS, lab_clock};

use crate::LabError;
use crate::engine::Engine;
use crate::spec::Clock;

/// How long the engine sleeps before it hears what is wished.
const SLEEP_MAX_NS: u64 = 20_000_000;

fn machine_ns() -> u64 {
    monotonic_time().as_nanos() as u64
}

impl Engine {
    /// The clock begins.
    pub fn begin_clock(&mut self) {
        self.real_from_ns = machine_ns();
    }

    /// From here on the clock is the machine's again, less the time away.
    pub fn go_live(&mut self) {
        self.clock_log.go_live();
        self.granted_at = Instant::now();
        self.real_from_ns = machine_ns().saturating_sub(self.now_ns);
    }

    /// What the thread that ran has read of the machine's clock.
    pub fn take_reads(&self) -> Vec<u64> {
        let lab = self.memory.lab();
        let count = (lab.reads_count.load(Ordering::Acquire) as usize).min(LAB_READS);
        lab.reads[..count].iter().map(|read| read.load(Ordering::Relaxed)).collect()
    }

    /// A thread is about to run: it has read nothing yet, and reads what was read then where the lab runs again.
    pub fn tell_reads(&mut self) {
        if !self.spec.keeps_clock() {
            return;
        }
        let memory = std::sync::Arc::clone(&self.memory);
        let lab = memory.lab();
        for (read, time) in lab.reads.iter().zip(self.clock_log.upcoming()) {
            read.store(time, Ordering::Relaxed);
        }
        lab.real_from_ns.store(self.real_from_ns, Ordering::Relaxed);
        let clock = match (self.spec.clock, self.clock_log.is_again()) {
            // What computing takes is seen when the engine has said it.
            (Clock::Virtual, _) => lab_clock::VIRTUAL,
            (Clock::Real, true) => lab_clock::AGAIN,
            (Clock::Real, false) => lab_clock::REAL,
        };
        lab.clock.store(clock, Ordering::Relaxed);
        lab.reads_count.store(0, Ordering::Release);
    }

    /// By the clocks that computing moves.
    pub fn pass_cpu_time(&mut self, slot: u32) -> Result<(), LabError> {
        if !self.spec.keeps_clock() {
            return Ok(());
        }
        let reads = self.take_reads();
        let (now_ns, from_ns) = (self.now_ns, self.real_from_ns);
        let granted_at = self.granted_at;
        let is_real = self.spec.clock == Clock::Real;
        let to_ns = self.clock_log.ask(&reads, || match is_real {
            true => machine_ns().saturating_sub(from_ns),
            false => now_ns + granted_at.elapsed().as_nanos() as u64,
        })?;
        self.pass_time_to(to_ns);
        self.charge(slot, now_ns);
        Ok(())
    }

    /// No thread can go on before a time.
    pub fn sleep_until(&mut self, at_ns: u64) -> Result<(), LabError> {
        if self.spec.clock != Clock::Real {
            self.pass_time_to(at_ns);
            return Ok(());
        }
        let from_ns = self.real_from_ns;
        let to_ns = self.clock_log.sleep(|| {
            let now_ns = machine_ns().saturating_sub(from_ns);
            if at_ns > now_ns {
                std::thread::sleep(Duration::from_nanos((at_ns - now_ns).min(SLEEP_MAX_NS)));
            }
            machine_ns().saturating_sub(from_ns)
        })?;
        self.pass_time_to(to_ns);
        Ok(())
    }
}
