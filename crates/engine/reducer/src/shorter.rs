//! Putting something shorter in the place of names and numbers.

use crate::parts::{Grain, cut};
use crate::{Oracle, Reduction};

impl<O: Oracle> Reduction<'_, O> {
    /// Each name that is longer than a character becomes another, everywhere at once and then in
    /// single places; a number becomes 0.
    pub(crate) fn shorten(&mut self) -> Result<(), O::Error> {
        let parts = cut(&self.best, Grain::Tokens);
        let mut words: Vec<Vec<u8>> =
            parts.into_iter().filter(|part| is_word(part) && part.len() > 1).collect();
        words.sort();
        words.dedup();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        for word in words {
            let parts = cut(&self.best, Grain::Tokens);
            let short = shorter(&word, &parts);
            let replaced = |wanted: Option<usize>| {
                let place = |(at, part): (usize, &Vec<u8>)| {
                    let here = *part == word && wanted.is_none_or(|wanted| wanted == at);
                    if here { short.clone() } else { part.clone() }
                };
                parts.iter().enumerate().map(place).collect::<Vec<_>>().concat()
            };
            let places: Vec<usize> = (0..parts.len()).filter(|at| parts[*at] == word).collect();
            let mut candidates = vec![replaced(None)];
            if places.len() > 1 {
                candidates.extend(places.iter().take(self.batch()).map(|at| replaced(Some(*at))));
            }
            self.accept_first(candidates)?;
        }
        Ok(())
    }
}

fn is_word(part: &[u8]) -> bool {
    part.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// A number's place takes 0, a name's the first letter that is not a name yet.
fn shorter(word: &[u8], parts: &[Vec<u8>]) -> Vec<u8> {
    if word[0].is_ascii_digit() {
        return b"0".to_vec();
    }
    let is_free = |letter: &u8| !parts.iter().any(|part| part[..] == [*letter]);
    vec![(b'a'..=b'z').find(is_free).unwrap_or(b'a')]
}
