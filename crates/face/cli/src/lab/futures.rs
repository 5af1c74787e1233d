//! The futures of a lab that runs: each is a process of its own, which runs the lab again to a checkpoint and
//! stands there, until it is let go in place of the present one.
//!
//! The keeper is a thread of `lab run`. It has one future stand at the latest checkpoint; of others it makes one
//! when somebody wants to go back there.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use lab::{CLOCK, Changes, PastPlace, Record, Spec, StopReason, Stopper, Taken, read_checkpoints};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::lab::kept::{SPEC, read_json};
use crate::lab::start::Run;
use crate::lab::tree;

/// In a run's folder: its other futures.
pub const FUTURES: &str = "futures";
/// In a run's folder: which of its futures is the present.
const PRESENT: &str = "present";
/// In a future's folder: what it is to do.
pub const ORDERS: &str = "orders.json";
/// How long a future has to end by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a future is to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Orders {
    /// The checkpoint where it stands.
    pub number: usize,
    /// The log of the clock of the run that it is to be the same as, if its clock is not virtual.
    pub clock: Option<PathBuf>,
    pub as_json: bool,
}

/// What a future is told, an object of JSON a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Told {
    /// It is the present from here on.
    Go(Changes),
    /// Another one is.
    Leave,
}

/// What a future says, an object of JSON a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Said {
    /// It stands.
    Stands(Taken),
    /// The present has taken a checkpoint.
    Took(usize),
    /// No process of its nodes is left.
    Left,
}

/// Who is told how going back went.
pub type Reply = Sender<Result<Taken, String>>;

/// What happens to the keeper. A future is meant by its number; that of `lab run` itself is 0.
pub enum Event {
    Said(usize, Said),
    /// A future's process has ended, or will at once.
    Gone(usize),
    /// Somebody wants to go back; to the latest checkpoint, if it is not said where.
    Back {
        to: Option<PastPlace>,
        changes: Changes,
        reply: Reply,
    },
    /// `lab run` has recorded its own future to the end; true where it was left for another one.
    Recorded(bool),
    Signal(Signal),
}

/// A future that is not the one of `lab run` itself.
struct Future {
    process: Child,
    socket: UnixStream,
    number: usize,
    stands: Option<Taken>,
    /// It is the present, or was.
    is_lived: bool,
}

/// Somebody wants to go back.
struct Wish {
    future: usize,
    to: PastPlace,
    changes: Changes,
    reply: Reply,
    /// The present was told to leave.
    is_leaving: bool,
}

/// The keeper.
pub struct Keeper {
    run: Run,
    stopper: Stopper,
    tell: Sender<Event>,
    present: usize,
    futures: BTreeMap<usize, Future>,
    next: usize,
    wish: Option<Wish>,
    /// A checkpoint that has nobody who stands there yet.
    due: Option<usize>,
    /// What the present is to be sent.
    signal: Option<Signal>,
}

/// The folder of the future of a run that is the present, or was at its end; a future that is named is itself.
pub fn present(dir: &Path) -> PathBuf {
    if dir.parent().is_some_and(|parent| parent.file_name().is_some_and(|name| name == FUTURES)) {
        return dir.to_owned();
    }
    let number = std::fs::read_to_string(dir.join(PRESENT)).ok().and_then(|text| text.trim().parse().ok());
    number.map_or_else(|| dir.to_owned(), |number: usize| folder(dir, number))
}

/// Other futures of a run that were the present once.
pub fn others(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<(usize, PathBuf)> = std::fs::read_dir(dir.join(FUTURES))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().join(tree::PARENT).exists())
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect();
    found.sort();
    found.into_iter().map(|(_, dir)| dir).collect()
}

fn folder(dir: &Path, number: usize) -> PathBuf {
    match number {
        0 => dir.to_owned(),
        number => dir.join(FUTURES).join(number.to_string()),
    }
}

