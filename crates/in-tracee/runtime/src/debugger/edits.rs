//! Edits: what the debugger changes in a live program, where it stands at its present.
//!
//! The place is logged first, so that replay finds it again: as a preemption point, which any
//! place can be; where a system call comes next, the edit is one before that call. Then
//! the edit is an event, of registers or of an address and bytes, and replay does it at
//! that place. There the debugger sees two boundaries, one before the edit and one behind
//! it; edits at one place, as of several registers by one command, are one.
//!
//! Deliberately absent: other threads' registers, and the past.

use events::{BEFORE_CALL, BLOB_HEADER_BYTES, HEADER_BYTES, Header, Kind, SETS_REGISTERS, Tag, padded};
use lane_protocol::bytecode::PROGRAM_BYTES_MAX;
use lane_protocol::{agent_verb, report_kind};
use linux_abi::{PAGE_BYTES, errno};

use crate::code::sites;
use crate::debugger::agent_state::{self, mailbox, state};
use crate::debugger::{agent, breakpoints, translate};
use crate::ground::assembly::rv_resume;
use crate::ground::frame::{self, RealFrame};
use crate::ground::memory::{self, Program, in_region};
use crate::ground::notices;
use crate::ground::owned::{Held, Owned};
use crate::ground::registers::{REGISTER_WORDS, Registers, SET_FLAGS};
use crate::ground::vector_state::vector_state;
use crate::log;
use crate::preemption::preemption_point;
use crate::state::block::{process, thread};
use crate::state::{live, report, signal_state};
use runtime_logic::accesses::Change;

struct State {
    /// Live: the log says where the program stands, in its last event.
    place_is_logged: bool,
    /// Live: it may stand in the middle of a repeated instruction.
    is_halfway: bool,
}

static STATE: Owned<State> = Owned::new(State { place_is_logged: false, is_halfway: false });

fn own() -> Held<State> {
    STATE.hold()
}

// --- live ---

/// The program goes on from where it stands.
pub fn note_going_on() {
    (own().place_is_logged, own().is_halfway) = (false, false);
}

/// It stands at a preemption that was logged.
pub fn note_preemption() {
    own().place_is_logged = true;
}

/// It stands where a watched place was accessed, maybe in the middle of an instruction.
pub fn note_halfway() {
    own().is_halfway = true;
}

/// Where the log stands behind an order.
pub enum Made {
    /// Where it stood.
    Nothing,
    /// Behind the preemption that says where the program stands.
    Place,
    Edit,
}

/// Does what the command at hand says, one of SET, WRITE, MARK; or an errno.
pub fn obey(registers: &mut Registers) -> Result<Made, u32> {
    let command = &state().command;
    let verb = command.verb;
    if process().log.broken != 0 {
        return Err(errno::EIO);
    }
    match verb {
        agent_verb::SET => check_registers(&command.registers)?,
        agent_verb::WRITE => check_memory(command.argument, command.order)?,
        _ => {}
    }
    let is_at_call = !own().place_is_logged && is_call(registers.rip);
    if !own().place_is_logged && !is_at_call {
        if own().is_halfway {
            return Err(errno::EINTR);
        }
        preemption_point::log_place(registers);
        own().place_is_logged = true;
        agent::note_boundary();
    }
    if verb == agent_verb::SET {
        registers.set_numbered(&command.registers);
    } else if verb != agent_verb::WRITE {
        return Ok(if is_at_call { Made::Nothing } else { Made::Place });
    }
    // A call loses registers on its way here, also in replay.
    let sets = verb == agent_verb::SET || is_at_call;
    let flags = if sets { SETS_REGISTERS } else { 0 } | if is_at_call { BEFORE_CALL } else { 0 };
    process().log.begin(Kind::Edit, flags, 0);
    if sets {
        log_registers(registers);
    }
    if verb == agent_verb::WRITE {
        write(command.argument, command.order);
    }
    process().log.end();
    own().place_is_logged = true;
    agent::note_boundary();
    Ok(Made::Edit)
}

/// True if the instruction is a system call.
fn is_call(address: u64) -> bool {
    memory::read::<[u8; 2]>(address) == Some([0x0f, 0x05])
}

fn check_registers(wanted: &[u64; REGISTER_WORDS]) -> Result<(), u32> {
    const RIP: usize = 16;
    const END_OF_ADDRESSES: u64 = 1 << 47;
    let rip = wanted[RIP];
    if rip >= END_OF_ADDRESSES || in_region(rip, 1) { Err(errno::EINVAL) } else { Ok(()) }
}

/// Writes each page's first byte of the range as it is.
fn check_memory(address: u64, bytes: u64) -> Result<(), u32> {
    if bytes == 0 || bytes > PROGRAM_BYTES_MAX as u64 || in_region(address, bytes) {
        return Err(errno::EFAULT);
    }
    let mut byte = 0u8;
    let place = &raw mut byte as u64;
    let is_there = pieces(address, bytes).all(|(start, _)| {
        memory::copy(place, start, 1) && (memory::copy(start, place, 1) || log::force_memory(start, place, 1))
    });
    if is_there { Ok(()) } else { Err(errno::EFAULT) }
}

