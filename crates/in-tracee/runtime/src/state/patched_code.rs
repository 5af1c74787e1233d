//! State of the patched code of an address space, and of where threads may run; see `code`.

use lane_protocol::CodeMap;

/// Where a thread may run.
#[repr(C)]
pub struct Processors {
    /// Calls that it may still make on one processor; 0: it is on none in particular.
    pub calls_left: u32,
    /// Bytes of the set.
    pub bytes: u32,
    pub set: [u64; PROCESSOR_WORDS],
}

/// Words of a set of processors: as many as the kernel knows of.
pub const PROCESSOR_WORDS: usize = 128;

/// State of an address space's sites.
#[repr(C)]
pub struct Sites {
    pub site_count: usize,
    pub map_count: usize,
    /// Passes of the places where threads wait count (see `spins`).
    pub replaces_spins: bool,
    /// Under the debugger: some of the jumps stand that are there at full speed only.
    pub jumps_in: bool,
    /// Calls that came by one of these since they were planted.
    pub jumps_taken: u32,
    /// More traps before the next is planted, as a power of two.
    pub jumps_later: u32,
    pub trampolines: Trampolines,
    /// Hash table: place in `table` plus one; 0: free.
    pub places: [u16; SLOTS],
    /// Dense, so that a process that knows few sites touches few pages.
    pub table: [Site; TABLE],
    pub maps: [CodeMap; MAPS],
}

/// The trampolines of an address space.
#[repr(C)]
pub struct Trampolines {
    pub count: usize,
    pub list: [Trampoline; TRAMPOLINES],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Trampoline {
    pub start: u64,
    pub used: u64,
}

pub const TRAMPOLINES: usize = 32;

/// Slots of the hash table: a power of two, with room to spare.
pub const SLOTS: usize = 4096;

/// A site that trapped or was replaced.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Site {
    pub address: u64,
    /// Where the trampoline goes on behind the call, or where a branch does that is not taken; 0: behind the
    /// site itself.
    pub resume: u64,
    /// The trampoline of a site that is rewritten, or was; 0: none.
    pub trampoline: u64,
    pub hits: u32,
    pub state: SiteState,
    /// One where threads wait that nothing but a trap can replace.
    pub traps_always: bool,
    /// Stopped for a while: the jump comes back.
    pub comes_back: bool,
    /// How often it trapped since.
    pub stops: u8,
    pub kind: u8,
    pub bytes: u8,
    /// Bytes ahead of the site that the jump replaced.
    pub before: u8,
    /// What the jump replaced: from `address - before` on.
    pub covered: [u8; 5],
    /// The site's own instruction.
    pub own: [u8; 15],
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SiteState {
    Trapping = 1,
    Rewritten = 2,
    /// Rewriting it would not be safe.
    Hopeless = 3,
    /// The instruction was replaced by ud2 (time and randomness).
    Stopped = 4,
    /// The jump was taken away for a preemption; the trampoline is there.
    Restored = 5,
}

/// Sites that an address space can have. stress-ng has 1,200 that read time or randomness.
pub const TABLE: usize = 3072;

/// Files mapped executable.
pub const MAPS: usize = 512;

/// Entry points of the vDSO; 0 where there is none.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Clocks {
    pub clock_gettime: u64,
    pub gettimeofday: u64,
    pub time: u64,
    pub getcpu: u64,
    /// The counter traps: the vDSO would too.
    pub trapping: bool,
    /// And cpuid does.
    pub cpuid_trapping: bool,
    /// Calls of the vsyscall page trap, see [`crate::code::seccomp::trap_vsyscalls`].
    pub vsyscalls_trap: bool,
    /// The vDSO runs on our behalf; where it asks the kernel after all, the call
    /// traps and is made for it.
    pub in_vdso: bool,
    /// The vDSO's code.
    pub image: [u64; 2],
}

/// What an address space is kept from executing.
#[repr(C)]
pub struct NonExecutable {
    pub count: usize,
    pub ranges: [NonExecutableRange; NON_EXECUTABLE_RANGES],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct NonExecutableRange {
    pub start: u64,
    pub end: u64,
    /// What the program wants it to be.
    pub protection: u32,
}

pub const NON_EXECUTABLE_RANGES: usize = 64;

/// Where the jumps are.
#[repr(C)]
pub struct Changes {
    pub count: usize,
    pub jumps: [u64; 2 * lane_protocol::ENTRIES_MAX],
}
