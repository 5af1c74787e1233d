//! What is kept from one call to the next; see `syscalls`.

use core::sync::atomic::AtomicU32;

use syscall_model::Arg;

use crate::ground::registers::Leave;
use crate::state::block::process;

/// The call that the thread makes.
#[derive(Default)]
pub struct Direct {
    pub form: Form,
    /// It came through a trap.
    pub trapped: bool,
    pub work: u8,
    pub model: &'static [Arg],
    pub before: Before,
}

/// What is to be logged of a call.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Number, arguments and result are all that matters.
    #[default]
    Short,
    /// What its row says.
    Injected,
    /// It writes to what nobody is shown again.
    Output,
}

/// What has to be known of the arguments before the call is made, since the
/// kernel overwrites it: lengths that limit what it writes.
#[derive(Clone, Copy, Default)]
pub struct Before {
    pub limits: [u64; 6],
    pub name_limit: u64,
    pub control_limit: u64,
}

/// What is known of the files that are read. Zeroed at first.
#[repr(C)]
pub struct Reads {
    /// How often descriptors may have come to other processes.
    pub given: u32,
    /// Other processes use the same table of descriptors.
    pub is_shared: u32,
    /// In a lab: not zero once a thread has read an urgent byte.
    pub urgent: u32,
    /// For each descriptor, `given` plus one when the process opened it.
    pub opened: [u32; DESCRIPTORS],
    pub files: [Read; REMEMBERED],
}

pub const DESCRIPTORS: usize = 1024;

/// What was read through a descriptor.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Read {
    pub fd: u32,
    /// The file's id plus one; 0: it is not known to be kept.
    pub file: u32,
    pub bytes: u64,
    /// When its content is asked for.
    pub asks_at: u64,
    /// Of a descriptor that the first process began with: where the next read begins, if nobody else moves that.
    pub next: u64,
}

/// Files that are remembered, by the lower bits of their descriptors.
pub const REMEMBERED: usize = 64;

/// What a thread has of filters.
#[derive(Clone, Copy, Default)]
pub struct ThreadFilters {
    /// Address of the newest of those that its calls pass; 0: none.
    pub newest: u64,
    /// It is to gain no privileges by execve any more, from its next call on.
    pub owes_privileges: bool,
}

/// How often threads of a process came to such places.
#[repr(C)]
#[derive(Default)]
pub struct Spins {
    /// Since this many events were in the log.
    pub events: u64,
    pub passes: u64,
}

/// A thread as one that is traced.
#[repr(C)]
#[derive(Default)]
pub struct Traced {
    /// The thread that traces it, as index plus one; 0: none.
    pub by: AtomicU32,
    /// Not zero: it gets no token; a futex word.
    pub held: AtomicU32,
    /// It has stopped, and nobody waited for it yet.
    pub unreported: bool,
    /// Its vector registers are on its signal stack: it stands at a preemption.
    pub has_vectors: bool,
}

#[repr(C)]
#[derive(Default)]
pub struct MapLists {
    pub count: u32,
    pub list: [MapList; KNOWN],
}

/// A descriptor of such a list, and how far it was read.
#[repr(C)]
pub struct MapList {
    /// The descriptor, plus one; 0: none.
    pub fd: u32,
    /// Where the program reads next.
    pub position: u64,
    pub reached: Reached,
}

/// How far a list was taken from the kernel.
#[repr(C)]
pub struct Reached {
    /// In the list as it is shown.
    pub shown: u64,
    /// In the kernel's list.
    pub real: u64,
    /// Begin of the line at hand: until it tells what line this is, and after that while
    /// there was no room for it.
    pub head: [u8; HEAD_BYTES],
    pub head_bytes: usize,
    /// The head is to be shown.
    pub head_waits: bool,
    /// It is known what line this is.
    pub in_line: bool,
    /// The mapping at hand is the runtime's.
    pub hidden: bool,
    /// The line at hand is that of our own vDSO: where it ends, in columns, so far.
    pub named: Option<usize>,
}

/// So much of a line tells whether it begins a mapping, and which.
pub const HEAD_BYTES: usize = 40;

/// Such descriptors that a process is known to have at a time.
pub const KNOWN: usize = 8;

/// How a call with code of its own ended.
pub enum Done {
    Result(i64),
    /// A signal is to be delivered before the call.
    Aborted,
    /// The registers are set as the program shall find them.
    Elsewhere(Leave),
}

/// The descriptor was closed, or means something else.
pub fn forget_read_file(fd: u64) {
    if let Some(opened) = process().reads.opened.get_mut(fd as u32 as usize) {
        *opened = NOT_OWN;
    }
}

/// Another process comes to have the descriptors that there are; with `is_shared` also later ones.
pub fn note_descriptors_given(is_shared: bool) {
    let reads = &mut process().reads;
    reads.given = reads.given.saturating_add(1);
    reads.is_shared |= u32::from(is_shared || reads.given == u32::MAX);
}

/// An `opened` of a descriptor that others may have.
pub const NOT_OWN: u32 = 0;
/// Of one that the first process began with: processes outside of the recording may have it, and the recording's others
/// from the first `given` on.
pub const INHERITED: u32 = u32::MAX;

/// The descriptor was closed, or means something else now.
#[inline]
pub fn forget_map_list(fd: u64) {
    let known = &mut process().lists_of_maps;
    if known.count != 0 {
        for entry in known.list.iter_mut().filter(|entry| entry.fd == fd as u32 + 1) {
            entry.fd = 0;
            known.count -= 1;
        }
    }
}

/// True if the process has such a descriptor.
#[inline]
pub fn map_lists_are_open() -> bool {
    process().lists_of_maps.count != 0
}
