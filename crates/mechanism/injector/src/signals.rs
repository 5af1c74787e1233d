//! Signals to the supervisor: the terminal's are the program's affair, others
//! are passed on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::JoinHandle;

/// What a child inherits when recording takes signals over.
#[derive(Clone, Copy)]
pub(crate) struct SignalState {
    /// Dispositions of signals 1 to 31 that were SIG_IGN before retrovane began.
    ignored: u64,
    mask: libc::sigset_t,
}

/// Signals that were ignored when this process was executed: Rust's start-up
/// code sets SIGPIPE to SIG_IGN before `main`, so this is read even before.
static IGNORED_AT_START: AtomicI32 = AtomicI32::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static READ_DISPOSITIONS: extern "C" fn() = read_dispositions;

extern "C" fn read_dispositions() {
    let mut ignored = 0u32;
    for signal in 1..32 {
        // SAFETY: zero is a valid sigaction; the call only reads the disposition.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
            {
                ignored |= 1 << signal;
            }
        }
    }
    IGNORED_AT_START.store(ignored as i32, Ordering::Relaxed);
    // Children of ours would leave no status where it is ignored, which only programs want.
    // SAFETY: the default needs no handler.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// The ones that are taken from this process's own dispositions.
const TAKEN: [i32; 7] =
    [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP];
/// Signals that are for the program where somebody sends them to a process group (kill(2) of 0, say)
/// or to the recorder, and would end this process: taken as well, with those for real time.
/// Deliberately absent: what this process's own faults and limits send (SIGSEGV, SIGBUS, SIGXCPU).
const MEANT_FOR_PROGRAM: [i32; 11] = [
    libc::SIGABRT,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGILL,
    libc::SIGFPE,
];
/// Wakes the forwarding thread to end it.
const END: i32 = libc::SIGWINCH;

impl SignalState {
    /// The state to give to a child that is forked now.
    pub fn for_child(mask: libc::sigset_t) -> SignalState {
        SignalState { ignored: IGNORED_AT_START.load(Ordering::Relaxed) as u32 as u64, mask }
    }

    /// Called in the child between fork and execve: async-signal-safe.
    pub fn apply(&self) {
        for signal in 1..65 {
            let action =
                if signal < 32 && self.ignored & 1 << signal != 0 { libc::SIG_IGN } else { libc::SIG_DFL };
            // SAFETY: ignoring and the default need no handler; errors (SIGKILL,
            // SIGSTOP, libc's own) change nothing.
            unsafe {
                libc::signal(signal, action);
            }
        }
        // SAFETY: the mask was read from the kernel.
        unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const self.mask, std::ptr::null_mut());
        }
    }
}

fn blocked_set() -> libc::sigset_t {
    // SAFETY: zero is valid; the calls write the set.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
        for signal in TAKEN.into_iter().chain(MEANT_FOR_PROGRAM).chain(real_time).chain([END]) {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

/// Signals taken over for the time of a recording. They are blocked in this
/// thread and all that it creates; dropping restores the mask.
pub struct ForwardSignals {
    previous: libc::sigset_t,
}

/// The thread that tells of signals; dropping ends it.
pub struct Forwarded {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    thread_id: libc::pthread_t,
}

impl ForwardSignals {
    /// Blocks the signals. To be called before any other thread is created.
    pub fn block() -> ForwardSignals {
        // SAFETY: zero is valid for the set that the call fills.
        unsafe {
            let mut previous: libc::sigset_t = std::mem::zeroed();
            let set = blocked_set();
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut previous);
            ForwardSignals { previous }
        }
    }

    pub(crate) fn state_for_child(&self) -> SignalState {
        SignalState::for_child(self.previous)
    }

    /// Begins to tell `act` each signal, and the process that sent it if the kernel (a
    /// terminal) did not.
    pub fn watch(&self, act: impl FnMut(i32, Option<i32>) + Send + 'static) -> Forwarded {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let thread = crate::limits::start_thread("signals", move || watch(&seen, act));
        let thread_id = std::os::unix::thread::JoinHandleExt::as_pthread_t(&thread);
        Forwarded { ended, thread: Some(thread), thread_id }
    }
}

impl Drop for ForwardSignals {
    fn drop(&mut self) {
        // What came meanwhile and was meant for the program does not kill us now.
        // SAFETY: zero is a valid siginfo and a timeout of 0; the set was read from the kernel.
        unsafe {
            let set = blocked_set();
            let now: libc::timespec = std::mem::zeroed();
            let mut info: libc::siginfo_t = std::mem::zeroed();
            while libc::sigtimedwait(&raw const set, &raw mut info, &raw const now) > 0 {}
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.previous, std::ptr::null_mut());
        }
    }
}

fn watch(ended: &AtomicBool, mut act: impl FnMut(i32, Option<i32>)) {
    let set = blocked_set();
    while !ended.load(Ordering::Acquire) {
        // SAFETY: zero is a valid siginfo; the call fills it.
        let (signal, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            (libc::sigwaitinfo(&raw const set, &raw mut info), info)
        };
        if signal > 0 && signal != END {
            // SAFETY: a process sent it, so the field holds which.
            let sender = (info.si_code <= 0).then(|| unsafe { info.si_pid() });
            act(signal, sender);
        }
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // SAFETY: the thread is not joined yet, so its id is valid.
            unsafe {
                libc::pthread_kill(self.thread_id, END);
            }
            // It ends by itself and cannot panic.
            let _ = thread.join();
        }
    }
}
