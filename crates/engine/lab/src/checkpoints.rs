//! Checkpoints of a lab, and the way back to one.
//!
//! A lab is a function of its description and of what its clock was, so a checkpoint is kept as another lab
//! that ran the same way until there, in processes of its own, and stands: all nodes at the same time of the
//! lab, with their memory, descriptors and connections, and all that is in flight. Going back is to let it go on
//! in place of the present one.
//!
//! Invariant: who stands at a checkpoint is compared with what the present was there; a lab that went another way is
//! never gone on with.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender};

use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::digest::Digest;
use crate::spec::{Action, Event, Spec};

/// A checkpoint, and what the lab was until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The first one is 1.
    pub number: usize,
    pub at_ns: u64,
    /// It is one of those that are taken every so often.
    #[serde(default)]
    pub is_timed: bool,
    /// What the lab's nodes had said and sent.
    pub been: Digest,
}

/// A line of the file of checkpoints.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Taken(Taken),
    Discarded { discarded: usize },
}

/// The name of the file in a run's folder with all that were taken, an object of JSON a line.
pub const CHECKPOINTS: &str = "checkpoints.jsonl";

fn read_lines(dir: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(dir.join(CHECKPOINTS)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// What was taken in a run, and not discarded since.
pub fn read_checkpoints(dir: &Path) -> Vec<Taken> {
    let lines = read_lines(dir);
    let gone = discarded(&lines);
    let taken = lines.into_iter().filter_map(|line| match line {
        Line::Taken(taken) => Some(taken),
        Line::Discarded { .. } => None,
    });
    taken.filter(|taken| !gone.contains(&taken.number)).collect()
}

/// The numbers of those that were discarded in a run.
pub fn read_discarded(dir: &Path) -> BTreeSet<usize> {
    discarded(&read_lines(dir))
}

fn discarded(lines: &[Line]) -> BTreeSet<usize> {
    let number = |line: &Line| match line {
        Line::Taken(_) => None,
        Line::Discarded { discarded } => Some(*discarded),
    };
    lines.iter().filter_map(number).collect()
}

/// Notes in the folder of a run that nobody runs any more that a checkpoint is not gone back to.
///
/// # Errors
/// The file cannot be written to.
pub fn discard(dir: &Path, number: usize) -> std::io::Result<()> {
    let mut file = File::options().append(true).open(dir.join(CHECKPOINTS))?;
    write_line(&mut file, &Line::Discarded { discarded: number })
}

fn write_line(file: &mut File, line: &Line) -> std::io::Result<()> {
    let text = serde_json::to_string(line)?;
    file.write_all(format!("{text}\n").as_bytes())
}

/// What is other than it was, from a checkpoint on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// What chance draws by from there on.
    pub seed: Option<u64>,
    /// What happens from there on, in place of what the description says.
    pub events: Option<Vec<Event>>,
}

/// Who stands at a checkpoint is told to go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GoOn {
    /// As the present. `discarded`: checkpoints that it has passed and that are not gone back to.
    Live { changes: Changes, discarded: BTreeSet<usize> },
    /// As silently as before, to a later checkpoint, where it stands again; `events`: what was wished since, too.
    Further { number: usize, events: Vec<Event> },
}

impl Changes {
    /// Nothing is.
    pub fn is_none(&self) -> bool {
        *self == Changes::default()
    }
}

/// Told each checkpoint that was taken.
pub type Notice = Box<dyn FnMut(&Taken) + Send>;

/// At a checkpoint a lab stands until it is told to go on.
pub struct Halt {
    /// At which.
    pub number: usize,
    /// Told when it stands.
    pub stands: Sender<Taken>,
    /// What tells it to go on; without a sender it ends.
    pub goes_on: Receiver<GoOn>,
}

/// Checkpoints that are taken every so often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    pub next_ns: u64,
    every_ns: u64,
    /// How many of them are kept.
    keep: usize,
}

impl Schedule {
    /// That of an event at a time; none where they are not to be taken any more.
    pub fn new(at_ns: u64, every_ns: u64, keep: usize) -> Option<Schedule> {
        (every_ns > 0).then(|| Schedule { next_ns: at_ns + every_ns, every_ns, keep })
    }

    /// True where the next one is before an event at that time.
    pub fn is_before(&self, event_ns: u64) -> bool {
        self.next_ns < event_ns
    }

    /// One was taken.
    pub fn pass(&mut self) {
        self.next_ns += self.every_ns;
    }
}

