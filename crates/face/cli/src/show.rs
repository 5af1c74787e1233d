//! What a recorded program drew on its displays, shown on one of today while it is replayed.
//!
//! The replay sends what the program sends to its display to a socket of here, call by call, and waits until it
//! is shown: so memory that the program shares with its server is as it was, and the replay is as fast as what is
//! shown. Each connection has a thread.
//!
//! Invariant: nothing is connected to but the display that the user named. Deliberately absent: what requests
//! mean, which the crate `display` knows.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use display::{Client, Picture, World};
use events::real::SHOWN_HEAD_WORDS;
use replayer::PrivateFolder;

use crate::exit::CommandError;
use crate::policy::{Applied, Attached, Moment, PolicyArguments, Screen, ScreenPlan};

mod segments;

use segments::OfProcess;

/// What is to be shown.
pub struct Wanted {
    /// `None`: the environment's.
    pub display: Option<String>,
    /// What came before it is shown; `None`: all.
    pub until: Option<Moment>,
    /// So many times as fast as it was; `None`: as fast as it goes.
    pub pace: Option<f64>,
    pub title: String,
}

/// What the window is called: as the trace is.
pub fn title_of(trace_dir: &Path) -> String {
    trace_dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Wanted {
    /// What will be touched, in the words of policies.
    fn touches(&self) -> Option<String> {
        let name = self.display.clone().or_else(|| std::env::var("DISPLAY").ok()).unwrap_or_default();
        Some(format!("opens a window on the display {name}"))
    }
}

/// What the threads of all connections share.
struct Shared {
    world: Arc<World>,
    attached: Vec<Attached>,
    until: Option<Moment>,
    pace: Option<f64>,
    /// When the recording began, as it were.
    began: OnceLock<Instant>,
    /// Connections of which not all is shown that is wanted.
    left: AtomicUsize,
    ends: Vec<End>,
    /// Connections that stay until the end.
    kept: Mutex<Vec<(Client, Option<UnixStream>)>>,
    /// Said once: the others come of it.
    failure: Mutex<Option<display::Error>>,
    is_over: AtomicBool,
    /// The replay ended before all was shown.
    is_cut: AtomicBool,
    pictures: Mutex<Pictures>,
}

/// When a connection ended, of the plan's by its number.
#[derive(Default)]
struct End {
    at: Option<Moment>,
    /// What it made on the display has numbers from this one on; `None` before it makes anything, and where it is gone.
    first_resource: Mutex<Option<u32>>,
}

impl End {
    /// One through which something is sent later has copies in other processes, and is not over.
    fn of(screen: &Screen) -> End {
        let is_over = |end: &Moment| screen.shown.iter().all(|shown| shown.at.is_until(end));
        End { at: screen.ended.filter(is_over), ..End::default() }
    }
}

/// Pictures that are taken while all is shown.
#[derive(Default)]
struct Pictures {
    /// Lane and event of each call behind which one is taken.
    wanted: HashSet<(u32, u64)>,
    taken: Vec<(Moment, Picture)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A replay that is shown.
pub struct Show {
    shared: Arc<Shared>,
    /// Until the threads are there.
    waiting: Arc<Mutex<Vec<(UnixListener, Screen)>>>,
    sockets: Vec<PathBuf>,
    said: Sender<()>,
    /// A word from each connection of which all is shown.
    done: Mutex<Receiver<()>>,
    _folder: PrivateFolder,
}

impl Show {
    /// What policies mean for a trace whose windows are shown, and what shows them.
    ///
    /// # Errors
    /// Those of the policies, and of [`Show::new`].
    pub fn apply(
        wanted: Wanted,
        policies: &PolicyArguments,
        trace_dir: &Path,
    ) -> Result<(Applied, Show), CommandError> {
        let folder = PrivateFolder::in_memory().map_err(CommandError::Output)?;
        let mut applied = policies.apply(trace_dir, Some(folder.path()))?;
        applied.touches.extend(wanted.touches());
        let show = Show::new(wanted, folder, std::mem::take(&mut applied.screens))?;
        Ok((applied, show))
    }

    /// Makes a socket for each connection of the plan.
    ///
    /// # Errors
    /// [`CommandError::Usage`] if there is none, [`CommandError::Output`]
    fn new(wanted: Wanted, folder: PrivateFolder, plan: ScreenPlan) -> Result<Show, CommandError> {
        if plan.screens.is_empty() {
            return Err(CommandError::Usage(
                "the recorded program connected to no X11 display: there is nothing to show".to_owned(),
            ));
        }
        let moments = plan.screens.iter().flat_map(|screen| &screen.shown).map(|shown| shown.at);
        let last =
            moments.max_by_key(|at| (at.logged, at.event)).map(|at| Moment { event: at.event + 1, ..at });
        let mut waiting = Vec::new();
        for screen in plan.screens {
            waiting.push((UnixListener::bind(&screen.socket)?, screen));
        }
        let (said, done) = channel();
        Ok(Show {
            sockets: waiting.iter().map(|(_, screen)| screen.socket.clone()).collect(),
            shared: Arc::new(Shared {
                left: AtomicUsize::new(waiting.len()),
                ends: waiting.iter().map(|(_, screen)| End::of(screen)).collect(),
                world: World::new(wanted.display, wanted.title),
                attached: plan.attached,
                until: wanted.until.or_else(|| last.filter(|_| wanted.pace.is_none())),
                pace: wanted.pace,
                began: OnceLock::new(),
                kept: Mutex::default(),
                failure: Mutex::default(),
                is_over: AtomicBool::new(false),
                is_cut: AtomicBool::new(false),
                pictures: Mutex::default(),
            }),
            waiting: Arc::new(Mutex::new(waiting)),
            said,
            done: Mutex::new(done),
            _folder: folder,
        })
    }

    /// Starts the threads, when that may be.
    pub fn begin(&self) -> Box<dyn FnOnce()> {
        let (shared, waiting, said) =
            (Arc::clone(&self.shared), Arc::clone(&self.waiting), self.said.clone());
        Box::new(move || {
            for (number, (listener, screen)) in locked(&waiting).drain(..).enumerate() {
                let (shared, said) = (Arc::clone(&shared), said.clone());
                injector::start_thread("screen", move || {
                    serve(&listener, (number, &screen), &shared, &mut || {
                        // Nobody may listen: a replay that is shown to its end.
                        let _ = said.send(());
                    });
                });
            }
        })
    }

    /// The same; and up to so many pictures are taken meanwhile, spread over all calls.
    pub fn begin_with_pictures(&self, count_max: usize) -> Box<dyn FnOnce()> {
        let waiting = locked(&self.waiting);
        let mut calls: Vec<Moment> =
            waiting.iter().flat_map(|(_, screen)| &screen.shown).map(|shown| shown.at).collect();
        drop(waiting);
        calls.sort_by_key(|at| (at.logged, at.lane, at.event));
        // The last one is among them.
        let spread = (1..=count_max).map(|number| (calls.len() * number).div_ceil(count_max));
        let chosen = spread.filter_map(|end| calls.get(end.checked_sub(1)?));
        locked(&self.shared.pictures).wanted = chosen.map(|at| (at.lane, at.event)).collect();
        self.begin()
    }

    /// The pictures, in the order in which they were taken.
    ///
    /// # Errors
    /// What kept them from being shown.
    pub fn pictures(&self) -> Result<Vec<(Moment, Picture)>, display::Error> {
        match locked(&self.shared.failure).take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut locked(&self.shared.pictures).taken)),
        }
    }

    /// Waits until all is shown that is to be, and gives what is on the screen.
    ///
    /// # Errors
    /// What keeps it from being shown.
    pub fn picture(&self) -> Result<display::Picture, display::Error> {
        let done = locked(&self.done);
        for _ in &self.sockets {
            // The sender is in `self`, so this ends with a word only.
            let _ = done.recv();
        }
        if let Some(error) = locked(&self.shared.failure).take() {
            return Err(error);
        }
        if self.shared.is_cut.load(Ordering::Acquire) {
            return Err(display::Error::Cut);
        }
        self.shared.world.picture()?.ok_or(display::Error::Nothing)
    }

    /// Tells what could not be shown.
    pub fn tell(&self, is_quiet: bool) {
        if let Some(error) = locked(&self.shared.failure).take() {
            diagnostics::tell!("retrovane: {error}");
        }
        if !is_quiet {
            for (what, times) in self.shared.world.unsent() {
                diagnostics::tell!("retrovane: not shown: {what} ({times} times)");
            }
        }
    }

    /// The replay is over.
    pub fn end(&self, is_quiet: bool) {
        self.end_waiting();
        self.tell(is_quiet);
    }

    /// Threads whose connections were never made go on.
    pub fn end_waiting(&self) {
        self.shared.is_over.store(true, Ordering::Release);
        for socket in &self.sockets {
            // Where nobody listens any more, nobody waits.
            let _ = UnixStream::connect(socket);
        }
    }
}

