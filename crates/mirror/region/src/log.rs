//! The undo log: what was in the region before it was stored to, while a checkpoint is being copied.
//!
//! `ACTIVE` is 0, or the tag of the checkpoint that is being copied. Each store to the region begins with a look at it; where it
//! is not 0, the bytes that will be stored to are written behind the last entry of the thread's log first. Who copies the region
//! to the mirror (`capture.rs`) finds there what was in it at the moment when the tag was stored. Why that is
//! one moment is argued in docs/adr/0138-stores-are-undone-in-the-mirror.md, and modelled in `crates/mirror/region/tests/loom.rs`.
//!
//! A log is a chain of chunks, which only its thread writes to, and only the checkpointer reads. Entries of one log are in the order of its
//! thread. Between logs there is an order only where two threads store to the same block of 4 MiB while one checkpoint is copied: their
//! entries have numbers of one counter then. A block has an owner for this: the only thread whose entries need no number.
//!
//! Invariant: no store waits for anybody. Deliberately absent: locks, and a system call in each store: one in 10,752 may
//! need a new chunk.

use core::arch::{asm, global_asm};
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use crate::layout::{BLOCK_BITS, WINDOW};

/// What compiled code looks at before each store. The number in its name is raised with each change of
/// what compiled code and the library know of each other, so that neither is linked with an older or newer other one.
///
/// A program that is linked with the shared library may have its own copy of this variable (a copy relocation): the library, too,
/// finds it by [`active`] only.
#[unsafe(export_name = "rv_mirror_pass_2_active")]
pub static ACTIVE: AtomicU64 = AtomicU64::new(0);

/// The variable that compiled code looks at.
#[inline(always)]
pub fn active() -> &'static AtomicU64 {
    let at: *const AtomicU64;
    // SAFETY: it loads an address that the linker wrote.
    unsafe {
        asm!("mov {0}, [rip + {1}@GOTPCREL]", out(reg) at, sym ACTIVE, options(nostack, preserves_flags, pure, readonly));
        &*at
    }
}

/// Lowest bit of a checkpoint's number in a tag, and in the first word of an entry.
pub const TAG_SHIFT: u32 = 46;
/// Bits of a tag's number.
const TAG_BITS: u32 = 64 - TAG_SHIFT;
/// Marks an owner that is no thread: several threads store there while this checkpoint is copied.
pub const SHARED: u32 = 1 << 31;

/// The tag of what is saved for the check only, while no checkpoint is captured.
pub const CHECKED: u64 = ((1 << TAG_BITS) - 1) << TAG_SHIFT;

/// The tag of the checkpoint behind another one.
pub fn tag_behind(tag: u64) -> u64 {
    let behind = tag + (1 << TAG_SHIFT);
    if behind == CHECKED { 1 << TAG_SHIFT } else { behind }
}

/// Bytes of a chunk, which begins at a multiple of them.
pub const CHUNK_BYTES: usize = 256 * 1024;
/// Where its first entry is.
pub const FIRST: usize = 4096;
/// Bytes of an entry: a multiple of which is between the first one's place and the end of a chunk.
pub const ENTRY_BYTES: usize = 24;
/// Bits of an address that are 0 only before the first entry.
pub const WITHIN: usize = CHUNK_BYTES - FIRST;
const _: () = assert!(WITHIN.is_multiple_of(ENTRY_BYTES) && CHUNK_BYTES.is_power_of_two());

/// One entry: an aligned word of the region as it was.
#[repr(C)]
pub struct Entry {
    /// 0: not written yet. Else the tag, the number of the word in the window, and, in the lowest 8 bits, which of its bytes are stored to.
    pub head: AtomicU64,
    /// The word.
    pub old: AtomicU64,
    /// 0: of a block's owner, and so before all that have numbers.
    pub number: AtomicU64,
}

/// A thread's log.
#[repr(C, align(64))]
pub struct Log {
    /// Where the next entry goes; before the first entry of a chunk, or 0: a new chunk is needed.
    pub next: AtomicUsize,
    /// Which owner of blocks this is: from 1 on.
    pub id: AtomicU32,
    /// The tag for which more than a chunk was filled: words that are undone already are not saved again.
    pub crowded: AtomicU64,
    /// The tag for which the last chunk was begun.
    begun: AtomicU64,
    /// Chunks that it had.
    chunks: AtomicU64,
    /// The thread's id: when that thread has ended, another one has the log.
    thread: AtomicI32,
    /// Another log.
    other: AtomicPtr<Log>,
}

/// The beginning of a chunk.
#[repr(C)]
pub struct Chunk {
    pub log: AtomicPtr<Log>,
    /// How many chunks the log had before.
    pub index: AtomicU64,
    /// Another one that was begun, and that the reader has not seen yet.
    pub other: AtomicPtr<Chunk>,
}

