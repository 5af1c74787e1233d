//! Where things are: addresses inside a process, offsets inside the memfd.

/// Start of the runtime's region, the same in every process. Linux places
/// programs, heaps, libraries and stacks at 0x55.. and 0x7e.. and above (or from
/// 0x2a.. upwards with an unlimited stack), and sanitizers their shadows below
/// 0x2000_0000_0000 or above 0x7b00_0000_0000: nothing comes near.
pub const REGION_START: u64 = 0x6a00_0000_0000;
/// Length of the region in bytes.
pub const REGION_BYTES: u64 = 0x100_0000_0000;

/// The runtime's code and constants, mapped privately from the memfd.
pub const TEXT_START: u64 = REGION_START;
/// Most bytes of code and constants.
pub const TEXT_BYTES_MAX: u64 = 0x40_0000;
/// The runtime's variables, private to each process.
pub const DATA_START: u64 = REGION_START + 0x40_0000;
/// Most bytes of variables.
pub const DATA_BYTES_MAX: u64 = 0x140_0000;
/// The session's header, shared.
pub const SESSION_START: u64 = REGION_START + 0x180_0000;
/// Recipes for rewriting sites, shared, read-only in processes.
pub const RECIPES_START: u64 = REGION_START + 0x200_0000;
/// Bytes of the area of recipes.
pub const RECIPES_BYTES: u64 = 0x300_0000;
/// Where lanes' segments are mapped: a process maps its own at a slot; a child
/// of vfork, which shares its parent's memory, at another.
pub const LANE_SLOTS_START: u64 = REGION_START + 0x800_0000;
/// Distance of two slots in bytes: header, ring, and the ring once more, so
/// that what wraps around is contiguous.
pub const LANE_SLOT_BYTES: u64 = 0x40_0000;
/// Slots of a memory, that is, processes that use it at a time (CLONE_VM).
pub const LANE_SLOTS: usize = 128;

/// Memory that the runtime maps for itself while it needs it.
pub const SCRATCH_START: u64 = LANE_SLOTS_START + LANE_SLOTS as u64 * LANE_SLOT_BYTES;
/// Bytes of that memory.
pub const SCRATCH_BYTES: u64 = THREADS_START - SCRATCH_START;

/// Stacks and blocks of a process's threads, mapped when they are needed.
pub const THREADS_START: u64 = REGION_START + 0x3000_0000;
/// Distance of two threads' memory in bytes.
pub const THREAD_AREA_BYTES: u64 = 0x2_8000;
/// Threads that a process can have at a time.
pub const THREADS_MAX: usize = 4096;
/// What a live session keeps for itself when it goes back: stack, tables, lists.
pub const LIVE_START: u64 = THREADS_START + 0x2800_0000;
/// Most bytes of it.
pub const LIVE_BYTES: u64 = 0x800_0000;
/// Where what the kernel writes for a thread's call lands while another thread
/// holds the token.
pub const BOUNCE_START: u64 = THREADS_START + 0x3000_0000;
/// Distance of two threads' buffers in bytes.
pub const BOUNCE_BYTES: u64 = 0x4_0000;
/// The translator's memory: copies of the program's code, mapped when they are needed.
pub const TRANSLATOR_START: u64 = BOUNCE_START + 0x4000_0000;
/// Bytes of that memory.
pub const TRANSLATOR_BYTES: u64 = 0x800_0000;
/// What breakpoints record until the debugger takes it, mapped when it is needed.
pub const RECORDS_START: u64 = TRANSLATOR_START + TRANSLATOR_BYTES;
/// Bytes of that memory.
pub const RECORDS_BYTES: u64 = 0x40_0000;
/// Blocks that the log holds and that were read more than once, mapped when they are needed.
pub const BLOCKS_START: u64 = RECORDS_START + RECORDS_BYTES;
/// Most bytes of them, with what recording knows of them.
pub const BLOCKS_BYTES: u64 = 0x410_0000;
/// What a live process knows of each increment, mapped when it is needed.
pub const INCREMENTS_START: u64 = REGION_START + 0x1_0000_0000;
/// Distance of two of them in bytes.
pub const INCREMENT_BYTES: u64 = 0x200_0000;
/// Increments that a process can have at a time: one for each checkpoint, and a spare one.
pub const INCREMENTS_MAX: usize = crate::CHECKPOINTS_MAX + 1;
/// Numbers of free pages of the store.
pub const STORE_FREE_START: u64 = REGION_START + 0x4_0000_0000;
/// Ranges that a way back looks at.
pub const CANDIDATES_START: u64 = REGION_START + 0x4_1000_0000;
/// Most bytes of them.
pub const CANDIDATES_BYTES: u64 = 0x400_0000;
/// Pages that increments have saved.
pub const STORE_START: u64 = REGION_START + 0x4_2000_0000;
/// Most bytes of them.
pub const STORE_BYTES: u64 = 0x7_0000_0000;
/// Rings of packets that the program maps, where it does not see them.
pub const PACKET_RINGS_START: u64 = STORE_START + STORE_BYTES;
/// Most bytes of one.
pub const PACKET_RING_BYTES: u64 = 0x1000_0000;
/// Rings that a process can have at a time.
pub const PACKET_RINGS_MAX: usize = 8;
/// Pages of mapped files as they were before the program wrote to the files.
pub const FILE_PAGES_START: u64 = PACKET_RINGS_START + PACKET_RINGS_MAX as u64 * PACKET_RING_BYTES;
/// Most of them.
pub const FILE_PAGES_MAX: usize = 0x4_0000;
/// Which page each of them is, and of when.
pub const FILE_PAGES_TABLE_START: u64 = FILE_PAGES_START + FILE_PAGES_MAX as u64 * 4096;
/// Most bytes of that.
pub const FILE_PAGES_TABLE_BYTES: u64 = 0x100_0000;
/// Sums of pages of mapped files that others write: of each region, mapped when they are needed.
pub const OUTSIDE_SUMS_START: u64 = FILE_PAGES_TABLE_START + FILE_PAGES_TABLE_BYTES;
/// Most bytes of those of one region.
pub const OUTSIDE_SUMS_BYTES: u64 = 0x20_0000;
/// Regions that a process can have at a time.
pub const OUTSIDE_REGIONS_MAX: usize = 64;
/// Mappings of the present, while a process does again what it did.
pub const ASIDE_START: u64 = REGION_START + 0xc_0000_0000;
/// Most bytes of them.
pub const ASIDE_BYTES: u64 = REGION_BYTES - 0xc_0000_0000;