/// What a lab does at checkpoints.
pub struct Checkpoints {
    pub count: usize,
    /// Those that are kept and were taken every so often: number and time.
    timed: Vec<(usize, u64)>,
    pub schedule: Option<Schedule>,
    /// Where they are kept; those that somebody discards are noted there by who is asked to.
    dir: PathBuf,
    file: File,
    pub notice: Option<Notice>,
    pub halt: Option<Halt>,
    /// The log of the clock of the run that this one is to be the same as.
    pub clock: Option<PathBuf>,
}

impl Checkpoints {
    /// Those of a lab that has taken none, kept in its folder.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(dir: &Path) -> Result<Checkpoints, LabError> {
        let path = dir.join(CHECKPOINTS);
        let made = File::create(&path).and_then(|_| File::options().append(true).open(&path));
        let file = made.map_err(|source| LabError::File { path, source })?;
        Ok(Checkpoints {
            count: 0,
            timed: Vec::new(),
            schedule: None,
            dir: dir.to_owned(),
            file,
            notice: None,
            halt: None,
            clock: None,
        })
    }

    /// One was taken. One that is not kept cannot be gone back to, which is said then.
    pub fn keep(&mut self, taken: &Taken) {
        let _ = write_line(&mut self.file, &Line::Taken(taken.clone()));
        if !taken.is_timed {
            return;
        }
        self.timed.push((taken.number, taken.at_ns));
        let keep = self.schedule.map_or(usize::MAX, |schedule| schedule.keep.max(1));
        if self.timed.len() > keep {
            let gone = read_discarded(&self.dir);
            self.timed.retain(|(number, _)| !gone.contains(number));
        }
        while self.timed.len() > keep {
            let ages: Vec<u64> = self.timed.iter().map(|(_, at_ns)| taken.at_ns - at_ns).collect();
            self.discard(self.timed[recorder::densest(&ages)].0);
        }
    }

    /// One is not gone back to any more.
    pub fn discard(&mut self, number: usize) {
        self.timed.retain(|(timed, _)| *timed != number);
        // As above: it can be gone back to, then.
        let _ = write_line(&mut self.file, &Line::Discarded { discarded: number });
    }
}

/// What a lab does next, in the order of the times: an event, or a checkpoint that is taken every so often.
enum Step {
    Event(usize),
    Timed,
}

/// Goes through what a lab does.
struct Walk<'a> {
    events: &'a [Event],
    /// Events that have been.
    done: usize,
    schedule: Option<Schedule>,
}

impl Iterator for Walk<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let event = self.events.get(self.done);
        if let Some(schedule) = &mut self.schedule
            && event.is_none_or(|event| schedule.is_before(event.at_ns))
        {
            schedule.pass();
            return Some(Step::Timed);
        }
        let event = event?;
        if let Action::Every { every_ns, keep } = event.action {
            self.schedule = Schedule::new(event.at_ns, every_ns, keep);
        }
        self.done += 1;
        Some(Step::Event(self.done - 1))
    }
}

impl Walk<'_> {
    /// Goes to a checkpoint; gives how many events were before it, or are it.
    fn go_to_checkpoint(&mut self, number: usize) -> Option<usize> {
        let (mut count, events) = (0, self.events);
        while count < number {
            match self.next()? {
                Step::Timed => count += 1,
                Step::Event(place) => count += usize::from(events[place].action == Action::Checkpoint),
            }
        }
        (number > 0).then_some(self.done)
    }

    /// How many checkpoints there are up to an event.
    fn count_to(&mut self, place: usize) -> usize {
        let (mut count, events) = (0, self.events);
        for step in self.by_ref() {
            match step {
                Step::Timed => count += 1,
                Step::Event(at) => {
                    count += usize::from(events[at].action == Action::Checkpoint);
                    if at == place {
                        break;
                    }
                }
            }
        }
        count
    }
}

/// The description of a lab that is the same until a checkpoint: without what was wished later.
///
/// `to`: the number of a checkpoint, or a time, which then has one. Gives the checkpoint's number, too.
///
/// # Errors
/// There is no such checkpoint.
pub fn until(spec: &Spec, to: Place) -> Result<(Spec, usize), LabError> {
    let mut spec = spec.clone();
    let (past, number) = match to {
        Place::Checkpoint(number) => {
            let past = Walk { events: &spec.events, done: 0, schedule: None }.go_to_checkpoint(number);
            (past.ok_or(LabError::NoCheckpoint { number })?, number)
        }
        Place::Time(at_ns) => {
            let place = spec.events.partition_point(|event| event.at_ns <= at_ns);
            spec.events.insert(place, Event { at_ns, action: Action::Checkpoint, is_wish: true });
            let number = Walk { events: &spec.events, done: 0, schedule: None }.count_to(place);
            (place + 1, number)
        }
    };
    let mut place = 0;
    spec.events.retain(|event| {
        place += 1;
        place <= past || !event.is_wish
    });
    Ok((spec, number))
}

