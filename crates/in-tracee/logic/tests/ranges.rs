//! Sets of ranges against plain sets of pages.

use std::collections::BTreeSet;

use proptest::prelude::*;
use runtime_logic::map_changes::{CHANGES_MAX, Changes};
use runtime_logic::range_set::{RANGES_MAX, Range, RangeSet, tidied};

const PAGE: u64 = 4096;

/// The set is too large for the stack of a test.
fn empty() -> Box<RangeSet> {
    Box::new(RangeSet::EMPTY)
}

fn set_of(ranges: &[(u64, u64)]) -> Box<RangeSet> {
    let mut set = empty();
    for &(start, pages) in ranges {
        set.add(start * PAGE, (start + pages) * PAGE);
    }
    set.tidy();
    set
}

fn pages_of(ranges: &[(u64, u64)]) -> BTreeSet<u64> {
    ranges.iter().flat_map(|&(start, pages)| start..start + pages).collect()
}

fn pages_in(set: &RangeSet) -> BTreeSet<u64> {
    let mut pages = BTreeSet::new();
    set.for_each_page(&mut |page| assert!(pages.insert(page / PAGE), "page {page:#x} comes twice"));
    pages
}

/// Sorted, none empty, none touching another.
fn assert_tidy(ranges: &[Range]) {
    assert!(ranges.iter().all(|range| range.start < range.end));
    assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
}

fn some_ranges() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..200u64, 1..12u64), 0..40)
}

proptest! {
    #[test]
    fn a_set_holds_the_pages_that_were_added(ranges in some_ranges()) {
        let (set, pages) = (set_of(&ranges), pages_of(&ranges));
        assert_tidy(set.all());
        prop_assert_eq!(pages_in(&set), pages.clone());
        prop_assert_eq!(set.pages(), pages.len() as u64);
        for page in 0..220 {
            for address in [page * PAGE, page * PAGE + PAGE - 1] {
                prop_assert_eq!(set.holds(address), pages.contains(&page), "{:#x}", address);
            }
        }
    }

    #[test]
    fn what_is_removed_is_gone_and_nothing_else(ranges in some_ranges(), start in 0..220u64, pages in 0..40u64) {
        let mut set = set_of(&ranges);
        set.remove(start * PAGE, (start + pages) * PAGE);
        assert_tidy(set.all());
        let left: BTreeSet<u64> =
            pages_of(&ranges).into_iter().filter(|page| !(start..start + pages).contains(page)).collect();
        prop_assert_eq!(pages_in(&set), left);
    }

    #[test]
    fn parts_in_both_sets_come_in_pieces(one in some_ranges(), other in some_ranges(), most in 1..5u64) {
        let (set, others) = (set_of(&one), set_of(&other));
        let mut found = BTreeSet::new();
        let complete = set.each_part_in(&others, most, &mut |first, pages| {
            assert!((1..=most).contains(&pages));
            (first..first + pages).for_each(|page| assert!(found.insert(page), "page {page} comes twice"));
            true
        });
        prop_assert!(complete);
        let both: BTreeSet<u64> = pages_of(&one).intersection(&pages_of(&other)).copied().collect();
        prop_assert_eq!(&found, &both);
        let stopped = set.each_part_in(&others, most, &mut |_, _| false);
        prop_assert_eq!(stopped, both.is_empty());
    }

    #[test]
    fn filled_gaps_are_the_small_ones(ranges in some_ranges(), wanted in 1..10usize, most in 1..64u64) {
        let before = set_of(&ranges);
        let mut set = set_of(&ranges);
        set.fill_gaps(wanted, most);
        assert_tidy(set.all());
        prop_assert!(pages_in(&set).is_superset(&pages_in(&before)));
        for pair in before.all().windows(2) {
            let gap = (pair[1].start - pair[0].end) / PAGE;
            prop_assert!(gap <= most || !set.holds(pair[0].end), "a gap of {} pages is filled", gap);
        }
        if before.count <= wanted {
            prop_assert_eq!(set.count, before.count);
        }
    }

    #[test]
    fn changes_cover_what_was_noted(notes in prop::collection::vec((0..1u64 << 20, 0..40_000u64), 0..80)) {
        let mut changes = Changes::NONE;
        notes.iter().for_each(|&(start, bytes)| changes.note(start, bytes));
        changes.tidy();
        let mut pages: Vec<Range> = notes
            .iter()
            .filter(|(_, bytes)| *bytes != 0)
            .map(|&(start, bytes)| Range { start: start / PAGE * PAGE, end: (start + bytes).next_multiple_of(PAGE) })
            .collect();
        let count = tidied(&mut pages);
        match changes.parts() {
            Some(parts) => {
                assert_tidy(parts);
                let ends = |ranges: &[Range]| ranges.iter().map(|r| (r.start, r.end)).collect::<Vec<_>>();
                prop_assert_eq!(ends(parts), ends(&pages[..count]));
            }
            // Fewer may stand apart at the end than once did.
            None => prop_assert!(notes.len() > CHANGES_MAX),
        }
    }
}

#[test]
fn a_set_that_is_full_fills_gaps() {
    let mut set = empty();
    let many = 3 * RANGES_MAX as u64;
    (0..many).for_each(|index| set.add(2 * index * PAGE, (2 * index + 1) * PAGE));
    set.tidy();
    assert!(set.count <= RANGES_MAX);
    assert!((0..many).all(|index| set.holds(2 * index * PAGE)));
}

#[test]
fn a_full_set_forgets_the_second_of_two_parts() {
    let mut set = empty();
    (0..RANGES_MAX as u64).for_each(|index| set.add(4 * index * PAGE, (4 * index + 3) * PAGE));
    assert_eq!(set.count, RANGES_MAX);
    set.remove(5 * PAGE, 6 * PAGE);
    assert!(set.holds(4 * PAGE) && !set.holds(5 * PAGE) && !set.holds(6 * PAGE));
    assert!(set.holds(8 * PAGE) && set.count == RANGES_MAX);
}

#[test]
fn the_lowest_bit_of_an_end_is_a_mark() {
    let mut set = empty();
    set.add(PAGE, 2 * PAGE + 1);
    assert!(set.holds(2 * PAGE - 1) && !set.holds(2 * PAGE));
    let all = set_of(&[(0, 10)]);
    let mut parts = Vec::new();
    assert!(all.each_part_in(&set, u64::MAX, &mut |first, pages| {
        parts.push((first, pages));
        true
    }));
    assert_eq!(parts, [(1, 1)]);
}

#[test]
fn changes_that_do_not_fit_are_everything() {
    let mut changes = Changes::NONE;
    (0..CHANGES_MAX as u64).for_each(|index| changes.note(2 * index * PAGE, 1));
    assert_eq!(changes.parts().map(<[Range]>::len), Some(CHANGES_MAX));
    changes.note(1000 * PAGE, 1);
    assert!(changes.parts().is_none());
    let mut changes = Changes::NONE;
    // Those that touch make room.
    (0..10 * CHANGES_MAX as u64).rev().for_each(|index| changes.note(index * PAGE, PAGE));
    changes.tidy();
    assert_eq!(changes.parts().map(<[Range]>::len), Some(1));
    changes.note_everything();
    assert!(changes.parts().is_none());
}

#[test]
fn changes_at_the_end_of_memory_have_an_end() {
    let mut changes = Changes::NONE;
    changes.note(u64::MAX - 10, u64::MAX);
    let parts = changes.parts().expect("one part fits");
    assert!(parts[0].start <= parts[0].end, "{:#x} to {:#x}", parts[0].start, parts[0].end);
}
