//! What is asked of a lab from outside while it runs. Each wish becomes an event of its description, at the
//! next nanosecond of the lab: so the run can be had again as it was.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::nodes::NodeEnd;
use crate::spec::Action;

#[derive(Debug, Default)]
struct Shared {
    wished: Vec<Action>,
    now_ns: u64,
    ends: Vec<Option<NodeEnd>>,
}

/// How far a lab is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Standing {
    pub now_ns: u64,
    /// How each node ended that has.
    pub ends: Vec<Option<NodeEnd>>,
}

/// The engine's ear.
#[derive(Debug, Clone, Default)]
pub struct Control {
    shared: Arc<Mutex<Shared>>,
    has_wishes: Arc<AtomicBool>,
}

impl Control {
    /// Something is to be done now.
    pub fn wish(&self, action: Action) {
        if let Ok(mut shared) = self.shared.lock() {
            shared.wished.push(action);
        }
        self.has_wishes.store(true, Ordering::Release);
    }

    /// What was wished since this was last asked.
    pub(crate) fn take_wishes(&self) -> Vec<Action> {
        if !self.has_wishes.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        self.shared.lock().map(|mut shared| std::mem::take(&mut shared.wished)).unwrap_or_default()
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
            Ok(shared) => Standing { now_ns: shared.now_ns, ends: shared.ends.clone() },
            Err(_) => Standing { now_ns: 0, ends: Vec::new() },
        }
    }
}
