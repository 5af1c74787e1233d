//! What is known of memory that others write to or that forks leave out; see `address_space`.

use lane_protocol::{OUTSIDE_REGIONS_MAX, PACKET_RINGS_MAX};

/// What the process has read of the session's list.
#[repr(C)]
#[derive(Default)]
pub struct ForeignWritesSeen {
    /// Plus one; 0: it has not looked yet.
    pub parts: u64,
}

/// The rings of a process. All zero: none.
#[repr(C)]
pub struct PacketRings {
    /// The process's lane: a child of fork has none of them.
    pub lane: u32,
    pub count: u32,
    pub requests: [RingRequest; PACKET_RINGS_MAX],
    pub requested: usize,
    pub rings: [PacketRing; PACKET_RINGS_MAX],
}

/// What was asked for of a socket: `struct tpacket_req`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RingRequest {
    pub inode: u64,
    pub block_bytes: u32,
    pub blocks: u32,
    pub frame_bytes: u32,
    pub frames: u32,
}

/// A ring that is mapped. Its parts (frames, or blocks) come to the program in their order, and
/// go back in it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PacketRing {
    /// Where the program has mapped it.
    pub start: u64,
    /// 0: none.
    pub bytes: u64,
    pub block_bytes: u64,
    pub part_bytes: u64,
    pub parts: u64,
    pub version: u32,
    /// The part that comes next.
    pub next: u64,
    /// So many before it are the program's.
    pub held: u64,
}

/// The files that an address space shows.
#[repr(C)]
pub struct MappedFiles {
    pub copy_count: usize,
    /// That there are too many.
    pub has_told: bool,
    /// Replay: a private mapping shows what stands for a shared file.
    pub has_private_views: bool,
    pub files: Places,
    pub copies: [Copied; COPIES],
}

/// The mappings of an address space.
#[repr(C)]
pub struct Places {
    pub count: usize,
    /// Entries that were added so far.
    pub added: u64,
    pub places: [Place; PLACES],
}

/// A file's mapping.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Place {
    pub start: u64,
    pub end: u64,
    pub identity: [u64; 2],
    pub offset: u64,
    /// It shows what is written to the file, and the program cannot store there.
    pub only_shows: bool,
    /// What the program stores there reaches nobody else (MAP_PRIVATE).
    pub is_private: bool,
}

/// As many mappings as a process may have (vm.max_map_count, unless somebody raised it).
pub const PLACES: usize = 65536;

/// Replay: a file's content that mappings share.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Copied {
    pub identity: [u64; 2],
    pub fd: i32,
    /// Device and inode of what the descriptor shows, as of the last look at it.
    pub shown: [u64; 2],
    /// Where its first content came from.
    pub source: Source,
    /// Its mode says already that the content may be another one by now.
    pub is_told_changed: bool,
}

/// Where the first content of a mapping's file comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum Source {
    /// A kept file.
    File(u32),
    /// Memory that other processes have, or had, mapped already.
    Shared,
    /// It is logged with the mapping.
    Logged,
}

pub const COPIES: usize = 32768;

/// What is followed in an address space. Zeros: nothing.
#[repr(C)]
pub struct Outsiders {
    /// The session's list as of then.
    pub changes: u64,
    /// The mappings are others.
    pub is_stale: bool,
    pub count: usize,
    pub signs: Signs,
    pub bytes: u64,
    pub has_told: bool,
    pub regions: [Region; OUTSIDE_REGIONS_MAX],
}

/// What a process looks at. Zeros: nothing.
#[repr(C)]
pub struct Signs {
    pub any: bool,
    pub files: [File; FILES],
    pub next_file: usize,
    /// The descriptor of inotify, plus one; 0: none.
    pub notices: i32,
    pub names: [Name; NAMES],
    pub segments: [Segment; SEGMENTS],
    pub segment_count: usize,
}

/// A file on a disk.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct File {
    /// A descriptor by which nothing can be read (O_PATH), plus one; 0: none.
    pub fd: i32,
    pub key: [u64; 5],
}

/// Files on disks that are looked at, of each process.
pub const FILES: usize = 4;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Name {
    /// Its watch; 0: none.
    pub watch: i32,
    /// Recorded processes have opened it so often, as far as this one has heard.
    pub opens: u32,
    pub identity: [u64; 2],
}

/// Files whose opening is watched.
pub const NAMES: usize = 32;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Segment {
    pub id: u64,
    /// Who attached or detached it last, and is recorded.
    pub known_pid: i32,
}

/// Segments.
pub const SEGMENTS: usize = 16;

/// A mapping, or a part of it, whose pages are looked at.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Region {
    pub place: Place,
    /// There are sums of its pages.
    pub is_known: bool,
    pub is_used: bool,
    /// How often it changed where the program could not have learned of it; by its own stores, maybe.
    pub untimely: u32,
}

/// What the program asked for is in force; goes back with memory.
#[repr(C)]
pub struct UnforkedRanges {
    pub count: usize,
    /// More was asked for than is followed: a shadow would lack memory.
    pub overflown: bool,
    pub all: [Unforked; RANGES_MAX],
}

/// A range, and what the program asked for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Unforked {
    pub start: u64,
    pub end: u64,
    pub advice: u32,
}

/// Ranges that are followed: as many as mappings can be listed.
pub const RANGES_MAX: usize = 16384;
