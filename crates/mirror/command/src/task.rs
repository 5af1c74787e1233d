//! The periodic task, and the thread beside it that takes checkpoints.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::rivals::Scheme;

/// Stores of one period, one to a page: the paper's 24 MB.
pub const STORES: usize = 6144;
const PAGE: usize = 4096;
/// Between the beginnings of two periods.
const PERIOD: Duration = Duration::from_micros(1500);
/// Real-time priority of the task.
const PRIORITY: i32 = 50;

/// One period, in microseconds.
#[derive(Clone, Copy)]
pub struct Sample {
    /// From when it should begin to when it began.
    pub response: f64,
    /// From then to its end.
    pub run: f64,
}

impl Sample {
    pub fn total(self) -> f64 {
        self.response + self.run
    }
}

/// How long the task runs: so many periods, or fewer where they take longer than all of them should.
#[derive(Clone, Copy)]
pub struct Length {
    pub periods: usize,
    pub most: Duration,
}

impl Length {
    /// At most twice the time that the periods take when none is late.
    pub fn of(periods: usize) -> Length {
        Length { periods, most: PERIOD * periods as u32 * 2 }
    }
}

/// Runs the task for some periods; with `checkpoints`, another thread takes them all the time.
pub fn run(scheme: &dyn Scheme, length: Length, checkpoints: bool) -> (Vec<Sample>, usize) {
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| low(scheme, &ends, checkpoints));
        let high = scope.spawn(|| high(scheme, length));
        let samples = high.join().expect("the task only stores");
        ends.store(true, SeqCst);
        (samples, beside.join().expect("the other thread only stores and waits"))
    })
}

/// The low-priority thread: stores to each page, takes a checkpoint, stores again, waits.
fn low(scheme: &dyn Scheme, ends: &AtomicBool, checkpoints: bool) -> usize {
    let mut count = 0;
    for round in 1.. {
        if ends.load(SeqCst) {
            break;
        }
        let (base, size) = scheme.range();
        for page in 0..size / PAGE {
            scheme.enter();
            scheme.store(base + page * PAGE + 16, round);
            scheme.leave();
            if page % 1024 == 0 && ends.load(SeqCst) {
                break;
            }
        }
        if checkpoints {
            scheme.begin();
            scheme.wait();
            count += 1;
        }
    }
    count
}

fn high(scheme: &dyn Scheme, length: Length) -> Vec<Sample> {
    become_important();
    let (base, size) = scheme.range();
    let stride = size / STORES / PAGE * PAGE;
    let begun = Instant::now() + PERIOD;
    let mut samples = Vec::with_capacity(length.periods);
    let mut wanted = begun;
    for round in 0..length.periods as u64 {
        if begun.elapsed() > length.most {
            break;
        }
        wait_until(wanted);
        let began = Instant::now();
        scheme.enter();
        for index in 0..STORES {
            scheme.store(base + index * stride + 8, round);
        }
        scheme.leave();
        let ended = Instant::now();
        let micros = |from: Instant, to: Instant| to.duration_since(from).as_secs_f64() * 1e6;
        samples.push(Sample { response: micros(wanted, began), run: micros(began, ended) });
        wanted += PERIOD;
        // A period that was missed begins anew, so that one pause is one sample.
        let now = Instant::now();
        if wanted < now {
            wanted = now + PERIOD;
        }
    }
    samples
}

pub fn wait_until(at: Instant) {
    let left = at.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        std::thread::sleep(left);
    }
}

/// This thread goes before all ordinary ones.
pub fn become_important() {
    // SAFETY: both calls change how this thread is scheduled, and nothing else; where they are
    // refused, the task is measured as an ordinary one.
    unsafe {
        let parameter = libc::sched_param { sched_priority: PRIORITY };
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}

/// Microseconds of one passage of stores, one to a page.
pub fn stores(scheme: &dyn Scheme, value: u64) -> f64 {
    let (base, size) = scheme.range();
    let stride = size / STORES / PAGE * PAGE;
    let began = Instant::now();
    scheme.enter();
    for index in 0..STORES {
        scheme.store(base + index * stride + 24, value);
    }
    scheme.leave();
    began.elapsed().as_secs_f64() * 1e6
}
