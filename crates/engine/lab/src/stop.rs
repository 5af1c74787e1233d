//! A lab ends before its nodes have.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Who asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// A signal to `lab run`.
    Signal(i32),
    /// `lab stop`.
    Asked,
    /// The recording is over.
    Recording,
    /// Another future goes on in its place.
    Left,
}

const ASKED: i32 = -1;
const RECORDING: i32 = -2;
const LEFT: i32 = -3;

/// Ends a lab; the first reason counts.
#[derive(Debug, Clone, Default)]
pub struct Stopper {
    asked: Arc<AtomicI32>,
}

impl Stopper {
    /// Asks the lab to end.
    pub fn stop(&self, reason: StopReason) {
        let number = match reason {
            StopReason::Signal(number) => number,
            StopReason::Asked => ASKED,
            StopReason::Recording => RECORDING,
            StopReason::Left => LEFT,
        };
        // Another reason was there before.
        let _ = self.asked.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) != 0
    }

    /// Why the lab was to end, if it was.
    pub fn reason(&self) -> Option<StopReason> {
        match self.asked.load(Ordering::Relaxed) {
            0 => None,
            ASKED => Some(StopReason::Asked),
            RECORDING => Some(StopReason::Recording),
            LEFT => Some(StopReason::Left),
            number => Some(StopReason::Signal(number)),
        }
    }
}
