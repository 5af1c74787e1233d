//! The runtime's own state: of the thread, the process, the address space.
//!
//! The first blocks of threads and processes are a part of the runtime's image; further
//! threads have memory of their own, mapped when they are made. A child of vfork, in its
//! parent's memory, takes a free thread and process block, and shares the address space's.

mod mode;
mod space;

mod pages;

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};
use events::Header;

use lane_protocol::{
    LANE_SLOTS, LaneHeader, SESSION_START, Session, THREAD_AREA_BYTES, THREADS_MAX, THREADS_START,
    lane_header_address,
};

pub use crate::ground::owned::{Held, Owned};
use crate::ground::registers::Registers;
use crate::state::log_end::Log;
use crate::state::signal_state::{Actions, Signals};
pub use mode::Mode;
pub use pages::populate;
pub use space::Space;

/// Bytes of a thread's stack inside the runtime.
pub const STACK_BYTES: usize = 64 * 1024;
/// Bytes of the stack for real signals' handlers: a frame with AMX state is 11 KiB.
pub const SIGNAL_STACK_BYTES: usize = 64 * 1024;
/// Blocks of threads in the runtime's image.
pub const BLOCKS: usize = 8;

pub const THREAD_USER_STACK: usize = offset_of!(Thread, user_stack);
pub const THREAD_STACK_TOP: usize = offset_of!(Thread, stack_top);
pub const THREAD_TARGET: usize = offset_of!(Thread, target);
pub const THREAD_LEAVING: usize = offset_of!(Thread, leaving);
pub const THREAD_PROGRAMS_GS: usize = offset_of!(Thread, programs_gs);
const THREAD_PROCESS: usize = offset_of!(Thread, process);
pub const THREAD_PENDING: usize = offset_of!(Thread, pending);
pub const THREAD_CALL_NUMBER: usize = offset_of!(Thread, call_number);
pub const THREAD_START: usize = offset_of!(Thread, start);
pub const THREAD_ALIVE: usize = offset_of!(Thread, alive);

/// What the gs base points to.
#[repr(C)]
pub struct Thread {
    pub own_address: u64,
    pub user_stack: u64,
    pub stack_top: u64,
    pub target: u64,
    /// The program's gs base, where gs is shared; see `gs`.
    pub programs_gs: u64,
    /// Not zero: a signal is to be delivered before the next call is begun.
    pub pending: u32,
    /// Not zero: the call came through a trap, not through a trampoline.
    pub trapped: u32,
    pub filters: crate::state::call_state::ThreadFilters,
    /// Not zero: the program's next single-step trap is not its own.
    pub swallow_step: u32,
    /// Recording: not zero while an output is written; 2 times the signal to die of behind it.
    pub output: AtomicU32,
    pub index: usize,
    /// Address of the process's block.
    pub process: u64,
    /// The thread's real id.
    pub tid: i32,
    /// In a lab: the thread's place there, and reads of the time since it last asked the engine.
    pub lab_slot: u32,
    pub lab_reads: u32,
    /// Calls since then, as [`lane_protocol::LAB_CALLS`] counts them.
    pub lab_calls: u32,
    /// See [`thread_status`].
    pub status: u32,
    /// Not zero until the kernel's thread is gone (CLONE_CHILD_CLEARTID).
    pub alive: AtomicU32,
    /// Replay: counts how often the thread got the token; a futex word.
    pub token_wake: AtomicU32,
    /// What the thread is in the lane's token.
    pub identity: u64,
    /// Not zero: the thread's buffer for results is mapped.
    pub bounce_mapped: u32,
    /// Another thread asked for the token while this one computes.
    pub is_asked: bool,
    /// It released the token at a preemption.
    pub yielded: bool,
    pub futile: crate::state::scheduling::FutileWaits,
    /// The time stamp counter traps in this thread.
    pub time_traps: bool,
    /// The program wants a fault where it reads the counter (PR_SET_TSC).
    pub time_forbidden: bool,
    /// Recording ended, and it goes on without us.
    pub has_left: bool,
    /// Live: the call at hand changes a file, and does not wait for anybody.
    pub keeps_token: bool,
    /// It stands until it is told to go on, or to leave its stack.
    pub parked: bool,
    /// Where in the log it was made: a checkpoint from before that does not have it.
    pub born_at: u64,
    /// Number of the call at hand, for beginning it again.
    pub call_number: u64,
    pub direct: crate::state::call_state::Direct,
    /// How it goes on where it stands, while another thread holds the token.
    pub resume_state: crate::state::signal_state::ResumeState,
    /// Where the registers are with which it does.
    pub registers_at: u64,
    /// Its fs base as it was last set, or (live) when it released the token.
    pub fs_base: u64,
    /// Where a new thread begins inside the runtime.
    pub start: u64,
    /// Where the program wants a zero at the thread's end; 0: nowhere.
    pub clear_tid: u64,
    /// The program's list of robust futexes, and the length of its head.
    pub robust_list: [u64; 2],
    /// Of a thread older than the session: its rseq area (address, length, signature).
    pub rseq: [u64; 3],
    /// Replay: where the program's registers are while the runtime has the thread.
    pub user_registers: u64,
    /// Under the debugger: what it leaves to the kernel while it waits for its token.
    pub waiting: crate::state::signal_state::KernelPart,
    pub signals: Signals,
    pub preemption: crate::state::preemption::Preemption,
    pub waiter: crate::state::scheduling::Waiter,
    pub traced: crate::state::call_state::Traced,
    pub processors: crate::state::patched_code::Processors,
    pub scheduling: crate::state::scheduling::Scheduling,
    /// Registers of the program at a fault, for `entry::traps::on_fault`.
    pub fault_registers: Registers,
    pub fault_signal: u32,
    pub fault_info: [u64; 16],
    /// What the processor loads on leaving where gs is shared: registers, and `iretq`'s frame.
    below_leaving: u64,
    leaving: [u64; 20],
}

