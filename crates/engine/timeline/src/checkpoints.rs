//! Processes that stand at earlier positions, for going back.

use crate::position::Position;
use crate::process::Process;

/// Most checkpoints of a timeline that nobody asked for.
const KEPT_MAX: usize = 48;

struct Checkpoint {
    position: Position,
    process: Process,
}

/// Checkpoints in the order of their positions. The first is the beginning.
#[derive(Default)]
pub struct Checkpoints {
    list: Vec<Checkpoint>,
}

impl Checkpoints {
    pub fn new(position: Position, process: Process) -> Checkpoints {
        Checkpoints { list: vec![Checkpoint { position, process }] }
    }

    /// Where history begins.
    pub fn beginning(&self) -> Position {
        self.list.first().map_or(Position { event: 0, steps: 0 }, |first| first.position)
    }

    /// The last one at the position or before it; the beginning if there is none. `None`:
    /// there is no past.
    pub fn before(&self, position: Position) -> Option<(Position, &Process)> {
        let behind = self.list.partition_point(|kept| kept.position <= position);
        let kept = self.list.get(behind.saturating_sub(1))?;
        Some((kept.position, &kept.process))
    }

    /// Positions of all, in their order.
    pub fn positions(&self) -> Vec<Position> {
        self.list.iter().map(|kept| kept.position).collect()
    }

    /// True if one of these positions is kept.
    pub fn has(&self, position: Position) -> bool {
        self.list.binary_search_by_key(&position, |kept| kept.position).is_ok()
    }

    /// Keeps a process; another may be given up for it.
    pub fn keep(&mut self, position: Position, process: Process) {
        if let Err(place) = self.list.binary_search_by_key(&position, |kept| kept.position) {
            self.list.insert(place, Checkpoint { position, process });
            if self.list.len() > KEPT_MAX {
                let thinned = self.least_missed(place);
                self.list.remove(thinned);
            }
        }
    }

    /// The one between two near neighbours, the farther from the newest the sooner.
    fn least_missed(&self, newest: usize) -> usize {
        let inner = (1..self.list.len() - 1).filter(|&index| index != newest);
        let weight = |index: usize| {
            let gap = |a: Position, b: Position| {
                (b.event - a.event) as f64 * 1e4 + (b.steps as f64 - a.steps as f64).abs()
            };
            let closed = gap(self.list[index - 1].position, self.list[index + 1].position);
            closed / (1.0 + index.abs_diff(newest) as f64)
        };
        inner.min_by(|&a, &b| weight(a).total_cmp(&weight(b))).unwrap_or(1)
    }
}
