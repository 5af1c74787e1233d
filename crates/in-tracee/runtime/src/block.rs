//! The runtime's own state: of the thread, the process, the address space.
//!
//! A child of vfork runs in its parent's memory while the parent waits: it takes
//! the next thread and process block, and shares the address space's.

use core::cell::UnsafeCell;
use core::mem::offset_of;

use lane_protocol::{LaneHeader, SESSION_START, Session, lane_header_address};

use crate::entry::Registers;
use crate::log::Log;
use crate::signals::Signals;
use crate::sites::Sites;

/// Bytes of a thread's stack inside the runtime.
pub const STACK_BYTES: usize = 64 * 1024;
/// Bytes of the stack for the runtime's real signal handlers: a frame with AMX
/// state is 11 KiB.
pub const SIGNAL_STACK_BYTES: usize = 64 * 1024;
/// Blocks: the process and children of vfork below it.
pub const BLOCKS: usize = 8;

pub const THREAD_USER_STACK: usize = offset_of!(Thread, user_stack);
pub const THREAD_STACK_TOP: usize = offset_of!(Thread, stack_top);
pub const THREAD_TARGET: usize = offset_of!(Thread, target);
pub const THREAD_PROBE_RAX: usize = offset_of!(Thread, probe_rax);
pub const THREAD_PROBE_FLAGS: usize = offset_of!(Thread, probe_flags);
pub const THREAD_PROBE_EXPECTED: usize = offset_of!(Thread, probe_expected);
pub const THREAD_KEPT_R11: usize = offset_of!(Thread, kept_r11);
const THREAD_PROCESS: usize = offset_of!(Thread, process);
pub const THREAD_PENDING: usize = offset_of!(Thread, pending);

/// What the gs base points to.
#[repr(C)]
pub struct Thread {
    pub own_address: u64,
    pub user_stack: u64,
    pub stack_top: u64,
    pub target: u64,
    /// The program's r11 on the way from an instruction's island.
    pub kept_r11: u64,
    /// Not zero: a signal is to be delivered before the next call is begun.
    pub pending: u32,
    /// Not zero: the call came through a trap, not through an island.
    pub trapped: u32,
    /// Not zero: the program's next single-step trap is not its own.
    pub swallow_step: u32,
    pub index: usize,
    /// Address of the process's block.
    pub process: u64,
    /// Registers of the program at a fault, for `signals::on_fault`.
    pub fault_registers: Registers,
    pub fault_signal: u32,
    pub fault_info: [u64; 16],
    /// What a probe's stub keeps and compares; see `probe`.
    pub probe_rax: u64,
    pub probe_flags: u64,
    pub probe_expected: [u64; crate::probe::CONDITIONS],
}

/// State of a process.
#[repr(C)]
pub struct Process {
    pub replaying: bool,
    /// Memory is checksummed every so many events; 0: never.
    pub check_every: u64,
    /// Events before the next checksum.
    pub next_check: u64,
    pub segment: u64,
    /// Slot of the lane's segment in our memory.
    pub slot: u64,
    pub lane: u32,
    pub pid: i32,
    pub control_fd: i32,
    /// The value that the program set for PR_SET_DUMPABLE, plus one; 0: none.
    pub dumpable: u32,
    /// Recording has ended, and the filter that cannot be taken away stays.
    pub passes_through: bool,
    /// The program asked for PR_SET_NO_NEW_PRIVS itself.
    pub no_new_privileges: bool,
    pub log: Log,
    pub pausing: crate::pause::Pausing,
    /// What each descriptor reaches; see `outputs`.
    pub fd_classes: [u8; 1024],
    pub signals: Signals,
    pub probe: crate::probe::Probe,
}

impl Process {
    /// Replay: header of the event at hand; 0 when recording.
    pub fn log_word(&mut self) -> u64 {
        if self.replaying { self.log.peek().unwrap_or(0) } else { 0 }
    }
}

/// State of an address space.
#[repr(C)]
pub struct Space {
    pub break_start: u64,
    pub break_now: u64,
    pub clocks: crate::clocks::Clocks,
    /// Shared writable mappings of the program.
    pub shared: [lane_protocol::MemoryRange; 64],
    pub shared_count: usize,
    /// Bytes and features of the vector state in signal frames.
    pub vector_bytes: u32,
    pub vector_features: u64,
    /// Offset and length of each feature's part.
    pub vector_parts: [(u32, u32); 8],
    pub sites: Sites,
    pub mapped: crate::mapped_files::MappedFiles,
}

/// A cell that the single running thread of the address space owns.
#[repr(transparent)]
pub struct Owned<T>(UnsafeCell<T>);

// SAFETY: one thread runs in an address space at a time (a parent waits for its
// vfork child inside the kernel).
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    pub const fn new(value: T) -> Self {
        Owned(UnsafeCell::new(value))
    }

    pub fn get(&self) -> *mut T {
        self.0.get()
    }
}

