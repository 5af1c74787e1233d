//! Ways through collections, whole ones and broken ones.

use std::collections::BTreeMap;

use bytecode::{Failure, Host, evaluate};
use lane_protocol::bytecode::{op, way};
use proptest::prelude::*;

/// Words of memory, and which addresses were recorded.
#[derive(Default)]
struct Memory {
    words: BTreeMap<u64, u64>,
    recorded: Vec<u64>,
}

impl Host for Memory {
    fn register(&mut self, _number: u16) -> Option<u64> {
        None
    }

    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        let Some(word) = self.words.get(&(address & !7)) else { return false };
        let start = (address & 7) as usize;
        into.copy_from_slice(&word.to_le_bytes()[start..start + into.len()]);
        true
    }

    fn record(&mut self, address: u64, _bytes: u16) {
        self.recorded.push(address);
    }
}

/// Goes through at most 32 elements of 8 bytes, behind 16 others.
fn go(memory: &mut Memory, way: u8, first: u64, count: u8) -> Result<u64, Failure> {
    let [high, low] = (first as u16).to_be_bytes();
    let code = [op::CONST16, high, low, op::CONST8, count, op::RECORD_NODES, way, 16, 0, 8, 32, op::END];
    evaluate(&code, memory)
}

/// A node of a tree: its parent, left and right one.
fn put(memory: &mut Memory, node: u64, links: [u64; 3]) {
    memory.words.extend([8, 16, 24].into_iter().zip(links).map(|(at, link)| (node + at, link)));
}

#[test]
fn a_chain_is_followed_for_as_many_as_there_are() {
    let words = BTreeMap::from([(0x100, 0x300), (0x300, 0x200), (0x200, 0x900)]);
    let mut memory = Memory { words, ..Memory::default() };
    assert!(go(&mut memory, way::CHAIN, 0x100, 3).is_ok());
    assert_eq!(memory.recorded, [0x110, 0x310, 0x210]);
    assert_eq!(go(&mut memory, way::CHAIN, 0x100, 5), Err(Failure::Unreadable(0x900)));
}

#[test]
fn a_tree_is_walked_in_its_order() {
    let mut memory = Memory::default();
    // The header's parent is the root: 0x400 with 0x200 (0x100, 0x300) and 0x500.
    put(&mut memory, 0x800, [0x400, 0x100, 0x500]);
    put(&mut memory, 0x400, [0x800, 0x200, 0x500]);
    put(&mut memory, 0x200, [0x400, 0x100, 0x300]);
    for (leaf, parent) in [(0x100, 0x200), (0x300, 0x200), (0x500, 0x400)] {
        put(&mut memory, leaf, [parent, 0, 0]);
    }
    assert!(go(&mut memory, way::TREE, 0x100, 5).is_ok());
    assert_eq!(memory.recorded, [0x110, 0x210, 0x310, 0x410, 0x510]);
}

#[test]
fn full_slots_of_a_table_are_found() {
    // Slots 1 and 3 are full.
    let words = BTreeMap::from([(0x100, 0xffff_ffff_05ff_7fff)]);
    let mut memory = Memory { words, ..Memory::default() };
    assert!(go(&mut memory, way::SLOTS, 0x100, 2).is_ok());
    assert_eq!(memory.recorded, [0x100 - 16, 0x100 - 32]);
    assert_eq!(go(&mut memory, way::SLOTS, 0x100, 3), Err(Failure::Unreadable(0x108)));
    assert_eq!(go(&mut memory, 9, 0x100, 1), Err(Failure::BadProgram));
}

proptest! {
    /// Nodes that lead anywhere, in circles too: it ends, and no more is recorded than allowed.
    #[test]
    fn any_memory_ends(links in proptest::collection::vec(0u64..32, 32), way in 0u8..3, count: u8) {
        let words = links.iter().zip(0u64..).map(|(link, at)| (at * 8, link * 8)).collect();
        let mut memory = Memory { words, ..Memory::default() };
        let _ = go(&mut memory, way, 8, count);
        prop_assert!(memory.recorded.len() <= 32);
    }
}