/// A place in a lab's past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    Checkpoint(usize),
    /// In nanoseconds since the lab began.
    Time(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(events: &[(u64, Action, bool)]) -> Result<Spec, Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("lab.toml");
        std::fs::write(&file, "[node.a]\ncommand = [\"true\"]\n")?;
        let mut spec = crate::read(&file)?;
        let events = events.iter().cloned();
        spec.events = events.map(|(at_ns, action, is_wish)| Event { at_ns, action, is_wish }).collect();
        Ok(spec)
    }

    #[test]
    fn what_was_wished_later_is_not_in_the_past() -> Result<(), Box<dyn std::error::Error>> {
        let spec = spec(&[
            (1, Action::Checkpoint, false),
            (2, Action::Heal, true),
            (3, Action::Checkpoint, true),
            (3, Action::Stop, true),
            (4, Action::Heal, false),
            (5, Action::Checkpoint, true),
        ])?;
        let times = |spec: &Spec| spec.events.iter().map(|event| event.at_ns).collect::<Vec<_>>();
        let (past, number) = until(&spec, Place::Checkpoint(2))?;
        assert_eq!((times(&past), number), (vec![1, 2, 3, 4], 2));
        let (past, number) = until(&spec, Place::Checkpoint(1))?;
        assert_eq!((times(&past), number), (vec![1, 4], 1));
        let (past, number) = until(&spec, Place::Time(2))?;
        assert_eq!((times(&past), number), (vec![1, 2, 2, 4], 2));
        assert!(until(&spec, Place::Checkpoint(0)).is_err(), "the first one is 1");
        assert!(until(&spec, Place::Checkpoint(4)).is_err(), "there are three");
        Ok(())
    }

    #[test]
    fn those_taken_every_so_often_are_counted() -> Result<(), Box<dyn std::error::Error>> {
        let every = |every_ns| Action::Every { every_ns, keep: 4 };
        let spec = spec(&[
            (10, every(10), false),
            (25, Action::Heal, true),
            (30, Action::Checkpoint, true),
            (45, every(0), true),
        ])?;
        let times = |spec: &Spec| spec.events.iter().map(|event| event.at_ns).collect::<Vec<_>>();
        // At 20, 30 as it was wished, 30, 40.
        assert_eq!(times(&until(&spec, Place::Checkpoint(1))?.0), [10]);
        assert_eq!(times(&until(&spec, Place::Checkpoint(2))?.0), [10, 25, 30]);
        assert_eq!(times(&until(&spec, Place::Checkpoint(4))?.0), [10, 25, 30]);
        assert!(until(&spec, Place::Checkpoint(5)).is_err(), "none is taken any more");
        let (past, number) = until(&spec, Place::Time(35))?;
        assert_eq!((times(&past), number), (vec![10, 25, 30, 35], 4));
        Ok(())
    }

    #[test]
    fn old_ones_become_sparse_and_what_is_discarded_is_gone() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let mut all = Checkpoints::new(dir.path())?;
        all.schedule = Schedule::new(0, 1, 4);
        let been = Digest {
            outputs: Vec::new(),
            packets: String::new(),
            packet_count: 0,
            memory: Vec::new(),
            ended_at_ns: 0,
        };
        for number in 1..=32 {
            let is_timed = number != 5;
            all.keep(&Taken { number, at_ns: number as u64, is_timed, been: been.clone() });
        }
        let numbers = || read_checkpoints(dir.path()).iter().map(|taken| taken.number).collect::<Vec<_>>();
        let kept = numbers();
        assert_eq!(kept.len(), 5, "four of time, and the one that was asked for: {kept:?}");
        assert!(kept.starts_with(&[1]) && kept.contains(&5) && kept.ends_with(&[32]), "{kept:?}");
        discard(dir.path(), 5)?;
        discard(dir.path(), 32)?;
        assert_eq!(numbers().len(), 3);
        all.keep(&Taken { number: 33, at_ns: 33, is_timed: true, been });
        assert_eq!(numbers().len(), 4, "there was room for it");
        assert!(read_discarded(dir.path()).contains(&32));
        Ok(())
    }
}
