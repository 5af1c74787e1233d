//! Going back in time: checkpoints of the running process, and the ways back.
//!
//! A checkpoint forks a *shadow* of the process while the turn is held: its memory
//! is the state. Going back happens in place: all threads leave their stacks, the
//! agent (a thread of the runtime's) copies from the shadow what differs, and the
//! kernel's threads take up the threads of then. The log is then fed again to its
//! end (replay), or cut there (branch).
//!
//! Invariant: nothing in here that has to outlive the way back lies in memory that
//! goes back: it is in the lane's header, or in the live area (see `Area`).
//!
//! Deliberately absent: when checkpoints are taken, and how many are kept (the
//! supervisor's).

pub mod group;
pub mod resources;
pub mod restore;
pub mod take;

use resources::files;
use resources::first_use;
use resources::locks;
use resources::mappings;
use resources::postponed;
use resources::pushback;
use resources::tables;
use resources::user;
use restore::agent;
use restore::aside;
use restore::copying;
use restore::file_pages;
use restore::lost;
use restore::seats;
use take::checkpoint;
use take::increments;

use core::sync::atomic::{AtomicU32, Ordering};

use lane_protocol::{LIVE_BYTES, LIVE_START, checkpoint_origin, command};
use linux_abi::{errno, general as nr};

use crate::ground::kernel::{self, error};
use crate::ground::range_set::RangeSet;
use crate::ground::registers::Registers;
use crate::log::call_event::begin_call;
use crate::signals;
use crate::state::block::{self, lane, process, thread};
use crate::state::live::is_on;

pub use group::together::note_sharer;
pub use resources::files::refuses_copy;
pub use resources::first_use::wait as wait_before_first_use;
pub use resources::pushback::{is_any as gives_back, serve as give_back};
pub use restore::crash::{after_crash, before_crash, save_before_death};
pub use restore::debugging::{note_pause, obey_debugger, stop_at_fault, stop_before_call};
pub use restore::rollback::{enter_present, go_live, pass_on};
pub use restore::seats::{adopt, sit_down_at_end};
pub use restore::standing::{begin_thread, prepare_new};
pub use take::checkpoint::end_all as end_checkpoints;
pub use take::holding::take as take_turn;
pub use take::increments::{
    begin_child, begin_writing, end_increments, is_descriptor, lose_memory, release_memory, yield_descriptor,
};
pub use take::quiesce::{park_at_pause, park_if_wanted, stop_asked};

/// The first of the calls by which a program asks: see include/retrovane.h.
const CALLS: u64 = 0x52_5600;
const CHECKPOINT: u64 = CALLS;
const DISCARD: u64 = CALLS + 1;
const ROLLBACK: u64 = CALLS + 2;
const REPLAY: u64 = CALLS + 3;
const ROLLBACKS: u64 = CALLS + 4;
const REPLAYING: u64 = CALLS + 5;
const CHECK: u64 = CALLS + 6;
const LOST: u64 = CALLS + 7;

const STACK_BYTES: usize = 0x4_0000;

/// Memory that does not go back. Mapped in live sessions only.
#[repr(C)]
pub struct Area {
    /// The agent's stack.
    stack: [u8; STACK_BYTES],
    seats: [seats::Seat; seats::SEATS],
    /// Not zero: all threads are to park. A futex word.
    parking: AtomicU32,
    /// The thread that waits for what it asked of the agent, plus one; 0: none.
    asker: u32,
    /// Counts threads that parked; a futex word.
    parked: AtomicU32,
    /// Counts threads of a branch that have left the dropped future's signals behind, or
    /// at the end those that take no signals any more; a futex word.
    arrived: AtomicU32,
    /// What parked threads do next, a `quiesce::verdict`; a futex word.
    verdict: AtomicU32,
    agent_index: u32,
    /// Not zero: the program was rolled back under the debugger, and is to stand.
    stands: AtomicU32,
    /// The checkpoint that the process was rolled back to a moment ago, plus one: the
    /// call that took it returns again.
    returns_again: u64,
    /// Not zero: the thread that a replay begins with follows the log's first turn event.
    first_waits: u32,
    /// The thread that asked for a replay, plus one: its call returns in the present.
    replays_for: u64,
    /// Processes that the program made, which share its pages.
    forks: u32,
    /// Signals that waited in the kernel at the last checkpoint.
    pending: signals::Pending,
    /// Who the process is.
    user: user::User,
    /// Not zero: a shadow may still have the program's descriptors open.
    unready: u32,
    /// Shadows that were ended and not waited for yet; 0: none.
    ended: [i32; 64],
    /// Offsets of files at the last checkpoint, known before the program went on.
    offsets: first_use::Offsets,
    /// Where memory came to from another place since the last shadow was made by fork.
    moved: RangeSet,
    compared: [u8; copying::COMPARED_BYTES],
    candidates: copying::Few,
    lists: mappings::Lists,
    tables: tables::Tables,
    locks: locks::Known,
    pushback: pushback::Pushback,
    files: files::Files,
    file_pages: file_pages::FilePages,
    aside: aside::Aside,
    /// A rollback that comes in place of a crash: a `recover_way`, and the signal.
    recovering: [u64; 2],
    increments: increments::Increments,
    calm: postponed::Calm,
    /// The program has made timers (timer_create(2)).
    has_timers: bool,
    /// Not zero: memory was restored, so that mappings may be divided where they were one.
    went_back: AtomicU32,
    /// Not zero: what led to a crash was saved.
    saved: AtomicU32,
}

/// Most bytes that a branch can give back.
const RECORDS_BYTES_MAX: u64 = 64 << 20;

/// Where they are: behind the area.
fn records_place() -> u64 {
    LIVE_START + (size_of::<Area>() as u64).next_multiple_of(4096)
}

