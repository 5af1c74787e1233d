//! The thread that writes checkpoints, and what others agree on with it.
//!
//! A checkpoint: its moment (in the thread that asks, where none is under way), the capture of what memory was then in the
//! mirror, some milliseconds in which threads save what they store to, and the writing of the pages that changed.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::capture::{self, CHUNKS_READY, Capture, Done};
use crate::check;
use crate::error::Error;
use crate::files::DiskFile;
use crate::layout::PAGE;
use crate::live;
use crate::log;
use crate::memory::{Memory, WARM_BYTES};
use crate::pages::Pages;
use crate::slots::Slots;

/// Bytes behind the allocator's last block that are made present before they are asked for.
const AHEAD_BYTES: usize = 4 << 20;
/// With the check, how often what threads saved is read, so that their logs stay short.
const CHECK_PERIOD: Duration = Duration::from_millis(5);
/// Failed checkpoints that are remembered.
const FAILURES_MAX: usize = 64;

/// A checkpoint that was asked for; later ones have larger numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What a thread that asks and the one that writes tell each other.
#[derive(Default)]
struct Progress {
    /// The last ticket that was given out.
    given: u64,
    /// The last one whose moment is past.
    begun: u64,
    /// The last one that is captured.
    captured: u64,
    /// The last one that is durable or failed.
    done: u64,
    /// A checkpoint is under way: the mirror is being captured, or written.
    busy: bool,
    closing: bool,
    period: Option<Duration>,
    /// Bytes for each second; 0: as fast as it goes.
    rate: u64,
    /// Bytes of the region, from its beginning on, that the thread makes present when it has nothing else to do.
    warm_to: usize,
    failures: VecDeque<(u64, Error)>,
    /// Whether the recovered checkpoint is whole.
    verified: Option<Result<(), Error>>,
    counts: Counts,
}

/// What was done so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Checkpoints that are durable.
    pub checkpoints: u64,
    /// Pages that were written to the files.
    pub pages_written: u64,
    /// Pages that were compared with their mirror, and those that differed.
    pub pages_compared: u64,
    pub pages_copied: u64,
}

/// The state that both sides share.
pub struct Checkpoints {
    progress: Mutex<Progress>,
    changed: Condvar,
    /// Words that differed from the mirror before a checkpoint, where that is looked for.
    missed: Mutex<Vec<usize>>,
    /// Who holds this and `progress` locked this first.
    capture: Mutex<Capture>,
    /// A block that ends behind this comes near to what will be present.
    warm_from: AtomicUsize,
}

