//! Ways through collections, whole ones and broken ones.

use std::collections::BTreeMap;

use bytecode::{Failure, Host, evaluate};
use lane_protocol::bytecode::{op, way};
use proptest::prelude::*;

/// Words of memory, and which addresses and values were recorded.
#[derive(Default)]
struct Memory {
    words: BTreeMap<u64, u64>,
    recorded: Vec<u64>,
    values: Vec<u64>,
}

impl Host for Memory {
    fn register(&mut self, _number: u16) -> Option<u64> {
        None
    }

    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        for (byte, at) in into.iter_mut().zip(address..) {
            let Some(word) = self.words.get(&(at & !7)) else { return false };
            *byte = word.to_le_bytes()[(at & 7) as usize];
        }
        true
    }

    fn record(&mut self, address: u64, _bytes: u16) {
        self.recorded.push(address);
    }

    fn record_value(&mut self, value: u64) {
        self.values.push(value);
    }
}

/// Goes through at most 32 elements of 8 bytes, behind 16 others.
fn go(memory: &mut Memory, way: u8, first: u64, count: u8) -> Result<u64, Failure> {
    let [high, low] = (first as u16).to_be_bytes();
    let skipped: &[u8] = if way == way::SLOTS { &[] } else { &[op::CONST8, 16] };
    let record = [op::CONST8, count, op::RECORD_NODES, way, 32, 1, 0, 8, 0, 0, op::END];
    evaluate(&[&[op::CONST16, high, low], skipped, &record].concat(), memory)
}

/// A node of a tree: its parent, left and right one.
fn put(memory: &mut Memory, node: u64, links: [u64; 3]) {
    memory.words.extend([8, 16, 24].into_iter().zip(links).map(|(at, link)| (node + at, link)));
}

#[test]
fn a_chain_is_followed_for_as_many_as_there_are() {
    let words =
        BTreeMap::from([(0x100, 0x300), (0x300, 0x200), (0x200, 0x900), (0x110, 1), (0x310, 2), (0x210, 3)]);
    let mut memory = Memory { words, ..Memory::default() };
    assert!(go(&mut memory, way::CHAIN, 0x100, 3).is_ok());
    assert_eq!(memory.recorded, [0x110, 0x310, 0x210]);
    // Behind what cannot be read there is nothing more.
    memory.recorded.clear();
    assert!(go(&mut memory, way::CHAIN, 0x100, 5).is_ok());
    assert_eq!(memory.recorded, [0x110, 0x310, 0x210, 0x910]);
    memory.recorded.clear();
    memory.words.insert(0x200, 0);
    assert!(go(&mut memory, way::CHAIN_TO_END, 0x100, 0).is_ok());
    assert_eq!((memory.recorded, memory.values), (vec![0x110, 0x310, 0x210], vec![3, 5, 3]));
}

/// Goes through two elements of 8 bytes, with this on the stack.
fn go_with(memory: &mut Memory, way: u8, stack: &[u8]) -> Result<u64, Failure> {
    let pushed = stack.iter().flat_map(|value| [op::CONST8, *value]);
    let record = [op::CONST8, 2, op::RECORD_NODES, way, 32, 1, 0, 8, 0, 0];
    evaluate(&pushed.chain(record).collect::<Vec<u8>>(), memory)
}

#[test]
fn elements_of_blocks_and_rings_are_found() {
    let words = [(0x40, 0x60), (0x48, 0x80), (0x60, 1), (0x68, 1), (0x70, 1), (0x80, 1)];
    let mut memory = Memory { words: BTreeMap::from(words), ..Memory::default() };
    // Blocks of three, of which two elements of the first one are gone.
    assert!(go_with(&mut memory, way::BLOCKS, &[0x40, 3, 2]).is_ok());
    // Room for three, the last of which is the first.
    assert!(go_with(&mut memory, way::RING, &[0x60, 3, 2]).is_ok());
    assert_eq!(memory.recorded, [0x70, 0x80, 0x70, 0x60]);
    assert!(go_with(&mut memory, way::BLOCKS, &[0x40, 0, 0]).is_ok());
    assert_eq!(memory.values, [2, 2, 2]);
}

#[test]
fn what_an_element_has_elsewhere_is_recorded_behind_it() {
    let mut memory = Memory { words: BTreeMap::from([(0x40, 0x60), (0x60, 1)]), ..Memory::default() };
    let code = [op::CONST8, 0x40, op::CONST8, 1, op::RECORD_NODES, way::ONE, 32, 1, 0, 8, 0, 5];
    let inside = [op::PIECE, op::REF64, op::RECORD, 0, 4];
    assert!(evaluate(&[&code[..], &inside[..]].concat(), &mut memory).is_ok());
    assert_eq!(memory.recorded, [0x40, 0x60]);
    // Not by itself, and not in another one's.
    assert_eq!(evaluate(&[op::PIECE], &mut memory), Err(Failure::BadProgram));
    let nested = [&code[..11], &[code.len() as u8], &code[..11], &[0]].concat();
    assert_eq!(evaluate(&nested, &mut memory), Err(Failure::BadProgram));
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
    let words = BTreeMap::from([(0x100, 0xffff_ffff_05ff_7fff), (0xf0, 1), (0xe0, 2)]);
    let mut memory = Memory { words, ..Memory::default() };
    assert!(go(&mut memory, way::SLOTS, 0x100, 2).is_ok());
    assert_eq!(memory.recorded, [0x100 - 16, 0x100 - 32]);
    memory.recorded.clear();
    assert!(go(&mut memory, way::SLOTS, 0x100, 3).is_ok());
    assert_eq!(memory.recorded, [0x100 - 16, 0x100 - 32, 0x108]);
    assert_eq!(go(&mut memory, 9, 0x100, 1), Err(Failure::BadProgram));
}

proptest! {
    /// Nodes that lead anywhere, in circles too: it ends, and no more is recorded than allowed, but
    /// for what cannot be read.
    #[test]
    fn any_memory_ends(
        links in proptest::collection::vec(0u64..32, 32),
        way in 0u8..10,
        stack in proptest::collection::vec(0u8..64, 8),
    ) {
        let words = links.iter().zip(0u64..).map(|(link, at)| (at * 8, link * 8)).collect();
        let mut memory = Memory { words, ..Memory::default() };
        let _ = go_with(&mut memory, way, &stack);
        prop_assert!(memory.recorded.len() <= 33);
    }
}
