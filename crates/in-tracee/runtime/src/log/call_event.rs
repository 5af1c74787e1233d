//! The event of a call: writing it, and injecting what it holds.

use events::{BEFORE_CALL, Header, Kind, SIGNAL_FOLLOWS, Tag};

use crate::ground::registers::Registers;
use crate::log::effects;
use crate::state::block::process;
use crate::state::call_state::Done;
use crate::state::{deliverable, report};

/// Replay: a signal was delivered where the process is. One that comes before a call is that
/// call's.
pub fn is_next() -> bool {
    process().log.peek().is_some_and(|next| next.is(Kind::Signal) && next.flags() & BEFORE_CALL == 0)
}

/// Begins the event of a call: result and arguments. Blobs and `end` follow.
#[inline]
pub fn begin_call(nr: u64, args: &[u64; 6], arg_count: usize, result: i64, flags: u8) {
    let log = &mut process().log;
    let follows = if deliverable::has_deliverable() { SIGNAL_FOLLOWS } else { 0 };
    log.follows = follows != 0;
    log.begin(Kind::Syscall, arg_count as u8 | flags | follows, nr as u16);
    log.word(result as u64);
    for &arg in &args[..arg_count] {
        log.word(arg);
    }
}

/// Injects the result and the memory of the event at hand, and consumes it.
#[inline]
pub fn inject(word: Header, registers: &Registers) -> i64 {
    inject_with(word, registers, &mut |_, _, _, _| {})
}

/// Like [`inject`], handing all blobs that are not memory to `other`.
#[inline]
pub fn inject_with(word: Header, registers: &Registers, other: &mut dyn FnMut(Tag, u64, u64, u64)) -> i64 {
    let log = &mut process().log;
    let result = log.body(0) as i64;
    let offset = 16 + (word.arguments()) * 8;
    if offset == word.bytes() && word.flags() & events::MORE == 0 {
        log.consume(word);
        log.events += 1;
        return result;
    }
    log.apply(word, offset, &mut |tag, address, bytes, source| match tag {
        Tag::Sent => effects::check_sent(registers, word, address, bytes, source),
        other_tag => other(other_tag, address, bytes, source),
    });
    result
}

pub fn consume(registers: &Registers) -> i64 {
    match process().log.peek() {
        Some(word) => inject(word, registers),
        None => report::log_ended(),
    }
}

/// Replay: the result of the event at hand.
pub fn recorded_result(registers: &Registers) -> i64 {
    match process().log.peek() {
        Some(_) => process().log.body(0) as i64,
        None => {
            report::note_registers(registers);
            report::log_ended()
        }
    }
}

/// Answers with an error, without asking the kernel.
pub fn reject(registers: &Registers, number: u64, args: &[u64; 6], count: usize, error: u32) -> Done {
    if process().replays() {
        return replayed(registers);
    }
    begin_call(number, args, count, -i64::from(error), events::REFUSED);
    process().log.end();
    Done::Result(-i64::from(error))
}

/// Replay: injects the result of the event at hand.
pub fn replayed(registers: &Registers) -> Done {
    Done::Result(consume(registers))
}
