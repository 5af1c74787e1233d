//! Leaving parts out.

use std::ops::Range;

use crate::parts::{Grain, cut, groups, indentation};
use crate::{Oracle, Reduction};

/// Parts below which a search for the needed ones is not worth while.
const SEARCHED_MIN: usize = 64;
/// Tokens of an input in which many of them are tried together at every place.
const TOKENS_MAX: usize = 96;
/// Tests in a row that pass, after which coarse parts are given up.
const PATIENCE: usize = 12;

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
        let needed_max = doubtful.len() / (4 * doubtful.len().ilog2() as usize);
        while !doubtful.is_empty() && needed.len() <= needed_max {
            if self.accept_first(vec![needed.concat()])?.is_some() {
                return Ok(());
            }
            // Beginnings of this length pass, and of that length fail.
            let (mut passes, mut fails) = (0, doubtful.len());
            while fails - passes > 1 {
                // The middles that come next as long as each passes.
                let mut middles = Vec::new();
                let mut at = passes;
                while fails - at > 1 && middles.len() < self.ahead() {
                    at += (fails - at) / 2;
                    middles.push(at);
                }
                let beginning = |middle: &usize| [doubtful[..*middle].concat(), needed.concat()].concat();
                match self.accept_first(middles.iter().map(beginning).collect())? {
                    Some(index) => {
                        fails = middles[index];
                        passes = if index > 0 { middles[index - 1] } else { passes };
                    }
                    None => passes = at,
                }
            }
            doubtful.truncate(fails);
            needed.insert(0, doubtful.pop().unwrap_or_default());
        }
        Ok(())
    }

    /// Both, where there is something to find that way.
    pub(crate) fn take_apart(&mut self, grain: Grain) -> Result<(), O::Error> {
        if cut(&self.best, grain).len() < 2 {
            return Ok(());
        }
        self.search(grain)?;
        self.remove(grain)
    }

    /// Leaves out parts until no single one can be left out.
    pub(crate) fn remove_all(&mut self, grain: Grain) -> Result<(), O::Error> {
        loop {
            let before = self.best.len();
            self.remove(grain)?;
            if self.best.len() == before {
                return Ok(());
            }
        }
    }

    /// Leaves out runs of parts, from the end: twice as many where that succeeds, half as many where it
    /// does not. Coarse parts are given up after a while in which nothing goes: finer ones come.
    pub(crate) fn remove(&mut self, grain: Grain) -> Result<(), O::Error> {
        let mut parts = cut(&self.best, grain);
        let mut end = parts.len();
        let mut length = (end / 4).max(1);
        let patience = match grain {
            Grain::Paragraphs | Grain::Blocks(_) => PATIENCE,
            Grain::Lines | Grain::Clauses | Grain::Tokens | Grain::Characters => usize::MAX,
        };
        let (mut misses, mut hits) = (0, 0);
        while end > 0 && misses < patience {
            length = length.min(end);
            let runs = self.next_runs(end, length, patience - misses);
            let without =
                |run: &Range<usize>| [parts[..run.start].concat(), parts[run.end..].concat()].concat();
            match self.accept_first(runs.iter().map(without).collect())? {
                Some(index) => {
                    let run = runs[index].clone();
                    hits = if runs[..index].iter().any(|run| run.len() > 1) { 1 } else { hits + 1 };
                    (end, length) = (run.start, run.len());
                    parts.drain(run);
                    if hits > 1 {
                        length *= 2;
                    }
                    misses = 0;
                }
                None => {
                    let last = &runs[runs.len() - 1];
                    end = if last.len() > 1 { last.end } else { last.start };
                    length = (last.len() / 2).max(1);
                    misses += runs.len();
                    hits = 0;
                }
            }
        }
        Ok(())
    }

    /// The runs of parts before `end` that are left out one after the other as long as none of them can go.
    fn next_runs(&self, mut end: usize, mut length: usize, runs_max: usize) -> Vec<Range<usize>> {
        let mut runs = Vec::new();
        let mut longer = 0;
        while end > 0 && runs.len() < runs_max {
            // Of single parts most stay: several places are tested in one order.
            let fits = if length > 1 { longer < self.ahead() } else { runs.len() - longer < self.batch() };
            // Single parts do not come with longer ones where nothing is tested at once.
            if !fits || length == 1 && longer > 0 && runs.len() >= self.ahead() {
                break;
            }
            runs.push(end - length..end);
            if length > 1 {
                length /= 2;
                longer += 1;
            } else {
                end -= 1;
            }
        }
        runs
    }

    /// Leaves out single tokens and characters, those too that could not go when something else stood far from them.
    pub(crate) fn remove_singles(&mut self) -> Result<(), O::Error> {
        self.changes.clear();
        self.remove_windows_of(Grain::Tokens, 1)?;
        self.remove_windows_of(Grain::Characters, 1)
    }

    /// Leaves out all before the end of a statement, or all behind it: several that need each other go at once, also where
    /// they stand on one line.
    pub(crate) fn remove_ends(&mut self) -> Result<(), O::Error> {
        loop {
            let parts = cut(&self.best, Grain::Tokens);
            if parts.len() > TOKENS_MAX {
                return Ok(());
            }
            let ends = |part: &[u8]| matches!(part, b";" | b"}") || part.contains(&b'\n');
            let ends: Vec<usize> = (1..parts.len()).filter(|at| ends(&parts[at - 1])).collect();
            let behind = ends.iter().rev().map(|end| parts[*end..].concat());
            let before = ends.iter().map(|end| parts[..*end].concat());
            let candidates: Vec<Vec<u8>> = behind.chain(before).collect();
            if candidates.is_empty() || self.accept_first(candidates)?.is_none() {
                return Ok(());
            }
        }
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

    /// Puts what is in a block, two or more deep, in the place of the outermost one around it: what was in a
    /// function of a class then runs by itself.
    /// Lines of it are tried alone, too.
    pub(crate) fn hoist_bodies(&mut self) -> Result<(), O::Error> {
        const LINES_ALONE_MAX: usize = 4;
        let mut at = 0;
        loop {
            let lines = cut(&self.best, Grain::Lines);
            let depth = |line: &usize| indentation(&lines[*line]);
            if at >= lines.len() {
                return Ok(());
            }
            let outer = (0..at).rev().find(|line| depth(line) == 0).unwrap_or(at);
            let begins = at > 0 && depth(&at) > depth(&(at - 1)) && outer + 1 < at;
            if begins {
                let by = depth(&at);
                let inside = (at..lines.len()).take_while(|line| depth(line) >= by).count();
                let behind = (at + inside..lines.len()).find(|line| depth(line) == 0).unwrap_or(lines.len());
                let body = lines[at..at + inside].iter().map(|line| {
                    let line = &line[by..];
                    line.strip_prefix(b"return ").unwrap_or(line)
                });
                let body: Vec<&[u8]> = body.collect();
                let instead = |body: &[&[u8]]| {
                    [lines[..outer].concat(), body.concat(), lines[behind..].concat()].concat()
                };
                let mut candidates = vec![instead(&body)];
                if body.len() > 1 {
                    candidates.extend(body.iter().rev().take(LINES_ALONE_MAX).map(|line| instead(&[line])));
                }
                if self.accept_first(candidates)?.is_some() {
                    at = 0;
                    continue;
                }
            }
            at += 1;
        }
    }

    /// Leaves out a few tokens in a row at once, at every place.
    pub(crate) fn remove_windows(&mut self, length: usize) -> Result<(), O::Error> {
        if cut(&self.best, Grain::Tokens).len() > TOKENS_MAX {
            return Ok(());
        }
        self.remove_windows_of(Grain::Tokens, length)
    }

    fn remove_windows_of(&mut self, grain: Grain, length: usize) -> Result<(), O::Error> {
        let mut parts = cut(&self.best, grain);
        let mut end = (parts.len() + 1).saturating_sub(length);
        while end > 0 {
            let starts: Vec<usize> = (0..end).rev().take(self.batch()).collect();
            let without =
                |start: &usize| [parts[..*start].concat(), parts[start + length..].concat()].concat();
            match self.accept_first(starts.iter().map(without).collect())? {
                Some(index) => {
                    let start = starts[index];
                    parts.drain(start..start + length);
                    end = start.min((parts.len() + 1).saturating_sub(length));
                }
                None => end -= starts.len(),
            }
        }
        Ok(())
    }

    /// Leaves out what is in brackets, with and without them, and the brackets alone.
    pub(crate) fn remove_groups(&mut self) -> Result<(), O::Error> {
        let mut from = 0;
        loop {
            let found = groups(&self.best);
            if from >= found.len() {
                return Ok(());
            }
            let best = &self.best;
            let mut candidates = Vec::new();
            // Which of the groups each is about.
            let mut about = Vec::new();
            for (at, (whole, inside)) in found.iter().enumerate().skip(from).take(self.ahead()) {
                candidates.push([&best[..whole.start], &best[whole.end..]].concat());
                if !inside.is_empty() {
                    candidates.push([&best[..inside.start], &best[inside.end..]].concat());
                }
                candidates.push([&best[..whole.start], &best[inside.clone()], &best[whole.end..]].concat());
                about.resize(candidates.len(), at);
            }
            let next = about[about.len() - 1] + 1;
            from = self.accept_first(candidates)?.map_or(next, |index| about[index]);
        }
    }
}
