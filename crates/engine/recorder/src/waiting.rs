//! Waiting for the program as a shell would: for its end, its stops, its signals.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use events::StopReason;
use injector::{
    AttachService, ExitReport, ForwardSignals, Forwarded, MainEvent, MainWait, PidFd, Segment, SessionMemory,
    futex_wake, is_stopped, kill_process, peek_main, poll_exited, reap_main, stop_along_with,
    waiting_signals,
};
use trace_store::LaneEnd;

/// What the recorder's threads tell each other of the program.
#[derive(Default)]
pub(crate) struct Status {
    main: Mutex<Option<ExitReport>>,
    main_ended: Condvar,
    /// The user wants no more, while others than the main process still run.
    interrupted: AtomicBool,
    notes: Mutex<Vec<String>>,
    /// How the main process's log ended.
    main_log: Mutex<Option<LaneEnd>>,
}

impl Status {
    fn lock(&self) -> MutexGuard<'_, Option<ExitReport>> {
        self.main.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_main(&self, how: ExitReport) {
        *self.lock() = Some(how);
        self.main_ended.notify_all();
    }

    /// How the main process ended, if it has.
    pub fn main(&self) -> Option<ExitReport> {
        *self.lock()
    }

    fn wait_main(&self) -> ExitReport {
        let mut main = self.lock();
        loop {
            if let Some(how) = *main {
                return how;
            }
            main = self.main_ended.wait(main).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn set_main_log(&self, end: LaneEnd) {
        *self.main_log.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    fn main_log(&self) -> Option<LaneEnd> {
        *self.main_log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    pub fn add_note(&self, note: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Waits for the main process to end. When it is stopped, stops this process
/// too, so that the shell sees what it would see without us.
pub(crate) fn wait_for_main(attach: &AttachService, status: &Status, pid: i32) -> ExitReport {
    loop {
        let event = peek_main(pid);
        let untraced = attach.main_untraced();
        match event {
            MainEvent::Traced => {}
            MainEvent::NoChild => return status.wait_main(),
            MainEvent::Stopped | MainEvent::Ended => match reap_main(pid) {
                MainWait::Ended(how) => return how,
                MainWait::Stopped(_) => {
                    drop(untraced);
                    stop_along_with(pid);
                    if is_stopped(pid) {
                        kill_process(pid, libc::SIGCONT);
                    }
                }
                MainWait::Nothing => {}
                MainWait::NoChild => return status.wait_main(),
            },
        }
    }
}

/// Waits until a process that is no child of ours ends, or is let go. How it ended is
/// known only if its log says so.
pub(crate) fn wait_for_boarded(
    memory: &SessionMemory,
    status: &Status,
    pid: i32,
    ask_to_leave: &dyn Fn(),
) -> ExitReport {
    let process = PidFd::open(pid);
    let mut over_since = None;
    loop {
        let exited = process.as_ref().is_none_or(|process| poll_exited(&[process])[0]);
        match status.main_log() {
            Some(LaneEnd::Exited(code)) => return ExitReport::Exited(code),
            Some(LaneEnd::Killed(signal)) if exited => return ExitReport::Killed(signal),
            Some(LaneEnd::Stopped(_)) => return ExitReport::Exited(0),
            Some(_) if exited => return ExitReport::Exited(0),
            Some(_) | None => {}
        }
        let lets_go = memory.stop().load(Ordering::Acquire) != 0;
        if lets_go && !exited && over_since.is_none() {
            // By itself it notices where its log has room no more.
            ask_to_leave();
        }
        if exited || lets_go {
            let since = *over_since.get_or_insert_with(Instant::now);
            let is_saved = memory.lane(Segment::FIRST).dying().load(Ordering::Acquire) != 0;
            if since.elapsed() > LAST_EVENTS && !is_saved {
                // One that sleeps goes on by itself once it wakes up.
                status.interrupted.store(lets_go, Ordering::Release);
                return ExitReport::Exited(0);
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// How often an end is looked for, and how long the log's end may take to arrive.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const LAST_EVENTS: Duration = Duration::from_secs(2);

/// Signals that ask to end let a process go that was not started here.
pub(crate) fn end_by_signals(signals: &ForwardSignals, memory: &Arc<SessionMemory>) -> Forwarded {
    let memory = Arc::clone(memory);
    signals.watch(move |signal, _| {
        if ASK_TO_END.contains(&signal) {
            let_go(&memory);
        }
    })
}

/// Signals that ask to end are a companion's, which ends what it has begun.
pub(crate) fn tell_of_signals(signals: &ForwardSignals, end: Box<dyn Fn(i32) + Send>) -> Forwarded {
    signals.watch(move |signal, _| {
        if ASK_TO_END.contains(&signal) {
            end(signal);
        }
    })
}

/// The processes go on without us.
pub(crate) fn let_go(memory: &SessionMemory) {
    memory.stop().store(StopReason::RecorderDied as u32, Ordering::Release);
    memory.doorbell().fetch_add(1, Ordering::Release);
    futex_wake(memory.doorbell());
}

const ASK_TO_END: [i32; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// Passes signals on to the main process; after its end, those that ask to end
/// make the recorder leave the other processes.
pub(crate) fn watch_signals(
    signals: &ForwardSignals,
    memory: &Arc<SessionMemory>,
    status: &Arc<Status>,
    pid: i32,
) -> Forwarded {
    let (memory, status) = (Arc::clone(memory), Arc::clone(status));
    let mut interrupts = 0;
    signals.watch(move |signal, sender| {
        let asks_to_end = ASK_TO_END.contains(&signal);
        if status.main().is_some() {
            if asks_to_end {
                status.interrupted.store(true, Ordering::Release);
                let_go(&memory);
            }
            return;
        }
        // What the terminal sends reaches the program by itself, and so does what a process
        // sends to the whole group. A timer that was set before an execve (alarm(2)) is ours.
        let Some(sender) = sender else {
            if signal == libc::SIGALRM {
                kill_process(pid, signal);
            }
            return;
        };
        // The program does not know us: it meant its group.
        if !FORWARDED_FROM_ANYBODY.contains(&signal) && is_recorded(&memory, sender) {
            return;
        }
        let is_terminals = [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP].contains(&signal);
        if !is_terminals || !comes_by_itself(&memory, pid, signal, sender, &mut interrupts) {
            kill_process(pid, signal);
        }
    })
}

fn is_recorded(memory: &SessionMemory, pid: i32) -> bool {
    let segments = memory.segments_in_use();
    segments.into_iter().any(|segment| memory.lane(segment).pid().load(Ordering::Relaxed) == pid)
}

/// Signals that are passed on even if a process of the recording sent them.
const FORWARDED_FROM_ANYBODY: [i32; 7] =
    [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP];

/// True if the main process gets a signal from the same sender, or has it pending; `known`: how
/// many such signals of its were seen before.
fn comes_by_itself(memory: &SessionMemory, pid: i32, signal: i32, sender: i32, known: &mut u64) -> bool {
    let main = memory.lane(Segment::FIRST);
    let until = Instant::now() + ARRIVES_WITHIN;
    loop {
        let interrupts = main.interrupts().load(Ordering::Acquire);
        let (from, count) = ((interrupts >> 32) as i32, interrupts & 0xffff_ffff);
        if count != *known && from == sender {
            *known = count;
            return true;
        }
        if waiting_signals(pid) & 1 << (signal - 1) != 0 {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How long what was sent to a group may take from one of its processes to another.
const ARRIVES_WITHIN: Duration = Duration::from_millis(100);
