//! Leaving parts out.

use crate::parts::{Grain, cut, groups};
use crate::{Oracle, Reduction};

/// Parts below which a search for the needed ones is not worth while.
const SEARCHED_MIN: usize = 16;

impl<O: Oracle> Reduction<'_, O> {
    /// Finds needed parts one after the other, each by halving: the shortest beginning that still
    /// fails ends with one. Costs as many tests as there are needed parts, times the logarithm of
    /// all; so it gives up where many are needed.
    pub(crate) fn search(&mut self, grain: Grain) -> Result<(), O::Error> {
        let mut doubtful = cut(&self.best, grain);
        if doubtful.len() < SEARCHED_MIN {
            return Ok(());
        }
        let mut needed: Vec<Vec<u8>> = Vec::new();
        let needed_max = doubtful.len() / (2 * doubtful.len().ilog2() as usize);
        while !doubtful.is_empty() && needed.len() <= needed_max {
            if self.accept_first(vec![needed.concat()])?.is_some() {
                return Ok(());
            }
            // Beginnings of this length pass, and of that length fail.
            let (mut passes, mut fails) = (0, doubtful.len());
            while fails - passes > 1 {
                let middle = passes + (fails - passes) / 2;
                let candidate = [doubtful[..middle].concat(), needed.concat()].concat();
                if self.accept_first(vec![candidate])?.is_some() { fails = middle } else { passes = middle }
            }
            doubtful.truncate(fails);
            needed.insert(0, doubtful.pop().unwrap_or_default());
        }
        Ok(())
    }

    /// Leaves out runs of parts, from the end: twice as many where that succeeds, half as many where it
    /// does not, until no single one can be left out.
    pub(crate) fn remove(&mut self, grain: Grain) -> Result<(), O::Error> {
        loop {
            let before = self.best.len();
            self.remove_once(grain)?;
            if self.best.len() == before {
                return Ok(());
            }
        }
    }

    fn remove_once(&mut self, grain: Grain) -> Result<(), O::Error> {
        let mut parts = cut(&self.best, grain);
        let mut end = parts.len();
        let mut length = (end / 4).max(1);
        while end > 0 {
            length = length.min(end);
            // At length 1 most candidates pass: several places are tested in one order.
            let places: Vec<usize> = match length {
                1 => (0..end).rev().take(self.batch()).collect(),
                _ => vec![end - length],
            };
            let without =
                |start: &usize| [parts[..*start].concat(), parts[start + length..].concat()].concat();
            match self.accept_first(places.iter().map(without).collect())? {
                Some(index) => {
                    let start = places[index];
                    parts.drain(start..start + length);
                    end = start;
                    length *= 2;
                }
                None if length > 1 => length /= 2,
                None => {
                    end -= places.len();
                    length = 1;
                }
            }
        }
        Ok(())
    }

    /// Leaves out lines that head an indented block, whose lines come out by as much.
    pub(crate) fn remove_heads(&mut self) -> Result<(), O::Error> {
        let depth = |line: &[u8]| line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let mut from = 0;
        loop {
            let lines = cut(&self.best, Grain::Lines);
            let heads = |at: &usize| lines.get(at + 1).is_some_and(|next| depth(next) > depth(&lines[*at]));
            let Some(head) = (from..lines.len()).find(heads) else { return Ok(()) };
            let by = depth(&lines[head + 1]) - depth(&lines[head]);
            let inside =
                lines[head + 1..].iter().take_while(|line| depth(line) > depth(&lines[head])).count();
            let body =
                lines[head + 1..=head + inside].iter().map(|line| line[by.min(depth(line))..].to_vec());
            let body = body.collect::<Vec<_>>().concat();
            let candidate = [lines[..head].concat(), body, lines[head + 1 + inside..].concat()].concat();
            if self.accept_first(vec![candidate])?.is_none() {
                from = head + 1;
            }
        }
    }

    /// Leaves out a few tokens in a row at once, at every place.
    pub(crate) fn remove_windows(&mut self) -> Result<(), O::Error> {
        /// Tokens of an input for which this is worth while.
        const TOKENS_MAX: usize = 96;
        for length in 2..=4 {
            let parts = cut(&self.best, Grain::Tokens);
            if parts.len() > TOKENS_MAX {
                return Ok(());
            }
            let without = |start: usize| [parts[..start].concat(), parts[start + length..].concat()].concat();
            let starts = 0..=parts.len().saturating_sub(length);
            let candidates: Vec<Vec<u8>> =
                starts.filter(|start| start + length <= parts.len()).map(without).collect();
            for batch in candidates.chunks(self.batch()) {
                if self.accept_first(batch.to_vec())?.is_some() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Leaves out what is in brackets, with and without them, and the brackets alone.
    pub(crate) fn remove_groups(&mut self) -> Result<(), O::Error> {
        let mut from = 0;
        loop {
            let found = groups(&self.best);
            let Some((whole, inside)) = found.get(from).cloned() else { return Ok(()) };
            let best = &self.best;
            let mut candidates = vec![[&best[..whole.start], &best[whole.end..]].concat()];
            if !inside.is_empty() {
                candidates.push([&best[..inside.start], &best[inside.end..]].concat());
            }
            candidates.push([&best[..whole.start], &best[inside], &best[whole.end..]].concat());
            if self.accept_first(candidates)?.is_none() {
                from += 1;
            }
        }
    }
}