/// True where a future said until a time what the present had said; of times without a checkpoint there is no digest.
pub fn said_the_same(present: &Path, future: &Path, at_ns: u64) -> bool {
    let said = |dir: &Path| -> Vec<String> {
        let text = std::fs::read_to_string(dir.join("log.jsonl")).unwrap_or_default();
        let is_before = |line: &&str| match serde_json::from_str(line) {
            Ok(Record::Event { action: lab::Action::Checkpoint, .. }) | Err(_) => false,
            Ok(record) => record.at_ns() <= at_ns,
        };
        text.lines().filter(is_before).map(str::to_owned).collect()
    };
    said(present) == said(future)
}

/// Why a lab is not gone on with.
pub fn not_the_same(at_ns: u64) -> String {
    format!(
        "the lab ran again, and was not the same at {:.6} s; docs/LAB.md says what makes that",
        at_ns as f64 / 1e9
    )
}

impl Keeper {
    pub fn new(run: Run, stopper: Stopper, tell: Sender<Event>) -> Keeper {
        Keeper {
            run,
            stopper,
            tell,
            present: 0,
            futures: BTreeMap::new(),
            next: 1,
            wish: None,
            due: None,
            signal: None,
        }
    }

    /// Keeps the futures until the lab ends; gives the code of the last one, if it is not that of `lab run` itself.
    pub fn keep(mut self, events: &Receiver<Event>) -> Option<u8> {
        let mut code = None;
        for event in events {
            match event {
                Event::Said(future, said) => self.hear(future, said),
                Event::Back { to, changes, reply } => self.begin_back(to, changes, reply),
                Event::Gone(number) => {
                    let Some(future) = self.futures.remove(&number) else { continue };
                    let is_lived = future.is_lived;
                    let ended = end(future, false);
                    if number == self.present {
                        code = Some(ended.unwrap_or(crate::exit::FAILED));
                        break;
                    }
                    if !is_lived {
                        self.lose(number);
                    }
                }
                Event::Recorded(false) => break,
                Event::Recorded(true) => {}
                Event::Signal(signal) => {
                    self.signal = Some(signal);
                    self.hand_on();
                }
            }
        }
        if let Some(wish) = self.wish.take() {
            // Who has gone away is not answered.
            let _ = wish.reply.send(Err("the lab has ended meanwhile".to_owned()));
        }
        for number in self.futures.keys().copied().collect::<Vec<_>>() {
            self.drop_future(number);
        }
        code
    }

    fn dir_of(&self, number: usize) -> PathBuf {
        folder(&self.run.dir, number)
    }

    fn hear(&mut self, future: usize, said: Said) {
        match said {
            Said::Took(number) if future == self.present => {
                self.due = (self.run.shadows > 0).then_some(number);
                self.make_due();
            }
            Said::Took(_) => {}
            Said::Stands(taken) => {
                if let Some(future) = self.futures.get_mut(&future) {
                    future.stands = Some(taken);
                }
                self.go_back();
                self.make_due();
            }
            Said::Left if future == self.present => self.arrive(),
            Said::Left => {}
        }
    }

    /// Somebody is to stand at the latest checkpoint: one at a time is on the way.
    fn make_due(&mut self) {
        let is_on_the_way = self.waiting().any(|(_, future)| future.stands.is_none());
        if self.wish.is_some() || is_on_the_way {
            return;
        }
        let Some(number) = self.due.take() else { return };
        if self.waiting().any(|(_, future)| future.number == number) {
            return;
        }
        if let Err(reason) = self.make(PastPlace::Checkpoint(number)) {
            telling::tell!("retrovane: nobody stands at checkpoint {number}: {reason}");
        }
        let waiting: Vec<usize> = self.waiting().map(|(number, _)| number).collect();
        // The first one was made first.
        for &oldest in &waiting[..waiting.len().saturating_sub(self.run.shadows)] {
            self.drop_future(oldest);
        }
    }

    /// Futures in which nobody was yet.
    fn waiting(&self) -> impl Iterator<Item = (usize, &Future)> {
        self.futures.iter().filter(|(_, future)| !future.is_lived).map(|(&number, future)| (number, future))
    }

