//! What is known of the kernel's objects of a process, at a checkpoint or now: plain types, see `resources`.

use crate::ground::maps::Mapping;

#[repr(C)]
pub struct Tables {
    pub then: Table,
    pub now: Table,
}

#[repr(C)]
pub struct Table {
    pub count: usize,
    pub all: [Descriptor; DESCRIPTORS_MAX],
    pub interest_count: usize,
    pub interests: [Interest; INTERESTS_MAX],
    pub timer_count: usize,
    pub timers: [DescriptorTimer; TIMERS_MAX],
    pub lock_count: usize,
    pub locks: [Lock; LOCKS_MAX],
    pub terminal_count: usize,
    pub terminals: [Terminal; TERMINALS_MAX],
}

/// An open descriptor.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Descriptor {
    pub fd: u32,
    /// FD_CLOEXEC.
    pub flags: u32,
    pub mode: u64,
    pub device: u64,
    pub inode: u64,
    /// Of a regular file or directory.
    pub offset: u64,
    /// O_NONBLOCK and its like.
    pub status: u64,
    /// Of a socket.
    pub connection: Connection,
    /// An object of the kernel's that nobody has the other side of: its kind.
    pub object: Object,
    /// Of now, on the way back: it is what it was then.
    pub stays: bool,
}

/// What a socket is.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Connection {
    /// Where it has, or had, another side: SO_TYPE; else 0.
    pub kind: u32,
    /// Of one by TCP: its family of addresses; else 0.
    pub tcp_family: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Object {
    /// Something else.
    #[default]
    None,
    /// A set of epoll(7): made anew, as it waits for what was opened since.
    Epoll,
    /// eventfd(2), timerfd_create(2), signalfd(2), inotify(7).
    Other,
}

/// Descriptors that a table can hold.
pub const DESCRIPTORS_MAX: usize = 8192;

/// What an epoll set waits for.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Interest {
    pub epoll: u32,
    pub fd: u32,
    pub events: u32,
    pub data: u64,
}

/// Entries of epoll sets that a table can hold.
pub const INTERESTS_MAX: usize = 8192;

/// The timer of a descriptor.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct DescriptorTimer {
    pub fd: u32,
    /// How often it has fired since it was read or set.
    pub ticks: u32,
    pub noted_ns: u64,
    pub setting: Setting,
}

/// What a timer is set to, in nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Setting {
    pub interval: u64,
    /// How long from now; 0: not at all.
    pub left: u64,
}

/// Timers behind descriptors that a table can hold.
pub const TIMERS_MAX: usize = 256;

/// A lock that is held.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Lock {
    pub fd: u32,
    pub owner: Owner,
    pub writes: bool,
    pub start: u64,
    /// The last byte; `u64::MAX`: there is none.
    pub last: u64,
}

/// Whose a lock is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Owner {
    /// The open file's, all of it (flock(2)).
    #[default]
    Flock,
    /// The open file's.
    OpenFile,
    /// The process's.
    Process,
}

/// Locks that a table can hold.
pub const LOCKS_MAX: usize = 256;

/// The modes of the terminal behind a descriptor.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Terminal {
    pub fd: u32,
    /// `struct termios2`.
    pub modes: [u32; 11],
}

/// Terminals that a table can hold.
pub const TERMINALS_MAX: usize = 16;

/// What going back compares. The shadow fills in `then` in its own memory.
#[repr(C)]
pub struct Lists {
    pub then: List,
    pub now: List,
    /// Of the files in `now`.
    pub names: Names,
    /// All of them are there.
    pub names_fit: bool,
    /// `now` is as it is, but for what has changed since then.
    pub is_known: bool,
    pub path: [u8; PATH_BYTES],
}

/// The mappings of a moment, sorted.
#[repr(C)]
pub struct List {
    pub count: usize,
    pub all: [Mapping; MAPPINGS_MAX],
}

/// Mappings that a list can hold.
pub const MAPPINGS_MAX: usize = 16384;

/// The names of mapped files, for finding those again that are not mapped any more.
#[repr(C)]
pub struct Names {
    pub filled: usize,
    pub text: [u8; NAMES_BYTES],
}

pub const NAMES_BYTES: usize = 0x4_0000;

pub const PATH_BYTES: usize = 4096;

/// Descriptors by which files were locked, each plus one.
pub struct KnownLocks {
    pub all: [u32; KNOWN_MAX],
    pub next: usize,
    /// Not zero: locks were looked for that are older than the session.
    pub looked: u32,
}

/// Descriptors by which files were locked.
pub const KNOWN_MAX: usize = 64;

/// Files that were changed since the last checkpoint. All zero: none.
#[repr(C)]
pub struct Files {
    pub known: [KnownFile; FILES_MAX],
    pub next: usize,
}

/// A file, by one of its descriptors, of which the supervisor knows the size that it had
/// at the last checkpoint or later. What lies behind that need not be kept.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KnownFile {
    /// Plus one; 0: free.
    pub fd: u32,
    /// Of the last checkpoint.
    pub id: u32,
    pub device: u64,
    pub inode: u64,
    pub size: u64,
}

pub const FILES_MAX: usize = 64;

/// Real, effective and saved user, and group, as the last call that changed one left them, and how
/// often something was changed that is not compared.
pub type User = [u32; 7];

/// Descriptors, each plus one, and the offsets of their files; 0: none.
pub type Offsets = [(u32, u64); 64];

#[repr(C)]
pub struct Pushback {
    pub count: usize,
    /// Pieces before this one were given back.
    pub first: usize,
    pub all: [Pushed; PUSHED_MAX],
    /// Bytes of the mapped records.
    pub bytes: u64,
    /// The newest first.
    pub stood: [Stood; STOOD_MAX],
}

/// What is given back on a descriptor.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Pushed {
    /// DATA, ACCEPTED, ENDED, or 0: free.
    pub kind: u32,
    pub fd: u32,
    /// What it is input of, or who listened.
    pub channel: Channel,
    /// DATA: the next byte. ACCEPTED: the connection's descriptor now.
    pub at: u64,
    /// DATA: how many bytes are left. ACCEPTED: the descriptor that it was.
    pub left: u64,
    /// DATA: where it stands what came beside it, see `messages`; 0: nothing did.
    pub head: u64,
}

/// Device and inode, or what stands for them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Channel(pub [u64; 2]);

/// Pieces that can be given back at a time, one for each call that took them.
pub const PUSHED_MAX: usize = 65536;

/// What stands for a channel of then since a way back.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Stood {
    pub of: Channel,
    pub by: Channel,
}

/// Connections that something stands for, of which input may be left.
pub const STOOD_MAX: usize = 128;

/// Whether descriptors change by themselves, or are too many, which is looked for once for each base.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Calm {
    Unknown = 0,
    Yes,
    No,
}

/// The descriptors of a checkpoint whose keeper is not made yet. In ascending order.
#[repr(C)]
pub struct Notes {
    pub is_noted: bool,
    pub count: usize,
    pub all: [Noted; NOTED_MAX],
}

/// What can change of a descriptor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Noted {
    pub fd: u32,
    /// FD_CLOEXEC.
    pub flags: u32,
    /// O_NONBLOCK and its like.
    pub status: u64,
    pub offset: u64,
}

/// Of a process with more descriptors the keeper is made at once.
pub const NOTED_MAX: usize = 256;
