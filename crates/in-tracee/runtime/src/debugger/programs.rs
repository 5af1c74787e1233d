//! Programs of breakpoints: conditions that are evaluated where they are hit, and
//! what is recorded there for the debugger.
//!
//! Records lie in memory of the region until the debugger has taken them: when it is
//! nearly full the process stops, and the next command begins with none.

use core::sync::atomic::Ordering;

use bytecode::{Failure, Host, any_holds, evaluate, programs_of};
use lane_protocol::bytecode::{NO_PROGRAMS, RecordHeader, breakpoint_kind, failure, part, register};
use lane_protocol::{NONE, RECORDS_BYTES, RECORDS_START, agent_stop};
use linux_abi::general as nr;

use crate::debugger::{agent_state, breakpoints, open_calls};
use crate::ground::owned::{Held, Owned};
use crate::ground::registers::{self, Registers};
use crate::ground::{kernel, memory};
use crate::state::block::{lane, process, thread};

/// Most bytes of one record: what does not fit is left out.
const RECORD_BYTES_MAX: u64 = 0x8_0000;
const HEADER_BYTES: u64 = size_of::<RecordHeader>() as u64;

struct Records {
    is_mapped: bool,
    bytes: u64,
    /// The event since which hits are counted, and how many there were.
    event: u64,
    ordinal: u64,
}

static RECORDS: Owned<Records> = Owned::new(Records { is_mapped: false, bytes: 0, event: NONE, ordinal: 0 });

fn records() -> Held<Records> {
    RECORDS.hold()
}

/// What a hit comes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Stops,
    GoesOn,
    /// The debugger has to take the records first.
    Full,
}

/// Bytes that were recorded by the command at hand.
pub fn recorded_bytes() -> u64 {
    records().bytes
}

/// A command begins: what was recorded was taken.
pub fn begin_command() {
    records().bytes = 0;
}

/// The block of programs of a breakpoint.
fn block(index: usize) -> Option<&'static [u8]> {
    let start = *agent_state::state().command.programs.get(index)?;
    if start == NO_PROGRAMS {
        return None;
    }
    // SAFETY: the debugger changes programs where the program stands, and nobody runs them.
    unsafe { agent_state::mailbox().shared() }.programs.get(start as usize..)
}

/// True if a breakpoint has programs.
pub fn are_of(index: usize) -> bool {
    block(index).is_some()
}

/// True if a breakpoint's programs look at vector registers, which only a trap saves.
pub fn need_vectors(index: usize) -> bool {
    kind_of(index) & breakpoint_kind::VECTORS != 0
}

/// What a breakpoint with programs does.
fn kind_of(index: usize) -> u8 {
    block(index).and_then(|block| block.first().copied()).unwrap_or(0)
}

/// True if a breakpoint is one where calls end.
pub fn ends_calls(index: usize) -> bool {
    kind_of(index) & (breakpoint_kind::LEAVES | breakpoint_kind::RETURNS) != 0
}

/// The program stands at a breakpoint: evaluates what it has. `vectors` is where the
/// vector registers are saved, or 0; `executed` counts instructions that the agent
/// does not know of yet.
pub fn decide(index: usize, registers: &Registers, vectors: u64, executed: u64) -> Verdict {
    lane().held_up.fetch_add(1, Ordering::Relaxed);
    let Some([kind, rest @ ..]) = block(index) else { return Verdict::Stops };
    let mut host = Program { registers, vectors, fs_base: None };
    if *kind != breakpoint_kind::STOPS_IF {
        let were_followed = open_calls::are_followed();
        let verdict = record(index, *kind, rest, &mut host, executed);
        if open_calls::are_followed() != were_followed {
            breakpoints::follow_calls();
        }
        return verdict;
    }
    if any_holds(rest, &mut host) { Verdict::Stops } else { Verdict::GoesOn }
}

/// Why a hit of a breakpoint makes the program stand still, if it does.
pub fn stop_of(verdict: Verdict) -> Option<u32> {
    match verdict {
        Verdict::Stops => agent_state::hit(NONE).then_some(agent_stop::BREAKPOINT),
        Verdict::GoesOn => None,
        Verdict::Full => Some(agent_stop::RECORDED),
    }
}

