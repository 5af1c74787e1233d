//! The search for the smallest input that still fails.
//!
//! It knows bytes and an [`Oracle`], nothing of programs. Passes go from coarse to fine: paragraphs, blocks by their
//! indentation, lines, groups in brackets, clauses, tokens, characters, by a search for what is needed (few tests where
//! little is) and by removal in growing and shrinking pieces (few tests where much is); between them values become 0
//! and names shorter. A pass that finds nothing rests until no other finds anything either.
//!
//! Invariant: what [`Reduction::best`] holds has failed when it was tested, at any time; an oracle
//! that answers with an error ends the search and loses nothing. Sources: Zeller and Hildebrandt,
//! Simplifying and Isolating Failure-Inducing Input (2002); Junker, QuickXplain (2004), for the
//! search; Hypothesis's adaptive deletion, for the removal.
#![forbid(unsafe_code)]

mod parts;
mod removal;
mod shorter;

use std::collections::HashSet;

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

pub use parts::Grain;
use parts::depths;

/// Who knows whether an input fails.
pub trait Oracle {
    /// What ends a search.
    type Error;

    /// The first of the candidates that fails as wanted, and how many tests it takes to know that: those of it and of
    /// all before it. What is tested behind it at the same time counts for nothing.
    ///
    /// # Errors
    /// What keeps tests from being made, or ends the search.
    fn first_failing(&mut self, candidates: &[Vec<u8>]) -> Result<(Option<usize>, u64), Self::Error>;

    /// Something smaller was found.
    ///
    /// # Errors
    /// What ends the search.
    fn found(&mut self, best: &[u8], tests: u64) -> Result<(), Self::Error>;

    /// How many candidates are worth having at once, where each is the next one only if all before it pass.
    fn ahead(&self) -> usize {
        1
    }

    /// A pass has ended. For those who want to know where tests go.
    fn passed(&mut self, _pass: &Pass) {}
}

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    pub name: &'static str,
    pub bytes_before: usize,
    pub bytes_after: usize,
    pub tests: u64,
    /// Tests that failed as wanted: each made the input smaller.
    pub hits: u64,
}

/// A search.
pub struct Reduction<'a, O: Oracle> {
    oracle: &'a mut O,
    best: Vec<u8>,
    tests: u64,
    hits: u64,
    /// Sums of what did not fail.
    passed: HashSet<u128>,
    /// Sums of changes that did not fail, with what stands around them: they are not tried again where something else
    /// far from there has changed.
    changes: HashSet<u128>,
    is_minimal: bool,
}