const _: () = assert!(size_of::<Area>() as u64 + RECORDS_BYTES_MAX + 4096 <= LIVE_BYTES);

fn area() -> &'static mut Area {
    // SAFETY: mapped at the birth of a live image; the fields that several threads
    // use at a time are atomics, the others belong to the turn's holder.
    unsafe { &mut *(LIVE_START as *mut Area) }
}

/// Not zero: the area is mapped. A child of vfork has it with its parent.
static HAS_AREA: AtomicU32 = AtomicU32::new(0);

#[inline]
fn has_area() -> bool {
    HAS_AREA.load(Ordering::Relaxed) != 0
}

/// True if memory was restored in this process, or in one that it was made by.
pub fn went_back() -> bool {
    has_area() && area().went_back.load(Ordering::Relaxed) != 0
}

/// True for the calls by which a program asks for checkpoints.
#[inline]
pub fn is_call(number: u64) -> bool {
    (CHECKPOINT..=LOST).contains(&number)
}

/// Whether the program is being replayed; never logged.
pub fn replaying_asked(registers: &mut Registers) -> bool {
    let asked = u64::from(registers.rax as u32) == REPLAYING;
    if asked && (is_on() || process().replaying) {
        registers.rax = u64::from(process().replaying);
        return true;
    }
    false
}

/// One of the calls, in the present: its result.
pub fn call(registers: &Registers) -> i64 {
    let number = u64::from(registers.rax as u32);
    let id = registers.rdi;
    if matches!(number, CHECK | LOST) {
        return lost::call(number == CHECK, &registers.args());
    }
    let result = match number {
        CHECKPOINT => match core::mem::take(&mut area().returns_again) {
            0 => checkpoint::take(checkpoint_origin::PROGRAM),
            again => again as i64 - 1,
        },
        DISCARD if checkpoint::is_window(id) => error(errno::EBUSY),
        DISCARD => checkpoint::discard(id),
        ROLLBACKS => checkpoint::rollbacks(id),
        REPLAY if area().replays_for == thread().index as u64 + 1 => {
            area().replays_for = 0;
            0
        }
        ROLLBACK => agent::ask(command::ROLLBACK, id),
        _ => agent::ask(command::REPLAY, id),
    };
    let count = usize::from(number != CHECKPOINT);
    begin_call(number, &registers.args(), count, result, 0);
    process().log.end();
    result
}

/// Memory was moved to these addresses by mremap(2): pages that the process and a shadow share are
/// at another place there.
pub fn note_moved(start: u64, bytes: u64) {
    if has_area() {
        area().moved.add(start, start.saturating_add(bytes));
    }
}

/// The program makes a process that shares its pages until either writes to them.
pub fn note_fork(shares: bool) {
    if shares || !is_on() || !lane_takes_part() {
        return;
    }
    increments::settle();
    if process().slot == 0 {
        area().forks += 1;
    }
}

/// The program is about to make a call of lseek(2).
#[inline]
pub fn before_seek(args: &[u64; 6]) {
    if is_on() && lane_takes_part() && process().slot == 0 {
        first_use::before_change(u64::from(nr::__NR_lseek), args);
    }
}

/// The program is about to make a call; true if [`after_call`] wants to know its end.
#[inline]
pub fn before_call(number: u64, args: &[u64; 6]) -> bool {
    if !lane_takes_part() || process().slot != 0 {
        return false;
    }
    first_use::before_change(number, args);
    match number as u32 {
        nr::__NR_wait4 | nr::__NR_waitid => checkpoint::reap_before(number, args),
        nr::__NR_close
        | nr::__NR_close_range
        | nr::__NR_dup2
        | nr::__NR_dup3
        | nr::__NR_flock
        | nr::__NR_fcntl => locks::before_call(number, args),
        nr::__NR_timer_create => area().has_timers = true,
        _ => {}
    }
    user::is_changed_by(number, args) || files::before(number, args)
}

/// A call of which [`before_call`] said so has ended.
pub fn after_call(number: u64, args: &[u64; 6], result: i64) {
    if user::is_changed_by(number, args) {
        user::after_call(number, args, result);
    } else {
        files::after(number, args, result);
    }
}

/// True, once, for the thread that a replay begins with, if the turn comes from another process.
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

/// Who the agent is among those who take the turn.
pub fn agent_identity() -> Option<u64> {
    let is_there = is_on() && lane_takes_part() && process().slot == 0;
    is_there.then(|| lane_protocol::thread_identity(process().lane, area().agent_index))
}

/// Maps the area; false if memory is short.
fn map_area() -> bool {
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED | nr::MAP_NORESERVE;
    let bytes = (size_of::<Area>() as u64).next_multiple_of(4096);
    !kernel::failed(kernel::mmap(LIVE_START, bytes, 3, flags, -1, 0))
}

/// An image begins, or a process with the memory of another.
pub fn begin() {
    if !is_on() || process().replaying || process().slot != 0 {
        return;
    }
    checkpoint::forget_all();
    lane().image.fetch_add(1, Ordering::AcqRel);
    kernel::futex_wake(&lane().image);
    lane().takes_part.store(0, Ordering::Release);
    HAS_AREA.store(0, Ordering::Relaxed);
    if !map_area() {
        return;
    }
    HAS_AREA.store(1, Ordering::Relaxed);
    user::begin();
    agent::begin();
}

/// True if the process has an agent.
#[inline]
fn lane_takes_part() -> bool {
    lane().takes_part.load(Ordering::Relaxed) != 0
}

/// Why the process cannot be checkpointed or go back now, if so.
fn obstacle() -> Option<i64> {
    if process().slot != 0 || !lane_takes_part() || block::are_several_here() {
        return Some(error(errno::EBUSY));
    }
    None
}