/// All logs that there ever were, the latest first. They are as many as threads at one time, and never freed.
static LOGS: AtomicPtr<Log> = AtomicPtr::new(core::ptr::null_mut());
/// Chunks that were begun since the reader looked.
pub static BEGUN: AtomicPtr<Chunk> = AtomicPtr::new(core::ptr::null_mut());
/// Chunks that wait to be used, zeroed and present.
static SPARE: [AtomicPtr<Chunk>; 32] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 32];
/// Numbers of entries.
pub static NUMBERS: AtomicU64 = AtomicU64::new(1);
/// Where the region is, and its bytes; 0 without one.
pub static BASE: AtomicUsize = AtomicUsize::new(WINDOW);
pub static SIZE: AtomicUsize = AtomicUsize::new(0);
/// The owners of the region's blocks.
pub static OWNERS: AtomicUsize = AtomicUsize::new(0);
/// Of each word of the region, which bytes are in the mirror as they were.
pub static UNDONE: AtomicUsize = AtomicUsize::new(0);
/// Of each page, a byte: some of its words are undone. It is present, always; the notes of words are where this is not 0, so that no store
/// takes a page fault for a look at them.
pub static TOUCHED: AtomicUsize = AtomicUsize::new(0);

// Each thread's log: an initial-exec variable, found without a call.
global_asm!(
    ".pushsection .tbss, \"awT\", @nobits",
    ".balign 8",
    ".globl rv_mirror_thread_log",
    ".hidden rv_mirror_thread_log",
    ".type rv_mirror_thread_log, @object",
    ".size rv_mirror_thread_log, 8",
    "rv_mirror_thread_log:",
    ".zero 8",
    ".popsection",
);

fn thread_log() -> *const Log {
    let log: *const Log;
    // SAFETY: it loads this thread's variable.
    unsafe {
        asm!("mov {0}, [rip + rv_mirror_thread_log@gottpoff]", "mov {0}, fs:[{0}]", out(reg) log,
            options(nostack, preserves_flags, readonly));
    }
    log
}

fn set_thread_log(log: *const Log) {
    // SAFETY: it stores to this thread's variable.
    unsafe {
        asm!("mov {0}, [rip + rv_mirror_thread_log@gottpoff]", "mov fs:[{0}], {1}", out(reg) _, in(reg) log,
            options(nostack, preserves_flags));
    }
}

impl Log {
    /// That of a thread that has ended, or a new one. A signal handler may come here while its thread allocates: no memory of the C
    /// library's is used.
    fn claim() -> &'static Log {
        // SAFETY: both calls only ask.
        let (process, own) = unsafe { (libc::getpid(), libc::gettid()) };
        // SAFETY: signal 0 is none.
        let is_over = |thread: i32| {
            thread == own || unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) } != 0
        };
        for known in logs() {
            let thread = known.thread.load(SeqCst);
            if is_over(thread) && known.thread.compare_exchange(thread, own, SeqCst, SeqCst).is_ok() {
                return known;
            }
        }
        static IDS: AtomicU32 = AtomicU32::new(1);
        // SAFETY: new memory, of zeros, which is never given back.
        let new = unsafe { &*(map_for_log(size_of::<Log>()) as *const Log) };
        new.thread.store(own, SeqCst);
        new.crowded.store(u64::MAX, SeqCst);
        new.id.store(IDS.fetch_add(1, SeqCst), SeqCst);
        push(&LOGS, new, |log| &log.other);
        new
    }
}

