//! The end of a process whose memory others have: what the kernel does there (robust futexes,
//! get_robust_list(2); CLONE_CHILD_CLEARTID, set_tid_address(2)) is done before, with the token,
//! where it can be logged.

use core::sync::atomic::Ordering;

use events::{HEADER_BYTES, Kind, Tag};
use lane_protocol::{LANE_SLOTS, report_kind};

use crate::ground::registers::Registers;
use crate::ground::{kernel, memory, notices};
use crate::signals::{self, robust_futexes};
use crate::state::block::{
    lane, pid_of, process, process_at, thread, thread_at, thread_status, used_threads,
};
use crate::state::report;
use crate::state::signal_state::{Info, WaitingSignal};

/// Words that an exec that fails can take back.
const WORDS_MAX: usize = 64;

/// True if others see in memory that the process is gone.
fn are_seen() -> bool {
    process().in_group || process().in_parents_memory
}

/// The process is about to be gone, as its log tells. If it is in another's memory, its blocks are free
/// then.
pub fn leave_blocks() {
    tell();
    if process().slot != 0 {
        robust_futexes::each_of_process(&mut |own| own.status = thread_status::ENDED);
        process().threads = 0;
    }
}

/// Frees the blocks of a process that was killed, and told nobody; gives its place. The kernel
/// tells of its threads: see `Thread::alive`.
pub fn free_killed() -> Option<usize> {
    let of = |index: usize| {
        let process = &raw const *process_at(index) as u64;
        (0..used_threads()).map(thread_at).filter(move |thread| thread.process == process)
    };
    let found =
        (1..LANE_SLOTS).find(|&index| of(index).all(|thread| thread.alive.load(Ordering::Acquire) == 0))?;
    of(found).for_each(|mut thread| thread.status = thread_status::ENDED);
    process_at(found).threads = 0;
    Some(found)
}

/// Recording: the process is about to die here: its log tells all that it did.
pub fn tell() {
    lane().told_death_at.store(process().log.position(), Ordering::Release);
}

/// Recording: the process is about to die where it is.
pub fn let_go_if_seen() {
    if are_seen() {
        robust_futexes::log_dead_owner();
    }
}

/// Recording, at a call or a pause: the process dies of a signal that came. It is logged.
#[cold]
pub fn die(registers: &Registers, waiting: &WaitingSignal) -> ! {
    robust_futexes::log_dead_owner();
    leave_blocks();
    signals::die_of_outside(waiting.signal, &mut |signal| {
        signals::die_at(registers, signal);
        signals::die_of(signal);
    });
    kernel::exit_group(128 + waiting.signal as i32)
}

/// Replay: it died of the signal at hand.
#[cold]
pub fn replay(registers: &Registers, signal: u32, info: &Info) -> ! {
    notices::program_dies_of(info);
    apply_stores();
    leave_blocks();
    report::note_registers(registers);
    report::leave(report_kind::FAULTED, signal as i32, "")
}

/// Replay: the words that are written next, if any are.
pub fn apply_stores() {
    while let Some(word) = process().log.peek()
        && word.is(Kind::Store)
    {
        process().log.apply(word, HEADER_BYTES as u64, &mut |_, _, _, _| {});
    }
}

/// What was done in memory before an exec.
pub struct Undo {
    count: usize,
    words: [(u64, u32); WORDS_MAX],
    threads: u32,
}

/// Recording, before an exec that is expected to succeed: the process lets go of its memory.
pub fn begin_exec() -> Option<Undo> {
    if !are_seen() {
        return None;
    }
    let mut undo = Undo { count: 0, words: [(0, 0); WORDS_MAX], threads: process().threads };
    robust_futexes::each_word_of_process(&mut |address| {
        if let Some(slot) = undo.words.get_mut(undo.count)
            && let Some(value) = memory::read::<u32>(address)
        {
            *slot = (address, value);
            undo.count += 1;
        }
    });
    robust_futexes::log_dead_owner();
    // With more threads it is seldom: those are the kernel's to end.
    if undo.threads == 1 {
        leave_blocks();
    }
    Some(undo)
}

/// The exec failed.
#[cold]
pub fn take_back(undo: &Undo) {
    process().threads = undo.threads;
    thread().status = thread_status::LIVE;
    let log = &mut process().log;
    log.begin(Kind::Store, 0, 0);
    for &(address, value) in &undo.words[..undo.count] {
        if memory::write(address, &value) {
            log.blob(address, 4, Tag::Memory, address);
        }
    }
    log.end();
}

/// Recording, in the event at hand: another process was killed. If it had this memory, its
/// threads' words say so.
pub fn let_go_of(pid: i32) {
    for other in (0..used_threads()).map(thread_at) {
        let is_gone = other.status == thread_status::LIVE && other.process != thread().process;
        if is_gone && pid_of(&other) == pid {
            robust_futexes::log_let_go(&other);
        }
    }
}
