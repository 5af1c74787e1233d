//! A preemption point: what the log says of it, and where replay goes on from it. How a
//! program comes to one: see `pause`.

use events::{Kind, Tag};

use crate::address_space::file_ends;
use crate::address_space::page_tracker::{self, Summed};
use crate::code::trampolines;
use crate::ground::frame::{self, RealFrame};
use crate::ground::notices;
use crate::ground::owned::Held;
use crate::ground::registers::{REGISTER_WORDS, Registers, TRAP_FLAG};
use crate::preemption::{left_handlers, replay_trap, volatile_words};
use crate::state::block::process;

/// Words of a preemption's body: registers, vector sum, memory sum.
pub const BODY_WORDS: u64 = 20;
/// Set where a page fault came before, as protected pages and new ones make it, or a trap in
/// place of an instruction: not the program's state.
pub const RESUME_FLAG: u64 = 0x1_0000;
/// Flags that belong to the program's state: arithmetic, direction.
pub const STATE_FLAGS: u64 = crate::ground::decode::ARITHMETIC_FLAGS | 0x400;

/// Leaves a handler for a preemption point, where the program stands with these registers.
pub fn lead_to(context: &mut RealFrame, mut registers: Registers) {
    registers.flags &= !TRAP_FLAG;
    left_handlers::leave_handler(context, registers, 0);
}

/// Live: logs that the program stands here, about to execute this instruction, which was
/// not looked for.
pub fn log_place(registers: &Registers) {
    log_state(registers, false, || volatile_words::words_near(registers));
}

/// Logs the state as a preemption; what protecting memory costs, in nanoseconds.
pub fn log_state(registers: &Registers, yields: bool, words: impl FnOnce() -> Held<[[u64; 2]]>) -> u64 {
    page_tracker::look(&mut |_, _| {});
    let words = words();
    let mut memory = Summed { ranges: None, sum: 0, protection_ns: 0 };
    notices::without_breakpoints(&mut || memory = page_tracker::sum());
    let vectors = frame::live_vector_sum();
    let log = &mut process().log;
    log.begin(Kind::Preemption, if yields { events::YIELDS } else { 0 }, 0);
    for word in state_words(registers) {
        log.word(word);
    }
    log.word(vectors);
    log.word(memory.sum);
    log.blob(0, frame::LEGACY_BYTES, Tag::Vectors, frame::summed_vectors());
    if let Some(ranges) = memory.ranges {
        log.blob(0, size_of_val(ranges) as u64, Tag::Ranges, ranges.as_ptr() as u64);
    }
    log.blob(0, size_of_val(&*words) as u64, Tag::Words, words.as_ptr() as u64);
    log.end();
    memory.protection_ns
}

/// The registers as a preemption logs them.
pub fn state_words(registers: &Registers) -> [u64; REGISTER_WORDS] {
    Registers { flags: registers.flags & STATE_FLAGS, ..*registers }.words()
}

// --- replaying ---

/// If a preemption is what comes next, plants the replay trap that will find it.
#[inline]
pub fn arm_if_next() {
    loop {
        let Some(word) = process().log.peek() else {
            return;
        };
        match word.kind() {
            Some(Kind::Trampoline) => trampolines::replay_trampoline(word),
            Some(Kind::Preemption) => {
                replay_trap::plant();
                return;
            }
            Some(Kind::Fault) => {
                file_ends::await_fault(word);
                return;
            }
            _ => return,
        }
    }
}
