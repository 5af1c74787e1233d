//! Waiting for what a hunt starts: with a limit of time, and while listening to
//! signals.
//!
//! A try is a process group of its own, so that a program that signals its group
//! does not end the hunt. What a terminal sends therefore reaches the hunt alone,
//! which passes it on.
//!
//! Invariant: whatever a try starts is a descendant of the hunt, daemons included,
//! because the hunt adopts the orphans; so nothing outlives a try that is ended.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use injector::{fork_bound, kill_process, start_bound, stop_self};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, getpid, kill_process_group, set_child_subreaper};

/// Signals that end a hunt.
const END: [Signal; 4] = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP];
/// All that it listens to.
const HEARD: [Signal; 6] = [END[0], END[1], END[2], END[3], Signal::SIGCHLD, Signal::SIGTSTP];
/// How long an interrupted program may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// How long a recorder may take to finish the trace once its processes are dead.
const FINISH_MAX: Duration = Duration::from_secs(30);
/// Between two looks at processes that are being killed, which may fork meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The ear for signals; they are blocked from its beginning on.
pub struct Watch {
    signals: SignalFd,
    /// Children that ended and that nobody has asked for yet.
    ended: RefCell<HashMap<i32, ExitStatus>>,
}

/// What a wait ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    Ended(ExitStatus),
    /// The limit passed, and the child runs on.
    Expired,
    /// Somebody wants the hunt to end, and the child runs on.
    Interrupted(i32),
}

/// A child, and how long it may yet run.
pub struct Limited {
    pub pid: i32,
    pub left: Option<Duration>,
}

impl Watch {
    /// To be called before the first child is made, while there is one thread.
    pub fn begin() -> io::Result<Watch> {
        let set = SigSet::from_iter(HEARD);
        set.thread_block()?;
        set_child_subreaper(Some(getpid()))?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Watch { signals, ended: RefCell::default() })
    }

    /// Starts a child, which hears signals for itself.
    pub fn start(&self, command: &mut Command) -> io::Result<i32> {
        start_bound(command, &HEARD.map(|signal| signal as i32)).map(|child| child.id() as i32)
    }

    /// The same of a child that does `body`, with these standard streams.
    pub fn fork(&self, streams: [Option<BorrowedFd<'_>>; 3], body: impl FnOnce() -> u8) -> io::Result<i32> {
        fork_bound(&HEARD.map(|signal| signal as i32), streams, body)
    }

    /// Waits for one of the children to end, or to have run for as long as it may: which one.
    /// There is one at least.
    pub fn wait_for_any(&self, children: &mut [&mut Limited]) -> io::Result<(usize, Waited)> {
        loop {
            let looked = Instant::now();
            // In this order: a program that Ctrl-C ended looks like one that failed.
            let ended = children.iter().enumerate().find_map(|(index, limited)| {
                self.take_end(limited.pid).map(|status| (index, Waited::Ended(status)))
            });
            if let Some(signal) = self.interruption(children)? {
                if let Some((index, Waited::Ended(status))) = ended {
                    // Whoever ends the hunt asks for it again.
                    self.ended.borrow_mut().insert(children[index].pid, status);
                }
                return Ok((0, Waited::Interrupted(signal)));
            }
            let expired =
                || children.iter().position(|limited| limited.left.is_some_and(|left| left.is_zero()));
            if let Some(found) = ended.or_else(|| expired().map(|index| (index, Waited::Expired))) {
                return Ok(found);
            }
            // The time in which the hunt is stopped does not count.
            let before = looked.elapsed().min(LOOK_AGAIN);
            let shortest = children.iter().filter_map(|limited| limited.left).min();
            let slept = self.sleep(shortest)?;
            for limited in children.iter_mut() {
                limited.left = limited.left.map(|left| left.saturating_sub(before + slept));
            }
        }
    }

    /// Waits for a child to end, whatever others do.
    pub fn wait(&self, limited: &mut Limited) -> io::Result<Waited> {
        self.wait_for_any(&mut [limited]).map(|(_, waited)| waited)
    }

    /// How a child ended, if it has. All that ended are reaped: orphans among them, who leave with it.
    fn take_end(&self, child: i32) -> Option<ExitStatus> {
        let mut ended = self.ended.borrow_mut();
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            ended.insert(pid.as_raw_nonzero().get(), ExitStatus::from_raw(status.as_raw()));
        }
        ended.remove(&child)
    }

    /// The signal that ends the hunt, if one has come. One that stops it stops
    /// child and hunt, and returns when they go on.
    fn interruption(&self, children: &[&mut Limited]) -> io::Result<Option<i32>> {
        while let Some(info) = self.signals.read_signal()? {
            let signal = info.ssi_signo as i32;
            if END.iter().any(|end| *end as i32 == signal) {
                return Ok(Some(signal));
            }
            if signal == Signal::SIGTSTP as i32 {
                let signal_all = |signal| {
                    children.iter().for_each(|limited| signal_group(limited.pid, signal));
                };
                signal_all(rustix::process::Signal::TSTP);
                stop_self();
                signal_all(rustix::process::Signal::CONT);
            }
        }
        Ok(None)
    }

    /// Sleeps until a signal comes, no longer than the limit; says how long.
    fn sleep(&self, limit: Option<Duration>) -> io::Result<Duration> {
        let started = Instant::now();
        // A limit that no clock can say is none.
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut [PollFd::new(&self.signals, PollFlags::IN)], limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(started.elapsed()),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a recorded program at once, by SIGKILL, and all other tries; its recorder finishes the trace.
    pub fn kill(&self, recorder: i32) -> io::Result<ExitStatus> {
        // It may have been stopped together with its program.
        kill_process(recorder, Signal::SIGCONT as i32);
        let (started, mut ended) = (Instant::now(), None);
        loop {
            let is_late = started.elapsed() > FINISH_MAX;
            let now = self.take_end(recorder);
            ended = ended.or(now);
            let spared = if ended.is_none() && !is_late { Some(recorder) } else { None };
            let killed = kill_descendants(spared);
            // What cannot be killed sleeps in the kernel: it is not waited for.
            if let Some(status) = ended.filter(|_| killed == 0 || is_late) {
                return Ok(status);
            }
            self.sleep(Some(LOOK_AGAIN))?;
            // What has been heard keeps the ear from sleeping.
            while self.signals.read_signal()?.is_some() {}
        }
    }

    /// Passes a signal on to a recorded program, and kills it if it does not end.
    pub fn interrupt(&self, recorder: &mut Limited, signal: i32) -> io::Result<()> {
        match Signal::try_from(signal) {
            // A recorder passes on what is not a terminal's.
            Ok(Signal::SIGTERM | Signal::SIGHUP) => kill_process(recorder.pid, signal),
            Ok(Signal::SIGQUIT) => signal_group(recorder.pid, rustix::process::Signal::QUIT),
            Ok(_) | Err(_) => signal_group(recorder.pid, rustix::process::Signal::INT),
        }
        // Whoever interrupts again does not want to wait.
        recorder.left = Some(GRACE);
        match self.wait(recorder)? {
            Waited::Ended(_) => self.kill_all(),
            Waited::Expired | Waited::Interrupted(_) => self.kill(recorder.pid).map(drop),
        }
    }

    /// Ends all that was started and still runs.
    pub fn kill_all(&self) -> io::Result<()> {
        let started = Instant::now();
        // Who has no child has no descendants, being the one who adopts orphans: a look at all processes
        // takes as long as a short try.
        while has_children() && kill_descendants(None) != 0 && started.elapsed() < FINISH_MAX {
            self.sleep(Some(LOOK_AGAIN))?;
            while self.signals.read_signal()?.is_some() {}
        }
        self.ended.borrow_mut().clear();
        Ok(())
    }
}

