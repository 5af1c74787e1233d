//! Putting something shorter in the place of names and numbers.

use crate::parts::{Grain, cut};
use crate::{Oracle, Reduction};

impl<O: Oracle> Reduction<'_, O> {
    /// Names, with what is joined to them by points, become 0: what they stand for is often not needed.
    pub(crate) fn replace_values(&mut self) -> Result<(), O::Error> {
        let mut from = 0;
        loop {
            let parts = cut(&self.best, Grain::Tokens);
            let Some(start) = (from..parts.len()).find(|at| is_name(&parts[*at])) else { return Ok(()) };
            let mut end = start + 1;
            while parts.get(end).is_some_and(|part| part[..] == *b".")
                && parts.get(end + 1).is_some_and(|part| is_name(part))
            {
                end += 2;
            }
            from = end;
            let before = parts[..start].iter().rfind(|part| !part.trim_ascii().is_empty());
            let is_value = end > start + 1
                || before.is_some_and(|part| {
                    matches!(part[..], [b'(' | b'[' | b',' | b'=' | b'+' | b'-' | b'*' | b'/'])
                });
            if !is_value {
                continue;
            }
            let candidate = [parts[..start].concat(), b"0".to_vec(), parts[end..].concat()].concat();
            if candidate.len() < self.best.len() && self.accept_first(vec![candidate])?.is_some() {
                from = start + 1;
            }
        }
    }

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

fn is_name(part: &[u8]) -> bool {
    is_word(part) && !part[0].is_ascii_digit()
}

/// A number's place takes 0, a name's the first letter that is not a name yet.
fn shorter(word: &[u8], parts: &[Vec<u8>]) -> Vec<u8> {
    if word[0].is_ascii_digit() {
        return b"0".to_vec();
    }
    let is_free = |letter: &u8| !parts.iter().any(|part| part[..] == [*letter]);
    vec![(b'a'..=b'z').find(is_free).unwrap_or(b'a')]
}
