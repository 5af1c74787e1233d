//! Events whose text holds something.

use std::num::NonZero;

use super::{BLOCK_EVENTS, EventIndex, Sort};

/// Blocks of text that one thread looks through before it is asked whether more are wanted.
const BLOCKS_AT_ONCE: usize = 32;

/// What is looked for.
pub struct Wanted<'a> {
    /// Part of the text; empty: any.
    pub text: &'a str,
    pub sort: &'a dyn Fn(Sort) -> bool,
    /// Only of the processes at these positions.
    pub processes: Option<&'a [u16]>,
    pub most: usize,
    /// The last ones instead of the first.
    pub is_last: bool,
}

pub struct Found {
    /// Rows and their texts, in the order of the rows.
    pub rows: Vec<(usize, String)>,
    /// There are others.
    pub has_more: bool,
}

impl EventIndex {
    /// `None`: given up, as `give_up` says.
    pub fn search(&self, wanted: &Wanted<'_>, give_up: &dyn Fn() -> bool) -> Option<Found> {
        let sorts: Vec<bool> = self.sorts.iter().map(|sort| (wanted.sort)(*sort)).collect();
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let mut numbers: Vec<usize> = (0..self.block_count()).collect();
        if wanted.is_last {
            numbers.reverse();
        }
        let mut rows = Vec::new();
        for wave in numbers.chunks(threads * BLOCKS_AT_ONCE) {
            if give_up() {
                return None;
            }
            let look = Look { index: self, text: wanted.text, sorts: &sorts, processes: wanted.processes };
            let shares: Vec<Vec<(usize, String)>> = std::thread::scope(|scope| {
                let share = wave.len().div_ceil(threads).max(1);
                let started: Vec<_> = wave
                    .chunks(share)
                    .map(|part| {
                        scope.spawn(move || part.iter().flat_map(|number| look.block(*number)).collect())
                    })
                    .collect();
                started.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
            });
            rows.extend(shares.into_iter().flatten());
            if rows.len() > wanted.most {
                break;
            }
        }
        rows.sort_unstable_by_key(|(row, _)| *row);
        let has_more = rows.len() > wanted.most;
        if wanted.is_last {
            rows.drain(..rows.len().saturating_sub(wanted.most));
        } else {
            rows.truncate(wanted.most);
        }
        Some(Found { rows, has_more })
    }
}

/// What all threads look for.
#[derive(Clone, Copy)]
struct Look<'a> {
    index: &'a EventIndex,
    text: &'a str,
    sorts: &'a [bool],
    processes: Option<&'a [u16]>,
}

impl Look<'_> {
    fn is_wanted(&self, row: usize) -> bool {
        let sort = self.index.sorts_of.get(row).and_then(|sort| self.sorts.get(usize::from(*sort)));
        sort.is_some_and(|wanted| *wanted)
            && self
                .processes
                .is_none_or(|some| self.index.processes.get(row).is_some_and(|one| some.contains(one)))
    }

    fn block(&self, number: usize) -> Vec<(usize, String)> {
        let first = number * BLOCK_EVENTS;
        let rows = first..(first + BLOCK_EVENTS).min(self.index.events.len());
        // Unpacking is what costs.
        if !rows.clone().any(|row| self.is_wanted(row)) {
            return Vec::new();
        }
        let Some(text) = self.index.block(number) else { return Vec::new() };
        let mut found = Vec::new();
        if !self.text.is_empty() && !text.contains(self.text) {
            return found;
        }
        for (row, line) in rows.zip(text.split('\n')) {
            if self.is_wanted(row) && (self.text.is_empty() || line.contains(self.text)) {
                found.push((row, line.to_owned()));
            }
        }
        found
    }
}
