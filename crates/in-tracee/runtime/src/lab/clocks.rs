//! The lab's clock, by which a node knows all times.

use core::sync::atomic::Ordering;

use lane_protocol::{LAB_ACTING, LAB_CALLS, LAB_NEVER, LAB_READS, LAB_VAIN_CALL, lab_clock, lab_question};
use linux_abi::{errno, general as nr};

use crate::ground::{kernel, memory};
use crate::lab::{self, sockets};
use crate::scheduler::token;
use crate::state::block::{process, session, thread};

const BILLION: u64 = 1_000_000_000;
/// Reads of the time with nothing in between, after which the thread is taken to wait for it.
const READS_MAX: u32 = 64;
/// The time stamp counter counts nanoseconds.
const CLOCK_MONOTONIC: u64 = 1;

/// The lab's time, since the lab began.
pub fn now_ns() -> u64 {
    let lab = &session().lab;
    match lab.clock.load(Ordering::Relaxed) {
        lab_clock::VIRTUAL => lab.now_ns.load(Ordering::Relaxed),
        clock => read_machine(clock),
    }
}

/// The time by the machine's clock, which the engine keeps: by that the lab can run again.
fn read_machine(clock: u32) -> u64 {
    let lab = &session().lab;
    // One thread of the lab runs at a time.
    let count = lab.reads_count.load(Ordering::Relaxed) as usize;
    let Some(read) = lab.reads.get(count) else {
        return lab.reads[LAB_READS - 1].load(Ordering::Relaxed);
    };
    if clock == lab_clock::REAL {
        let from = lab.real_from_ns.load(Ordering::Relaxed);
        read.store(kernel::monotonic_ns().saturating_sub(from), Ordering::Relaxed);
    }
    lab.reads_count.store(count as u32 + 1, Ordering::Release);
    read.load(Ordering::Relaxed)
}

/// True for clocks that count from a beginning that people agree on.
fn is_of_the_wall(clock: u64) -> bool {
    // CLOCK_REALTIME, CLOCK_REALTIME_COARSE, CLOCK_REALTIME_ALARM, CLOCK_TAI.
    matches!(clock as i32, 0 | 5 | 8 | 11)
}

/// True for clocks that count what processors do.
fn is_of_processors(clock: u64) -> bool {
    matches!(clock as i32, 2 | 3) || (clock as i32) < 0
}

/// True for the clock of another process (clock_getcpuclockid(3)). All of one have the same.
fn is_of_other(clock: u64) -> bool {
    const OF_THREAD: i32 = 4;
    let clock = clock as i32;
    clock < 0 && clock & OF_THREAD == 0 && ![0, process().pid].contains(&!(clock >> 3))
}

/// What such a clock says, as the engine knows it. `None`: the process has ended.
fn ask_other(clock: u64) -> Option<u64> {
    let mut now = 0u64;
    let words = [clock, &raw mut now as u64, 0, 0, 0, 0];
    let result = sockets::ask_engine(u64::from(nr::__NR_clock_gettime), &words, 0);
    // The engine wrote it.
    (result == 0).then(|| core::hint::black_box(now))
}

fn begins_at_ns(clock: u64) -> u64 {
    let lab = &session().lab;
    match is_of_the_wall(clock) {
        true => lab.realtime_ns.load(Ordering::Relaxed),
        false => lab.monotonic_ns.load(Ordering::Relaxed),
    }
}

/// The time by a clock of the kernel's names.
pub fn by_clock_ns(clock: u64) -> u64 {
    match is_of_processors(clock) {
        true => session().lab.processor_ns.load(Ordering::Relaxed),
        false => begins_at_ns(clock) + now_ns(),
    }
}

/// In the count of reads: the thread has made other calls since it asked last.
const HAS_ACTED: u32 = 1 << 31;

