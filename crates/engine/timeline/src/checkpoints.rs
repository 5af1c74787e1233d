//! Processes that stand at earlier positions, for going back.

use crate::error::{TimelineError, no_past};
use crate::position::Position;
use crate::process::Process;

/// Most checkpoints of a timeline that nobody asked for.
const KEPT_MAX: usize = 48;
/// Most threads that all of them have together, as far as a few checkpoints permit: a user
/// and a container may have only so many.
const THREADS_MAX: usize = 1000;
const KEPT_MIN: usize = 3;
/// Most bytes of shared memory of which all of them have a copy, as far as a few permit.
const SHARED_BYTES_MAX: u64 = 512 << 20;

struct Checkpoint {
    position: Position,
    process: Process,
}

/// Checkpoints in the order of their positions. The first is the beginning, unless that
/// cannot be copied.
#[derive(Default)]
pub struct Checkpoints {
    beginning: Option<Position>,
    list: Vec<Checkpoint>,
}

impl Checkpoints {
    pub fn new(position: Position, process: Process) -> Checkpoints {
        Checkpoints { beginning: Some(position), list: vec![Checkpoint { position, process }] }
    }

    /// None yet, of a history that begins there.
    pub fn none_since(position: Position) -> Checkpoints {
        Checkpoints { beginning: Some(position), list: Vec::new() }
    }

    /// Where history begins.
    pub fn beginning(&self) -> Position {
        self.beginning.unwrap_or(Position { event: 0, steps: 0 })
    }

    /// The last one at the position or before it; the beginning if there is none. `None`:
    /// there is no past, or its beginning cannot be copied.
    pub fn before(&self, position: Position) -> Option<(Position, &Process)> {
        let behind = self.list.partition_point(|kept| kept.position <= position);
        let kept = self.list.get(behind.saturating_sub(1))?;
        Some((kept.position, &kept.process))
    }

    /// Positions of all, in their order, and of the beginning.
    pub fn positions(&self) -> Vec<Position> {
        let kept = self.list.iter().map(|kept| kept.position);
        let beginning = self.beginning.filter(|_| self.list.is_empty());
        beginning.into_iter().chain(kept).collect()
    }

    /// True if one of these positions is kept.
    pub fn has(&self, position: Position) -> bool {
        self.list.binary_search_by_key(&position, |kept| kept.position).is_ok()
    }

    /// Forgets those that have consumed so many bytes of the log, or more.
    pub fn forget_from(&mut self, log_bytes: u64) {
        let before = self.list.partition_point(|kept| kept.process.stop.log_position < log_bytes);
        self.list.truncate(before);
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Keeps a process; another may be given up for it.
    pub fn keep(&mut self, position: Position, process: Process) {
        if let Err(place) = self.list.binary_search_by_key(&position, |kept| kept.position) {
            let threads = process.stop.thread_count.max(1) as usize;
            let bytes = process.stop.shared_bytes.max(1);
            let most = (THREADS_MAX / threads).min((SHARED_BYTES_MAX / bytes) as usize);
            let most = most.clamp(KEPT_MIN, KEPT_MAX);
            self.list.insert(place, Checkpoint { position, process });
            let mut newest = place;
            while self.list.len() > most {
                let thinned = self.least_missed(newest);
                self.list.remove(thinned);
                newest -= usize::from(thinned < newest);
            }
        }
    }

    /// A copy of the checkpoint before a position. Where there is no room for its threads
    /// others make some.
    pub fn copy_before(&mut self, target: Position) -> Result<(Position, Process), TimelineError> {
        loop {
            let (from, kept) = self.before(target).ok_or_else(no_past)?;
            match kept.copy() {
                Err(TimelineError::Copy(libc::EAGAIN)) if self.forget_others() => {}
                copy => return Ok((from, copy?)),
            }
        }
    }

    /// Forgets all but the first; false if there is none other.
    fn forget_others(&mut self) -> bool {
        let has_others = self.list.len() > 1;
        self.list.truncate(1);
        has_others
    }

    /// The one between two near neighbours, the farther from the newest the sooner. Near is
    /// what is reached soon: instructions and events say little about that.
    fn least_missed(&self, newest: usize) -> usize {
        let inner = (1..self.list.len() - 1).filter(|&index| index != newest);
        let weight = |index: usize| {
            let [before, behind] = [index - 1, index + 1].map(|near| self.list[near].process.way);
            behind.abs_diff(before).as_secs_f64() / (1.0 + index.abs_diff(newest) as f64)
        };
        inner.min_by(|&a, &b| weight(a).total_cmp(&weight(b))).unwrap_or(1)
    }
}
