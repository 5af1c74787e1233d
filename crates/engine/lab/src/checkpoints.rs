//! Checkpoints of a lab, and the way back to one.
//!
//! A lab is a function of its description and of what its clock was, so a checkpoint is kept as another lab
//! that ran the same way until there, in processes of its own, and stands: all nodes at the same time of the
//! lab, with their memory, descriptors and connections, and all that is in flight. Going back is to let it go on
//! in place of the present one.
//!
//! Invariant: who stands at a checkpoint is compared with what the present was there; a lab that went another way is
//! never gone on with.

use std::fs::File;
use std::path::Path;
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
    /// What the lab's nodes had said and sent.
    pub been: Digest,
}

/// The name of the file in a run's folder with all that were taken, an object of JSON a line.
pub const CHECKPOINTS: &str = "checkpoints.jsonl";

/// What was taken in a run.
pub fn read_checkpoints(dir: &Path) -> Vec<Taken> {
    let text = std::fs::read_to_string(dir.join(CHECKPOINTS)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// What is other than it was, from a checkpoint on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// What chance draws by from there on.
    pub seed: Option<u64>,
    /// What happens from there on, in place of what the description says.
    pub events: Option<Vec<Event>>,
}

impl Changes {
    /// Nothing is.
    pub fn is_none(&self) -> bool {
        *self == Changes::default()
    }
}

/// Told each checkpoint when it was taken.
pub type Notice = Box<dyn FnMut(&Taken) + Send>;

/// At a checkpoint a lab stands until it is told to go on.
pub struct Halt {
    /// At which.
    pub number: usize,
    /// Told when it stands.
    pub stands: Sender<Taken>,
    /// What tells it to go on; without a sender it ends.
    pub goes_on: Receiver<Changes>,
}

/// What a lab does at checkpoints.
pub struct Checkpoints {
    pub count: usize,
    /// Where they are kept.
    pub file: File,
    pub notice: Option<Notice>,
    pub halt: Option<Halt>,
}

impl Checkpoints {
    pub fn new(file: File, notice: Option<Notice>, halt: Option<Halt>) -> Checkpoints {
        Checkpoints { count: 0, file, notice, halt }
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
    let is_checkpoint = |event: &Event| event.action == Action::Checkpoint;
    let found = match to {
        Place::Checkpoint(number) => {
            let mut places = (0..spec.events.len()).filter(|&place| is_checkpoint(&spec.events[place]));
            let place = number.checked_sub(1).and_then(|skipped| places.nth(skipped));
            place.ok_or(LabError::NoCheckpoint { number })?
        }
        Place::Time(at_ns) => {
            let place = spec.events.partition_point(|event| event.at_ns <= at_ns);
            spec.events.insert(place, Event { at_ns, action: Action::Checkpoint, is_wish: true });
            place
        }
    };
    let number = spec.events[..=found].iter().filter(|event| is_checkpoint(event)).count();
    let mut place = 0;
    spec.events.retain(|event| {
        place += 1;
        place <= found + 1 || !event.is_wish
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
}
