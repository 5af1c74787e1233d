//! What of a live process does not go back in time, and whether there is such.

use core::sync::atomic::{AtomicU32, Ordering};

use lane_protocol::{LIVE_BYTES, LIVE_START};
use linux_abi::{errno, general as nr};

use crate::checkpoint::{kept_memory, kept_resources};
use crate::ground::kernel::{self, error};
use crate::ground::owned::Held;
use crate::state::block::{self, lane, process};
use crate::state::signal_state;
use runtime_logic::range_set::RangeSet;

pub const STACK_BYTES: usize = 0x4_0000;

/// Memory that does not go back. Mapped in live sessions only.
#[repr(C)]
pub struct Area {
    /// The agent's stack.
    pub stack: [u8; STACK_BYTES],
    pub seats: [kept_memory::Seat; kept_memory::SEATS],
    /// Not zero: all threads are to park. A futex word.
    pub parking: AtomicU32,
    /// The thread that waits for what it asked of the agent, plus one; 0: none.
    pub asker: u32,
    /// Counts threads that parked; a futex word.
    pub parked: AtomicU32,
    /// Counts threads of a branch that have left the dropped future's signals behind, or
    /// at the end those that take no signals any more; a futex word.
    pub arrived: AtomicU32,
    /// What parked threads do next, a `quiesce::verdict`; a futex word.
    pub verdict: AtomicU32,
    pub agent_index: u32,
    /// Not zero: the program was rolled back under the debugger, and is to stand.
    pub stands: AtomicU32,
    /// The checkpoint that the process was rolled back to a moment ago, plus one: the
    /// call that took it returns again.
    pub returns_again: u64,
    /// Not zero: the thread that a replay begins with follows the log's first token event.
    pub first_waits: u32,
    /// The thread that asked for a replay, plus one: its call returns in the present.
    pub replays_for: u64,
    /// Processes that the program made, which share its pages.
    pub forks: u32,
    /// Signals that waited in the kernel at the last checkpoint.
    pub pending: signal_state::Pending,
    /// Who the process is.
    pub user: kept_resources::User,
    /// Not zero: a shadow may still have the program's descriptors open.
    pub unready: u32,
    /// Shadows that were ended and not waited for yet; 0: none.
    pub ended: [i32; 64],
    /// Offsets of files at the last checkpoint, known before the program went on.
    pub offsets: kept_resources::Offsets,
    /// Where memory came to from another place since the last shadow was made by fork.
    pub moved: RangeSet,
    pub compared: [u8; kept_memory::COMPARED_BYTES],
    pub candidates: kept_memory::Few,
    pub lists: kept_resources::Lists,
    pub tables: kept_resources::Tables,
    pub locks: kept_resources::KnownLocks,
    pub pushback: kept_resources::Pushback,
    pub files: kept_resources::Files,
    pub file_pages: kept_memory::FilePages,
    pub aside: kept_memory::Aside,
    /// A rollback that comes in place of a crash: a `recover_way`, and the signal.
    pub recovering: [u64; 2],
    pub increments: kept_memory::Increments,
    pub calm: kept_resources::Calm,
    /// The program has made timers (timer_create(2)).
    pub has_timers: bool,
    /// Not zero: memory was restored, so that mappings may be divided where they were one.
    pub went_back: AtomicU32,
    /// Not zero: what led to a crash was saved.
    pub saved: AtomicU32,
}

/// Most bytes that a branch can give back.
pub const RECORDS_BYTES_MAX: u64 = 64 << 20;

/// Where they are: behind the area.
pub fn records_place() -> u64 {
    LIVE_START + (size_of::<Area>() as u64).next_multiple_of(4096)
}

pub fn area() -> Held<Area> {
    // SAFETY: mapped at the birth of a live image; the fields that several threads
    // use at a time are atomics, the others belong to the token's holder.
    unsafe { Held::of(LIVE_START as *mut Area) }
}

/// Not zero: the area is mapped. A child of vfork has it with its parent.
pub static HAS_AREA: AtomicU32 = AtomicU32::new(0);

#[inline]
pub fn has_area() -> bool {
    HAS_AREA.load(Ordering::Relaxed) != 0
}

/// True if memory was restored in this process, or in one that it was made by.
pub fn went_back() -> bool {
    has_area() && area().went_back.load(Ordering::Relaxed) != 0
}

/// True, once, for the thread that a replay begins with, if the token comes from another process.
pub fn takes_first_ticket(index: usize) -> bool {
    if !has_area() || area().first_waits == 0 {
        return false;
    }
    let is_first = process().running_thread.load(Ordering::SeqCst) == index as u32;
    if is_first {
        area().first_waits = 0;
    }
    is_first
}

/// True if the process has an agent.
#[inline]
pub fn lane_takes_part() -> bool {
    lane().takes_part.load(Ordering::Relaxed) != 0
}

/// Maps the area; false if memory is short.
pub fn map_area() -> bool {
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED | nr::MAP_NORESERVE;
    let bytes = (size_of::<Area>() as u64).next_multiple_of(4096);
    !kernel::failed(kernel::mmap(LIVE_START, bytes, 3, flags, -1, 0))
}

/// Why the process cannot be checkpointed or go back now, if so.
pub fn obstacle() -> Option<i64> {
    if process().slot != 0 || !lane_takes_part() || block::are_several_here() {
        return Some(error(errno::EBUSY));
    }
    None
}

const _: () = assert!(size_of::<Area>() as u64 + RECORDS_BYTES_MAX + 4096 <= LIVE_BYTES);
