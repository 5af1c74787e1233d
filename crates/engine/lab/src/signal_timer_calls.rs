//! Calls of timers that send signals, and what they do when their time has come.

use std::sync::atomic::Ordering;

use injector::queue_signal;

use crate::calls::Call;
use crate::engine::Engine;
use crate::processes::thread_of;
use crate::questions::Answer;
use crate::signal_timers::{SignalTimer, is_pending};
use crate::timers::{BILLION, bytes_of, span};

/// Timers of a process, at most.
const TIMERS_MAX: usize = 1024;

impl Engine {
    /// timer_create(2) and its kin.
    pub fn on_signal_timer(&mut self, call: &Call) -> Answer {
        let Some(pid) = self.processes.pid_of(call.slot) else { return Answer::error(libc::ESRCH) };
        if call.number == libc::SYS_timer_create {
            return self.make_signal_timer(call, pid);
        }
        let key = (pid, call.args[0] as i32);
        let Some(timer) = self.timers.signals.timers.get(&key).copied() else {
            return Answer::error(libc::EINVAL);
        };
        match call.number {
            libc::SYS_timer_settime => self.set_signal_timer(call, key, timer),
            libc::SYS_timer_gettime => self.put_or_fault(call, call.args[1], &self.left_of(key.0, &timer)),
            libc::SYS_timer_getoverrun => Answer::result(i64::from(self.overrun_of(key, timer))),
            _ => {
                self.timers.signals.timers.remove(&key);
                Answer::result(0)
            }
        }
    }

