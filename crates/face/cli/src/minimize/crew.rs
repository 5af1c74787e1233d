//! Processes that help with the tries, each in a sandbox of its own.
//!
//! A try may write files, connect to itself, or leave processes behind: what runs at the same time must not meet. So each
//! helper is a copy of this process that enters a sandbox by the same plan, and does there what the search does in its own:
//! it stands before the same input, and tries what it is given. They are started when they are worth it; the launcher
//! that forks them is made before the search has threads. Invariant: what the search finds does not depend on them: of what is
//! tried at the same time the first that fails counts, and what was tried behind it does not.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use injector::{Side, enter_sandbox, fork_bound, kill_process, start_thread};
use nix::sys::signal::{SigSet, Signal};

use super::orders::{Answer, Order, Verdict};

/// More are not started: each has a sandbox.
const HELPERS_MAX: usize = 63;

/// Sockets to a launcher, and to the crew that it will start.
pub struct Launcher {
    start: UnixStream,
    crew: Vec<UnixStream>,
}

impl Launcher {
    /// Forks it. `serve` is what a helper does with its socket, in its sandbox.
    ///
    /// # Errors
    /// Of fork(2) and socketpair(2).
    pub fn fork(
        count: usize,
        plan: &injector::SandboxPlan,
        serve: impl FnOnce(UnixStream) -> u8,
    ) -> io::Result<Launcher> {
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for _ in 0..=count.min(HELPERS_MAX) {
            let (our, their) = UnixStream::pair()?;
            ours.push(our);
            theirs.push(their);
        }
        let ours = RefCell::new(ours);
        fork_bound(&[], [None; 3], || {
            // A helper sees the search's end as the end of its socket, of which only the search has the other side.
            ours.take();
            launch(theirs, plan, serve)
        })?;
        let mut crew = ours.into_inner();
        let start = crew.remove(0);
        Ok(Launcher { start, crew })
    }
}

/// The launcher: it waits for the word to start, then for the search's end.
fn launch(
    mut sockets: Vec<UnixStream>,
    plan: &injector::SandboxPlan,
    serve: impl FnOnce(UnixStream) -> u8,
) -> u8 {
    // Its end comes with the search's, not before that of the crew.
    let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
    if SigSet::from_iter(signals).thread_block().is_err() {
        return 1;
    }
    let mut start = sockets.remove(0);
    let mut word = [0];
    if start.read_exact(&mut word).is_err() {
        return 0;
    }
    let mut serve = Some(serve);
    let mut crew = Vec::new();
    for socket in &sockets {
        let helper = fork_bound(&[], [None; 3], || match (enter_sandbox(plan), socket.try_clone()) {
            (Ok(Side::Inside), Ok(socket)) => serve.take().map_or(1, |serve| serve(socket)),
            (Ok(Side::Inside) | Err(_), _) => 1,
            (Ok(Side::Outside(_)), _) => 0,
        });
        crew.extend(helper);
    }
    drop(sockets);
    let _ = start.read(&mut word);
    crew.iter().for_each(|helper| kill_process(*helper, 9));
    0
}

/// The crew, as the search sees them.
pub struct Crew {
    launcher: RefCell<Option<Launcher>>,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// All that every helper has to be told, in order.
    told: Vec<Arc<Order>>,
    /// What the search's own tries fail like.
    expected: Option<String>,
    /// How many can make tries now.
    ready: usize,
    candidates: Arc<Vec<Vec<u8>>>,
    /// Candidates that are not begun begin here, or are among those that a helper gave back.
    next: usize,
    given_back: Vec<usize>,
    /// No candidate from here on is of interest.
    limit: usize,
    verdicts: Vec<Option<Verdict>>,
    /// Which candidates these are.
    round: u64,
}