/// Shows one connection, until it ends or all is shown that is wanted, which it says once. What comes behind that
/// is taken and not shown, since the same program may have others of which something is wanted.
fn serve(
    listener: &UnixListener,
    (number, screen): (usize, &Screen),
    shared: &Shared,
    done: &mut dyn FnMut(),
) {
    let is_wanted = |at: &Moment| shared.until.as_ref().is_none_or(|until| at.is_until(until));
    let count = screen.shown.iter().rposition(|shown| is_wanted(&shown.at)).map_or(0, |last| last + 1);
    let is_unwanted = count == 0 && shared.until.is_some();
    // True if this was the last one.
    let mut finish = || {
        done();
        shared.left.fetch_sub(1, Ordering::AcqRel) == 1
    };
    if is_unwanted {
        finish();
    }
    let connected = listener.accept().ok().filter(|_| !shared.is_over.load(Ordering::Acquire));
    let Some((mut stream, _)) = connected else {
        if !is_unwanted {
            shared.is_cut.store(true, Ordering::Release);
            finish();
        }
        return;
    };
    let pid = rustix::net::sockopt::socket_peercred(&stream).map_or(0, |peer| peer.pid.as_raw_pid());
    let client = Client::new(&shared.world);
    let mut playing = Playing { shared, number, screen, client, pid, next: 0, count };
    // It ended before the moment at which all is looked at.
    let ends = shared.until.as_ref().is_none_or(|until| screen.ended.is_some_and(|at| at.is_before(until)));
    let (mut is_done, mut is_last) = (is_unwanted, false);
    while let Ok([lane, event, bytes]) = head(&mut stream) {
        let Ok(sent) = body(&mut stream, bytes) else { break };
        playing.show(lane as u32, event, &sent);
        if !ends && !is_done && playing.next >= count {
            is_done = true;
            is_last = finish();
            if is_last {
                // The program waits for ever: nothing comes behind this moment.
                break;
            }
        }
        if stream.write_all(&[1]).is_err() {
            break;
        }
    }
    if !is_done && playing.next < count {
        shared.is_cut.store(true, Ordering::Release);
    }
    match ends {
        true => shared.end(number),
        false => locked(&shared.kept).push((playing.client, is_last.then_some(stream))),
    }
    if !is_done {
        finish();
    }
}

