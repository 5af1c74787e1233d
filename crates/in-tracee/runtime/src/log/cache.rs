//! Blocks that the log holds already: programs read the same bytes again and
//! again, and a reference is shorter than the bytes.
//!
//! The cache is part of the process's state in both modes: recording decides
//! which block enters which slot and says so in the event; replay follows.

use crate::ground::owned::Owned;

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 4096;
/// Shortest block worth looking for, in bytes.
pub const BLOCK_BYTES_MIN: u64 = 256;
const WAYS: usize = 4;
const SETS: usize = 128;
pub const SLOTS: usize = WAYS * SETS;

#[repr(C, align(4096))]
struct Blocks([[u64; 512]; SLOTS]);

#[repr(C)]
struct Directory {
    /// A sample of each block's content, with its length; 0: empty.
    samples: [u64; SLOTS],
    next_way: [u8; SETS],
}

static BLOCKS: Owned<Blocks> = Owned::new(Blocks([[0; 512]; SLOTS]));
static DIRECTORY: Owned<Directory> = Owned::new(Directory { samples: [0; SLOTS], next_way: [0; SETS] });

/// What recording found.
pub enum Found {
    /// The slot holds these very bytes.
    Held(u16),
    /// They entered the slot now.
    Entered(u16),
}

/// Looks for the bytes at `address`, which are readable; lets them enter if they
/// are new.
pub fn find_or_enter(address: u64, bytes: u64) -> Found {
    let sample = sample(address, bytes);
    let set = (sample >> 40) as usize % SETS;
    // SAFETY: one thread runs in the address space.
    let directory = unsafe { &mut *DIRECTORY.get() };
    for way in 0..WAYS {
        let slot = set * WAYS + way;
        if directory.samples[slot] == sample && is_equal(address, slot_address(slot as u16), bytes) {
            return Found::Held(slot as u16);
        }
    }
    let way = directory.next_way[set] as usize % WAYS;
    directory.next_way[set] = directory.next_way[set].wrapping_add(1);
    let slot = set * WAYS + way;
    directory.samples[slot] = sample;
    enter(slot as u16, address, bytes);
    Found::Entered(slot as u16)
}

/// Copies the bytes into a slot.
pub fn enter(slot: u16, address: u64, bytes: u64) {
    let bytes = bytes.min(BLOCK_BYTES) as usize;
    // SAFETY: the slot is ours and holds a whole block; the caller has read the
    // bytes before or knows them to be in the log.
    unsafe {
        core::ptr::copy_nonoverlapping(address as *const u8, slot_address(slot) as *mut u8, bytes);
    }
}

/// Where a slot's bytes are.
pub fn slot_address(slot: u16) -> u64 {
    BLOCKS.get() as u64 + (slot as usize % SLOTS) as u64 * BLOCK_BYTES
}

/// Mixes a few words from all over the block with its length.
fn sample(address: u64, bytes: u64) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = bytes.wrapping_mul(MIX) | 1;
    let step = (bytes / 16) & !7;
    for index in 0..16 {
        // SAFETY: inside the block, which is readable and at least 256 bytes long.
        let word = unsafe { ((address + index * step) as *const u64).read_unaligned() };
        sum = (sum.rotate_left(7) ^ word).wrapping_mul(MIX);
    }
    sum | 1
}

/// Compares word by word, four at a time; the rest by bytes.
fn is_equal(one: u64, two: u64, bytes: u64) -> bool {
    let mut at = 0;
    // SAFETY: both are readable for this many bytes.
    unsafe {
        while at + 32 <= bytes {
            let a = (one + at) as *const u64;
            let b = (two + at) as *const u64;
            let difference = (a.read_unaligned() ^ b.read_unaligned())
                | (a.add(1).read_unaligned() ^ b.add(1).read_unaligned())
                | (a.add(2).read_unaligned() ^ b.add(2).read_unaligned())
                | (a.add(3).read_unaligned() ^ b.add(3).read_unaligned());
            if difference != 0 {
                return false;
            }
            at += 32;
        }
        while at < bytes {
            if *((one + at) as *const u8) != *((two + at) as *const u8) {
                return false;
            }
            at += 1;
        }
    }
    true
}