/// State of a thread's block. Kept in [`Thread::status`].
pub mod thread_status {
    pub const FREE: u32 = 0;
    pub const LIVE: u32 = 1;
    /// It has ended: free once the kernel's thread is gone.
    pub const ENDED: u32 = 2;
    /// It is the runtime's own.
    pub const AGENT: u32 = 3;
}

/// State of a process.
#[repr(C)]
pub struct Process {
    pub mode: Mode,
    /// It is a copy of another process, see `copies`, or was made by one.
    pub copied: bool,
    /// Replay: other processes were made that may have its memory.
    pub made_others: bool,
    /// Replay: other processes take the tokens of its group, or did. They are there once.
    pub met_others: bool,
    /// Others may run the program's code: the token counts.
    pub shares_token: bool,
    /// Other processes have the same token.
    pub in_group: bool,
    /// One of those that it descends from shared memory with others then.
    pub near_group: bool,
    /// Recording: the token that is waited for is another than before.
    pub joins: bool,
    /// Replay: it holds a ticket of the token.
    pub has_ticket: bool,
    /// Threads that the process has.
    pub threads: u32,
    /// The thread that the log's next event is of.
    pub logged_thread: u32,
    /// Which of the session's tokens is the lane's.
    pub token: u32,
    /// It runs in the memory of its parent, which waits.
    pub in_parents_memory: bool,
    /// A child of vfork asked to be traced: it leaves the recording where it executes a program.
    pub is_to_be_traced: bool,
    /// Replay: the ticket that the process holds.
    pub ticket: u64,
    /// Replay: how often it took in what others wrote, see `imports`.
    pub imports: u32,
    /// The copy that it is, or descends from: a process id, or 0.
    pub family: u64,
    /// Replay: the thread whose events come next.
    pub running_thread: AtomicU32,
    /// Recording was given up, a `StopReason`: each thread goes on by itself.
    pub given_up: AtomicU32,
    /// Replay: all other threads have to end.
    pub ending_others: AtomicU32,
    /// Recording: the log is complete: no other thread acquires the token any more.
    pub log_ends: AtomicU32,
    /// Recording: threads that are about to acquire the token.
    pub taking: AtomicU32,
    /// Memory is checksummed every so many events; 0: never.
    pub check_every: u64,
    /// Events before the next checksum.
    pub next_check: u64,
    pub segment: u64,
    /// Slot of the lane's segment in our memory.
    pub slot: u64,
    pub lane: u32,
    /// In its own namespace of process ids.
    pub pid: i32,
    /// As the supervisor sees it.
    pub outer_pid: i32,
    /// See `LaneHeader::pid_space`.
    pub pid_space: u32,
    /// See `LaneHeader::children_apart`.
    pub children_apart: bool,
    pub control_fd: i32,
    pub proc_dir: crate::state::proc_dir::ProcDir,
    /// The value that the program set for PR_SET_DUMPABLE, plus one; 0: none.
    pub dumpable: u32,
    /// Recording has ended, and the filter that cannot be taken away stays.
    pub passes_through: bool,
    /// The program asked for PR_SET_NO_NEW_PRIVS itself.
    pub no_new_privileges: bool,
    pub log: Log,
    /// What each descriptor reaches; see `descriptor_classes`.
    pub fd_classes: [u8; 1024],
    /// Whether calls on a descriptor may sleep; see `descriptor_classes`.
    pub fd_sleeps: [u8; 1024],
    /// Marks of regular files that descriptors reach, where that is known; see `descriptor_classes`.
    pub fd_marks: [u16; 1024],
    pub reads: crate::state::call_state::Reads,
    pub foreign_writes: crate::state::outside_memory::ForeignWritesSeen,
    pub left_memory: crate::state::signal_state::DeathsSeen,
    pub lists_of_maps: crate::state::call_state::MapLists,
    own_actions: Actions,
    /// Block of the process whose actions are ours, too (CLONE_SIGHAND).
    pub actions_of: usize,
    pub replay_trap: crate::state::preemption::ReplayTrap,
    pub spins: crate::state::call_state::Spins,
    pub packet_rings: crate::state::outside_memory::PacketRings,
}

