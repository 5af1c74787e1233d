//! Timers, and calls that ask what a node measures of itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;

use injector::kill_process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::calls::Call;
use crate::engine::Engine;
use crate::memory::Memory;
use crate::questions::Answer;
use crate::signal_timers::SignalTimers;

/// The memory of a node's machine, and how much of it is free.
pub const MACHINE_BYTES: u64 = 4 << 30;
pub const MACHINE_FREE_BYTES: u64 = 2 << 30;
pub const BILLION: u64 = 1_000_000_000;
const TICKS_PER_SECOND: u64 = 100;

/// A timer that a program reads (timerfd_create(2)); in the kernel it is a counter.
#[derive(Debug)]
struct FileTimer {
    counter: File,
    pid: i32,
    node: Option<usize>,
    /// By what it counts: CLOCK_REALTIME or CLOCK_MONOTONIC.
    of_the_wall: bool,
    next_ns: Option<u64>,
    interval_ns: u64,
}

/// All that is due at some time.
#[derive(Debug, Default)]
pub struct Timers {
    files: BTreeMap<u64, FileTimer>,
    alarms_next_ns: Option<u64>,
    pub signals: SignalTimers,
}

impl Timers {
    /// Whether one of these processes has a timer that will end.
    pub fn are_any(&self, pids: &[i32]) -> bool {
        let mut of_files = self.files.values().filter(|timer| timer.next_ns.is_some());
        let mut of_signals = self.signals.timers.iter().filter(|(_, timer)| timer.next_ns.is_some());
        of_files.any(|timer| pids.contains(&timer.pid)) || of_signals.any(|((pid, _), _)| pids.contains(pid))
    }

    pub fn next_ns(&self) -> Option<u64> {
        let files = self.files.values().filter_map(|timer| timer.next_ns);
        files.chain(self.alarms_next_ns).chain(self.signals.next_ns()).min()
    }
}

pub fn span(words: [u64; 2]) -> u64 {
    words[0].saturating_mul(BILLION).saturating_add(words[1])
}

pub fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The kernel's number of a counter that a process has open.
fn counter_id(pid: i32, fd: i32) -> Option<u64> {
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    info.lines().find_map(|line| line.strip_prefix("eventfd-id:"))?.trim().parse().ok()
}

fn empty(mut counter: &File) {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::new(&counter, PollFlags::IN)];
    if poll(&mut polled, Some(&none)).is_ok_and(|count| count > 0) {
        let mut value = [0u8; 8];
        // It is readable: this does not wait.
        let _ = counter.read(&mut value);
    }
    let _ = counter.as_fd();
}

impl Engine {
    /// Calls of timers, and of what a node can ask of itself.
    pub fn perform_timed(&mut self, call: &Call) -> Answer {
        match call.number {
            libc::SYS_getrandom => self.give_random(call),
            libc::SYS_open | libc::SYS_openat => self.open_table(call),
            libc::SYS_timerfd_create => self.make_timer(call),
            libc::SYS_timerfd_settime => self.set_timer(call),
            libc::SYS_timerfd_gettime => self.get_timer(call),
            libc::SYS_setitimer | libc::SYS_getitimer | libc::SYS_alarm => self.alarm(call),
            libc::SYS_prlimit64 | libc::SYS_setrlimit | libc::SYS_getrlimit => self.limit_processor(call),
            libc::SYS_clock_gettime => self.tell_time_of_other(call),
            libc::SYS_times => {
                let ticks = self.now_since_boot_ns() / (BILLION / TICKS_PER_SECOND);
                let used = self.processes.ran_ns_of_slot(call.slot) / (BILLION / TICKS_PER_SECOND);
                match call.args[0] == 0 || self.put(call, call.args[0], &bytes_of(&[used, 0, 0, 0])) {
                    true => Answer::result(ticks as i64),
                    false => Answer::error(libc::EFAULT),
                }
            }
            libc::SYS_getrusage => {
                // struct rusage: what the program's code took; nothing else is counted, nor what children took.
                let is_own = call.args[0] as i32 != libc::RUSAGE_CHILDREN;
                let ran_us = if is_own { self.processes.ran_ns_of_slot(call.slot) / 1000 } else { 0 };
                let mut usage = [0; 18];
                (usage[0], usage[1]) = (ran_us / 1_000_000, ran_us % 1_000_000);
                self.put_or_fault(call, call.args[1], &bytes_of(&usage))
            }
            libc::SYS_sysinfo => {
                // struct sysinfo: uptime, loads, memory.
                let mut words = [0u64; 14];
                words[0] = self.now_since_boot_ns() / BILLION;
                (words[4], words[5]) = (MACHINE_BYTES, MACHINE_FREE_BYTES);
                words[10] = 64;
                let mut bytes = bytes_of(&words);
                bytes[104..108].copy_from_slice(&1u32.to_le_bytes());
                self.put_or_fault(call, call.args[0], &bytes)
            }
            libc::SYS_timer_create
            | libc::SYS_timer_settime
            | libc::SYS_timer_gettime
            | libc::SYS_timer_getoverrun
            | libc::SYS_timer_delete => self.on_signal_timer(call),
            libc::SYS_adjtimex | libc::SYS_clock_adjtime => Answer::error(libc::EPERM),
            _ => Answer::error(libc::EINVAL),
        }
    }