/// The thread does something that others may wait for. Where it makes many calls without waiting, others go on.
pub fn note_act() {
    let thread = &mut *thread();
    thread.lab_reads |= HAS_ACTED;
    lab::slot().acted.store(1, Ordering::Relaxed);
    thread.lab_calls += 1;
    if thread.lab_calls >= LAB_CALLS {
        thread.lab_calls = 0;
        go_aside(&lab::ask_aside(lab_question::SPINS, &[0, 1, 0, 1, 0]));
    }
}

/// A call found nothing to do, and did not wait: others, or time, may have to go on before one does. So does one that
/// takes as long as many others.
pub fn note_vain_call() {
    thread().lab_calls += LAB_VAIN_CALL;
}

/// The time has been read once more.
fn note_read(may_switch: bool) {
    thread().lab_reads += 1;
    if !are_many(thread().lab_reads) && !no_more_reads() {
        return;
    }
    let [goes_on, has_acted, no_more_reads, only_calls] = spin_question(may_switch);
    if may_switch {
        let words = [goes_on, has_acted, no_more_reads, only_calls, 1];
        go_aside(&lab::ask_aside(lab_question::SPINS, &words));
    } else {
        spin(false);
    }
}

/// The thread goes on behind a boundary, and others may hold the token again some steps on: it may have a lock only here.
fn go_aside(answer: &lab::Answer) {
    let thread = &mut *thread();
    if answer.result > 0 && process().shares_token && !process().has_agent() {
        (thread.preemption.aside, thread.preemption.is_preempted) = (answer.result as u32, true);
    }
}

/// Whether a thread that has read the time so often is taken to wait for it.
fn are_many(reads: u32) -> bool {
    let times = if reads & HAS_ACTED != 0 { LAB_ACTING as u32 } else { 1 };
    reads & !HAS_ACTED >= READS_MAX * times
}

/// Before an instruction that reads the time, where others of the process may run: true if they did.
pub fn yield_before_read() -> bool {
    let yields = are_many(thread().lab_reads + 1);
    if yields {
        token::give();
        lab::ask(lab_question::SPINS, &spin_question(true));
        token::take();
    }
    yields
}

/// The engine has to take over what was read of the machine's clock before more of it can be kept.
fn no_more_reads() -> bool {
    let lab = &session().lab;
    lab.reads_count.load(Ordering::Relaxed) as usize + 1 >= LAB_READS
        && lab.clock.load(Ordering::Relaxed) != lab_clock::VIRTUAL
}

/// The thread waits in a loop that only looks at memory: others run, of its process too, which the log says.
pub fn let_others_run() {
    token::give();
    lab::ask(lab_question::SPINS, &spin_question(true));
    token::take();
}

/// As SPINS has them; whether it only makes calls is not of these.
fn spin_words(may_switch: bool) -> [u64; 3] {
    [!may_switch, has_acted(), no_more_reads()].map(u64::from)
}

fn spin_question(may_switch: bool) -> [u64; 4] {
    let [goes_on, has_acted, no_more_reads] = spin_words(may_switch);
    [goes_on, has_acted, no_more_reads, 0]
}

/// Whether the thread has made other calls since it asked last.
pub fn has_acted() -> bool {
    thread().lab_reads & HAS_ACTED != 0
}

/// The thread seems to wait for time to pass, or for others to run.
pub fn spin(may_switch: bool) {
    let words = spin_question(may_switch);
    match may_switch {
        true => lab::ask_aside(lab_question::SPINS, &words),
        false => lab::ask(lab_question::SPINS, &words),
    };
}

/// Whether there is such a clock: those of alarms need the machine to have one that wakes it.
pub fn is_clock(clock: u64) -> bool {
    const ALARMS: core::ops::RangeInclusive<i32> = 8..=9;
    let is_known = clock as i32 <= 11 && clock as i32 != 10;
    if !ALARMS.contains(&(clock as i32)) && (clock as i32) >= 0 {
        return is_known;
    }
    is_known && !kernel::failed(kernel::call(nr::__NR_clock_getres, [clock, 0, 0, 0, 0, 0]))
}