/// The same for a breakpoint whose stub the program is in: the next trap stops it.
pub fn ends_command(verdict: Verdict) -> bool {
    agent_state::state().stop_in_stub = stop_of(verdict);
    agent_state::state().stop_in_stub.is_some()
}

/// False at an end of a call that was not recorded.
fn is_of_recorded(kind: u8, registers: &Registers) -> bool {
    let own = thread().index as u32;
    if kind & breakpoint_kind::LEAVES != 0 {
        open_calls::leave(own, registers.rsp.wrapping_add(8))
    } else if kind & breakpoint_kind::RETURNS != 0 {
        open_calls::end(own, registers.rsp, registers.rip)
    } else {
        true
    }
}

/// A call was recorded, at this place of the records.
fn begin_call(kind: u8, record: u64) {
    const WORD: u32 = part::DATA << part::KIND_SHIFT | 8;
    let value = |at: u64| (memory::read(at) == Some(WORD)).then(|| memory::read_word(at + 4)).flatten();
    // Of a call whose frame is not known no return is looked for.
    let first = record + HEADER_BYTES;
    if let (Some(frame), Some(returns_to)) = (value(first), value(first + 12)) {
        let leaves = kind & breakpoint_kind::LEAVES_AT_ONCE != 0;
        open_calls::begin(thread().index as u32, frame, returns_to, leaves);
    }
}

fn record(index: usize, kind: u8, rest: &[u8], host: &mut Program, executed: u64) -> Verdict {
    if !is_of_recorded(kind, host.registers) {
        return Verdict::GoesOn;
    }
    let own = &mut *records();
    let event = process().log.events;
    if own.event != event {
        (own.event, own.ordinal) = (event, 0);
    }
    own.ordinal += u64::from(!ends_calls(index));
    let mut programs = programs_of(rest);
    let condition = programs.next().unwrap_or_default();
    let failed = if condition.is_empty() {
        None
    } else {
        match evaluate(condition, host) {
            Ok(0) => {
                open_calls::pass();
                return Verdict::GoesOn;
            }
            Ok(_) => None,
            Err(failure) => Some(failure),
        }
    };
    if !map() {
        return Verdict::GoesOn;
    }
    let start = own.bytes;
    own.bytes += HEADER_BYTES;
    // A condition without a value is told as a record of nothing else.
    match failed {
        Some(failure) => {
            put(part::NO_CONDITION, &[]);
            put_failure(failure);
        }
        None => programs.for_each(|code| {
            if let Err(failure) = evaluate(code, host) {
                put_failure(failure);
            }
            put(part::END, &[]);
        }),
    }
    own.bytes = (own.bytes + 7) & !7;
    if kind & breakpoint_kind::CALLS != 0 && failed.is_none() {
        begin_call(kind, RECORDS_START + start);
    }
    let agent = &mut *agent_state::state();
    let header = RecordHeader {
        bytes: (own.bytes - start) as u32,
        breakpoint: index as u32,
        event,
        ordinal: own.ordinal,
        steps: if agent.steps_known { agent.steps + executed } else { NONE },
        thread: thread().index as u32,
        tid: thread().tid,
    };
    memory::write(RECORDS_START + start, &header);
    if own.bytes + RECORD_BYTES_MAX > RECORDS_BYTES { Verdict::Full } else { Verdict::GoesOn }
}

fn map() -> bool {
    let own = &mut *records();
    if !own.is_mapped {
        let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED | nr::MAP_NORESERVE;
        let mapped = kernel::mmap(RECORDS_START, RECORDS_BYTES, nr::PROT_READ | nr::PROT_WRITE, flags, -1, 0);
        own.is_mapped = !kernel::failed(mapped);
    }
    own.is_mapped
}

/// True if so many bytes more fit behind the part's word.
fn has_room(bytes: u64) -> bool {
    // `Full` has left room for one longest record, its end included.
    records().bytes + bytes + 64 <= RECORDS_BYTES
}

