//! The memory that an engine works in, and where its parts are.

use core::mem::offset_of;

/// Bytes of memory that an engine needs, at an address that is a multiple of
/// [`ALIGNMENT`]: readable, writable and executable, all zero, and only touched
/// where it is used.
pub const MEMORY_BYTES: u64 = 0x800_0000;
/// What the address of an engine's memory is a multiple of: eight times the range
/// of 16 bits, so that the low half of a target can be put into an eighth of the
/// table's address.
pub const ALIGNMENT: u64 = 0x8_0000;

/// Vector state of the program while the engine itself runs, where it is kept.
pub const VECTORS: u32 = 0x4000;
/// Code that enters and leaves the copies.
pub const GATES: u32 = 0x8000;
pub const GATES_END: u32 = 0x9000;
/// Code that compares a store's address with what is watched.
pub const COMPARISON: u32 = GATES_END;
pub const COMPARISON_END: u32 = 0xa000;
/// A byte for each value of an address's low 16 bits: not zero if a store there
/// may touch what is watched.
pub const WATCH_TABLE: u32 = 0x1_0000;
pub const WATCH_TABLE_BYTES: usize = 0x1_0000;
/// Where indirect jumps lead: an address for each value of a target's low 16 bits.
pub const TARGET_TABLE: u32 = 0x8_0000;
pub const TARGETS: usize = 0x1_0000;
/// The table of units.
pub const UNITS: u32 = 0x10_0000;
pub const UNITS_MAX: usize = 1 << 19;
/// The table of exits.
pub const EXITS: u32 = 0x90_0000;
pub const EXITS_MAX: usize = 1 << 19;
/// Which instruction each copy is of.
pub const PLACES: u32 = 0x110_0000;
pub const PLACES_MAX: usize = 1 << 21;
/// Copies of code.
pub const HOT: u32 = 0x310_0000;
pub const HOT_END: u32 = 0x610_0000;
/// What is seldom run: the ways out.
pub const COLD: u32 = HOT_END;
pub const COLD_END: u32 = MEMORY_BYTES as u32;

/// Number of a register as the processor counts them.
pub const RAX: u8 = 0;
pub const RCX: u8 = 1;
pub const RDX: u8 = 2;
pub const RSP: u8 = 4;
pub const RBP: u8 = 5;

/// What copies and the engine share, at the start of the memory.
#[repr(C)]
pub struct Context {
    /// The program's general registers while the engine runs; single ones while a
    /// copy uses them for itself.
    pub general: [u64; 16],
    pub flags: u64,
    /// Where a copy is entered; where an indirect jump led.
    pub target: u64,
    /// Instructions that may still be run, less those that are counted ahead.
    pub counter: i64,
    /// Number of the exit that was taken. Some copies write all of it, others the lower half.
    pub exit: u64,
    /// Entries of the table of places.
    pub places: u64,
    pub host_stack: u64,
    /// Base of the program's fs segment.
    pub fs_base: u64,
    /// A store that may touch what is watched: its address is in rcx; its bytes, the
    /// code that makes it, the exit before it.
    pub store_bytes: u64,
    pub store_address: u64,
    pub store_code: u64,
    pub store_exit: u64,
    /// rax and the flags meanwhile.
    pub store_flags: u64,
    /// Not zero: stores to what is watched are noted, and made.
    pub notes_stores: u64,
    /// The last of them: the exit before it, and the counter.
    pub noted_exit: u64,
    pub noted_counter: i64,
    pub noted: u64,
    /// Offset of the gate that leaves copies.
    pub leave: u64,
    /// A fault: where, and what was executed since the count.
    pub fault_rip: u64,
    pub fault_executed: i64,
    /// Number of the exit that tells of the last indirect jump. Its lower half is written.
    pub jump: u64,
}

