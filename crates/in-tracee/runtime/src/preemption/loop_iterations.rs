//! Loops of many instructions that only wait for a word to change, as those of emulators and
//! interpreters do: a program that was seen in the same state twice, without an event in
//! between, gets nowhere. Neither is the state compared whole, nor is it known where a loop
//! begins: it is seen at some moments, and a few of them meet it at one place.
//!
//! A state is the registers, and words around those that they point to: what counts, rather
//! than waits, has its counter there. One that is taken for waiting and counts releases the token
//! earlier than it must, which harms nobody.
//!
//! Deliberately absent: breakpoints at a place that was seen. Generated code may be written
//! anew meanwhile.

use runtime_logic::word_sums;

use crate::address_space::page_tracker;
use crate::ground::frame::RealFrame;
use crate::ground::memory;
use crate::ground::owned::{Held, Owned};
use crate::preemption::preemption_point;
use crate::state::block::{process, thread};
use crate::state::preemption::Success;

/// States that are kept.
const STATES_MAX: usize = 64;
/// Looks of the first time that somebody asks, and of later ones: their gaps are longer.
const LOOKS_FIRST: u32 = 4;
const LOOKS_LATER: u32 = 16;
/// Who was looked at in vain so often computes: the next ones that ask see it once only, as many as
/// this, and twice as many the next time.
const FUTILE_MAX: u32 = 3;
const PASSED_FIRST: u32 = 16;
const PASSED_MAX: u32 = 64;
/// Words of the stack, and how many of them are below its pointer.
const STACK_WORDS: u64 = 48;
const STACK_BELOW: u64 = 16;
/// The same of what other registers point to.
const POINTED_WORDS: u64 = 4;
const POINTED_BELOW: u64 = 1;

#[repr(C)]
struct Seen {
    /// Who was seen, and after how many events of the log.
    who: u64,
    events: u64,
    looks: u32,
    looks_left: u32,
    count: usize,
    states: [u64; STATES_MAX],
}

static SEEN: Owned<Seen> =
    Owned::new(Seen { who: 0, events: 0, looks: 0, looks_left: 0, count: 0, states: [0; STATES_MAX] });

fn seen() -> Held<Seen> {
    SEEN.hold()
}

/// Somebody asks whether the thread only waits; it is here.
pub fn begin(context: &RealFrame) {
    let seen = &mut *seen();
    let (who, events) = (thread().identity, process().log.events);
    if (seen.who, seen.events) != (who, events) {
        (seen.who, seen.events, seen.looks, seen.count) = (who, events, 0, 0);
    }
    let success = &mut thread().preemption.success;
    if success.passing != 0 {
        success.passing -= 1;
        seen.looks_left = 1;
        return;
    }
    if success.futile >= FUTILE_MAX {
        success.passed = (2 * success.passed).clamp(PASSED_FIRST, PASSED_MAX);
        success.passing = success.passed;
    }
    success.futile = (success.futile + 1).min(FUTILE_MAX);
    seen.looks = (2 * seen.looks).clamp(LOOKS_FIRST, LOOKS_LATER);
    seen.looks_left = seen.looks;
    is_again(context);
}

/// The thread was seen to wait: it is worth looking.
pub fn note_success() {
    thread().preemption.success = Success::default();
}

/// True if the thread is where it was before. Its state is kept, unless too many are.
pub fn is_again(context: &RealFrame) -> bool {
    let seen = &mut *seen();
    if (seen.who, seen.events) != (thread().identity, process().log.events) {
        seen.looks_left = 0;
        return false;
    }
    let state = state_of(context);
    if seen.states[..seen.count].contains(&state) {
        return true;
    }
    if seen.count < STATES_MAX {
        seen.states[seen.count] = state;
        seen.count += 1;
    }
    false
}

/// True if another look may show it.
pub fn looks_on() -> bool {
    let left = &mut seen().looks_left;
    *left = left.saturating_sub(1);
    *left != 0
}

fn state_of(context: &RealFrame) -> u64 {
    let registers = context.registers();
    let r = &registers;
    let mut sum = 0u64;
    let mut add = |word: u64| sum = word_sums::add(sum, word);
    preemption_point::state_words(r).iter().for_each(|&word| add(word));
    words_around(r.rsp, STACK_BELOW, STACK_WORDS).for_each(&mut add);
    let pointers = [
        r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15,
    ];
    // Elsewhere nothing changes, or a look would cost a fault.
    for pointer in pointers.into_iter().filter(|&pointer| page_tracker::is_writable(pointer)) {
        words_around(pointer, POINTED_BELOW, POINTED_WORDS).for_each(&mut add);
    }
    sum
}

/// So many words of memory, `below` of which are below an address, as far as they are there.
pub fn words_around(address: u64, below: u64, words: u64) -> impl Iterator<Item = u64> {
    let first = (address & !7).wrapping_sub(8 * below);
    (0..words).map_while(move |index| memory::read_word(first.wrapping_add(8 * index)))
}
