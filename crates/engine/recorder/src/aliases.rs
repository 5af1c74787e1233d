//! What numbers of descriptors mean since a moment: what they meant then, what another meant, or
//! something that was opened since.

use std::collections::BTreeMap;

use crate::logged_calls::Call;
use crate::numbers::{CLOSE, CLOSE_RANGE, CLOSE_RANGE_CLOEXEC, DUP, DUP2, DUP3, F_DUPFD, FCNTL};

/// Numbers whose meaning has changed.
#[derive(Default)]
pub(crate) struct Aliases {
    /// The number of then that each means now; `None`: it means nothing of then.
    changed: BTreeMap<u32, Option<u32>>,
    /// Ranges that were closed. What is in `changed` is newer, or in none of them.
    closed: Vec<(u32, u32)>,
}

impl Aliases {
    /// The number that had the same meaning then.
    pub fn then(&self, fd: u32) -> Option<u32> {
        let is_closed = || self.closed.iter().any(|(first, last)| (*first..=*last).contains(&fd));
        self.changed.get(&fd).copied().unwrap_or_else(|| (!is_closed()).then_some(fd))
    }

    /// True if any number has this meaning of then.
    pub fn has(&self, then: u32) -> bool {
        self.then(then) == Some(then) || self.changed.values().any(|meaning| *meaning == Some(then))
    }

    /// True if no call since then had to do with what a number means.
    pub fn is_untouched(&self, fd: u32) -> bool {
        !self.changed.contains_key(&fd) && self.then(fd).is_some()
    }

    /// A number means something from now on.
    pub fn set(&mut self, fd: u32, then: Option<u32>) {
        self.changed.insert(fd, then);
    }

    /// Takes a call into account that succeeded; the numbers that mean something else then.
    pub fn call(&mut self, call: &Call) -> Option<(u32, u32)> {
        let (fd, other) = (call.args[0] as u32, call.args[1] as u32);
        let new = match call.number {
            CLOSE => {
                self.set(fd, None);
                return Some((fd, fd));
            }
            CLOSE_RANGE if call.args[2] & CLOSE_RANGE_CLOEXEC == 0 => {
                self.changed.retain(|number, _| !(fd..=other).contains(number));
                self.closed.push((fd, other));
                return Some((fd, other));
            }
            DUP => call.result as u32,
            FCNTL if F_DUPFD.contains(&call.args[1]) => call.result as u32,
            DUP2 | DUP3 if fd != other => other,
            _ => return None,
        };
        self.set(new, self.then(fd));
        Some((new, new))
    }
}