/// The same as `code::clocks::ask`, by the lab's clock.
pub fn ask(number: u64, clock: u64, answer: &mut [u64; 4]) -> i64 {
    note_read(true);
    match number as u32 {
        nr::__NR_clock_gettime => {
            if !is_clock(clock) {
                return -i64::from(errno::EINVAL);
            }
            let now = if is_of_other(clock) { ask_other(clock) } else { Some(by_clock_ns(clock)) };
            let Some(now) = now else { return -i64::from(errno::EINVAL) };
            answer[..2].copy_from_slice(&[now / BILLION, now % BILLION]);
            0
        }
        nr::__NR_gettimeofday => {
            let now = by_clock_ns(0);
            // Seconds and microseconds; then the time zone: UTC.
            *answer = [now / BILLION, now % BILLION / 1000, 0, 0];
            0
        }
        nr::__NR_time => (by_clock_ns(0) / BILLION) as i64,
        // getcpu(2): a node has one processor for this.
        _ => {
            *answer = [0; 4];
            0
        }
    }
}

/// The time stamp counter.
pub fn counter() -> u64 {
    note_read(false);
    by_clock_ns(CLOCK_MONOTONIC)
}

/// When a time is over that a timespec at `address` gives from now on; never for 0. `None`: it
/// cannot be read, or is none.
pub fn after(address: u64) -> Option<u64> {
    if address == 0 {
        return Some(LAB_NEVER);
    }
    let span = read_span(address)?;
    Some(now_ns().saturating_add(span))
}

/// The same of a timespec that names the time by a clock.
pub fn at(address: u64, clock: u64) -> Option<u64> {
    if address == 0 {
        return Some(LAB_NEVER);
    }
    let span = read_span(address)?;
    Some(span.saturating_sub(begins_at_ns(clock)))
}

fn read_span(address: u64) -> Option<u64> {
    let [seconds, nanoseconds] = memory::read::<[u64; 2]>(address)?;
    let is_time = (seconds as i64) >= 0 && nanoseconds < BILLION;
    is_time.then(|| seconds.saturating_mul(BILLION).saturating_add(nanoseconds))
}

/// clock_settime(2) and settimeofday(2): nobody sets a lab's clock.
pub fn set(number: u64, args: &[u64; 6]) -> i64 {
    let is_clock_call = number == u64::from(nr::__NR_clock_settime);
    let (at, unit) = if is_clock_call { (args[1], 1) } else { (args[0], 1000) };
    let time = memory::read::<[u64; 2]>(at);
    let error = match time {
        _ if is_clock_call && args[0] != 0 => errno::EINVAL,
        None if at == 0 => errno::EPERM,
        None => errno::EFAULT,
        Some([seconds, parts]) if (seconds as i64) < 0 || parts >= BILLION / unit => errno::EINVAL,
        Some(_) => errno::EPERM,
    };
    -i64::from(error)
}

/// nanosleep(2) and clock_nanosleep(2).
pub fn sleep(number: u64, args: &[u64; 6]) -> i64 {
    const TIMER_ABSTIME: u64 = 1;
    let (until, rest) = if number == u64::from(nr::__NR_nanosleep) {
        (after(args[0]), args[1])
    } else if args[1] & TIMER_ABSTIME != 0 {
        (at(args[2], args[0]), 0)
    } else {
        (after(args[2]), args[3])
    };
    let Some(until) = until.filter(|&until| until != LAB_NEVER) else {
        return -i64::from(errno::EINVAL);
    };
    loop {
        let answer = lab::ask_aside(lab_question::SLEEP, &[until]);
        if answer.kind == lane_protocol::lab_answer::TIMEOUT {
            return 0;
        }
        if lab::interrupted(false).is_some() {
            let left = until.saturating_sub(now_ns());
            if rest != 0 {
                memory::write(rest, &[left / BILLION, left % BILLION]);
            }
            return -i64::from(errno::EINTR);
        }
    }
}
