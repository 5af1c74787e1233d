//! Sets of pages, as bits.

/// Pages of a region, by their numbers.
#[derive(Debug, Clone)]
pub struct Pages {
    words: Vec<u64>,
}

impl Pages {
    /// No page of `count`.
    pub fn none(count: usize) -> Pages {
        Pages { words: vec![0; count.div_ceil(64)] }
    }

    pub fn insert(&mut self, page: usize) {
        self.words[page / 64] |= 1 << (page % 64);
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Adds those of another set of the same region.
    pub fn add(&mut self, other: &Pages) {
        self.words.iter_mut().zip(&other.words).for_each(|(own, more)| *own |= more);
    }

    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(|(index, word)| {
            let word = *word;
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 64 + bit)
        })
    }

    /// Neighbouring pages together: first page and how many, at most `longest`.
    pub fn runs(&self, longest: usize) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for page in self.iter() {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == page && *count < longest => *count += 1,
                Some(_) | None => runs.push((page, 1)),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_whole_and_bounded() {
        let mut pages = Pages::none(300);
        for page in [0, 1, 2, 63, 64, 65, 66, 299] {
            pages.insert(page);
        }
        assert_eq!(pages.runs(3), [(0, 3), (63, 3), (66, 1), (299, 1)]);
        assert_eq!(pages.count(), 8);
    }
}