/// Puts something that is never freed before the first of a list.
fn push<T>(first: &AtomicPtr<T>, new: &T, other: impl Fn(&T) -> &AtomicPtr<T>) {
    let mut head = first.load(Acquire);
    loop {
        other(new).store(head, Relaxed);
        match first.compare_exchange(head, core::ptr::from_ref(new).cast_mut(), SeqCst, Acquire) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

fn logs() -> impl Iterator<Item = &'static Log> {
    let mut at = LOGS.load(Acquire);
    std::iter::from_fn(move || {
        // SAFETY: logs are leaked, so that each pointer in the list stays valid.
        let found = unsafe { at.as_ref() }?;
        at = found.other.load(Acquire);
        Some(found)
    })
}

/// What a thread lacks for an entry of this word: a log, a chunk, or an owner of the block. Signal handlers may come between.
pub extern "C" fn prepare(address: usize) {
    // SAFETY: the C library's place for the last error; a store does not change it.
    let errno = unsafe { *libc::__errno_location() };
    let log = thread_log();
    if log.is_null() {
        set_thread_log(Log::claim());
    } else {
        // SAFETY: logs are leaked.
        let log = unsafe { &*log };
        let next = log.next.load(Relaxed);
        if next & WITHIN == 0 {
            begin_chunk(log, next);
        }
        own_block(log, address);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Makes the thread the owner of a block, or the block one of several threads.
fn own_block(log: &Log, address: usize) {
    // SAFETY: the address is in the region's window, whose owners are mapped.
    let owner =
        unsafe { &*((OWNERS.load(Relaxed) + ((address - WINDOW) >> BLOCK_BITS) * 4) as *const AtomicU32) };
    let tag = active().load(SeqCst);
    let shared = SHARED | (tag >> TAG_SHIFT) as u32;
    let id = log.id.load(Relaxed);
    let now = owner.load(SeqCst);
    if tag == 0 || now == id || now == shared {
        return;
    }
    let wanted = if now == 0 || now & SHARED != 0 { id } else { shared };
    // Where another thread was first, the word is looked at again.
    let _ = owner.compare_exchange(now, wanted, SeqCst, SeqCst);
}

/// Gives a log a chunk in place of the one that is full.
fn begin_chunk(log: &Log, full: usize) {
    let spare = SPARE.iter().find_map(|place| {
        let found = place.swap(core::ptr::null_mut(), SeqCst);
        (!found.is_null()).then_some(found)
    });
    let chunk = spare.unwrap_or_else(new_chunk);
    // SAFETY: a chunk that nobody else knows.
    let begun = unsafe { &*chunk };
    begun.log.store(core::ptr::from_ref(log).cast_mut(), SeqCst);
    begun.index.store(log.chunks.fetch_add(1, SeqCst), SeqCst);
    // The reader knows of it before the first of its entries is there.
    push(&BEGUN, begun, |chunk| &chunk.other);
    let tag = active().load(SeqCst);
    if log.begun.swap(tag, SeqCst) == tag {
        log.crowded.store(tag, SeqCst);
    }
    // Where a signal handler has begun one meanwhile, that one is before all that this thread writes from now on.
    if log.next.compare_exchange(full, chunk as usize + FIRST, SeqCst, SeqCst).is_err() {
        begun.log.store(core::ptr::null_mut(), SeqCst);
    }
}

/// Memory of zeros, wherever there is room; `None` where the kernel refuses it, whose error is the thread's last one.
pub fn map(bytes: usize) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory.
    let got = unsafe { libc::mmap(core::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    (got != libc::MAP_FAILED).then_some(got as usize)
}

/// The same for a log, without which no store can go on.
fn map_for_log(bytes: usize) -> usize {
    map(bytes).expect("there is memory for the log of what is stored to the region")
}

/// A chunk from the kernel, at a multiple of its size.
fn new_chunk() -> *mut Chunk {
    let got = map_for_log(2 * CHUNK_BYTES);
    let start = got.next_multiple_of(CHUNK_BYTES);
    let before = start - got;
    // SAFETY: what is not used is given back.
    unsafe {
        if before != 0 {
            libc::munmap(got as *mut _, before);
        }
        libc::munmap((start + CHUNK_BYTES) as *mut _, CHUNK_BYTES - before);
    }
    start as *mut Chunk
}

/// The region whose stores are saved: its bytes, and where the owners of its blocks and what is undone of its words are.
pub fn begin_region(size: usize, owners: usize, undone: usize, touched: usize) {
    OWNERS.store(owners, SeqCst);
    UNDONE.store(undone, SeqCst);
    TOUCHED.store(touched, SeqCst);
    SIZE.store(size, SeqCst);
}

/// There is no region any more.
pub fn end_region() {
    SIZE.store(0, SeqCst);
}

/// Empties a chunk of which nobody knows, which makes it present, for the next who needs one.
pub fn recycle(chunk: *mut Chunk) {
    // SAFETY: nobody knows of it.
    unsafe { chunk.cast::<u8>().write_bytes(0, CHUNK_BYTES) };
    let null = core::ptr::null_mut();
    if !SPARE.iter().any(|place| place.compare_exchange(null, chunk, SeqCst, SeqCst).is_ok()) {
        give_back(chunk);
    }
}

fn give_back(chunk: *mut Chunk) {
    // SAFETY: mapped by `new_chunk`, and nobody knows of it.
    unsafe { libc::munmap(chunk.cast(), CHUNK_BYTES) };
}

/// Has some chunks ready, so that threads do not ask the kernel for them, and gives others back.
pub fn provide(count: usize) {
    for place in SPARE.iter().skip(count) {
        let chunk = place.swap(core::ptr::null_mut(), SeqCst);
        if !chunk.is_null() {
            give_back(chunk);
        }
    }
    let missing = SPARE.iter().take(count).filter(|place| place.load(SeqCst).is_null()).count();
    (0..missing).for_each(|_| recycle(new_chunk()));
}
