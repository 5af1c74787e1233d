//! Who gave a command, and waits: is told how far it is, for as long as that takes.
//!
//! Invariant: a process that can do something is waited for, however long it takes; only one that
//! somebody has stopped is given up.

use std::cell::Cell;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use injector::{Lane, Segment, is_stopped};
use lane_protocol::{command, command_phase};

use crate::listing::checkpoints;
use crate::live::{Work, is_process};

/// How long a process is waited for that stands still.
const STOPPED_MAX: Duration = Duration::from_secs(30);
/// Before the first word of how far it is, and between two.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// The end of a command that a connection brought.
pub(crate) struct Asker<'stream> {
    stream: &'stream UnixStream,
    begin: Instant,
    told: Cell<Instant>,
    stopped_since: Cell<Option<Instant>>,
}

impl Asker<'_> {
    pub fn new(stream: &UnixStream) -> Asker<'_> {
        let now = Instant::now();
        Asker { stream, begin: now, told: Cell::new(now), stopped_since: Cell::new(None) }
    }

    /// Says how far it is, if it is time; false if nobody waits any more.
    pub fn tell(&self, what: &dyn Fn() -> String) -> bool {
        if self.told.get().elapsed() < TELL_EVERY {
            return true;
        }
        self.told.set(Instant::now());
        let line = format!("progress: {} s: {}\n", self.begin.elapsed().as_secs(), what());
        let mut stream = self.stream;
        stream.write_all(line.as_bytes()).is_ok()
    }

    /// False if the process has been standing still for so long that it is given up.
    pub fn may_go_on(&self, lane: Lane, pid: i32) -> bool {
        if !lane.stands_still() && !is_stopped(pid) {
            self.stopped_since.set(None);
            return true;
        }
        let since = self.stopped_since.get().unwrap_or_else(Instant::now);
        self.stopped_since.set(Some(since));
        since.elapsed() < STOPPED_MAX
    }
}

impl Work {
    /// Gives the process a command for somebody who waits for it, and is told how far it is.
    pub fn order_for(
        &self,
        asker: &Asker,
        segment: Segment,
        kind: u32,
        argument: u64,
    ) -> Result<i32, String> {
        let _waits = Counted::new(&self.askers);
        let busy = || asker.tell(&|| "another command is being obeyed".to_owned());
        let _obeying = self.begin_obeying(&busy)?;
        let lane = self.session.memory.lane(segment);
        let pid = lane.pid().load(Ordering::Acquire);
        let mut waits = || asker.tell(&|| phase_text(lane, pid)) && asker.may_go_on(lane, pid);
        self.order_while(segment, kind, argument, &mut waits)
    }

    /// Has a process do the same again, and waits until it has come to the present.
    pub fn replay(&self, asker: &Asker, segment: Segment, number: u64) -> Result<(), String> {
        let lane = self.session.memory.lane(segment);
        let (id, pid) = (lane.ids().0, lane.pid().load(Ordering::Acquire));
        let from = checkpoints(lane).iter().find(|at| u64::from(at.id) == number).map_or(0, |at| at.position);
        self.order_for(asker, segment, command::REPLAY, number)?;
        while lane.goes_again().load(Ordering::Acquire) != 0 {
            if !is_process(lane, pid) {
                break;
            }
            let how_far = || {
                let end = self.session.sink.with_history(|history| history.position(id)).unwrap_or(0);
                let done = lane.ring().tail.load(Ordering::Relaxed).saturating_sub(from);
                let percent = (done * 100).checked_div(end.saturating_sub(from)).unwrap_or(0).min(100);
                format!("process {pid} has done {percent} % of its log again")
            };
            if !asker.tell(&how_far) {
                return Err("the replay has not come to its end yet".to_owned());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // What ends a process clears that word as well, behind its state.
        if is_process(lane, pid) { Ok(()) } else { Err("the process ended during the replay".to_owned()) }
    }
}

/// One more in a counter, for as long as it lives.
struct Counted<'counter>(&'counter AtomicU32);

impl Counted<'_> {
    fn new(counter: &AtomicU32) -> Counted<'_> {
        counter.fetch_add(1, Ordering::Relaxed);
        Counted(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How far a process is with its command, in words.
fn phase_text(lane: Lane, pid: i32) -> String {
    match lane.command_phase() {
        (command_phase::TOKEN, _) => format!("process {pid} waits until its threads can be interrupted"),
        (command_phase::PARKING, 1) => format!("a thread of process {pid} has not come to a stand yet"),
        (command_phase::PARKING, count) => {
            format!("{count} threads of process {pid} have not come to a stand yet")
        }
        (command_phase::LEADING, _) => {
            format!("process {pid} waits for others that share memory with it")
        }
        (command_phase::WORK, _) => format!("process {pid} is at it"),
        _ if is_stopped(pid) => format!("process {pid} is stopped"),
        _ => format!("process {pid} has not begun"),
    }
}
