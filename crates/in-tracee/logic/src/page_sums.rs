//! Sums of pages, over their address and content, and what a word has to be for one.

/// Words of a page.
pub const PAGE_WORDS: usize = 512;
/// Sums of a page that run side by side: a single one waits for each multiplication.
const LANES: usize = 4;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
/// What takes a multiplication by it back.
const UNMIX: u64 = inverse(MIX);

/// The sum of a page at this address with these words; 0 if it is all zero.
#[inline]
pub fn page_sum(page: u64, mut word_at: impl FnMut(usize) -> u64) -> u64 {
    let mut sums = first_sums(page);
    let mut any = 0;
    for index in 0..PAGE_WORDS / LANES {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let word = word_at(index * LANES + lane);
            any |= word;
            *sum = with_word(*sum, word);
        }
    }
    if any == 0 {
        return 0;
    }
    sums.into_iter().fold(0, with_lane)
}

fn first_sums(page: u64) -> [u64; LANES] {
    [page, page ^ 1, page ^ 2, page ^ 3]
}

/// A lane's sum with another word of it.
fn with_word(sum: u64, word: u64) -> u64 {
    (sum.rotate_left(5) ^ word).wrapping_mul(MIX)
}

/// What it was before this word.
fn without_word(sum: u64, word: u64) -> u64 {
    (sum.wrapping_mul(UNMIX) ^ word).rotate_right(5)
}

/// A page's sum with another lane.
fn with_lane(total: u64, lane: u64) -> u64 {
    (total.rotate_left(23) ^ lane).wrapping_mul(MIX)
}

fn without_lane(total: u64, lane: u64) -> u64 {
    (total.wrapping_mul(UNMIX) ^ lane).rotate_right(23)
}

/// What one word of the page would have to be for the page to have this sum, with the others as
/// they are here: [`page_sum`] done forward up to the word, and backward from the sum.
pub fn word_for_sum(page: u64, words: &[u64; PAGE_WORDS], index: usize, sum: u64) -> u64 {
    let (lane, row) = (index % LANES, index / LANES);
    let first = first_sums(page);
    let words_of = |lane: usize| words.iter().copied().skip(lane).step_by(LANES);
    let sum_of = |lane: usize| words_of(lane).fold(first[lane], with_word);
    let total_before = (0..lane).map(sum_of).fold(0, with_lane);
    let total = (lane + 1..LANES).rev().map(sum_of).fold(sum, without_lane);
    let lane_sum = total.wrapping_mul(UNMIX) ^ total_before.rotate_left(23);
    let before = words_of(lane).take(row).fold(first[lane], with_word);
    let behind = words_of(lane).skip(row + 1).rev().fold(lane_sum, without_word);
    behind.wrapping_mul(UNMIX) ^ before.rotate_left(5)
}

/// The number that an odd one gives 1 with: each step doubles the bits that are right.
const fn inverse(odd: u64) -> u64 {
    let (mut found, mut right) = (odd, 3);
    while right < u64::BITS {
        found = found.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(found)));
        right *= 2;
    }
    found
}
