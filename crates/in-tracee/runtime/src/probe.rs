//! The probe that replay plants at a pause point.
//!
//! The instruction there becomes a jump to a stub that compares a few words of
//! the state in line (some nanoseconds a miss) and traps when they are all equal;
//! the trap compares everything. What differed then is compared in line from the
//! next round on.
//!
//! A jump of five bytes may touch several short instructions, into which something
//! may jump. All of them are executed elsewhere, and the stub lies where the jump's
//! distance has bytes, at the places where such instructions began, that the processor
//! refuses: what jumps there traps, and goes on at the copy. Where no jump fits, a
//! breakpoint traps at each pass.

use events::{BLOB_HEADER_BYTES, SummedRange, Tag, padded};

use crate::block::{THREAD_PROBE_EXPECTED, THREAD_PROBE_FLAGS, THREAD_PROBE_RAX, process, thread};
use crate::decode::{self, Cover, Form, JUMP_BYTES, PIECES};
use crate::entry::{self, Registers};
use crate::frame::{self, RealFrame};
use crate::pause::{BODY_WORDS, STATE_FLAGS, TRAP_FLAG, state_words};
use crate::{checksum, memory, sites, stub_place};

/// Words that a stub compares in line.
pub const CONDITIONS: usize = 16;
const STUB_BYTES: usize = 768;

/// Order of the registers in a pause's body, as the processor numbers them; rip
/// and flags have no number.
const NUMBERS: [u8; 18] = [15, 14, 13, 12, 5, 3, 11, 9, 8, 10, 2, 6, 7, 1, 0, NONE, NONE, 4];
const NONE: u8 = 0xff;
const RAX: u8 = 0;

#[derive(Clone, Copy)]
enum Condition {
    Free,
    Register(u8),
    Word(u64),
    /// The lower half of a vector register.
    Vector(u8),
}

/// A planted probe.
#[repr(C)]
pub struct Probe {
    /// Where; 0: none is planted.
    address: u64,
    stub: u64,
    trap: u64,
    miss: u64,
    end: u64,
    original: [u8; JUMP_BYTES as usize],
    cover: Cover,
    /// Where the copies of the covered instructions are.
    copies: [u64; PIECES],
    /// Memory that was mapped for the stub; 0: none.
    mapped: u64,
    conditions: [Condition; CONDITIONS],
    next_condition: usize,
    /// The range of memory that differed last.
    last_range: u64,
    /// The program can write to its code here.
    writable: bool,
    stepping_over: bool,
}

fn probe() -> &'static mut Probe {
    &mut process().probe
}

fn expected(index: u64) -> u64 {
    process().log.body(index)
}

/// Plants the probe for the pause at hand.
pub fn plant() {
    let address = expected(15);
    let probe = probe();
    if probe.address != 0 {
        return;
    }
    probe.address = address;
    probe.stepping_over = false;
    probe.conditions = [Condition::Free; CONDITIONS];
    probe.next_condition = 0;
    probe.last_range = 0;
    probe.stub = 0;
    sites::uncover(address);
    let mut byte = 0u8;
    let byte_at = &raw mut byte as u64;
    probe.writable = memory::copy(byte_at, address, 1) && memory::copy(address, byte_at, 1);
    probe.mapped = 0;
    memory::copy(probe.original.as_mut_ptr() as u64, address, JUMP_BYTES);
    let cover = decode::cover(address);
    let stub = cover.as_ref().and_then(|cover| stub_place::find(address, cover));
    if let (Some(cover), Some((stub, mapped))) = (cover, stub) {
        probe.mapped = mapped;
        probe.cover = cover;
        probe.stub = stub;
        write_stub();
        let mut jump = [0xe9, 0, 0, 0, 0];
        jump[1..].copy_from_slice(&(stub.wrapping_sub(address + JUMP_BYTES) as u32).to_le_bytes());
        put_code(address, &jump);
    } else {
        put_code(address, &[0xcc]);
    }
}

fn put_code(address: u64, bytes: &[u8]) {
    if probe().writable {
        sites::put_code(address, bytes);
    } else {
        sites::write_code(address, bytes);
    }
}