    /// Makes a future that will stand there; gives its number.
    fn make(&mut self, to: PastPlace) -> Result<usize, String> {
        let past = self.dir_of(self.present);
        let spec: Spec = read_json(&past.join(SPEC))?;
        let (spec, number) = lab::until(&spec, to).map_err(|error| error.to_string())?;
        let future = self.next;
        self.next += 1;
        let dir = self.dir_of(future);
        let run = Run { dir: dir.clone(), spec, ..self.run.clone() };
        run.furnish()?;
        let clock = run.spec.keeps_clock().then(|| past.join(CLOCK));
        let orders = Orders { number, clock, as_json: self.run.as_json };
        let text = serde_json::to_string(&orders).map_err(|error| error.to_string())?;
        std::fs::write(dir.join(ORDERS), text).map_err(|error| format!("{}: {error}", dir.display()))?;
        let made = self.start(future, &dir, number);
        made.map_err(|error| format!("another process cannot be made: {error}"))?;
        Ok(future)
    }

    fn start(&mut self, future: usize, dir: &Path, number: usize) -> std::io::Result<()> {
        let (socket, theirs) = UnixStream::pair()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--home").arg(&self.run.home).args(self.run.quiet.then_some("--quiet"));
        command.args(["lab", "future"]).arg(dir).stdin(Stdio::from(OwnedFd::from(theirs)));
        // A terminal's signals are for `lab run`, which hands them on.
        let process = command.process_group(0).spawn()?;
        // What is written is read by the future alone.
        drop(command);
        let (listens, tell) = (BufReader::new(socket.try_clone()?), self.tell.clone());
        std::thread::spawn(move || {
            for line in listens.lines().map_while(Result::ok) {
                if let Ok(said) = serde_json::from_str(&line) {
                    // A keeper that has ended needs nothing.
                    let _ = tell.send(Event::Said(future, said));
                }
            }
            let _ = tell.send(Event::Gone(future));
        });
        self.futures.insert(future, Future { process, socket, number, stands: None, is_lived: false });
        Ok(())
    }

    fn drop_future(&mut self, number: usize) {
        if let Some(future) = self.futures.remove(&number) {
            let is_lived = future.is_lived;
            end(future, true);
            if !is_lived {
                // Nobody was ever in it; what cannot be removed stays, and is named by nothing.
                let _ = std::fs::remove_dir_all(self.dir_of(number));
            }
        }
    }

    /// A signal for the present, which is not `lab run` itself; while the present changes, it is for the next one.
    fn hand_on(&mut self) {
        if self.wish.as_ref().is_some_and(|wish| wish.is_leaving) {
            return;
        }
        if let (Some(present), Some(signal)) = (self.futures.get(&self.present), self.signal.take()) {
            // One that has ended already is said to have by its socket.
            let _ = kill(Pid::from_raw(present.process.id() as i32), signal);
        }
    }

    /// A future has ended before it stood.
    fn lose(&mut self, future: usize) {
        if self.wish.as_ref().is_some_and(|wish| wish.future == future) {
            self.fail("the lab could not be run again until there; what it said is above".to_owned());
        }
        let _ = std::fs::remove_dir_all(self.dir_of(future));
        self.make_due();
    }

    fn fail(&mut self, reason: String) {
        if let Some(wish) = self.wish.take() {
            // Who has gone away is not answered.
            let _ = wish.reply.send(Err(reason));
        }
    }

    fn begin_back(&mut self, to: Option<PastPlace>, changes: Changes, reply: Reply) {
        match self.choose(to) {
            Ok((future, to)) => {
                self.wish = Some(Wish { future, to, changes, reply, is_leaving: false });
                self.go_back();
            }
            // Who has gone away is not answered.
            Err(reason) => drop(reply.send(Err(reason))),
        }
    }

    /// Who stands there, or is on the way.
    fn choose(&mut self, to: Option<PastPlace>) -> Result<(usize, PastPlace), String> {
        if self.wish.is_some() {
            return Err("the lab is going back already".to_owned());
        }
        let past = self.dir_of(self.present);
        let to = match to {
            Some(to) => to,
            None => {
                let latest = read_checkpoints(&past).last().map(|taken| taken.number);
                PastPlace::Checkpoint(
                    latest.ok_or("no checkpoint was taken yet: `retrovane lab checkpoint` takes one")?,
                )
            }
        };
        let is_there = |(_, future): &(usize, &Future)| to == PastPlace::Checkpoint(future.number);
        if let Some((number, _)) = self.waiting().find(is_there) {
            return Ok((number, to));
        }
        match to {
            PastPlace::Checkpoint(number)
                if !read_checkpoints(&past).iter().any(|one| one.number == number) =>
            {
                Err(format!("no checkpoint {number} was taken in the past of the present"))
            }
            PastPlace::Time(at_ns) if super::running::now_ns(&past).is_none_or(|now_ns| at_ns > now_ns) => {
                Err("the lab has not come to that time".to_owned())
            }
            to => Ok((self.make(to)?, to)),
        }
    }