impl Checkpoints {
    /// Of a region whose memory is this.
    pub fn new(memory: &Memory) -> Checkpoints {
        Checkpoints {
            progress: Mutex::default(),
            changed: Condvar::new(),
            missed: Mutex::default(),
            capture: Mutex::new(Capture::new(memory)),
            warm_from: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a checkpoint of now, or with `queue` of as soon as the one under way is over.
    pub fn ask(&self, memory: &Memory, queue: bool) -> Result<Ticket, Error> {
        let mut progress = self.lock();
        if progress.closing {
            return Err(Error::Closed);
        }
        if progress.busy {
            return match queue {
                true => {
                    progress.given = progress.given.max(progress.begun + 1);
                    Ok(Ticket(progress.given))
                }
                false => Err(Error::Busy),
            };
        }
        progress.busy = true;
        progress.given = progress.begun + 1;
        let ticket = progress.given;
        drop(progress);
        self.begin(memory);
        let mut progress = self.lock();
        progress.begun = ticket;
        self.changed.notify_all();
        while check::is_on() && progress.captured < ticket {
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(Ticket(ticket))
    }

    /// The moment of a checkpoint, behind a look at what was stored without a barrier before, where that is asked for.
    fn begin(&self, memory: &Memory) {
        if check::is_on() {
            let mut capture = self.capture();
            let found = capture.missed(memory);
            self.missed.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
            capture.forget(memory);
        }
        capture::begin();
    }

    fn capture(&self) -> MutexGuard<'_, Capture> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Words that were stored to without a barrier so far, one for each page. No checkpoint is under way.
    pub fn missed(&self, memory: &Memory) -> Result<Vec<usize>, Error> {
        if !check::is_on() {
            return Err(Error::NoCheck);
        }
        let found = self.capture().missed(memory);
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        missed.extend(found);
        missed.sort_unstable();
        missed.dedup_by_key(|address| *address / PAGE);
        Ok(missed.clone())
    }

    /// True if a checkpoint would be taken at once.
    pub fn is_idle(&self) -> bool {
        !self.lock().busy
    }

    /// Whether a checkpoint is durable: `None` while it is not known.
    pub fn poll(&self, ticket: Ticket) -> Option<Result<(), Error>> {
        outcome(&self.lock(), ticket)
    }

    /// Waits until a checkpoint is durable, or it is known why not.
    pub fn wait(&self, ticket: Ticket, timeout: Option<Duration>) -> Result<(), Error> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut progress = self.lock();
        loop {
            if let Some(outcome) = outcome(&progress, ticket) {
                return outcome;
            }
            progress = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Err(Error::TimedOut),
                Some(left) => {
                    self.changed.wait_timeout(progress, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Waits until all pages of the recovered checkpoint were compared with their checksums.
    pub fn wait_verified(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let is_open = |progress: &mut Progress| progress.verified.is_none();
        let progress = self.lock();
        let progress = match timeout {
            None => self.changed.wait_while(progress, is_open).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                self.changed
                    .wait_timeout_while(progress, timeout, is_open)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
        };
        progress.verified.clone().unwrap_or(Err(Error::TimedOut))
    }

    /// Compares the next pages of the recovered checkpoint with their checksums, if there are any left.
    fn verify_piece(&self, memory: &Memory, slots: &mut Slots<DiskFile>) -> Result<(), Error> {
        if slots.verification().is_none() {
            let compared =
                slots.verify_piece().map(|damaged| damaged.iter().for_each(|page| memory.withhold(*page)));
            if let Err(error) = compared {
                self.verified(Err(error.clone()));
                return Err(error);
            }
        }
        slots.verification().into_iter().for_each(|outcome| self.verified(outcome));
        Ok(())
    }

    fn verified(&self, outcome: Result<(), Error>) {
        self.lock().verified = Some(outcome);
        self.changed.notify_all();
    }

    /// The next checkpoint overwrites the one before the recovered one: not before that is known to be whole.
    fn verify_rest(&self, memory: &Memory, slots: &mut Slots<DiskFile>) -> Result<(), Error> {
        while slots.verification().is_none() {
            self.verify_piece(memory, slots)?;
        }
        Ok(())
    }

    /// Waits until no checkpoint is under way, and its traces are gone.
    pub fn wait_idle(&self) {
        let mut progress = self.lock();
        while progress.busy {
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Does something while no checkpoint is under way; one that is asked for waits.
    pub fn while_idle<T>(&self, action: impl FnOnce() -> T) -> T {
        let mut progress = self.lock();
        while progress.busy {
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        progress.busy = true;
        drop(progress);
        let result = action();
        self.lock().busy = false;
        self.changed.notify_all();
        result
    }

    /// A checkpoint is taken each time this is over; `None`: only when one is asked for.
    pub fn set_period(&self, period: Option<Duration>) {
        self.lock().period = period;
        self.changed.notify_all();
    }

    /// Bytes that are written in a second at most; 0: no limit.
    pub fn set_rate(&self, rate: u64) {
        self.lock().rate = rate;
    }

    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// The thread ends when what is under way is over.
    pub fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_all();
    }

    /// True if a block that ends so many bytes from the region's beginning comes near to what will be present.
    #[inline]
    pub fn is_ahead(&self, bytes: usize) -> bool {
        bytes > self.warm_from.load(Relaxed)
    }

    /// Has so many bytes and some more made present, so that the program seldom waits for the kernel's new pages.
    #[cold]
    pub fn warm(&self, bytes: usize) {
        let mut progress = self.lock();
        progress.warm_to = progress.warm_to.max(bytes + AHEAD_BYTES);
        self.warm_from.store(progress.warm_to - AHEAD_BYTES / 2, Relaxed);
        drop(progress);
        self.changed.notify_all();
    }

    /// Makes the next piece of the region present; of a recovered one only what was written. It was compared before and is
    /// in the page cache: then no store of the program waits for the disk.
    fn warm_piece(&self, memory: &Memory, slots: &mut Slots<DiskFile>, index: &mut usize, to: usize) {
        if slots.verification().is_none() {
            if self.verify_piece(memory, slots).is_err() {
                *index = usize::MAX;
            }
            return;
        }
        let pages = WARM_BYTES / PAGE;
        if *index * WARM_BYTES < to || slots.is_any_written(*index * pages..(*index + 1) * pages) {
            memory.warm_piece(*index);
        }
        *index += 1;
    }

    /// What the thread does until the region is closed.
    pub fn run(&self, memory: &Memory, slots: &mut Slots<DiskFile>, is_recovered: bool) {
        log::provide(CHUNKS_READY);
        let mut last = Instant::now();
        let mut warmed = 0;
        // Of a recovered region all is looked at that was written.
        let written = if is_recovered { memory.size } else { 0 };
        let mut changed = Pages::none(memory.pages());
        slots.verification().into_iter().for_each(|outcome| self.verified(outcome));
        let mut is_private = !is_recovered;
        while let Some(ticket) = self.next(memory, slots, (&mut warmed, written), last) {
            last = Instant::now();
            let done = self.take(memory, &mut changed, ticket);
            slots.may_go_back = live::is_live();
            let mut written = self.verify_rest(memory, slots);
            if slots.may_go_back && !is_private {
                written = written.and_then(|()| memory.warm_all());
                is_private = written.is_ok();
            }
            let copy = |offset: usize, into: &mut [u8]| memory.copy_mirror(offset, into);
            let pages = changed.count();
            if written.is_ok() {
                written = slots.write(&changed, copy, |bytes| self.pause(bytes));
                // The files know what they lack.
                changed.clear();
            }
            self.tell(ticket, written, pages, done);
            self.lock().busy = false;
            self.changed.notify_all();
        }
    }

    /// Captures a checkpoint that has begun.
    fn take(&self, memory: &Memory, changed: &mut Pages, ticket: u64) -> Done {
        let done = self.capture().run(memory, changed);
        self.lock().captured = ticket;
        self.changed.notify_all();
        done
    }

    /// The next checkpoint, whose moment is past; `None` at the end.
    fn next(
        &self,
        memory: &Memory,
        slots: &mut Slots<DiskFile>,
        (warmed, written): (&mut usize, usize),
        last: Instant,
    ) -> Option<u64> {
        let mut progress = self.lock();
        loop {
            if progress.begun > progress.done {
                return Some(progress.begun);
            }
            let is_due = progress.period.is_some_and(|period| last.elapsed() >= period);
            if !progress.busy && (progress.given > progress.begun || (is_due && !progress.closing)) {
                progress.busy = true;
                progress.given = progress.given.max(progress.begun + 1);
                let ticket = progress.given;
                drop(progress);
                self.begin(memory);
                progress = self.lock();
                progress.begun = ticket;
                return Some(ticket);
            }
            if progress.closing && !progress.busy {
                return None;
            }
            let to = progress.warm_to.min(memory.size);
            if warmed.saturating_mul(WARM_BYTES) < to.max(written) {
                drop(progress);
                self.warm_piece(memory, slots, warmed, to);
                std::thread::yield_now();
                progress = self.lock();
                continue;
            }
            let due = progress
                .period
                .filter(|_| !progress.busy)
                .map(|period| period.saturating_sub(last.elapsed()));
            let left = if check::is_on() {
                Some(due.map_or(CHECK_PERIOD, |due| due.min(CHECK_PERIOD)))
            } else {
                due
            };
            progress = match left {
                None => self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    self.changed.wait_timeout(progress, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            if check::is_on() {
                drop(progress);
                self.capture().read_logs(memory);
                progress = self.lock();
            }
        }
    }

    fn pause(&self, bytes: usize) {
        let rate = self.lock().rate;
        if rate != 0 {
            std::thread::sleep(Duration::from_secs_f64(bytes as f64 / rate as f64));
        }
    }

    fn tell(&self, ticket: u64, written: Result<(), Error>, pages: usize, done: Done) {
        let mut progress = self.lock();
        progress.counts.pages_compared += done.compared;
        progress.counts.pages_copied += done.copied;
        match written {
            Ok(()) => {
                progress.counts.checkpoints += 1;
                progress.counts.pages_written += pages as u64;
            }
            Err(error) => {
                progress.failures.push_back((ticket, error));
                if progress.failures.len() > FAILURES_MAX {
                    progress.failures.pop_front();
                }
            }
        }
        progress.done = ticket;
        drop(progress);
        self.changed.notify_all();
    }
}

fn outcome(progress: &Progress, ticket: Ticket) -> Option<Result<(), Error>> {
    if progress.done < ticket.0 {
        return None;
    }
    // Tickets that waited for one moment were served together: the first failure from there on
    // is theirs, if its checkpoint was.
    let failed = progress.failures.iter().find(|(failed, _)| *failed == ticket.0);
    Some(failed.map_or(Ok(()), |(_, error)| Err(error.clone())))
}
