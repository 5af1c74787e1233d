//! What is known of memory at checkpoints, and of threads that stand: plain types, see `take` and `restore`.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};

use lane_protocol::{CHECKPOINTS_MAX, INCREMENTS_MAX};

use crate::state::signal_state::Pending;
use runtime_logic::range_set::{Range, RangeSet};

/// Bytes that are compared at a time.
pub const COMPARED_BYTES: usize = 0x4_0000;

/// Place for a few.
pub type Few = [Range; FEW_MAX];

/// So many need no memory of their own, whose end all processors would have to be told of.
pub const FEW_MAX: usize = runtime_logic::range_set::RANGES_MAX;

/// All zero: nothing is kept.
#[repr(C)]
pub struct FilePages {
    /// The process whose memory the table is: a child of it has none.
    pub owner: i32,
    /// Of the table, including free ones.
    pub count: u32,
    /// The first that is free, plus one.
    pub free: u32,
    pub in_use: u32,
    pub sweep_at: u32,
    /// The last checkpoint for which a page could not be kept, plus one.
    pub lost: u32,
}

/// All that lies aside. All zero: nothing.
#[repr(C)]
pub struct Aside {
    pub count: usize,
    pub filled: u64,
    pub parts: [AsidePart; ASIDE_PARTS],
}

/// A mapping: where it belongs, and where it is.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AsidePart {
    pub start: u64,
    pub bytes: u64,
    pub place: u64,
}

pub const ASIDE_PARTS: usize = 1024;

/// All zero: there is none.
#[repr(C)]
pub struct Increments {
    pub protection: Protection,
    pub store: Store,
    pub bases: [Base; BASES_MAX],
    pub serial: u32,
    /// Of the present: the base, plus one, and the newest increment, plus one.
    pub base: u16,
    pub newest: u16,
    /// The program's own pages when the base was made.
    pub base_pages: u64,
    /// What preemptions had looked at when the last fork was made.
    pub looks: u32,
    pub often: Often,
    pub known: [KnownIncrement; INCREMENTS_MAX],
    /// Of each checkpoint: its base and its increment, each plus one.
    pub base_of: [u16; CHECKPOINTS_MAX],
    pub increment_of: [u16; CHECKPOINTS_MAX],
}

/// All zero: nothing is protected.
#[repr(C)]
pub struct Protection {
    /// Plus one.
    pub uffd: i32,
    /// Not zero: userfaultfd is refused.
    pub refused: u32,
    pub behind: Behind,
    pub protected: RangeSet,
    pub lost: RangeSet,
}

/// What is still to be protected. All zero: nothing.
#[repr(C)]
pub struct Behind {
    /// A futex word.
    pub state: AtomicU32,
    /// The descriptor, plus one; 0: it is not open.
    pub pagemap: AtomicI32,
    /// How many chunks are taken.
    pub taken: AtomicU32,
    /// There are no more to take.
    pub all_taken: AtomicBool,
    pub failed: AtomicBool,
    // The token's holder's:
    /// It begins with the fork that is about to be made.
    pub is_expected: bool,
    /// Some of what is being protected was lost.
    pub has_lost: bool,
}

/// The pages that are mapped, and those of them that are free. All zero: none.
#[repr(C)]
pub struct Store {
    pub chunks: u64,
    pub free: u64,
    pub is_mapped: bool,
}

/// A shadow made by fork.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Base {
    /// 0: none.
    pub pid: i32,
    /// The number of the fork.
    pub serial: u32,
}

pub const BASES_MAX: usize = CHECKPOINTS_MAX + 1;

/// Whether a small process takes checkpoints so often that saving pages is worth it. All
/// zero: that is not known.
#[repr(C)]
pub struct Often {
    /// Forks since the last try.
    pub forks: u32,
    /// How many there are to be before the next one, if more than `FORKS_FEW`.
    pub forks_wanted: u32,
    /// The last fork was a base.
    pub is_tried: bool,
    /// Increments that came to rest on it.
    pub rested: u32,
}

/// What is known of an increment without looking at it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KnownIncrement {
    pub is_used: bool,
    pub is_mapped: bool,
    /// The one before it, plus one; 0: the base.
    pub before: u16,
    /// Index of its base.
    pub base: u16,
    pub cleared: usize,
    pub saved: usize,
}

/// What an increment consists of. Mapped when it is needed.
#[repr(C)]
pub struct Increment {
    pub stack: [u8; KEEPER_STACK_BYTES],
    pub pending: Pending,
    pub offsets: crate::checkpoint::kept_resources::Offsets,
    pub list: crate::checkpoint::kept_resources::List,
    pub names: crate::checkpoint::kept_resources::Names,
    pub table: crate::checkpoint::kept_resources::Table,
    /// While it has no keeper.
    pub notes: crate::checkpoint::kept_resources::Notes,
    pub cleared: [Range; CLEARED_MAX],
    pub saved: [Saved; SAVED_MAX],
}

/// Bytes of a keeper's stack.
pub const KEEPER_STACK_BYTES: usize = 0x1_0000;

/// Ranges that all increments of a base clear.
pub const CLEARED_MAX: usize = 2048;

/// A page, and where its content was saved; 0: not yet.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Saved {
    pub page: u64,
    pub copy: u64,
}

/// Pages that all increments of a base save.
pub const SAVED_MAX: usize = 1 << 20;

/// A seat. Its layout is known to `rv_sit_down`.
#[repr(C)]
pub struct Seat {
    /// A futex word.
    pub state: AtomicU32,
    pub tid: AtomicI32,
    /// The block to take up.
    pub block: AtomicU64,
    /// Where in the log the thread ended; the highest: it has not.
    pub ended_at: AtomicU64,
}

/// Threads that can sit at a time.
pub const SEATS: usize = 4096;