    /// Goes on with going back, if who is to be the present stands.
    fn go_back(&mut self) {
        let Some(wish) = &self.wish else { return };
        let (number, to) = (wish.future, wish.to);
        let Some(taken) = self.futures.get(&number).and_then(|future| future.stands.clone()) else { return };
        if wish.is_leaving {
            return;
        }
        let past = self.dir_of(self.present);
        let is_same = match to {
            PastPlace::Checkpoint(number) => {
                read_checkpoints(&past).iter().find(|one| one.number == number) == Some(&taken)
            }
            PastPlace::Time(_) => said_the_same(&past, &self.dir_of(number), taken.at_ns),
        };
        if !is_same {
            self.fail(not_the_same(taken.at_ns));
            self.drop_future(number);
            return;
        }
        if let Some(wish) = &mut self.wish {
            wish.is_leaving = true;
        }
        match self.futures.get(&self.present) {
            None => self.stopper.stop(StopReason::Left),
            Some(present) => say(&present.socket, &Told::Leave),
        }
    }

    /// The present has left: the other one is the present.
    fn arrive(&mut self) {
        let Some(wish) = self.wish.take() else { return };
        let Some(taken) = self.futures.get(&wish.future).and_then(|future| future.stands.clone()) else {
            // It has ended while it stood, which its socket says.
            return;
        };
        let (before, own) = (self.dir_of(self.present), self.dir_of(wish.future));
        // With changes, others would go on as the description said until now.
        let is_other = |future: &Future| future.number > taken.number || !wish.changes.is_none();
        let others: Vec<usize> = self
            .waiting()
            .filter(|&(number, future)| number != wish.future && is_other(future))
            .map(|(number, _)| number)
            .collect();
        for other in others {
            self.drop_future(other);
        }
        tree::note_parent(&own, &before, Some(taken.at_ns));
        // By this the first one has a name, too; where it is not, its folder is still there.
        let _ = std::os::unix::fs::symlink("..", self.run.dir.join(FUTURES).join("0"));
        let early = self.run.dir.join("present.new");
        let kept = std::fs::write(&early, format!("{}\n", wish.future))
            .and_then(|()| std::fs::rename(&early, self.run.dir.join(PRESENT)));
        if let Err(error) = kept {
            telling::tell!("retrovane: `lab` commands will find an earlier future of this run: {error}");
        }
        if let Some(future) = self.futures.get_mut(&wish.future) {
            future.is_lived = true;
            say(&future.socket, &Told::Go(wish.changes));
        }
        self.present = wish.future;
        // Who has gone away is not answered.
        let _ = wish.reply.send(Ok(taken));
        self.hand_on();
    }
}

/// Says something to the other end, in a line.
pub fn say(mut socket: &UnixStream, what: &impl Serialize) {
    if let Ok(text) = serde_json::to_string(what) {
        // A future that has ended is said to have by its socket; a keeper that has, has ended its futures, too.
        let _ = socket.write_all(format!("{text}\n").as_bytes());
    }
}

/// Waits for a future's end, which is asked for if `early`; gives its code.
fn end(mut future: Future, early: bool) -> Option<u8> {
    if early {
        // It ends when nobody is there who could tell it anything.
        let _ = future.socket.shutdown(std::net::Shutdown::Both);
    }
    let begin = Instant::now();
    loop {
        match future.process.try_wait() {
            Ok(Some(status)) => return status.code().and_then(|code| u8::try_from(code).ok()),
            Ok(None) if begin.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(2)),
            Ok(None) | Err(_) => {
                // It has ended meanwhile, or does now.
                let _ = future.process.kill();
                let _ = future.process.wait();
                return None;
            }
        }
    }
}
