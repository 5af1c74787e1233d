//! Serving requests to attach: the stop at each later execve.
//!
//! A process that is about to execute a new image asks, is seized while it runs,
//! and goes on into execve; the one stop that follows is where the runtime is put
//! into the new image. Each request is served by one thread from seizing to
//! letting go, as ptrace demands; another thread is there before one blocks, so a
//! process that is stopped half-way delays no other.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lane_protocol::{SEGMENTS, lane_state, request};

use crate::birth;
use crate::error::InjectError;
use crate::files::KeepFile;
use crate::futex::{futex_wait, futex_wake};
use crate::lane::{Lane, Segment};
use crate::process::{ExitReport, kill_process, stop_self};
use crate::session_memory::SessionMemory;
use crate::tracee::{Next, Running, Stopped};

/// What the service tells its owner.
pub trait AttachEvents: KeepFile + Send + Sync {
    /// The main child ended while it was traced; its status is gone from the kernel.
    fn main_ended(&self, how: ExitReport);
    /// The image that the lane's process executes cannot be recorded; the process
    /// goes on without the runtime.
    fn not_recorded(&self, pid: i32, error: &InjectError);
}

struct Shared {
    memory: Arc<SessionMemory>,
    events: Arc<dyn AttachEvents>,
    main_pid: i32,
    /// Held while the main child is traced.
    main_traced: Mutex<()>,
    /// Segments whose request a thread serves.
    taken: Vec<AtomicBool>,
    idle: AtomicUsize,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    ended: AtomicBool,
}

/// The threads that attach. Dropping ends them once no process is attached.
pub struct AttachService {
    shared: Arc<Shared>,
}

impl AttachService {
    /// Begins to serve requests of the session's processes.
    pub fn start(memory: Arc<SessionMemory>, events: Arc<dyn AttachEvents>, main_pid: i32) -> AttachService {
        let shared = Arc::new(Shared {
            memory,
            events,
            main_pid,
            main_traced: Mutex::new(()),
            taken: (0..SEGMENTS).map(|_| AtomicBool::new(false)).collect(),
            idle: AtomicUsize::new(0),
            threads: Mutex::new(Vec::new()),
            ended: AtomicBool::new(false),
        });
        add_thread(&shared);
        AttachService { shared }
    }

    /// Waits until the main child is not traced, and keeps it so.
    pub fn main_untraced(&self) -> MutexGuard<'_, ()> {
        lock(&self.shared.main_traced)
    }
}

impl Drop for AttachService {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        let doorbell = self.shared.memory.attach_doorbell();
        doorbell.fetch_add(1, Ordering::SeqCst);
        futex_wake(doorbell);
        let threads = std::mem::take(&mut *lock(&self.shared.threads));
        for thread in threads {
            // A thread that panicked has said so on stderr.
            let _ = thread.join();
        }
    }
}

