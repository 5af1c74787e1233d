//! Blocks that the log holds already: programs read the same bytes again and
//! again, and a reference is shorter than the bytes.
//!
//! The cache is part of the process's state in both modes: recording decides
//! which block enters which slot and says so in the event; replay follows.
//!
//! A block enters a near slot at first. Of those that others displaced there recording remembers a
//! sample; who comes again has a far slot from then on, of which there are many. What is
//! read once, however much, does not touch those.

use lane_protocol::{BLOCKS_BYTES, BLOCKS_START};
use linux_abi::general as nr;

use crate::ground::kernel;
use crate::ground::owned::{Held, Owned};

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 4096;
/// Shortest block worth looking for, in bytes.
pub const BLOCK_BYTES_MIN: u64 = 256;
const WAYS: usize = 4;
const SETS: usize = 128;
const SLOTS: usize = WAYS * SETS;
const FAR_SETS: usize = 4096;
const FAR_SLOTS: usize = WAYS * FAR_SETS;
/// Samples of displaced blocks that are remembered.
const DISPLACED: usize = 65536;

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

/// What recording knows of the far blocks; behind them.
#[repr(C)]
struct FarDirectory {
    samples: [u64; FAR_SLOTS],
    next_way: [u8; FAR_SETS],
    displaced: [u64; DISPLACED],
}

const FAR_DIRECTORY: u64 = BLOCKS_START + FAR_SLOTS as u64 * BLOCK_BYTES;
const _: () = assert!(FAR_DIRECTORY + size_of::<FarDirectory>() as u64 <= BLOCKS_START + BLOCKS_BYTES);
const _: () = assert!(SLOTS + FAR_SLOTS <= 1 << 16);

/// Whether the far blocks are mapped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Far {
    Unmapped,
    Mapped,
    /// There is no memory for them.
    Refused,
}

static FAR: Owned<Far> = Owned::new(Far::Unmapped);

fn far() -> Far {
    // SAFETY: one thread runs in the address space.
    unsafe { *FAR.get() }
}

/// The far directory, which is mapped.
fn far_directory() -> Held<FarDirectory> {
    // SAFETY: as above; zeroes are an empty directory.
    unsafe { Held::of(FAR_DIRECTORY as *mut FarDirectory) }
}

/// Maps the far blocks if they are not; true if they are there.
#[cold]
fn map_far() -> bool {
    if far() == Far::Unmapped {
        let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED | nr::MAP_NORESERVE;
        let mapped = kernel::mmap(BLOCKS_START, BLOCKS_BYTES, nr::PROT_READ | nr::PROT_WRITE, flags, -1, 0);
        // SAFETY: as above.
        unsafe { *FAR.get() = if kernel::failed(mapped) { Far::Refused } else { Far::Mapped } };
    }
    far() == Far::Mapped
}

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
    if far() == Far::Mapped
        && let Some(found) = find_far(sample, address, bytes)
    {
        return found;
    }
    let way = directory.next_way[set] as usize % WAYS;
    directory.next_way[set] = directory.next_way[set].wrapping_add(1);
    let slot = set * WAYS + way;
    let displaced = core::mem::replace(&mut directory.samples[slot], sample);
    if displaced != 0 && (far() == Far::Mapped || map_far()) {
        far_directory().displaced[(displaced >> 24) as usize % DISPLACED] = displaced;
    }
    enter(slot as u16, address, bytes);
    Found::Entered(slot as u16)
}

/// The same among the far blocks. `None`: it is not there, and was not displaced.
fn find_far(sample: u64, address: u64, bytes: u64) -> Option<Found> {
    let directory = &mut *far_directory();
    let set = (sample >> 40) as usize % FAR_SETS;
    let slots = set * WAYS..(set + 1) * WAYS;
    let number = |slot: usize| (SLOTS + slot) as u16;
    let holds = |&slot: &usize| {
        directory.samples[slot] == sample && is_equal(address, slot_address(number(slot)), bytes)
    };
    if let Some(slot) = slots.clone().find(holds) {
        return Some(Found::Held(number(slot)));
    }
    if directory.displaced[(sample >> 24) as usize % DISPLACED] != sample {
        return None;
    }
    let way = directory.next_way[set] as usize % WAYS;
    directory.next_way[set] = directory.next_way[set].wrapping_add(1);
    let slot = set * WAYS + way;
    directory.samples[slot] = sample;
    enter(number(slot), address, bytes);
    Some(Found::Entered(number(slot)))
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

/// Where a slot's bytes are. One that cannot be counts as another.
pub fn slot_address(slot: u16) -> u64 {
    if let Some(far_slot) = (slot as usize).checked_sub(SLOTS)
        && far_slot < FAR_SLOTS
        && (far() == Far::Mapped || map_far())
    {
        return BLOCKS_START + far_slot as u64 * BLOCK_BYTES;
    }
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
