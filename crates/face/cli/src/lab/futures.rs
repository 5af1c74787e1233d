//! The futures of a lab that runs: each is a process of its own, which runs the lab again to a checkpoint and
//! stands there, until it is let go in place of the present one.
//!
//! The keeper is a thread of `lab run`. It has one future stand at the latest checkpoint; of others it makes one
//! when somebody wants to go back there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender};

use lab::{
    Action, CLOCK, Changes, GoOn, PastPlace, Record, Spec, StopReason, Stopper, Taken, read_checkpoints,
    read_discarded,
};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use crate::lab::future_process::{Future, Said, Told};

use crate::lab::kept::{SPEC, read_json};
use crate::lab::start::Run;
use crate::lab::tree;

/// In a run's folder: its other futures.
pub const FUTURES: &str = "futures";
/// In a run's folder: which of its futures is the present.
const PRESENT: &str = "present";
/// In a future's folder: what it is to do.
pub const ORDERS: &str = "orders.json";

/// What a future is to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Orders {
    /// The checkpoint where it stands.
    pub number: usize,
    /// The log of the clock of the run that it is to be the same as, if its clock is not virtual.
    pub clock: Option<PathBuf>,
    pub as_json: bool,
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
    /// Checkpoints are not gone back to any more.
    Discard {
        numbers: Vec<usize>,
        reply: Sender<Result<(), String>>,
    },
    /// `lab run` has recorded its own future to the end; true where it was left for another one.
    Recorded(bool),
    Signal(Signal),
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
            Ok(Record::Event { action: Action::Checkpoint | Action::Every { .. }, .. }) | Err(_) => false,
            Ok(record) => record.at_ns() <= at_ns,
        };
        text.lines().filter(is_before).map(str::to_owned).collect()
    };
    said(present) == said(future)
}

/// That a checkpoint is one of those that a run has in its past.
pub fn known(past: &Path, number: usize) -> Result<(), String> {
    let is_it = |taken: &Taken| taken.number == number;
    match read_checkpoints(past).iter().any(is_it) {
        true => Ok(()),
        false if read_discarded(past).contains(&number) => Err(format!("checkpoint {number} was discarded")),
        false => Err(format!("no checkpoint {number} was taken in the past of the present")),
    }
}

/// Notes that checkpoints of a run are not gone back to any more.
pub fn discard(past: &Path, numbers: &[usize]) -> Result<(), String> {
    numbers.iter().try_for_each(|&number| known(past, number))?;
    let noted = numbers.iter().try_for_each(|&number| lab::discard(past, number));
    noted.map_err(|error| format!("{}: {error}", past.display()))
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
                // Who has gone away is not answered.
                Event::Discard { numbers, reply } => drop(reply.send(self.discard(&numbers))),
                Event::Gone(number) => {
                    let Some(future) = self.futures.remove(&number) else { continue };
                    let is_lived = future.is_lived;
                    let ended = future.end(false);
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
        let waiting = self.waiting().count();
        if let Err(reason) = match waiting < self.run.shadows {
            true => self.make(PastPlace::Checkpoint(number)).map(|_| ()),
            false => self.send_further(number),
        } {
            diagnostics::tell!("retrovane: nobody stands at checkpoint {number}: {reason}");
        }
    }

    /// Who stands at the earliest checkpoint goes on to another one: what it ran until there is not run again.
    fn send_further(&mut self, number: usize) -> Result<(), String> {
        let earliest = self.waiting().min_by_key(|(_, future)| future.number).map(|(future, _)| future);
        let Some(future) = earliest else { return Ok(()) };
        let spec: Spec = read_json(&self.dir_of(self.present).join(SPEC))?;
        let to = PastPlace::Checkpoint(number);
        let (spec, number) = lab::until(&spec, to).map_err(|error| error.to_string())?;
        if let Some(future) = self.futures.get_mut(&future) {
            (future.number, future.stands) = (number, None);
            future.say(&Told::Go(GoOn::Further { number, events: spec.events }));
        }
        Ok(())
    }

    /// Checkpoints of the past of the present are not gone back to any more, and nobody stands there.
    fn discard(&mut self, numbers: &[usize]) -> Result<(), String> {
        let past = self.dir_of(self.present);
        discard(&past, numbers)?;
        let stands = |(_, future): &(usize, &Future)| numbers.contains(&future.number);
        let wished = self.wish.as_ref().map(|wish| wish.future);
        let there: Vec<usize> = self.waiting().filter(stands).map(|(future, _)| future).collect();
        for future in there.into_iter().filter(|future| Some(*future) != wished) {
            self.drop_future(future);
        }
        Ok(())
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
        let made = Future::start(&self.run, &dir, number, future, &self.tell);
        let made = made.map_err(|error| format!("another process cannot be made: {error}"))?;
        self.futures.insert(future, made);
        Ok(future)
    }

    fn drop_future(&mut self, number: usize) {
        if let Some(future) = self.futures.remove(&number) {
            let is_lived = future.is_lived;
            future.end(true);
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
            present.signal(signal);
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
        if let PastPlace::Checkpoint(number) = to {
            known(&past, number)?;
        }
        let is_there = |(_, future): &(usize, &Future)| to == PastPlace::Checkpoint(future.number);
        if let Some((number, _)) = self.waiting().find(is_there) {
            return Ok((number, to));
        }
        match to {
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
            Some(present) => present.say(&Told::Leave),
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
            diagnostics::tell!("retrovane: `lab` commands will find an earlier future of this run: {error}");
        }
        if let Some(future) = self.futures.get_mut(&wish.future) {
            future.is_lived = true;
            let discarded =
                read_discarded(&before).into_iter().filter(|&number| number <= taken.number).collect();
            future.say(&Told::Go(GoOn::Live { changes: wish.changes, discarded }));
        }
        self.present = wish.future;
        // Who has gone away is not answered.
        let _ = wish.reply.send(Ok(taken));
        self.hand_on();
    }
}