/// Takes the probe away.
fn remove() {
    let probe = probe();
    let bytes = if probe.stub != 0 { JUMP_BYTES as usize } else { 1 };
    put_code(probe.address, &probe.original[..bytes]);
    probe.address = 0;
    if probe.mapped != 0 {
        stub_place::give_back(probe.mapped);
        probe.mapped = 0;
    }
}

/// True for the start of memory that was mapped for a stub.
pub fn is_stub(start: u64) -> bool {
    probe().mapped != 0 && probe().mapped == start
}

// --- the stub ---

/// Writes the stub with its present conditions.
fn write_stub() {
    let probe = probe();
    let mut code = [0u8; STUB_BYTES];
    let mut at = 0;
    let mut misses = [0usize; CONDITIONS];
    let mut put = |bytes: &[u8]| {
        code[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
        at
    };
    // mov gs:[rax slot], rax; lahf; seto al; mov gs:[flags slot], rax
    put(&on_slot(0x89, RAX, THREAD_PROBE_RAX));
    put(&[0x9f, 0x0f, 0x90, 0xc0]);
    put(&on_slot(0x89, RAX, THREAD_PROBE_FLAGS));
    for (index, condition) in probe.conditions.iter().enumerate() {
        let slot = THREAD_PROBE_EXPECTED + index * 8;
        match *condition {
            Condition::Free => continue,
            Condition::Register(RAX) => {
                put(&on_slot(0x8b, RAX, THREAD_PROBE_RAX));
                put(&on_slot(0x3b, RAX, slot));
            }
            Condition::Register(number) => {
                put(&on_slot(0x3b, number, slot));
            }
            Condition::Word(address) => {
                // mov rax, imm64; mov rax, [rax]
                put(&[0x48, 0xb8]);
                put(&address.to_le_bytes());
                put(&[0x48, 0x8b, 0x00]);
                put(&on_slot(0x3b, RAX, slot));
            }
            Condition::Vector(number) => {
                // movq rax, xmm
                put(&[0x66, 0x48 | (number >> 3) << 2, 0x0f, 0x7e, 0xc0 | (number & 7) << 3]);
                put(&on_slot(0x3b, RAX, slot));
            }
        }
        // jne miss
        misses[index] = put(&[0x0f, 0x85, 0, 0, 0, 0]);
    }
    let trap_end = put(&[0xcc]);
    // mov rax, gs:[flags slot]; add al, 0x7f; sahf; mov rax, gs:[rax slot]
    put(&on_slot(0x8b, RAX, THREAD_PROBE_FLAGS));
    put(&[0x04, 0x7f, 0x9e]);
    let first_copy = put(&on_slot(0x8b, RAX, THREAD_PROBE_RAX));
    for &miss in misses.iter().filter(|&&miss| miss != 0) {
        let distance = (trap_end - miss) as u32;
        code[miss - 4..miss].copy_from_slice(&distance.to_le_bytes());
    }
    let end = write_copies(&mut code, first_copy);
    memory::copy(probe.stub, code.as_ptr() as u64, end as u64);
    probe.trap = probe.stub + trap_end as u64 - 1;
    probe.miss = probe.stub + trap_end as u64;
    probe.end = probe.stub + end as u64;
}

/// Writes the copies of the covered instructions and the jump back; returns the end.
fn write_copies(code: &mut [u8; STUB_BYTES], start: usize) -> usize {
    let probe = probe();
    let cover = &probe.cover;
    let mut at = start;
    let mut put = |bytes: &[u8]| {
        code[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
        at
    };
    // The distance from behind a field, which ends at this offset of the stub.
    let distance =
        |end: usize, target: u64| (target.wrapping_sub(probe.stub + end as u64) as u32).to_le_bytes();
    for index in 0..cover.count {
        let piece = cover.pieces[index];
        let copy_at = put(&[]);
        probe.copies[index] = probe.stub + copy_at as u64;
        let original = &cover.code[piece.offset as usize..(piece.offset + piece.bytes) as usize];
        match piece.form {
            Form::Copied(None) => {
                put(original);
            }
            Form::Copied(Some(place)) => {
                let mut moved = [0u8; 16];
                moved[..original.len()].copy_from_slice(original);
                let shift = (probe.address + piece.offset).wrapping_sub(probe.stub + copy_at as u64) as u32;
                let mut field = [0u8; 4];
                field.copy_from_slice(&moved[place..place + 4]);
                let field = u32::from_le_bytes(field).wrapping_add(shift);
                moved[place..place + 4].copy_from_slice(&field.to_le_bytes());
                put(&moved[..original.len()]);
            }
            Form::Jump(target) => {
                put(&[0xe9]);
                put(&distance(copy_at + 5, target));
            }
            Form::Conditional(condition, target) => {
                put(&[0x0f, 0x80 | condition]);
                put(&distance(copy_at + 6, target));
            }
            Form::Counting(target) => {
                put(&original[..original.len() - 1]);
                // To the jump behind the next one.
                put(&[2, 0xeb, 5]);
                let jump = put(&[0xe9]);
                put(&distance(jump + 4, target));
            }
        }
    }
    let jump = put(&[0xe9]);
    put(&distance(jump + 4, probe.address + cover.bytes))
}

/// Something jumped between covered instructions: it goes on at the copy.
fn enter_copy(context: &mut RealFrame, at: u64) -> bool {
    let probe = probe();
    if probe.address == 0 || probe.stub == 0 {
        return false;
    }
    let offset = at.wrapping_sub(probe.address);
    let pieces = &probe.cover.pieces[1..probe.cover.count];
    let entered = pieces.iter().position(|piece| piece.offset == offset && offset < JUMP_BYTES);
    if let Some(index) = entered {
        context.rip = probe.copies[index + 1];
    }
    entered.is_some()
}

/// An instruction on a 64-bit register and a word of the thread's block.
fn on_slot(opcode: u8, register: u8, offset: usize) -> [u8; 9] {
    let [a, b, c, d] = (offset as u32).to_le_bytes();
    let rex = 0x48 | (register >> 3) << 2;
    [0x65, rex, opcode, (register & 7) << 3 | 4, 0x25, a, b, c, d]
}

/// A trap of the program: true if it was the probe's.
pub fn on_trap(context: &mut RealFrame) -> bool {
    let probe = probe();
    if probe.address == 0 {
        return false;
    }
    if enter_copy(context, context.rip.wrapping_sub(1)) {
        return true;
    }
    let mut registers = context.registers();
    if probe.stub != 0 && context.rip == probe.trap + 1 {
        let saved = thread().probe_flags;
        registers.rax = thread().probe_rax;
        registers.flags = registers.flags & !0x8d5 | (saved >> 8) & 0xd5 | (saved & 1) << 11;
    } else if probe.stub != 0 || context.rip != probe.address + 1 {
        return false;
    }
    registers.rip = probe.address;
    if is_expected(&registers, context) {
        remove();
        let thread = thread();
        thread.fault_registers = registers;
        thread.fault_signal = 0;
        context.rip = entry::rv_entry_fault as *const () as u64;
    } else if probe.stub != 0 {
        write_stub();
        context.rip = probe.miss;
    } else {
        // Step over the instruction with its own first byte.
        put_code(probe.address, &probe.original[..1]);
        probe.stepping_over = true;
        context.rip = probe.address;
        context.flags |= TRAP_FLAG;
    }
    true
}

/// A single step: true if it was the one over a breakpoint.
pub fn on_step(context: &mut RealFrame) -> bool {
    let probe = probe();
    if probe.address == 0 || !probe.stepping_over {
        return false;
    }
    probe.stepping_over = false;
    context.flags &= !TRAP_FLAG;
    put_code(probe.address, &[0xcc]);
    true
}

/// A fault between covered instructions, or inside the stub: a word that it compares
/// is not mapped, so it is not equal.
pub fn on_fault(context: &mut RealFrame) -> bool {
    if enter_copy(context, context.rip) {
        return true;
    }
    let probe = probe();
    let inside = probe.address != 0 && probe.stub != 0 && (probe.stub..probe.miss).contains(&context.rip);
    if inside {
        context.rip = probe.miss;
    }
    inside
}

/// Compares the whole state; learns from the first difference.
fn is_expected(registers: &Registers, context: &RealFrame) -> bool {
    let words = state_words(registers);
    for (index, &word) in words.iter().enumerate() {
        let wanted = if index == 16 { expected(16) & STATE_FLAGS } else { expected(index as u64) };
        if word != wanted {
            if NUMBERS[index] != NONE {
                learn(Condition::Register(NUMBERS[index]), wanted);
            }
            return false;
        }
    }
    if let Some((address, wanted)) = differing_word() {
        learn(Condition::Word(address), wanted);
        return false;
    }
    if frame::saved_vector_sum(context) != expected(18) {
        if let Some((number, wanted)) = differing_vector() {
            learn(Condition::Vector(number), wanted);
        }
        return false;
    }
    memory_is_expected()
}

fn learn(condition: Condition, wanted: u64) {
    let probe = probe();
    let index = probe.next_condition % CONDITIONS;
    probe.conditions[index] = condition;
    thread().probe_expected[index] = wanted;
    probe.next_condition += 1;
}

/// The first vector register whose lower half is not as it was.
fn differing_vector() -> Option<(u8, u64)> {
    let (first, words) = blob(Tag::Vectors)?;
    (0..16).find_map(|number| {
        let place = frame::lower_half(number) / 8;
        let wanted = (place < words).then(|| expected(first + place))?;
        let now = memory::read_word(frame::summed_vectors() + place * 8)?;
        (now != wanted).then_some((number as u8, wanted))
    })
}

/// The first logged word that is not as it was.
fn differing_word() -> Option<(u64, u64)> {
    let (first, words) = blob(Tag::Words)?;
    (0..words / 2).find_map(|index| {
        let (address, wanted) = (expected(first + index * 2), expected(first + index * 2 + 1));
        (memory::read_word(address) != Some(wanted)).then_some((address, wanted))
    })
}

/// Compares the memory that the pause names, first what differed last.
fn memory_is_expected() -> bool {
    let probe = probe();
    let planted = if probe.stub != 0 { JUMP_BYTES } else { 1 };
    let mut jump = [0u8; JUMP_BYTES as usize];
    memory::copy(jump.as_mut_ptr() as u64, probe.address, planted);
    let Some((first, words)) = blob(Tag::Ranges) else {
        return checksum::sum() == expected(19);
    };
    let count = words / 2;
    let last = probe.last_range.min(count);
    (last..count).chain(0..last).all(|index| {
        let range = SummedRange::from_words([expected(first + index * 2), expected(first + index * 2 + 1)]);
        // What the probe put there is not the program's.
        let pages = range.first..range.first + range.pages;
        let covers = pages.contains(&(probe.address / 4096)) || pages.contains(&((probe.address + 4) / 4096));
        if covers {
            put_code(probe.address, &probe.original[..planted as usize]);
        }
        let equal = checksum::range_sum(range.first, range.pages) == range.sum;
        if covers {
            put_code(probe.address, &jump[..planted as usize]);
        }
        if !equal {
            probe.last_range = index;
        }
        equal
    })
}

/// A blob of the pause at hand: the index of its first word, and how many.
fn blob(wanted: Tag) -> Option<(u64, u64)> {
    const HEADER_WORDS: u64 = BLOB_HEADER_BYTES as u64 / 8;
    let event_words = process().log.body_bytes() / 8;
    let mut index = BODY_WORDS;
    while index + HEADER_WORDS <= event_words {
        let bytes = expected(index + 1) & 0xffff_ffff;
        let tag = expected(index + 1) >> 32;
        let words = padded(bytes as usize) as u64 / 8;
        let start = index + HEADER_WORDS;
        if start + words > event_words {
            return None;
        }
        if tag == wanted as u64 {
            return Some((start, bytes / 8));
        }
        index = start + words;
    }
    None
}