    fn make_signal_timer(&mut self, call: &Call, pid: i32) -> Answer {
        const SIGEV_SIGNAL: i32 = 0;
        const SIGEV_NONE: i32 = 1;
        const SIGEV_THREAD_ID: i32 = 4;
        let [clock, event, into, ..] = call.args;
        let clock = clock as i32;
        const OF_A_DEVICE: i32 = 3;
        if clock > libc::CLOCK_TAI {
            return Answer::error(libc::EINVAL);
        }
        if clock < 0 && clock & 7 == OF_A_DEVICE {
            return Answer::error(libc::EOPNOTSUPP);
        }
        let is_there = self.is_clock_there(call, pid, clock);
        let own = &mut self.timers.signals;
        let number = *own.next_numbers.get(&pid).unwrap_or(&0);
        if own.timers.keys().filter(|(of, _)| *of == pid).count() >= TIMERS_MAX {
            return Answer::error(libc::EAGAIN);
        }
        let Some(memory) = self.memory_of(call) else { return Answer::error(libc::ESRCH) };
        // struct sigevent: a value; the signal, how; a thread.
        let words = match event {
            0 => Some([number as u64, libc::SIGALRM as u64, 0]),
            at => memory.words::<3>(at),
        };
        let Some([value, how, thread]) = words else { return Answer::error(libc::EFAULT) };
        let (signal, how) = (how as u32 as i32, (how >> 32) as i32);
        let thread = if how == SIGEV_THREAD_ID { thread_of(pid, thread as u32 as i32) } else { None };
        let is_known = match how {
            SIGEV_NONE => true,
            SIGEV_SIGNAL => (1..=64).contains(&signal),
            SIGEV_THREAD_ID => thread.is_some() && (1..=64).contains(&signal),
            _ => false,
        };
        if !is_known {
            return Answer::error(libc::EINVAL);
        }
        if !memory.write(into, &number.to_le_bytes()) {
            return Answer::error(libc::EFAULT);
        }
        if !is_there {
            // As the kernel has it: behind the number.
            self.timers.signals.next_numbers.insert(pid, number.wrapping_add(1) & i32::MAX);
            return Answer::error(libc::EINVAL);
        }
        let timer = SignalTimer {
            signal: if how == SIGEV_NONE { 0 } else { signal },
            thread,
            value,
            of_the_wall: matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_ALARM | libc::CLOCK_TAI),
            of_processor: clock < 0
                || matches!(clock, libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID),
            next_ns: None,
            interval_ns: 0,
            overrun: 0,
            missed: 0,
            is_sent: false,
        };
        self.timers.signals.timers.insert((pid, number), timer);
        self.timers.signals.next_numbers.insert(pid, number.wrapping_add(1) & i32::MAX);
        Answer::result(0)
    }

    /// Whether a clock is none of a process or thread that there is not (clock_getcpuclockid(3), pthread_getcpuclockid(3)).
    fn is_clock_there(&self, call: &Call, pid: i32, clock: i32) -> bool {
        const OF_THREAD: i32 = 4;
        const KINDS: i32 = 3;
        if clock < 0 && clock & KINDS == KINDS {
            return false;
        }
        let whose = !(clock >> 3);
        if clock >= 0 || whose == 0 {
            return true;
        }
        if clock & OF_THREAD != 0 {
            return thread_of(pid, whose).is_some();
        }
        self.processes.known_as(pid, self.processes.node_of(call.slot), whose).is_some()
    }

    /// How often the timer ended while the signal that came last waited to come.
    fn overrun_of(&mut self, key: (i32, i32), mut timer: SignalTimer) -> i32 {
        if timer.is_sent && !is_pending(key.0, timer.thread, timer.signal) {
            (timer.overrun, timer.missed, timer.is_sent) = (timer.missed, 0, false);
            self.timers.signals.timers.insert(key, timer);
        }
        timer.overrun
    }

    fn set_signal_timer(&mut self, call: &Call, key: (i32, i32), mut timer: SignalTimer) -> Answer {
        let [_, flags, new, old, ..] = call.args;
        let Some(memory) = self.memory_of(call) else { return Answer::error(libc::ESRCH) };
        let Some([a, b, c, d]) = memory.words::<4>(new) else { return Answer::error(libc::EFAULT) };
        if b >= BILLION || d >= BILLION || (a as i64) < 0 || (c as i64) < 0 {
            return Answer::error(libc::EINVAL);
        }
        if old != 0 && !memory.write(old, &self.left_of(key.0, &timer)) {
            return Answer::error(libc::EFAULT);
        }
        let lab = self.memory.lab();
        let began_ns = match (timer.of_processor, timer.of_the_wall) {
            (true, _) => 0,
            (false, true) => lab.realtime_ns.load(Ordering::Relaxed),
            (false, false) => lab.monotonic_ns.load(Ordering::Relaxed),
        };
        timer.interval_ns = span([a, b]);
        let now_ns = self.time_of(key.0, &timer);
        timer.next_ns = match span([c, d]) {
            0 => None,
            at if flags & libc::TIMER_ABSTIME as u64 != 0 => Some(at.saturating_sub(began_ns)),
            after => Some(now_ns.saturating_add(after)),
        };
        (timer.overrun, timer.missed, timer.is_sent) = (0, 0, false);
        self.timers.signals.timers.insert(key, timer);
        Answer::result(0)
    }

    /// What the timer of a process counts.
    fn time_of(&self, pid: i32, timer: &SignalTimer) -> u64 {
        match timer.of_processor {
            true => self.processes.ran_ns(pid),
            false => self.now_ns,
        }
    }

    /// `struct itimerspec`: how often, and how long until the next time.
    fn left_of(&self, pid: i32, timer: &SignalTimer) -> Vec<u8> {
        let left = timer.next_ns.map_or(0, |at_ns| at_ns.saturating_sub(self.time_of(pid, timer)).max(1));
        let interval = timer.interval_ns;
        bytes_of(&[interval / BILLION, interval % BILLION, left / BILLION, left % BILLION])
    }

    /// Those whose time has come send their signals; one whose signal still waits counts.
    pub fn fire_signal_timers(&mut self) {
        let now_ns = self.now_ns;
        let mut told = Vec::new();
        for (&(pid, number), timer) in &mut self.timers.signals.timers {
            let now_ns = if timer.of_processor { self.processes.ran_ns(pid) } else { now_ns };
            let Some(at_ns) = timer.next_ns.filter(|&at_ns| at_ns <= now_ns) else { continue };
            let more = (now_ns - at_ns).checked_div(timer.interval_ns);
            timer.next_ns = more.map(|more| at_ns + (more + 1) * timer.interval_ns);
            let more = more.unwrap_or(0).min(i32::MAX as u64) as i32;
            if timer.signal == 0 {
                continue;
            }
            if is_pending(pid, timer.thread, timer.signal) {
                timer.missed = timer.missed.saturating_add(more).saturating_add(1);
                continue;
            }
            if timer.is_sent {
                timer.overrun = timer.missed;
            }
            (timer.is_sent, timer.missed) = (true, more);
            queue_signal(pid, timer.thread, timer.signal, &timer.info(number));
            told.push(pid);
        }
        for pid in told {
            self.signal(pid);
        }
    }
}