/// The parts of a range in one page each.
fn pieces(address: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = address + bytes;
    let page = PAGE_BYTES;
    let start_of =
        move |index: u64| if index == 0 { address } else { (address & !(page - 1)) + index * page };
    let starts = (0..).map(start_of).take_while(move |&start| start < end);
    starts.map(move |start| (start, ((start | (page - 1)) + 1).min(end) - start))
}

/// Logs them with the vector registers, which are in the processor.
fn log_registers(registers: &Registers) {
    let log = &mut process().log;
    for word in registers.words() {
        log.word(word);
    }
    frame::live_vector_sum();
    log.whole_blob(0, u64::from(vector_state().bytes), Tag::Vectors, frame::summed_vectors());
}

/// Logs and writes what the mailbox holds.
fn write(address: u64, bytes: u64) {
    let source = mailbox().programs.as_ptr() as u64;
    for (start, count) in pieces(address, bytes) {
        process().log.whole_blob(start, count, Tag::Memory, source + (start - address));
    }
    for (start, count) in pieces(address, bytes) {
        let from = source + (start - address);
        if !memory::copy(start, from, count) && log::force_memory(start, from, count) {
            notices::memory_lost(start, count);
        }
    }
    translate::forget();
}

// --- recording with chaos ---

/// The thread goes on from a preemption in the middle of an instruction: what that does is an event, as
/// others may have written there meanwhile. False: it was not done.
pub fn end_change(registers: &mut Registers, change: &Change) -> bool {
    if !change.end(&Program, registers) {
        return false;
    }
    process().log.begin(Kind::Edit, SETS_REGISTERS, 0);
    log_registers(registers);
    process().log.whole_blob(change.address, change.bytes, Tag::Memory, &raw const change.result as u64);
    process().log.end();
    true
}

// --- replay ---

/// True if the edit that comes next is one of the place where the program stands.
pub fn is_due() -> bool {
    process().replays() && next(0).is_some()
}

/// The edit that comes next, if it is one with this flag, or without.
fn next(flag: u8) -> Option<Header> {
    let word = process().log.peek()?;
    let is_edit = word.is(Kind::Edit) && word.flags() & BEFORE_CALL == flag;
    is_edit.then_some(word)
}

/// The debugger lets the program go on: leaves the handler for the edit.
pub fn lead_to(context: &mut RealFrame) {
    let registers = context.registers();
    preemption_point::lead_to(context, registers);
}

/// The edit that comes next was made before the call that the program is about to make: it
/// goes on where that leads.
pub fn replay_before(registers: &mut Registers, word: Header) -> ! {
    thread().resume_state = signal_state::ResumeState::Preemption;
    replay_from(registers, word);
    agent::leaving(registers);
    // SAFETY: the registers are the program's, complete.
    unsafe { rv_resume(registers) }
}

/// Makes the edits of this place, if one comes next: the debugger has seen the boundary
/// before them. True if there was one.
pub fn replay(registers: &mut Registers) -> bool {
    let Some(word) = next(0) else { return false };
    replay_from(registers, word);
    true
}

fn replay_from(registers: &mut Registers, first: Header) {
    let mut word = Some(first);
    while let Some(edit) = word {
        breakpoints::without(|| apply(registers, edit));
        word = next(0);
    }
    if process().log.peek().is_none() {
        if live::goes_again() {
            return notices::log_is_replayed();
        }
        if !agent_state::is_debugging() {
            report::note_registers(registers);
            report::leave(report_kind::LOG_ENDED, 0, "");
        }
        // The present of a live program may be some instructions on.
    }
    preemption_point::arm_if_next();
}

/// Makes one edit.
fn apply(registers: &mut Registers, word: Header) {
    let sets = word.flags() & SETS_REGISTERS != 0;
    let fixed = if sets { 8 * REGISTER_WORDS as u64 } else { 0 };
    let start = HEADER_BYTES as u64 + fixed;
    if word.bytes() < start {
        report::fail("an edit is shorter than its registers");
    }
    if sets {
        let words: [u64; REGISTER_WORDS] = core::array::from_fn(|index| process().log.body(index as u64));
        let flags = registers.flags;
        *registers = Registers::from_words(words);
        registers.flags = flags & !SET_FLAGS | registers.flags & SET_FLAGS;
    }
    restore_at(start, word.bytes());
    process().log.apply(word, start, &mut |tag, _, bytes, source| {
        if tag == Tag::Vectors && !frame::load_logged_vectors(source, bytes) {
            report::fail("vector registers of another kind of processor");
        }
    });
    translate::forget();
    registers.rip = sites::translate(registers.rip);
}

/// Code that the edit at hand writes to is the program's own.
fn restore_at(start: u64, end: u64) {
    let mut offset = start;
    while offset + BLOB_HEADER_BYTES as u64 <= end {
        let log = &process().log;
        let (address, word) = (log.body((offset - 8) / 8), log.body((offset - 8) / 8 + 1));
        let bytes = word & 0xffff_ffff;
        if (word >> 32) as u32 & 0xffff == Tag::Memory as u32 {
            (address..address.saturating_add(bytes.min(PAGE_BYTES))).for_each(sites::restore_for_good);
        }
        offset += BLOB_HEADER_BYTES as u64 + padded(bytes as usize) as u64;
    }
}