/// All of it in one piece, in an order in which what every process touches at its
/// birth lies together: see [`populate`]. Stacks stand in reverse, so that the
/// first is next to what follows them.
#[repr(C, align(4096))]
pub struct Home {
    signal_stacks: [[u8; SIGNAL_STACK_BYTES]; BLOCKS],
    stacks: [[u8; STACK_BYTES]; BLOCKS],
    threads: [Thread; BLOCKS],
    space: Space,
    processes: [Process; BLOCKS],
}

/// Distance from the start of the home to the top of the first thread's stack.
pub const FIRST_STACK_TOP: usize = offset_of!(Home, threads);
const SIGNAL_STACKS_END: usize = offset_of!(Home, stacks);
const PAGE: u64 = 4096;

// All zero at first, which is a valid value: numbers, arrays of numbers and flags.
pub static HOME: Owned<core::mem::MaybeUninit<Home>> = Owned::new(core::mem::MaybeUninit::zeroed());

/// Makes the pages that every process writes to at its birth private to it in one
/// go, where the kernel can (Linux 5.14): each page fault costs several times as
/// much as the page.
pub fn populate(with_signal_stack: bool) {
    const MADV_POPULATE_WRITE: u64 = 23;
    let home = HOME.get() as u64;
    let advise = |start: u64, end: u64| {
        let (start, end) = (start & !(PAGE - 1), end.next_multiple_of(PAGE));
        crate::kernel::call(
            linux_abi::general::__NR_madvise,
            [start, end - start, MADV_POPULATE_WRITE, 0, 0, 0],
        );
    };
    let first_stack_top = home + FIRST_STACK_TOP as u64;
    let space = home + offset_of!(Home, space) as u64;
    let processes = home + offset_of!(Home, processes) as u64;
    advise(first_stack_top - PAGE, space + PAGE / 2);
    advise(processes, processes + PAGE / 2);
    if with_signal_stack {
        let end = home + SIGNAL_STACKS_END as u64;
        advise(end - 2 * PAGE, end);
    }
}

/// The running thread's block.
#[inline]
pub fn thread() -> &'static mut Thread {
    let address: u64;
    // SAFETY: the gs base points to the block from birth on, and its first word
    // holds its own address.
    unsafe {
        core::arch::asm!("mov {}, gs:[0]", out(reg) address, options(nostack, preserves_flags, readonly));
        &mut *(address as *mut Thread)
    }
}

/// The block of this index.
pub fn thread_at(index: usize) -> &'static mut Thread {
    assert!(index < BLOCKS);
    // SAFETY: all-zero is a valid block; one thread runs at a time.
    unsafe { &mut (*HOME.get().cast::<Home>()).threads[index] }
}

/// The process of this index.
pub fn process_at(index: usize) -> &'static mut Process {
    assert!(index < BLOCKS);
    // SAFETY: as for `thread_at`.
    unsafe { &mut (*HOME.get().cast::<Home>()).processes[index] }
}

/// The running process.
#[inline]
pub fn process() -> &'static mut Process {
    let address: u64;
    // SAFETY: the thread's block holds the address from `enter_block` on.
    unsafe {
        core::arch::asm!("mov {}, gs:[{offset}]", out(reg) address, offset = const THREAD_PROCESS,
            options(nostack, preserves_flags, readonly));
        &mut *(address as *mut Process)
    }
}

/// The address space.
#[inline]
pub fn space() -> &'static mut Space {
    // SAFETY: as for `thread_at`.
    unsafe { &mut (*HOME.get().cast::<Home>()).space }
}

/// The session's header.
#[inline]
pub fn session() -> &'static Session {
    // SAFETY: mapped at this address before anything asks for it; fields that
    // change are atomics.
    unsafe { &*(SESSION_START as *const Session) }
}

/// The running lane's header.
#[inline]
pub fn lane() -> &'static mut LaneHeader {
    // SAFETY: the segment is mapped at its slot from birth on; only this process
    // writes the fields that are not atomics.
    unsafe { &mut *(lane_header_address(process().slot) as *mut LaneHeader) }
}

/// Prepares the block of this index for the calling thread and points gs there.
pub fn enter_block(index: usize) {
    let block = thread_at(index);
    block.own_address = block as *mut Thread as u64;
    block.stack_top = stack_top(index);
    block.index = index;
    block.process = process_at(index) as *mut Process as u64;
    crate::kernel::call(linux_abi::general::__NR_arch_prctl, [0x1001, block.own_address, 0, 0, 0, 0]);
}

/// Top of the stack of this index.
pub fn stack_top(index: usize) -> u64 {
    HOME.get() as u64 + (FIRST_STACK_TOP - index * STACK_BYTES) as u64
}

/// Start of the signal stack of this index.
pub fn signal_stack(index: usize) -> u64 {
    HOME.get() as u64 + (SIGNAL_STACKS_END - (index + 1) * SIGNAL_STACK_BYTES) as u64
}