/// A connection that is being shown.
struct Playing<'a> {
    shared: &'a Shared,
    /// Among the plan's.
    number: usize,
    screen: &'a Screen,
    client: Client,
    pid: i32,
    /// Of what is sent in which call.
    next: usize,
    /// How many calls are shown.
    count: usize,
}

impl Playing<'_> {
    /// What the program sent in one call.
    fn show(&mut self, lane: u32, event: u64, sent: &[u8]) {
        let rest = self.screen.shown.get(self.next..).unwrap_or_default();
        let place = rest.iter().position(|shown| (shown.at.lane, shown.at.event) == (lane, event));
        let until = (self.next + place.unwrap_or(0) + 1).min(self.screen.shown.len());
        let calls = self.next..until;
        self.next = until;
        if calls.end > self.count || locked(&self.shared.failure).is_some() {
            return;
        }
        let Some(last) = self.screen.shown.get(calls.clone()).and_then(<[_]>::last) else { return };
        self.shared.wait_for(last.at);
        self.shared.end_those_before(last.at);
        let segments = OfProcess { pid: self.pid, at: last.at, attached: &self.shared.attached };
        let descriptors = segments.passed(last);
        let mut answered = calls.map(|call| &self.screen.shown[call].answers);
        let done = answered
            .try_for_each(|answers| self.client.answers(&answers.bytes, &answers.descriptors))
            .and_then(|()| self.client.requests(sent, &descriptors, &segments))
            .and_then(|()| self.shared.take_picture(last.at));
        *locked(&self.shared.ends[self.number].first_resource) = self.client.first_resource();
        if let Err(error) = done {
            locked(&self.shared.failure).get_or_insert(error);
        }
    }
}

impl Shared {
    /// A connection has ended.
    fn end(&self, number: usize) {
        let mut first_resource = locked(&self.ends[number].first_resource);
        if let Some(first) = first_resource.take() {
            self.world.leave(first);
        }
    }

    /// What a program draws when it has closed another connection, or waited for its child, is not covered by their windows
    /// any more, though whoever shows those may not have seen yet that there comes nothing.
    fn end_those_before(&self, at: Moment) {
        let is_before = |end: &Moment| end.lane == at.lane && end.event < at.event;
        let ended = self.ends.iter().enumerate().filter(|(_, one)| one.at.as_ref().is_some_and(is_before));
        ended.for_each(|(number, _)| self.end(number));
    }

    /// Takes a picture, if one is wanted here.
    fn take_picture(&self, at: Moment) -> Result<(), display::Error> {
        let mut pictures = locked(&self.pictures);
        if pictures.wanted.remove(&(at.lane, at.event)) {
            let picture = self.world.picture()?;
            pictures.taken.extend(picture.map(|picture| (at, picture)));
        }
        Ok(())
    }

    /// Waits until it is as late as it was then.
    fn wait_for(&self, at: Moment) {
        let Some(pace) = self.pace else { return };
        let then = Duration::from_millis(at.logged.into()).div_f64(pace);
        let began = *self.began.get_or_init(|| {
            let now = Instant::now();
            now.checked_sub(then).unwrap_or(now)
        });
        std::thread::sleep((began + then).saturating_duration_since(Instant::now()));
    }
}

/// Reads what stands before the bytes of a call.
fn head(stream: &mut UnixStream) -> io::Result<[u64; SHOWN_HEAD_WORDS]> {
    let mut bytes = [0; SHOWN_HEAD_WORDS * 8];
    stream.read_exact(&mut bytes)?;
    let word = |index: usize| bytes[index * 8..][..8].try_into().map_or(0, u64::from_le_bytes);
    Ok(std::array::from_fn(word))
}

/// Reads the bytes of a call, as they come: how many there are is what the log says.
fn body(stream: &mut UnixStream, bytes: u64) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    stream.take(bytes).read_to_end(&mut all)?;
    if all.len() as u64 == bytes { Ok(all) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