    fn now_since_boot_ns(&self) -> u64 {
        self.memory.lab().monotonic_ns.load(std::sync::atomic::Ordering::Relaxed) + self.now_ns
    }

    pub fn memory_of(&self, call: &Call) -> Option<&Memory> {
        self.processes.of_slot(call.slot).map(|process| &process.memory)
    }

    pub fn put(&self, call: &Call, at: u64, bytes: &[u8]) -> bool {
        self.memory_of(call).is_some_and(|memory| memory.write(at, bytes))
    }

    pub fn put_or_fault(&self, call: &Call, at: u64, bytes: &[u8]) -> Answer {
        if self.put(call, at, bytes) { Answer::result(0) } else { Answer::error(libc::EFAULT) }
    }

    fn give_random(&mut self, call: &Call) -> Answer {
        const BYTES_MAX: u64 = 1 << 20;
        let count = call.args[1].min(BYTES_MAX) as usize;
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend(self.random.word().to_le_bytes());
        }
        match self.put(call, call.args[0], &bytes[..count]) {
            true => Answer::result(count as i64),
            false => Answer::error(libc::EFAULT),
        }
    }

    // --- timers that are files ---

    fn make_timer(&mut self, call: &Call) -> Answer {
        let fd = call.made[0];
        let Some(pid) = self.processes.pid_of(call.slot) else { return Answer::error(libc::ESRCH) };
        let counter = self.processes.processes[&pid].handle.descriptor(fd);
        let (Ok(counter), Some(id)) = (counter, counter_id(pid, fd)) else {
            return Answer::error(libc::EMFILE);
        };
        let timer = FileTimer {
            counter,
            pid,
            node: self.processes.node_of(call.slot),
            of_the_wall: matches!(call.args[0] as i32, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_ALARM),
            next_ns: None,
            interval_ns: 0,
        };
        self.timers.files.insert(id, timer);
        Answer::result(i64::from(fd))
    }

    fn timer_of(&self, call: &Call) -> Option<u64> {
        let pid = self.processes.pid_of(call.slot)?;
        counter_id(pid, call.args[0] as i32).filter(|id| self.timers.files.contains_key(id))
    }

    fn set_timer(&mut self, call: &Call) -> Answer {
        const TFD_TIMER_ABSTIME: u64 = 1;
        let [_, flags, new, old, ..] = call.args;
        let Some(id) = self.timer_of(call) else { return Answer::error(libc::EINVAL) };
        let Some(memory) = self.memory_of(call) else { return Answer::error(libc::ESRCH) };
        let Some([a, b, c, d]) = memory.words::<4>(new) else { return Answer::error(libc::EFAULT) };
        if old != 0 && !memory.write(old, &bytes_of(&self.left(id))) {
            return Answer::error(libc::EFAULT);
        }
        let (interval_ns, value_ns) = (span([a, b]), span([c, d]));
        let clocks = self.memory.lab();
        let Some(timer) = self.timers.files.get_mut(&id) else { return Answer::error(libc::EINVAL) };
        let began = if timer.of_the_wall { &clocks.realtime_ns } else { &clocks.monotonic_ns };
        let began_ns = began.load(std::sync::atomic::Ordering::Relaxed);
        empty(&timer.counter);
        timer.interval_ns = interval_ns;
        timer.next_ns = match value_ns {
            0 => None,
            at if flags & TFD_TIMER_ABSTIME != 0 => Some(at.saturating_sub(began_ns)),
            after => Some(self.now_ns + after),
        };
        Answer::result(0)
    }

    /// `struct itimerspec`: how often, and how long until the next time.
    fn left(&self, id: u64) -> [u64; 4] {
        let timer = &self.timers.files[&id];
        let left = timer.next_ns.map_or(0, |at_ns| at_ns.saturating_sub(self.now_ns).max(1));
        [timer.interval_ns / BILLION, timer.interval_ns % BILLION, left / BILLION, left % BILLION]
    }

    fn get_timer(&mut self, call: &Call) -> Answer {
        let Some(id) = self.timer_of(call) else { return Answer::error(libc::EINVAL) };
        self.put_or_fault(call, call.args[1], &bytes_of(&self.left(id)))
    }

    // --- timers that send signals ---

    fn alarm(&mut self, call: &Call) -> Answer {
        const ITIMER_REAL: u64 = 0;
        const ITIMER_PROF: u64 = 2;
        let now_ns = self.now_ns;
        let [which, new, old, ..] = call.args;
        let is_alarm = call.number == libc::SYS_alarm;
        let words = match self.memory_of(call) {
            Some(memory) if call.number == libc::SYS_setitimer && new != 0 => memory.words::<4>(new),
            _ => Some([0, 0, if is_alarm { which } else { 0 }, 0]),
        };
        let Some([a, b, c, d]) = words else { return Answer::error(libc::EFAULT) };
        let which = if is_alarm { ITIMER_REAL } else { which };
        if which > ITIMER_PROF {
            return Answer::error(libc::EINVAL);
        }
        let Some(process) = self.processes.of_slot_mut(call.slot) else { return Answer::error(libc::ESRCH) };
        let ran_ns = process.processor.ran_ns;
        let (alarm, now_ns) = match process.processor.alarm_mut(which) {
            Some(alarm) => (alarm, ran_ns),
            None => (&mut process.alarm, now_ns),
        };
        let (next_ns, interval_ns) = alarm.unwrap_or((now_ns, 0));
        let left_us = (next_ns.saturating_sub(now_ns)).div_ceil(1000);
        if call.number != libc::SYS_getitimer {
            // Microseconds.
            let [interval, value] = [[a, b], [c, d]].map(|[s, us]| s * BILLION + us * 1000);
            *alarm = (value != 0).then_some((now_ns + value, interval));
        }
        self.find_next_alarm();
        if is_alarm {
            return Answer::result(left_us.div_ceil(1_000_000) as i64);
        }
        let interval_us = interval_ns / 1000;
        let answer =
            [interval_us / 1_000_000, interval_us % 1_000_000, left_us / 1_000_000, left_us % 1_000_000];
        match if call.number == libc::SYS_getitimer { new } else { old } {
            0 => Answer::result(0),
            at => self.put_or_fault(call, at, &bytes_of(&answer)),
        }
    }

    fn find_next_alarm(&mut self) {
        let alarms = self.processes.processes.values().filter_map(|process| process.alarm);
        self.timers.alarms_next_ns = alarms.map(|(at_ns, _)| at_ns).min();
    }

    /// Timers whose time has come.
    pub fn fire_timers(&mut self) {
        let now_ns = self.now_ns;
        if self.timers.next_ns().is_none_or(|at_ns| at_ns > now_ns) {
            return;
        }
        let mut touched = Vec::new();
        let there: Vec<i32> = self.processes.processes.keys().copied().collect();
        self.timers.files.retain(|_, timer| timer.next_ns.is_none() || there.contains(&timer.pid));
        for timer in self.timers.files.values_mut() {
            let mut times = 0u64;
            while let Some(at_ns) = timer.next_ns.filter(|&at_ns| at_ns <= now_ns) {
                times += 1;
                timer.next_ns = (timer.interval_ns != 0).then(|| at_ns + timer.interval_ns);
            }
            if times != 0 {
                let _ = timer.counter.write(&times.to_le_bytes());
                touched.push(timer.node);
            }
        }
        let mut rung = Vec::new();
        for (&pid, process) in &mut self.processes.processes {
            if let Some((at_ns, interval_ns)) = process.alarm
                && at_ns <= now_ns
            {
                process.alarm = (interval_ns != 0).then(|| (at_ns + interval_ns, interval_ns));
                rung.push(pid);
            }
        }
        for pid in rung {
            kill_process(pid, libc::SIGALRM);
            self.signal(pid);
        }
        self.find_next_alarm();
        self.fire_signal_timers();
        for node in touched {
            self.touch(node);
        }
    }
}
