//! Sums of pages, and registers in their two orders.

use proptest::prelude::*;
use runtime_logic::page_sums::{PAGE_WORDS, page_sum, word_for_sum};
use runtime_logic::registers::{REGISTER_WORDS, Registers, SET_FLAGS};

fn sum_of(page: u64, words: &[u64; PAGE_WORDS]) -> u64 {
    page_sum(page, |index| words[index])
}

#[test]
fn zeros_count_for_nothing_wherever_they_are() {
    assert_eq!(sum_of(0x1000, &[0; PAGE_WORDS]), 0);
    assert_eq!(sum_of(0x7fff_f000, &[0; PAGE_WORDS]), 0);
}

proptest! {
    #[test]
    fn a_word_can_be_found_from_the_sum(
        page in any::<u64>(), seed in any::<u64>(), index in 0..PAGE_WORDS, word in any::<u64>(),
    ) {
        let mut words: [u64; PAGE_WORDS] = std::array::from_fn(|at| seed.wrapping_mul(at as u64 | 1).rotate_left(7));
        words[index] = word;
        let sum = sum_of(page, &words);
        prop_assume!(words.iter().any(|word| *word != 0));
        words[index] = !word;
        prop_assert_eq!(word_for_sum(page, &words, index, sum), word);
        prop_assert_ne!(sum_of(page, &words), sum);
    }

    #[test]
    fn a_sum_says_where_words_are(page in any::<u64>(), one in 0..PAGE_WORDS, other in 0..PAGE_WORDS, word in 1u64..) {
        prop_assume!(one != other);
        let with = |at: usize| {
            let mut words = [0; PAGE_WORDS];
            words[at] = word;
            sum_of(page, &words)
        };
        prop_assert_ne!(with(one), with(other));
        prop_assert_ne!(with(one), page_sum(page ^ 4096, |index| if index == one { word } else { 0 }));
    }

    #[test]
    fn registers_are_their_words(words in any::<[u64; REGISTER_WORDS]>(), set in any::<[u64; REGISTER_WORDS]>()) {
        let mut registers = Registers::from_words(words);
        prop_assert_eq!(registers.words(), words);
        let numbered = registers.numbered();
        prop_assert_eq!((numbered[0], numbered[16], numbered[7]), (registers.rax, registers.rip, registers.rsp));
        let flags = registers.flags;
        registers.set_numbered(&set);
        let mut expected = set;
        expected[17] = flags & !SET_FLAGS | set[17] & SET_FLAGS;
        prop_assert_eq!(registers.numbered(), expected);
    }
}

#[test]
fn the_log_begins_with_what_the_entry_code_pushes_last() {
    let registers = Registers { r15: 1, rax: 15, rip: 16, flags: 17, rsp: 18, ..Registers::default() };
    let words = registers.words();
    assert_eq!((words[0], words[14], words[15], words[16], words[17]), (1, 15, 16, 17, 18));
    let args =
        Registers { rdi: 1, rsi: 2, rdx: 3, r10: 4, r8: 5, r9: 6, rcx: 9, ..Registers::default() }.args();
    assert_eq!(args, [1, 2, 3, 4, 5, 6]);
}
