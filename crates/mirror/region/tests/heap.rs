//! The region's allocator: whole behind whatever is done with it, and what its blocks cost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use retrovane_mirror::{Options, Region};

const PAGE: usize = 4096;

fn with_region(size: usize, test: impl FnOnce(&Region)) {
    // A process has one region at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { size, ..Options::default() };
    test(&Region::open(&folder.path().join("region"), &options).expect("new"));
}

/// Blocks of all sizes and alignments, given back whole and in part: the heap is whole behind each, no two blocks
/// share a byte, and in the end all of it is one block again.
#[test]
fn it_is_whole_whatever_is_allocated_and_freed() {
    with_region(2 << 20, |region| {
        let (mut blocks, mut seed) = (Vec::<(usize, usize, u8)>::new(), 1u64);
        for round in 0..6000u64 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let chance = (seed >> 33) as usize;
            let fill = |at: usize, size: usize, tag: u8| {
                // SAFETY: a block of the region, which this thread alone uses.
                unsafe { std::slice::from_raw_parts_mut(at as *mut u8, size) }.fill(tag);
            };
            if chance % 5 < 3 {
                let size = [chance % 40, chance % 700, chance % 9000][chance % 3];
                let alignment = if chance.is_multiple_of(11) { 1 << (chance % 13) } else { 16 };
                let Ok(at) = region.allocate(size, alignment) else { continue };
                assert!(at.is_multiple_of(alignment) && region.usable(at) >= size);
                let size = region.usable(at);
                fill(at, size, round as u8);
                blocks.push((at, size, round as u8));
            } else if !blocks.is_empty() {
                let (at, size, tag) = blocks.swap_remove(chance % blocks.len());
                // SAFETY: as above.
                let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, size) };
                assert!(
                    bytes.iter().all(|byte| *byte == tag),
                    "another block has changed the one at {at:#x}"
                );
                region.free(at);
            }
            region.check_heap().expect("whole");
        }
        blocks.into_iter().for_each(|(at, ..)| region.free(at));
        assert_eq!(region.check_heap().expect("whole"), 0);
        region.free(region.allocate(1950 << 10, 16).expect("all of it is one block"));
    });
}

/// What a block costs beside what is asked for, in the sizes of an object, its key and its value.
#[test]
fn a_block_costs_eight_bytes() {
    with_region(1 << 20, |region| {
        for (size, next) in [(1, 32), (24, 32), (25, 48), (40, 48), (104, 112), (PAGE - 8, PAGE)] {
            let (one, two) =
                (region.allocate(size, 16).expect("room"), region.allocate(size, 16).expect("room"));
            assert_eq!(two - one, next, "{size} bytes");
        }
    });
}

/// Also where the block has become part of the free one before it, and what was there was used again.
#[test]
fn what_is_no_block_is_not_freed() {
    with_region(1 << 20, |region| {
        let blocks: Vec<usize> = (0..4).map(|_| region.allocate(200, 16).expect("room")).collect();
        let refused = |at: usize| catch_unwind(AssertUnwindSafe(|| region.free(at))).is_err();
        region.free(blocks[0]);
        region.free(blocks[1]);
        assert!(refused(blocks[1]) && refused(blocks[0]), "freed before");
        let larger = region.allocate(400, 16).expect("room");
        assert_eq!(larger, blocks[0]);
        assert!(refused(blocks[1]) && refused(larger + 16) && refused(larger + 8), "within a block");
        region.free(larger);
        region.check_heap().expect("whole");
    });
}
