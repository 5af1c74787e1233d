//! The search for the smallest input that still fails.
//!
//! It knows bytes and an [`Oracle`], nothing of programs. Passes go from coarse to fine: lines, groups
//! in brackets, tokens, characters, each by a search for what is needed (few tests where little
//! is) and then by removal in growing and shrinking pieces (few tests where much is); between
//! them names and numbers get shorter. They are repeated until none finds anything.
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

use xxhash_rust::xxh3::xxh3_128;

pub use parts::Grain;

/// Who knows whether an input fails.
pub trait Oracle {
    /// What ends a search.
    type Error;

    /// The first of the candidates that fails as wanted, and how many were tested. They are tested
    /// in their order, and none behind the first that fails.
    ///
    /// # Errors
    /// What keeps tests from being made, or ends the search.
    fn first_failing(&mut self, candidates: &[Vec<u8>]) -> Result<(Option<usize>, u64), Self::Error>;

    /// Something smaller was found.
    ///
    /// # Errors
    /// What ends the search.
    fn found(&mut self, best: &[u8], tests: u64) -> Result<(), Self::Error>;
}

/// A search.
pub struct Reduction<'a, O: Oracle> {
    oracle: &'a mut O,
    best: Vec<u8>,
    tests: u64,
    /// Sums of what did not fail.
    passed: HashSet<u128>,
    is_minimal: bool,
}

/// Candidates that are tested in one order, where most of them are expected to pass.
const BATCH: usize = 32;
/// Bytes of the candidates of one order.
const BATCH_BYTES_MAX: usize = 4 << 20;

impl<'a, O: Oracle> Reduction<'a, O> {
    /// Begins with an input that is known to fail.
    pub fn new(oracle: &'a mut O, input: Vec<u8>) -> Reduction<'a, O> {
        Reduction { oracle, best: input, tests: 0, passed: HashSet::new(), is_minimal: false }
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
        self.search(Grain::Lines)?;
        self.remove(Grain::Lines)?;
        loop {
            let before = self.best.clone();
            self.remove_groups()?;
            self.remove_heads()?;
            self.remove(Grain::Lines)?;
            self.search(Grain::Tokens)?;
            self.remove(Grain::Tokens)?;
            self.shorten()?;
            self.remove(Grain::Characters)?;
            if self.best == before {
                self.remove_windows()?;
            }
            if self.best == before {
                break;
            }
        }
        self.is_minimal = true;
        Ok(())
    }

    /// Leaves out lines only.
    ///
    /// # Errors
    /// See [`Reduction::run`].
    pub fn run_by_lines(&mut self) -> Result<(), O::Error> {
        if !self.best.is_empty() && self.accept_first(vec![Vec::new()])?.is_none() {
            self.search(Grain::Lines)?;
            self.remove(Grain::Lines)?;
        }
        self.is_minimal = true;
        Ok(())
    }

    /// Tests candidates in order, those left out that are known to pass; the first that fails becomes
    /// the best. Gives its place among the candidates.
    fn accept_first(&mut self, candidates: Vec<Vec<u8>>) -> Result<Option<usize>, O::Error> {
        let mut new = Vec::new();
        let mut places = Vec::new();
        for (place, candidate) in candidates.into_iter().enumerate() {
            if !self.passed.contains(&xxh3_128(&candidate)) {
                places.push(place);
                new.push(candidate);
            }
        }
        if new.is_empty() {
            return Ok(None);
        }
        let (found, tests) = self.oracle.first_failing(&new)?;
        self.tests += tests;
        let passed = found.unwrap_or(new.len());
        self.passed.extend(new[..passed].iter().map(|candidate| xxh3_128(candidate)));
        let Some(found) = found else { return Ok(None) };
        self.best = new.swap_remove(found);
        self.oracle.found(&self.best, self.tests)?;
        Ok(Some(places[found]))
    }

    /// How many candidates go into one order.
    fn batch(&self) -> usize {
        (BATCH_BYTES_MAX / self.best.len().max(1)).clamp(1, BATCH)
    }
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
