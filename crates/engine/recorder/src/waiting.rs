//! Waiting for the program as a shell would: for its end, its stops, its signals.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use events::StopReason;
use injector::{
    AttachService, ExitReport, ForwardSignals, Forwarded, MainEvent, MainWait, SessionMemory, futex_wake,
    kill_process, peek_main, reap_main, stop_self,
};

/// What the recorder's threads tell each other of the program.
#[derive(Default)]
pub(crate) struct Status {
    main: Mutex<Option<ExitReport>>,
    main_ended: Condvar,
    /// The user wants no more, while others than the main process still run.
    interrupted: AtomicBool,
    notes: Mutex<Vec<String>>,
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
                    stop_self();
                    kill_process(pid, libc::SIGCONT);
                }
                MainWait::Nothing => {}
                MainWait::NoChild => return status.wait_main(),
            },
        }
    }
}

/// Passes signals on to the main process; after its end, those that ask to end
/// make the recorder leave the other processes.
pub(crate) fn watch_signals(
    signals: &ForwardSignals,
    memory: &Arc<SessionMemory>,
    status: &Arc<Status>,
    pid: i32,
) -> Forwarded {
    let (memory, status) = (Arc::clone(memory), Arc::clone(status));
    signals.watch(move |signal, from_kernel| {
        let asks_to_end = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP].contains(&signal);
        if status.main().is_some() {
            if asks_to_end {
                memory.stop().store(StopReason::RecorderDied as u32, Ordering::Release);
                status.interrupted.store(true, Ordering::Release);
                memory.doorbell().fetch_add(1, Ordering::Release);
                futex_wake(memory.doorbell());
            }
            return;
        }
        // What the terminal sends reaches the program by itself.
        let is_terminals = [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP].contains(&signal);
        if !is_terminals && !from_kernel {
            kill_process(pid, signal);
        }
    })
}