impl State {
    fn take(&mut self) -> Option<usize> {
        if let Some(place) = self.given_back.iter().position(|at| *at < self.limit) {
            return Some(self.given_back.swap_remove(place));
        }
        (self.next < self.limit).then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    fn note(&mut self, at: usize, verdict: Verdict) {
        self.verdicts[at] = Some(verdict);
        if verdict != Verdict::Passes {
            self.limit = self.limit.min(at);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crew {
    pub fn new(launcher: Option<Launcher>) -> Crew {
        let shared = Shared { state: Mutex::default(), changed: Condvar::new() };
        Crew { launcher: RefCell::new(launcher), shared: Arc::new(shared) }
    }

    /// Starts them, if that was not done.
    pub fn start(&self) {
        let Some(Launcher { mut start, crew }) = self.launcher.take() else { return };
        if start.write_all(&[1]).is_err() {
            return;
        }
        for socket in crew {
            let shared = Arc::clone(&self.shared);
            start_thread("helper", move || converse(&shared, socket));
        }
        // Open until the end: that is how the launcher knows.
        start_thread("launcher", move || start.read(&mut [0]));
    }

    /// Tells all of them, those too that come later.
    pub fn tell(&self, order: Order) {
        if let Order::Begin { .. } = &order {
            self.rest();
        }
        let mut state = self.shared.lock();
        state.told.push(Arc::new(order));
        self.shared.changed.notify_all();
    }

    /// Lets them rest until they are told what to begin with.
    pub fn rest(&self) {
        let mut state = self.shared.lock();
        state.ready = 0;
        state.expected = None;
    }

    /// From now on those help whose tries fail like this.
    pub fn expect(&self, failure: String) {
        self.shared.lock().expected = Some(failure);
        self.shared.changed.notify_all();
    }

    /// How many can help now.
    pub fn ready(&self) -> usize {
        self.shared.lock().ready
    }

    /// Begins with these candidates.
    pub fn begin(&self, candidates: Vec<Vec<u8>>) -> Together<'_> {
        let mut state = self.shared.lock();
        state.round += 1;
        (state.next, state.limit) = (0, candidates.len());
        state.given_back.clear();
        state.verdicts = vec![None; candidates.len()];
        state.candidates = Arc::new(candidates);
        self.shared.changed.notify_all();
        Together { shared: &self.shared }
    }
}

/// Candidates that are tried together.
pub struct Together<'a> {
    shared: &'a Shared,
}

/// What the search itself has to do now.
pub enum Now {
    Try(usize),
    /// The first that does not pass, if one does not.
    Known(Option<(usize, Verdict)>),
}

impl Together<'_> {
    pub fn next(&self) -> Now {
        let mut state = self.shared.lock();
        loop {
            if let Some(at) = state.take() {
                return Now::Try(at);
            }
            let limit = state.limit;
            if state.verdicts[..limit].iter().all(Option::is_some) {
                let first = state.verdicts.get(limit).copied().flatten();
                return Now::Known(first.map(|verdict| (limit, verdict)));
            }
            state = self.shared.wait(state);
        }
    }

    pub fn note(&self, at: usize, verdict: Verdict) {
        self.shared.lock().note(at, verdict);
    }

    /// One that died, did so elsewhere: the search goes on behind it.
    pub fn passes(&self, at: usize) {
        let mut state = self.shared.lock();
        state.verdicts[at] = Some(Verdict::Passes);
        let fails = |verdict: &Option<Verdict>| verdict.is_some_and(|verdict| verdict != Verdict::Passes);
        state.limit = state.verdicts.iter().position(fails).unwrap_or(state.verdicts.len());
        self.shared.changed.notify_all();
    }

    /// The end; gives how many were begun.
    pub fn end(self) -> u64 {
        let mut state = self.shared.lock();
        let begun = state.next - state.given_back.len();
        state.round += 1;
        (state.next, state.limit) = (0, 0);
        state.verdicts.clear();
        state.given_back.clear();
        begun as u64
    }
}

/// A helper's thread: it tells it what all are told, and gives it candidates.
fn converse(shared: &Shared, mut socket: UnixStream) {
    let mut told = 0;
    let mut fails_like: Option<String> = None;
    let mut counted = false;
    let mut state = shared.lock();
    loop {
        if let Some(order) = state.told.get(told).cloned() {
            told += 1;
            drop(state);
            let begins = matches!(*order, Order::Begin { .. });
            if order.send(&mut socket).is_err() {
                return;
            }
            if begins {
                counted = false;
                fails_like = match Answer::receive(&mut socket) {
                    Ok(Answer::Ready(text)) => Some(text),
                    Ok(_) => None,
                    Err(_) => return,
                };
            }
            state = shared.lock();
            continue;
        }
        if fails_like.is_none() || fails_like != state.expected {
            state = shared.wait(state);
            continue;
        }
        if !counted {
            counted = true;
            state.ready += 1;
            tracing::debug!(ready = state.ready, "a helper is ready");
        }
        let Some(at) = state.take() else {
            state = shared.wait(state);
            continue;
        };
        let (candidates, round) = (Arc::clone(&state.candidates), state.round);
        drop(state);
        let sent = Order::Try(candidates[at].clone()).send(&mut socket);
        let answer = sent.and_then(|()| Answer::receive(&mut socket));
        state = shared.lock();
        match answer {
            Ok(Answer::Tried(verdict)) if state.round == round => state.note(at, verdict),
            Ok(Answer::Tried(_)) => {}
            Ok(Answer::Ready(_) | Answer::NotReady) | Err(_) => {
                // Somebody else tries it.
                if state.round == round {
                    state.given_back.push(at);
                }
                if told == state.told.len() {
                    state.ready = state.ready.saturating_sub(1);
                }
                fails_like = None;
                if answer.is_err() {
                    shared.changed.notify_all();
                    return;
                }
            }
        }
        shared.changed.notify_all();
    }
}