/// A pass and its name.
type Named<'a, O> = (&'static str, fn(&mut Reduction<'a, O>) -> Result<(), <O as Oracle>::Error>);

/// Candidates that are tested in one order, where most of them are expected to pass.
const BATCH: usize = 32;
/// Bytes of the candidates of one order.
const BATCH_BYTES_MAX: usize = 4 << 20;

impl<'a, O: Oracle> Reduction<'a, O> {
    /// Begins with an input that is known to fail.
    pub fn new(oracle: &'a mut O, input: Vec<u8>) -> Reduction<'a, O> {
        Reduction {
            oracle,
            best: input,
            tests: 0,
            hits: 0,
            passed: HashSet::new(),
            changes: HashSet::new(),
            is_minimal: false,
        }
    }

    /// The smallest input so far.
    pub fn best(&self) -> &[u8] {
        &self.best
    }

    /// How many tests were made.
    pub fn tests(&self) -> u64 {
        self.tests
    }

    /// True if no single character of it can be left out. (1-minimal, in the words of delta debugging.)
    pub fn is_minimal(&self) -> bool {
        self.is_minimal
    }

    /// Searches to the end.
    ///
    /// # Errors
    /// What the oracle fails with; [`Reduction::best`] holds what was found before.
    pub fn run(&mut self) -> Result<(), O::Error> {
        if self.best.is_empty() || self.accept_first(vec![Vec::new()])?.is_some() {
            self.is_minimal = true;
            return Ok(());
        }
        self.coarsely()?;
        self.until_nothing_goes()?;
        self.is_minimal = true;
        Ok(())
    }

    /// Paragraphs, blocks and lines, as long as much goes.
    fn coarsely(&mut self) -> Result<(), O::Error> {
        loop {
            let before = self.best.len();
            self.pass("paragraphs", |this| this.take_apart(Grain::Paragraphs))?;
            let mut depth = 0;
            while let Some(next) = depths(&self.best).into_iter().find(|next| *next >= depth) {
                self.pass("blocks", |this| this.take_apart(Grain::Blocks(next)))?;
                depth = next + 1;
            }
            self.pass("lines", |this| this.take_apart(Grain::Lines))?;
            if self.best.len() > before / 2 {
                return Ok(());
            }
        }
    }

    /// Passes from coarse to fine, until none finds anything. One that finds nothing rests until no other finds
    /// anything either. A change is tried again at the end only, when all around it is as it will be.
    fn until_nothing_goes(&mut self) -> Result<(), O::Error> {
        let passes: [Named<'a, O>; 10] = [
            ("ends", Self::remove_ends),
            ("groups", Self::remove_groups),
            ("heads", Self::remove_heads),
            ("values", Self::replace_values),
            ("bodies", Self::hoist_bodies),
            ("lines", |this| this.remove(Grain::Lines)),
            ("clauses", |this| this.take_apart(Grain::Clauses)),
            ("tokens", |this| this.take_apart(Grain::Tokens)),
            ("shorten", Self::shorten),
            ("pairs", |this| this.remove_windows(2)),
        ];
        let last: [Named<'a, O>; 4] = [
            ("characters", |this| this.remove(Grain::Characters)),
            ("threes", |this| this.remove_windows(3)),
            ("fours", |this| this.remove_windows(4)),
            ("singles", Self::remove_singles),
        ];
        loop {
            self.until_all_rest(&passes)?;
            let before = self.hits;
            for (name, pass) in &last {
                self.pass(name, pass)?;
                if self.hits != before {
                    break;
                }
            }
            if self.hits == before {
                return Ok(());
            }
        }
    }

    fn until_all_rest(&mut self, passes: &[Named<'a, O>]) -> Result<(), O::Error> {
        loop {
            let begun = self.hits;
            let mut rest = vec![false; passes.len()];
            while rest.contains(&false) {
                for ((name, pass), rest) in passes.iter().zip(&mut rest) {
                    let before = self.hits;
                    if !*rest {
                        self.pass(name, pass)?;
                        *rest = self.hits == before;
                    }
                }
            }
            if self.hits == begun {
                return Ok(());
            }
        }
    }

    /// Leaves out lines only.
    ///
    /// # Errors
    /// See [`Reduction::run`].
    pub fn run_by_lines(&mut self) -> Result<(), O::Error> {
        if !self.best.is_empty() && self.accept_first(vec![Vec::new()])?.is_none() {
            self.search(Grain::Lines)?;
            self.remove_all(Grain::Lines)?;
        }
        self.is_minimal = true;
        Ok(())
    }

    /// Runs a pass, and tells what it did.
    fn pass(
        &mut self,
        name: &'static str,
        run: impl FnOnce(&mut Self) -> Result<(), O::Error>,
    ) -> Result<(), O::Error> {
        let (bytes_before, tests, hits) = (self.best.len(), self.tests, self.hits);
        let ended = run(self);
        let (tests, hits) = (self.tests - tests, self.hits - hits);
        self.oracle.passed(&Pass { name, bytes_before, bytes_after: self.best.len(), tests, hits });
        ended
    }

    /// Tests candidates in order, those left out that are known to pass; the first that fails becomes
    /// the best. Gives its place among the candidates.
    fn accept_first(&mut self, candidates: Vec<Vec<u8>>) -> Result<Option<usize>, O::Error> {
        let mut new: Vec<Vec<u8>> = Vec::new();
        let mut places = Vec::new();
        // Two of them may be the same: of a letter that stands twice either one goes.
        let mut sums = HashSet::new();
        for (place, candidate) in candidates.into_iter().enumerate() {
            let sum = xxh3_128(&candidate);
            let is_known =
                self.passed.contains(&sum) || self.changes.contains(&change(&self.best, &candidate));
            if !is_known && sums.insert(sum) {
                places.push(place);
                new.push(candidate);
            }
        }
        if new.is_empty() {
            return Ok(None);
        }
        let (found, tests) = self.oracle.first_failing(&new)?;
        self.tests += tests;
        for candidate in &new[..found.unwrap_or(new.len())] {
            self.passed.insert(xxh3_128(candidate));
            self.changes.insert(change(&self.best, candidate));
        }
        let Some(found) = found else { return Ok(None) };
        self.hits += 1;
        self.best = new.swap_remove(found);
        self.oracle.found(&self.best, self.tests)?;
        Ok(Some(places[found]))
    }

    /// How many candidates go into one order, where most are expected to pass.
    fn batch(&self) -> usize {
        (BATCH_BYTES_MAX / self.best.len().max(1)).clamp(1, BATCH)
    }

    /// The same where as many may fail.
    fn ahead(&self) -> usize {
        self.oracle.ahead().clamp(1, self.batch())
    }
}

/// A sum of what is changed, and of what stands around it.
fn change(best: &[u8], candidate: &[u8]) -> u128 {
    /// Bytes on each side.
    const AROUND: usize = 6;
    let least = best.len().min(candidate.len());
    let start = best.iter().zip(candidate).take_while(|(old, new)| old == new).count();
    let backwards = best.iter().rev().zip(candidate.iter().rev());
    let end = backwards.take(least - start).take_while(|(old, new)| old == new).count();
    let mut sum = Xxh3::new();
    let around = [&best[start.saturating_sub(AROUND)..start], &best[best.len() - end..][..end.min(AROUND)]];
    for part in
        [&best[start..best.len() - end], &candidate[start..candidate.len() - end], around[0], around[1]]
    {
        sum.update(&part.len().to_ne_bytes());
        sum.update(part);
    }
    sum.digest128()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An oracle that counts, and asks a function.
    struct Asks<F>(F);

    impl<F: FnMut(&[u8]) -> bool> Oracle for Asks<F> {
        type Error = std::convert::Infallible;

        fn first_failing(&mut self, candidates: &[Vec<u8>]) -> Result<(Option<usize>, u64), Self::Error> {
            let found = candidates.iter().position(|candidate| (self.0)(candidate));
            Ok((found, found.map_or(candidates.len(), |at| at + 1) as u64))
        }

        fn found(&mut self, _: &[u8], _: u64) -> Result<(), Self::Error> {
            Ok(())
        }
    }

    fn contains(text: &[u8], part: &str) -> bool {
        text.windows(part.len()).any(|window| window == part.as_bytes())
    }

    fn reduced(input: &str, fails: impl FnMut(&[u8]) -> bool) -> (String, u64) {
        let mut oracle = Asks(fails);
        let mut reduction = Reduction::new(&mut oracle, input.as_bytes().to_vec());
        let Ok(()) = reduction.run();
        assert!(reduction.is_minimal());
        (String::from_utf8_lossy(reduction.best()).into_owned(), reduction.tests())
    }

    fn long_text() -> String {
        (0..2000).map(|line| format!("int value_{line} = compute({line}, \"text\");\n")).collect()
    }

    #[test]
    fn three_needed_tokens_cost_few_tests() {
        let input = long_text().replace("value_77 ", "alpha ").replace("value_1033 ", "beta ");
        let input = input.replace("value_1999 ", "gamma ");
        let needed = ["alpha", "beta", "gamma"];
        let (smallest, tests) = reduced(&input, |text| needed.iter().all(|part| contains(text, part)));
        assert_eq!(smallest, "alphabetagamma");
        assert!(tests < 375, "{tests} tests");
    }

    #[test]
    fn what_only_fails_while_brackets_agree_gets_small() {
        let input = format!("a {{ b ({}) [c] }} x\n", "d, ".repeat(200));
        let balanced = |text: &[u8]| {
            let mut open = Vec::new();
            text.iter().all(|byte| match byte {
                b'(' | b'[' | b'{' => {
                    open.push(*byte);
                    true
                }
                b')' => open.pop() == Some(b'('),
                b']' => open.pop() == Some(b'['),
                b'}' => open.pop() == Some(b'{'),
                _ => true,
            }) && open.is_empty()
        };
        let (smallest, _) = reduced(&input, |text| balanced(text) && contains(text, "c"));
        assert_eq!(smallest, "c");
    }

    #[test]
    fn what_is_indented_comes_out_of_its_block() {
        let input = "import a\nclass B:\n    def c(self):\n        crash(a)\n        x = 1\nB().c()\n";
        // Each line is indented as the language of the oracle demands.
        let fits = |text: &[u8]| {
            let text = String::from_utf8_lossy(text);
            let mut allowed = 0;
            text.lines().all(|line| {
                let depth = line.len() - line.trim_start().len();
                let fits = depth <= allowed;
                allowed = if line.ends_with(':') { depth + 4 } else { depth };
                fits
            })
        };
        let (smallest, _) = reduced(input, |text| fits(text) && contains(text, "crash(a)"));
        assert_eq!(smallest, "crash(a)");
    }

    #[test]
    fn what_a_method_returned_runs_by_itself() {
        let input = "import a\nclass B:\n    def c(self):\n        self.x = 1\n        return crash(self.x + 1)\nB().c()\n";
        // A value is wanted in brackets, names have to be there, and nothing returns outside of a function.
        let fits = |text: &[u8]| {
            let text = String::from_utf8_lossy(text).into_owned();
            let returns = text.lines().any(|line| line.starts_with("return"));
            !returns && !text.contains("()") && (!text.contains("self.x") || text.contains("self.x = 1"))
        };
        let fits_in_class = |text: &[u8]| text.starts_with(b"import a\nclass B:\n    def c(self):\n");
        let (smallest, tests) =
            reduced(input, |text| contains(text, "crash(") && (fits(text) || fits_in_class(text)));
        assert_eq!(smallest, "crash(");
        assert!(tests < 80, "{tests} tests");
    }

    #[test]
    fn statements_of_several_lines_go_as_a_whole() {
        let table = |name: usize| format!("create table t{name} (\n  id integer,\n  name text\n);\n");
        let input: String = (0..200).map(table).collect();
        let complete = |text: &[u8]| {
            let count = |part: &str| String::from_utf8_lossy(text).matches(part).count();
            count("create table t") == count("id integer,") && count("(") == count(");")
        };
        let (smallest, tests) = reduced(&input, |text| complete(text) && contains(text, "t150 "));
        assert_eq!(smallest, "create table t150 id integer,");
        assert!(tests < 110, "{tests} tests");
    }

    #[test]
    fn statements_that_need_each_other_go_at_once() {
        let needs = |text: &[u8], part: &str, other: &str| !contains(text, part) || contains(text, other);
        let (smallest, _) = reduced("make t(a, b);put t(7, 0);get f('', '') from t", |text| {
            contains(text, "get f(")
                && needs(text, "put t", "make t(")
                && needs(text, "from t", "put t(")
                && needs(text, "make t(", "put t(")
        });
        assert_eq!(smallest, "get f(");
    }

    #[test]
    fn each_change_is_tried_once_where_it_stands() {
        let long = "x = 1;\n".repeat(40) + "needed";
        let mut seen = HashSet::new();
        let (smallest, _) = reduced(&long, |text| {
            assert!(seen.insert(text.to_vec()), "tried twice: {}", String::from_utf8_lossy(text));
            contains(text, "needed")
        });
        assert_eq!(smallest, "needed");
    }

    #[test]
    fn what_is_tested_at_once_changes_neither_result_nor_tests() {
        struct AtOnce(usize);
        impl Oracle for AtOnce {
            type Error = std::convert::Infallible;
            fn first_failing(&mut self, candidates: &[Vec<u8>]) -> Result<(Option<usize>, u64), Self::Error> {
                let fails = |text: &Vec<u8>| contains(text, "go(") && contains(text, "alpha");
                Asks(|text: &[u8]| fails(&text.to_vec())).first_failing(candidates)
            }
            fn found(&mut self, _: &[u8], _: u64) -> Result<(), Self::Error> {
                Ok(())
            }
            fn ahead(&self) -> usize {
                self.0
            }
        }
        let body: String =
            (0..60).map(|at| format!("def f{at}(x):\n    y = [x, {at}]\n    return y\n\n")).collect();
        let input = format!("{body}class A:\n    def b(self):\n        go(self, (alpha))\n\n{body}");
        let outcome = |ahead: usize| {
            let mut oracle = AtOnce(ahead);
            let mut reduction = Reduction::new(&mut oracle, input.as_bytes().to_vec());
            let Ok(()) = reduction.run();
            (String::from_utf8_lossy(reduction.best()).into_owned(), reduction.tests())
        };
        let one = outcome(1);
        for ahead in [2, 5, 16] {
            assert_eq!(outcome(ahead), one, "{ahead} at once");
        }
    }

    #[test]
    fn the_result_is_minimal_even_where_nearly_all_is_needed() {
        let input: String = ('a'..='z').collect();
        let (smallest, tests) =
            reduced(&input, |text| text.iter().filter(|byte| **byte != b'q').count() >= 25);
        assert_eq!(smallest.len(), 25);
        assert!(tests < 400, "{tests} tests");
    }

    #[test]
    fn nothing_is_the_smallest_where_everything_fails() {
        assert_eq!(reduced("some text\n", |_| true), (String::new(), 1));
    }

    #[test]
    fn an_error_keeps_what_was_found() {
        struct Breaks(u64);
        impl Oracle for Breaks {
            type Error = ();
            fn first_failing(&mut self, candidates: &[Vec<u8>]) -> Result<(Option<usize>, u64), ()> {
                self.0 += 1;
                if self.0 > 20 {
                    Err(())
                } else {
                    Ok((candidates.iter().position(|text| contains(text, "x")), 1))
                }
            }
            fn found(&mut self, _: &[u8], _: u64) -> Result<(), ()> {
                Ok(())
            }
        }
        let mut oracle = Breaks(0);
        let mut input = long_text().into_bytes();
        input.push(b'x');
        let length = input.len();
        let mut reduction = Reduction::new(&mut oracle, input);
        assert_eq!(reduction.run(), Err(()));
        assert!(
            contains(reduction.best(), "x") && reduction.best().len() < length && !reduction.is_minimal()
        );
    }
}