/// Offset of the runtime's image in the memfd.
pub const FILE_TEXT: u64 = 0;
/// Offset of the initial content of the runtime's variables in the memfd.
pub const FILE_DATA: u64 = 0x40_0000;
/// Offset of the session's header in the memfd.
pub const FILE_SESSION: u64 = 0x80_0000;
/// Bytes of the session's header.
pub const SESSION_BYTES: u64 = 0x80_0000;
/// Offset of the recipes in the memfd.
pub const FILE_RECIPES: u64 = 0x100_0000;
/// Offset of the first lane segment in the memfd.
pub const FILE_SEGMENTS: u64 = 0x800_0000;
/// Bytes of a lane's header at the start of its segment.
pub const LANE_HEADER_BYTES: u64 = 0x2_0000;
/// Bytes of a ring: a power of two.
pub const RING_BYTES: u64 = 0x10_0000;
/// Bytes behind a ring for what an image leaves to the next one that execve makes: the
/// program's seccomp filters.
pub const CARRIED_BYTES: u64 = 0x5_0000;
/// Distance of two segments in the memfd.
pub const SEGMENT_BYTES: u64 = LANE_HEADER_BYTES + RING_BYTES + CARRIED_BYTES;
/// Segments, that is, processes recorded at the same time.
pub const SEGMENTS: usize = 4096;
/// The byte of the session's file that the recording supervisor has locked while it lives. Those
/// before are for processes, by the number of their segment.
pub const LIFE_LOCK: u64 = SEGMENTS as u64;
/// Length of the memfd in bytes; it is sparse.
pub const FILE_BYTES: u64 = FILE_SEGMENTS + SEGMENTS as u64 * SEGMENT_BYTES;

/// Address of a slot's lane header.
pub const fn lane_header_address(slot: u64) -> u64 {
    LANE_SLOTS_START + slot * LANE_SLOT_BYTES
}

/// Address of a slot's ring.
pub const fn ring_address(slot: u64) -> u64 {
    lane_header_address(slot) + LANE_HEADER_BYTES
}

/// Address at which a slot's carried memory is mapped while it is used.
pub const fn carried_address(slot: u64) -> u64 {
    ring_address(slot) + 2 * RING_BYTES
}

/// Offset of a segment in the memfd.
pub const fn segment_offset(segment: u64) -> u64 {
    FILE_SEGMENTS + segment * SEGMENT_BYTES
}

const _: () = assert!(OUTSIDE_SUMS_START + OUTSIDE_REGIONS_MAX as u64 * OUTSIDE_SUMS_BYTES <= ASIDE_START);
const _: () = assert!(DATA_START + DATA_BYTES_MAX <= SESSION_START);
const _: () = assert!(SESSION_START + SESSION_BYTES <= RECIPES_START);
const _: () = assert!(RECIPES_START + RECIPES_BYTES <= LANE_SLOTS_START);
const _: () = assert!(LANE_HEADER_BYTES + 2 * RING_BYTES + CARRIED_BYTES <= LANE_SLOT_BYTES);
const _: () = assert!(LANE_SLOTS_START + LANE_SLOTS as u64 * LANE_SLOT_BYTES <= SCRATCH_START);
const _: () = assert!(SCRATCH_START < THREADS_START);
const _: () = assert!(THREADS_START + THREADS_MAX as u64 * THREAD_AREA_BYTES <= LIVE_START);
const _: () = assert!(LIVE_START + LIVE_BYTES <= BOUNCE_START);
const _: () = assert!(BOUNCE_START + THREADS_MAX as u64 * BOUNCE_BYTES <= TRANSLATOR_START);
const _: () = assert!(BLOCKS_START + BLOCKS_BYTES <= INCREMENTS_START);
const _: () = assert!(INCREMENTS_START + INCREMENTS_MAX as u64 * INCREMENT_BYTES <= STORE_FREE_START);
const _: () = assert!(STORE_FREE_START + STORE_BYTES / 4096 * 4 <= CANDIDATES_START);
const _: () = assert!(CANDIDATES_START + CANDIDATES_BYTES <= STORE_START);
const _: () = assert!(FILE_PAGES_TABLE_START + FILE_PAGES_TABLE_BYTES <= ASIDE_START);