/// Reaps the children that have ended; true if there are others.
fn has_children() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Signals the process group that a child leads; one that is gone is no error.
fn signal_group(child: i32, signal: rustix::process::Signal) {
    if let Some(pid) = Pid::from_raw(child) {
        let _ = kill_process_group(pid, signal);
    }
}

/// Kills what this process and its children started, but not `spared`; says how
/// many there were that nobody has reaped. Parents die before their children, so
/// that none sees the end of its child and goes on.
fn kill_descendants(spared: Option<i32>) -> usize {
    let own = std::process::id() as i32;
    let parents = parents();
    let generations_below = |pid: i32| {
        let mut seen = HashSet::new();
        let mut above = parents.get(&pid);
        while let Some(&parent) = above.filter(|parent| seen.insert(**parent)) {
            if parent == own {
                return Some(seen.len());
            }
            above = parents.get(&parent);
        }
        None
    };
    let doomed = parents.keys().filter(|pid| Some(**pid) != spared);
    let mut doomed: Vec<(usize, i32)> =
        doomed.filter_map(|&pid| Some((generations_below(pid)?, pid))).collect();
    doomed.sort_unstable();
    for (_, pid) in &doomed {
        kill_process(*pid, Signal::SIGKILL as i32);
    }
    doomed.len()
}

/// The parent of each process.
fn parents() -> HashMap<i32, i32> {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parent = |pid: i32| {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name, which may hold anything: state, parent (proc_pid_stat(5)).
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
        Some((pid, rest.split_ascii_whitespace().nth(1)?.parse().ok()?))
    };
    pids.filter_map(parent).collect()
}