impl Process {
    /// What is done with signals.
    #[inline]
    pub fn actions(&self) -> Held<Actions> {
        process_at(self.actions_of).part(|process| &mut process.own_actions)
    }

    /// After fork: no other process changes the actions any more.
    pub fn take_actions_over(&mut self) {
        let own = self.slot as usize;
        if self.actions_of != own {
            // SAFETY: two blocks of the same kind.
            unsafe {
                core::ptr::copy_nonoverlapping(
                    &raw const process_at(self.actions_of).own_actions,
                    &raw mut self.own_actions,
                    1,
                )
            };
            self.actions_of = own;
        }
    }

    /// Replay: header of the event at hand; 0 when recording.
    pub fn log_word(&mut self) -> Header {
        if self.replays() { self.log.peek().unwrap_or(Header::NONE) } else { Header::NONE }
    }
}

/// All in one piece, in an order in which what every process touches at its birth lies
/// together: see [`populate`]. Stacks stand in reverse: the first is next to what follows.
#[repr(C, align(4096))]
pub struct Home {
    signal_stacks: [[u8; SIGNAL_STACK_BYTES]; BLOCKS],
    stacks: [[u8; STACK_BYTES]; BLOCKS],
    threads: [Thread; BLOCKS],
    space: Space,
    processes: [Process; LANE_SLOTS],
}

/// Distance from the start of the home to the top of the first thread's stack.
pub const FIRST_STACK_TOP: usize = offset_of!(Home, threads);
pub const SIGNAL_STACKS_END: usize = offset_of!(Home, stacks);

// All zero at first, which is a valid value: numbers, arrays of numbers and flags.
pub static HOME: Owned<core::mem::MaybeUninit<Home>> = Owned::new(core::mem::MaybeUninit::zeroed());

/// Where the runtime's variables end.
pub fn runtime_end() -> u64 {
    unsafe extern "C" {
        static rv_bss_end: u8;
    }
    (&raw const rv_bss_end) as u64
}

/// The running thread's block.
#[inline]
pub fn thread() -> Held<Thread> {
    let address: u64;
    // SAFETY: the gs base points to the block from birth on, and its first word
    // holds its own address.
    unsafe {
        core::arch::asm!("mov {}, gs:[0]", out(reg) address, options(nostack, preserves_flags, readonly));
        Held::of(address as *mut Thread)
    }
}

/// The block of this index.
pub fn thread_at(index: usize) -> Held<Thread> {
    assert!(index < BLOCKS + space().areas);
    // SAFETY: all-zero is a valid block; each belongs to one thread.
    unsafe {
        if index < BLOCKS {
            Held::of(&raw mut (*HOME.get().cast::<Home>()).threads[index])
        } else {
            Held::of((area(index) + AREA_BLOCK as u64) as *mut Thread)
        }
    }
}

/// The process of this index.
pub fn process_at(index: usize) -> Held<Process> {
    assert!(index < LANE_SLOTS);
    // SAFETY: as for `thread_at`.
    unsafe { Held::of(&raw mut (*HOME.get().cast::<Home>()).processes[index]) }
}

/// Where the block of a thread is in its area: above both of its stacks.
pub const AREA_BLOCK: usize = SIGNAL_STACK_BYTES + STACK_BYTES;
const _: () = assert!(AREA_BLOCK + size_of::<Thread>() <= THREAD_AREA_BYTES as usize);

pub fn area(index: usize) -> u64 {
    THREADS_START + (index - BLOCKS) as u64 * THREAD_AREA_BYTES
}

/// Sees to it that there is a block of this index; false if memory is short.
pub fn provide_thread(index: usize) -> bool {
    while index >= BLOCKS + space().areas {
        if BLOCKS + space().areas >= THREADS_MAX {
            return false;
        }
        use linux_abi::general as nr;
        let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED | nr::MAP_NORESERVE;
        let start = area(BLOCKS + space().areas);
        if crate::ground::kernel::failed(crate::ground::kernel::mmap(
            start,
            THREAD_AREA_BYTES,
            3,
            flags,
            -1,
            0,
        )) {
            return false;
        }
        space().areas += 1;
    }
    true
}