/// A thread that panicked holding the lock left nothing half-done in it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn add_thread(shared: &Arc<Shared>) {
    shared.idle.fetch_add(1, Ordering::SeqCst);
    let own = Arc::clone(shared);
    match std::thread::Builder::new().name("attach".to_owned()).spawn(move || serve(&own)) {
        Ok(thread) => lock(&shared.threads).push(thread),
        // Those that there are serve one request after the other, where the user may have no more.
        Err(_) => {
            shared.idle.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn serve(shared: &Arc<Shared>) {
    let doorbell = shared.memory.attach_doorbell();
    loop {
        // Before looking: what comes after the look changes the value.
        let seen = doorbell.load(Ordering::SeqCst);
        if shared.ended.load(Ordering::SeqCst) {
            return;
        }
        match take_request(shared) {
            Some(segment) => {
                // The last idle thread sees to a successor before it may block.
                if shared.idle.fetch_sub(1, Ordering::SeqCst) == 1 {
                    add_thread(shared);
                }
                serve_request(shared, segment);
                shared.taken[segment.index()].store(false, Ordering::SeqCst);
                shared.idle.fetch_add(1, Ordering::SeqCst);
            }
            None => futex_wait(doorbell, seen, Duration::from_millis(500)),
        }
    }
}

/// Finds a request that nobody serves yet.
fn take_request(shared: &Shared) -> Option<Segment> {
    shared.memory.segments_in_use().into_iter().find(|segment| {
        let asked =
            || shared.memory.lane(*segment).request().state.load(Ordering::Acquire) == request::ATTACH;
        let taken = &shared.taken[segment.index()];
        if !asked() || taken.swap(true, Ordering::SeqCst) {
            return false;
        }
        // Another thread may have served it between the two looks.
        let still = asked();
        if !still {
            taken.store(false, Ordering::SeqCst);
        }
        still
    })
}

fn serve_request(shared: &Shared, segment: Segment) {
    let lane = shared.memory.lane(segment);
    let pid = lane.request().arguments[0].load(Ordering::Relaxed) as i32;
    let _main = (pid == shared.main_pid).then(|| lock(&shared.main_traced));
    let asked = lane.request().arguments[2].load(Ordering::Relaxed) as i32;
    let is_apart = lane.request().arguments[3].load(Ordering::Relaxed) != 0;
    let tid = if is_apart { thread_as_seen_here(pid, asked).unwrap_or(0) } else { asked };
    let running = match Running::seize(tid) {
        Ok(running) => running,
        Err(error) => {
            lane.answer(error.raw_os_error().unwrap_or(libc::EPERM));
            return;
        }
    };
    lane.answer(0);
    if let Err(error) = follow(shared, segment, pid, running) {
        let error = InjectError::Prepare { pid, step: "following its execve", source: error };
        shared.events.not_recorded(pid, &error);
    }
}

/// The thread of a process that has this id in a namespace of its own (proc_pid_status(5)).
fn thread_as_seen_here(pid: i32, own_tid: i32) -> Option<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let tids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
    tids.into_iter().find(|tid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        ids.and_then(|ids| ids.split_whitespace().last()?.parse().ok()) == Some(own_tid)
    })
}

/// Accompanies a process until it has its new image, or has none, or is gone.
fn follow(shared: &Shared, segment: Segment, pid: i32, mut running: Running) -> io::Result<()> {
    loop {
        running = match follow_on(shared, segment, pid, running) {
            Ok(Some(running)) => running,
            Ok(None) => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Running::was_killed(),
            Err(error) => return Err(error),
        };
    }
}

/// Up to the next thing that happens to the process; `None` where it is let go, or gone.
fn follow_on(shared: &Shared, segment: Segment, pid: i32, running: Running) -> io::Result<Option<Running>> {
    let lane = shared.memory.lane(segment);
    match running.wait()? {
        Next::Exec(stopped) => give_birth(shared, segment, lane, stopped).map(|()| None),
        Next::Signal(stopped, libc::SIGSTOP)
            if lane.request().state.load(Ordering::Acquire) == request::RELEASE =>
        {
            stopped.detach()?;
            lane.set_request_state(request::NONE);
            Ok(None)
        }
        Next::Signal(stopped, signal) => stopped.resume(signal).map(Some),
        Next::GroupStop(stopped) => {
            let running = stopped.listen()?;
            if pid == shared.main_pid {
                // Nobody else can see this stop: do what its waiter would.
                stop_self();
                kill_process(pid, libc::SIGCONT);
            }
            Ok(Some(running))
        }
        Next::Gone(gone, status) => {
            if gone == shared.main_pid {
                shared.events.main_ended(ExitReport::of(status));
            }
            Ok(None)
        }
    }
}

fn give_birth(shared: &Shared, segment: Segment, lane: Lane, stopped: Stopped) -> io::Result<()> {
    let pid = stopped.pid();
    shared.memory.free_token(segment);
    match birth::prepare(&shared.memory, segment, &stopped, &*shared.events) {
        Ok(()) => lane.request().state.store(request::NONE, Ordering::Release),
        Err(error) => {
            // Where it was killed meanwhile, this is what failed.
            stopped.registers()?;
            // The new image runs natively: its lane is complete.
            shared.events.not_recorded(pid, &error);
            birth::put_stop(&shared.memory, lane, &error.to_string());
            if shared.memory.is_filtered() {
                // Without the runtime it would die of the filter that it inherits.
                diagnostics::tell!(
                    "retrovane: process {pid} is ended, as it cannot run under --seccomp: {error}"
                );
                kill_process(pid, libc::SIGKILL);
            }
            lane.state().store(lane_state::ENDED, Ordering::Release);
        }
    }
    stopped.detach()
}