pub const CONTEXT_FLAGS: u32 = offset_of!(Context, flags) as u32;
pub const CONTEXT_TARGET: u32 = offset_of!(Context, target) as u32;
pub const CONTEXT_COUNTER: u32 = offset_of!(Context, counter) as u32;
pub const CONTEXT_EXIT: u32 = offset_of!(Context, exit) as u32;
pub const CONTEXT_HOST_STACK: u32 = offset_of!(Context, host_stack) as u32;
pub const CONTEXT_STORE_BYTES: u32 = offset_of!(Context, store_bytes) as u32;
pub const CONTEXT_STORE_ADDRESS: u32 = offset_of!(Context, store_address) as u32;
pub const CONTEXT_STORE_CODE: u32 = offset_of!(Context, store_code) as u32;
pub const CONTEXT_STORE_EXIT: u32 = offset_of!(Context, store_exit) as u32;
pub const CONTEXT_STORE_FLAGS: u32 = offset_of!(Context, store_flags) as u32;
pub const CONTEXT_NOTES_STORES: u32 = offset_of!(Context, notes_stores) as u32;
pub const CONTEXT_NOTED_EXIT: u32 = offset_of!(Context, noted_exit) as u32;
pub const CONTEXT_NOTED_COUNTER: u32 = offset_of!(Context, noted_counter) as u32;
pub const CONTEXT_NOTED: u32 = offset_of!(Context, noted) as u32;
pub const CONTEXT_JUMP: u32 = offset_of!(Context, jump) as u32;
pub const CONTEXT_FS_BASE: u32 = offset_of!(Context, fs_base) as u32;

const _: () = assert!(size_of::<Context>() <= VECTORS as usize);
const _: () = assert!(TARGET_TABLE as usize + TARGETS * 8 <= UNITS as usize);
const _: () = assert!(UNITS as usize + UNITS_MAX * size_of::<UnitEntry>() <= EXITS as usize);
const _: () = assert!(EXITS as usize + EXITS_MAX * size_of::<Exit>() <= PLACES as usize);
const _: () = assert!(PLACES as usize + PLACES_MAX * size_of::<Place>() <= HOT as usize);

/// Where a register's value is kept in the context.
pub const fn slot(register: u8) -> u32 {
    register as u32 * 8
}

/// A unit that is translated.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UnitEntry {
    pub rip: u64,
    /// Offset of its code; [`UNSTABLE`] is set where its source may change.
    pub code: u32,
    /// Instructions that are executed and not counted where it is entered.
    pub pending: u16,
    pub generation: u16,
}

/// Set in an entry of a unit whose source must be compared before each entry.
pub const UNSTABLE: u32 = 1 << 31;

/// One way out of a unit.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Exit {
    /// Where the program goes on; of an indirect jump, where the jump is.
    pub rip: u64,
    /// Offset of the jump's distance, which is changed to lead to the next unit
    /// directly; 0: never. Of an indirect jump: by how much it has raised rsp.
    pub patch: u32,
    /// Instructions executed and not counted, negative if counted ahead.
    pub executed: i16,
    pub kind: ExitKind,
}

#[repr(u16)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitKind {
    /// A direct jump, or the end of a unit.
    Direct,
    /// An indirect jump: the target is in the context.
    Indirect,
    /// The count has come near the limit.
    Limit,
    /// The next instruction asks the kernel.
    Call,
    /// The next instruction is the host's to perform.
    Special,
    /// The next instruction cannot be read.
    Unreadable,
    /// The next instruction stores to what is watched: the context knows where.
    Store,
    /// The next instruction may store to what is watched.
    MayStore,
}

/// Which instruction a copy is of, from an offset on.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Place {
    pub rip: u64,
    pub offset: u32,
    /// Instructions executed before it and not counted.
    pub executed: i16,
    /// Registers whose values are in the context.
    pub kept: u16,
}

/// A part of the memory that is written from its start to its end.
#[derive(Clone, Copy)]
pub struct Writer {
    base: u64,
    pub at: u32,
    end: u32,
    pub is_full: bool,
}

impl Writer {
    pub const fn new(base: u64, start: u32, end: u32) -> Self {
        Writer { base, at: start, end, is_full: false }
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        if bytes.len() as u32 > self.end - self.at {
            self.is_full = true;
            return;
        }
        // SAFETY: inside of this writer's part of the engine's memory.
        unsafe {
            let to = (self.base + u64::from(self.at)) as *mut u8;
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        self.at += bytes.len() as u32;
    }

    pub fn word(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }

    /// The distance from behind these four bytes, and `behind` more, to the offset.
    pub fn distance(&mut self, to: u32, behind: u32) {
        let distance = to.wrapping_sub(self.at + 4 + behind);
        self.bytes(&distance.to_le_bytes());
    }

    /// Changes a distance that was written.
    pub fn set_distance(&mut self, place: u32, to: u32) {
        let distance = to.wrapping_sub(place + 4);
        // SAFETY: `place` was written by a writer of this memory.
        unsafe { ((self.base + u64::from(place)) as *mut u32).write_unaligned(distance) };
    }
}