/// Blocks that there are.
pub fn known_threads() -> usize {
    BLOCKS + space().areas
}

/// Those that some thread had: the others' pages are better left alone.
pub fn used_threads() -> usize {
    space().threads_used
}

/// A block that no thread has; `None` if there are too many threads.
pub fn find_free_thread() -> Option<usize> {
    let known = BLOCKS + space().areas;
    let free = (0..known).find(|&index| {
        let thread = &mut *thread_at(index);
        match thread.status {
            thread_status::FREE => true,
            thread_status::ENDED => thread.alive.load(Ordering::Acquire) == 0,
            _ => false,
        }
    });
    let index = free.unwrap_or(known);
    provide_thread(index).then_some(index)
}

/// A process block that nobody has; the first is the image's own.
pub fn find_free_process() -> Option<usize> {
    (1..LANE_SLOTS).find(|&index| process_at(index).threads == 0)
}

/// After fork: children of vfork stayed with the parent.
pub fn forget_other_processes() {
    let own = process().slot as usize;
    for index in (0..used_processes()).filter(|&index| index != own) {
        process_at(index).threads = 0;
    }
}

/// After fork: of all threads the calling one is left.
pub fn forget_other_threads() {
    let own = thread().index;
    for index in (0..used_threads()).filter(|&index| index != own) {
        let other = &mut *thread_at(index);
        other.status = thread_status::FREE;
        other.alive.store(0, Ordering::Relaxed);
        other.preemption = crate::state::preemption::Preemption::default();
        other.waiter = Default::default();
    }
    thread().traced = Default::default();
    space().futexes.forget();
    thread().waiter = Default::default();
    let process = &mut *process();
    process.threads = 1;
    process.logged_thread = own as u32;
    process.running_thread.store(own as u32, Ordering::Relaxed);
}

/// The running process.
#[inline]
pub fn process() -> Held<Process> {
    let address: u64;
    // SAFETY: the thread's block holds the address from `enter_block` on.
    unsafe {
        core::arch::asm!("mov {}, gs:[{offset}]", out(reg) address, offset = const THREAD_PROCESS,
            options(nostack, preserves_flags, readonly));
        Held::of(address as *mut Process)
    }
}

/// The address space.
#[inline]
pub fn space() -> Held<Space> {
    // SAFETY: as for `thread_at`.
    unsafe { Held::of(&raw mut (*HOME.get().cast::<Home>()).space) }
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
pub fn lane() -> Held<LaneHeader> {
    // SAFETY: the segment is mapped at its slot from birth on; only this process
    // writes the fields that are not atomics.
    unsafe { Held::of(lane_header_address(process().slot) as *mut LaneHeader) }
}

/// Process blocks that were ever used: the address space's own is the first.
pub fn used_processes() -> usize {
    space().processes_used
}

/// Prepares the block of this index, which belongs to the process of that one.
pub fn prepare_block(index: usize, process_index: usize) -> Held<Thread> {
    let mut space = space();
    space.threads_used = space.threads_used.max(index + 1);
    space.processes_used = space.processes_used.max(process_index + 1);
    let mut block = thread_at(index);
    block.own_address = &raw const *block as u64;
    block.stack_top = crate::state::stacks::stack_top(index);
    block.index = index;
    block.status = thread_status::LIVE;
    block.process = &raw const *process_at(process_index) as u64;
    (block.traced, block.filters, block.has_left) = Default::default();
    (block.processors.calls_left, block.scheduling) = Default::default();
    block.programs_gs = 0;
    block
}

/// Points gs to the block, which is prepared.
pub fn enter_block(index: usize) {
    let block = &mut *thread_at(index);
    crate::ground::kernel::call(linux_abi::general::__NR_arch_prctl, [0x1001, block.own_address, 0, 0, 0, 0]);
    own_block();
}

/// The running thread has its block until the kernel has seen it off.
pub fn own_block() {
    let block = &mut *thread();
    block.alive.store(1, Ordering::Release);
    let word = block.alive.as_ptr() as u64;
    block.tid =
        crate::ground::kernel::call(linux_abi::general::__NR_set_tid_address, [word, 0, 0, 0, 0, 0]) as i32;
}

/// True while others than the first process of this memory are in it.
pub fn are_several_here() -> bool {
    (1..used_processes()).any(|index| process_at(index).threads != 0)
}

/// Place of a process's block.
pub fn index_of_process(process: &Process) -> usize {
    process.slot as usize
}

/// The process id of a thread's process.
pub fn pid_of(other: &Thread) -> i32 {
    // SAFETY: a live thread's block holds its process's address.
    unsafe { (*(other.process as *const crate::state::block::Process)).pid }
}