fn put(kind: u32, data: &[u8]) {
    if !has_room(data.len() as u64 + 4) {
        return;
    }
    let own = &mut *records();
    let word = kind << part::KIND_SHIFT | data.len() as u32 & part::BYTES_MASK;
    memory::write(RECORDS_START + own.bytes, &word);
    memory::copy(RECORDS_START + own.bytes + 4, data.as_ptr() as u64, data.len() as u64);
    own.bytes += 4 + data.len() as u64;
}

fn put_failure(failed: Failure) {
    match failed {
        Failure::Unreadable(address) => put(part::UNREADABLE, &address.to_le_bytes()),
        Failure::DivisionByZero => put(part::FAILED, &failure::DIVISION_BY_ZERO.to_le_bytes()),
        Failure::NoRegister => put(part::FAILED, &failure::NO_REGISTER.to_le_bytes()),
        Failure::BadProgram => put(part::FAILED, &failure::BAD_PROGRAM.to_le_bytes()),
    }
}

/// What a program sees of the thread that runs.
struct Program<'a> {
    registers: &'a Registers,
    vectors: u64,
    fs_base: Option<u64>,
}

impl Program<'_> {
    /// A vector register (xmm), or the first of the x87, if they were saved.
    fn vector_bytes(&self, number: u8) -> Option<[u8; 16]> {
        const IN_USE: u64 = 512;
        const X87: (u64, u64) = (1, 32);
        const SSE: (u64, u64) = (2, 160);
        let (part, place) = match number {
            0..16 => (SSE.0, SSE.1 + u64::from(number) * 16),
            register::ST0_AS_VECTOR => X87,
            _ => return None,
        };
        if self.vectors == 0 {
            return None;
        }
        let mut value = [0u8; 16];
        if memory::read_word(self.vectors + IN_USE).is_none_or(|bits| bits & part != 0) {
            memory::copy(value.as_mut_ptr() as u64, self.vectors + place, 16);
        }
        Some(value)
    }
}

impl Host for Program<'_> {
    fn register(&mut self, number: u16) -> Option<u64> {
        match number {
            register::FLAGS => Some(self.registers.flags & !crate::ground::registers::TRAP_FLAG),
            register::FS_BASE => Some(*self.fs_base.get_or_insert_with(registers::fs_base)),
            register::GS_BASE => Some(0),
            _ => self.registers.numbered().get(number as usize).copied(),
        }
    }

    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        let bytes = into.len() as u64;
        !crate::ground::memory::in_region(address, bytes)
            && memory::copy(into.as_mut_ptr() as u64, address, bytes)
    }

    fn record(&mut self, address: u64, bytes: u16) {
        let bytes = u64::from(bytes);
        if !has_room(bytes + 4) {
            return;
        }
        let own = &mut *records();
        let target = RECORDS_START + own.bytes;
        if crate::ground::memory::in_region(address, bytes) || !memory::copy(target + 4, address, bytes) {
            return put(part::UNREADABLE, &address.to_le_bytes());
        }
        memory::write(target, &(bytes as u32));
        own.bytes += 4 + bytes;
    }

    fn record_text(&mut self, address: u64, bytes_max: u16) {
        let mut buffer = [0u8; 1024];
        let most = buffer.len().min(bytes_max as usize);
        if crate::ground::memory::in_region(address, most as u64) {
            return put(part::UNREADABLE, &address.to_le_bytes());
        }
        match memory::read_text(address, &mut buffer[..most]) {
            Some(bytes) => put(part::DATA, &buffer[..bytes]),
            None => put(part::UNREADABLE, &address.to_le_bytes()),
        }
    }

    fn record_value(&mut self, value: u64) {
        put(part::DATA, &value.to_le_bytes());
    }

    fn vector(&mut self, number: u8) -> Option<u64> {
        self.vector_bytes(number)?.first_chunk().map(|lower| u64::from_le_bytes(*lower))
    }

    fn record_vector(&mut self, number: u8, bytes: u8) {
        match self.vector_bytes(number) {
            Some(value) => put(part::DATA, &value[..bytes.min(16) as usize]),
            None => put_failure(Failure::NoRegister),
        }
    }
}
