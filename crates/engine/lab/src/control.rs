//! What is asked of a lab from outside while it runs. Each wish becomes an event of its description, at the
//! next nanosecond of the lab: so the run can be had again as it was.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use crate::nodes::NodeEnd;
use crate::spec::Action;

/// What is to be done, and who is told when it is.
pub(crate) type Wish = (Action, Option<Sender<Standing>>);

#[derive(Debug, Default)]
struct Shared {
    wished: Vec<Wish>,
    /// Who is told when theirs is done: for each the time of its event, in their order.
    asked: VecDeque<(u64, Sender<Standing>)>,
    now_ns: u64,
    ends: Vec<Option<NodeEnd>>,
}

/// How far a lab is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Standing {
    pub now_ns: u64,
    /// How each node ended that has.
    pub ends: Vec<Option<NodeEnd>>,
    /// The number of the checkpoint that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<usize>,
}

/// The engine's ear.
#[derive(Debug, Clone, Default)]
pub struct Control {
    shared: Arc<Mutex<Shared>>,
    has_wishes: Arc<AtomicBool>,
}

impl Control {
    /// Something is to be done now. `done` is told when it is, and how far the lab was then; it is dropped untold where
    /// the lab ends before.
    pub fn wish(&self, action: Action, done: Option<Sender<Standing>>) {
        if let Ok(mut shared) = self.shared.lock() {
            shared.wished.push((action, done));
        }
        self.has_wishes.store(true, Ordering::Release);
    }

    /// What was wished since this was last asked; it becomes events of this time.
    pub(crate) fn take_wishes(&self, at_ns: u64) -> Vec<Action> {
        if !self.has_wishes.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let Ok(mut shared) = self.shared.lock() else { return Vec::new() };
        let (actions, asked): (Vec<_>, Vec<_>) = std::mem::take(&mut shared.wished).into_iter().unzip();
        shared.asked.extend(asked.into_iter().flatten().map(|done| (at_ns, done)));
        actions
    }

    /// An event of time `of_ns` that was wished is done now, and may have taken a checkpoint.
    pub(crate) fn tell_done(&self, of_ns: u64, now_ns: u64, checkpoint: Option<usize>) {
        let Ok(mut shared) = self.shared.lock() else { return };
        let is_it = shared.asked.front().is_some_and(|(asked_ns, _)| *asked_ns == of_ns);
        if let Some((_, done)) = is_it.then(|| shared.asked.pop_front()).flatten() {
            // Who has gone away is not told.
            let _ = done.send(Standing { now_ns, ends: shared.ends.clone(), checkpoint });
        }
    }

    /// The lab is so far.
    pub(crate) fn stand(&self, now_ns: u64, ends: Vec<Option<NodeEnd>>) {
        if let Ok(mut shared) = self.shared.lock() {
            (shared.now_ns, shared.ends) = (now_ns, ends);
        }
    }

    /// How far the lab was when its clock moved last.
    pub fn standing(&self) -> Standing {
        match self.shared.lock() {
            Ok(shared) => Standing { now_ns: shared.now_ns, ends: shared.ends.clone(), checkpoint: None },
            Err(_) => Standing { now_ns: 0, ends: Vec::new(), checkpoint: None },
        }
    }
}
