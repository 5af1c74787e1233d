//! The replay trap that replay plants at a preemption point.
//!
//! The instructions there become a jump to a stub that compares a few words of
//! the state in line (some nanoseconds a miss) and traps when they are all equal;
//! the trap compares everything. What differed then is compared in line from the
//! next round on. Where no jump fits, a breakpoint traps at each pass.
//!
//! A jump covers five bytes. If those are more instructions than one, the program
//! may jump to a later one, into the middle of our jump: the stub is placed so that
//! the jump's displacement has a byte that traps at each of these places, and the
//! trap goes on at the instruction's copy.

use events::{BLOB_HEADER_BYTES, SummedRange, Tag, padded, preemption_word};

use crate::address_space::checksum;
use crate::code::{gaps, sites, trampolines};
use crate::ground::decode::{self, ARITHMETIC_FLAGS, JUMP_BYTES, Moved, Run};
use crate::ground::float_place::FloatPlace;
use crate::ground::frame::{self, RealFrame};
use crate::ground::owned::{Held, Owned};
use crate::ground::registers::Registers;
use crate::ground::{kernel, memory, notices};
use crate::preemption::counters;
use crate::preemption::preemption_point::{self, BODY_WORDS, STATE_FLAGS, state_words};
use crate::preemption::replay_trap_body::Body;
use crate::preemption::replay_trap_guard::is_writable;
use crate::preemption::replay_trap_stub::{self, Layout, Writer, jump_to};
use crate::preemption::single_steps;
use crate::state::block::process;
use crate::state::preemption::{CONDITIONS, Condition, ReplayTrap};
use crate::state::runtime_log::{LogSubject, say};
use crate::state::{deliverable, live};

/// Order of the registers in a preemption's body, as the processor numbers them; rip
/// and flags have no number.
const NUMBERS: [u8; 18] = [15, 14, 13, 12, 5, 3, 11, 9, 8, 10, 2, 6, 7, 1, 0, NONE, NONE, 4];
const NONE: u8 = 0xff;

fn replay_trap() -> Held<ReplayTrap> {
    process().part(|process| &mut process.replay_trap)
}

/// What the stub consists of. Large, and no process needs it before it plants a replay trap: it is not
/// in the process's block, of which each process gets a copy at its birth. One is planted at a
/// time in an address space, by who holds the token.
struct Stub {
    body: Body,
    layout: Layout,
}

static STUB: Owned<Stub> = Owned::new(Stub { body: Body::NONE, layout: Layout::at(0) });

fn written() -> Held<Stub> {
    STUB.hold()
}

fn expected(index: u64) -> u64 {
    process().log.body(index)
}

/// Plants the replay trap for the preemption at hand.
pub fn plant() {
    say(LogSubject::Preemption, "replay trap planted", [expected(0), 0]);
    let address = expected(preemption_word::RIP as u64);
    let replay_trap = &mut *replay_trap();
    if replay_trap.address != 0 {
        return;
    }
    for covered in address..address + JUMP_BYTES as u64 {
        sites::restore_at(covered);
    }
    replay_trap.address = address;
    replay_trap.stepping_over = false;
    replay_trap.steps_to_put_down = false;
    replay_trap.guard.begin(address);
    replay_trap.conditions = [Condition::Free; CONDITIONS];
    replay_trap.next_condition = 0;
    replay_trap.last_range = 0;
    counters::begin();
    replay_trap.stub = 0;
    if process().has_agent() {
        replay_trap.lifted = true;
        return;
    }
    put_down(false);
}

/// Puts a jump there, or a breakpoint where no jump fits or none is wanted.
pub fn put_down(breakpoint: bool) {
    let replay_trap = &mut *replay_trap();
    let address = replay_trap.address;
    replay_trap.lifted = false;
    replay_trap.wants_breakpoint = breakpoint;
    replay_trap.writable = is_writable(address);
    // Pages of two kinds are not changed together.
    let alike = replay_trap.writable == is_writable(address + JUMP_BYTES as u64 - 1);
    let run = if alike && !breakpoint { decode::run(address) } else { None };
    let covered = run.and_then(|run| {
        let stub = if run.count == 1 { trampolines::replay_trap_space(address) } else { None };
        replay_trap.stub_mapped = stub.is_none();
        Some((run, stub.or_else(|| map_stub(address, &run))?))
    });
    if let Some((run, stub)) = covered {
        memory::copy(replay_trap.original.as_mut_ptr() as u64, address, JUMP_BYTES as u64);
        written().body = body_at(address, &run, stub);
        replay_trap.stub = stub;
        replay_trap.flags_are_dead = decode::sets_flags_first(address, deliverable::faults_are_seen());
        write_stub();
        put_code(address, &jump_to(stub, address));
        let covered = address..address + run.bytes.max(JUMP_BYTES as u64);
        let read = written().body.start..written().body.end.max(covered.end);
        replay_trap.guard.close(covered, read);
    } else {
        memory::copy(replay_trap.original.as_mut_ptr() as u64, address, 1);
        put_code(address, &[0xcc]);
        replay_trap.guard.close(address..address + 1, address..address + 1);
    }
}

/// Changes code that the replay trap may cover, or that may stand beside it: what is planted covers what is
/// there then, and is a jump if one fits now.
pub fn while_lifted(change: impl FnOnce()) {
    let replay_trap = &mut *replay_trap();
    if replay_trap.address == 0 || replay_trap.lifted {
        return change();
    }
    let steps_over = replay_trap.stepping_over;
    lift();
    change();
    if steps_over {
        replay_trap.steps_to_put_down = true;
    } else {
        put_down(replay_trap.wants_breakpoint);
    }
}

/// What is copied to the stub: the loop, unless its code may change unseen, or somebody wants to
/// stop the program in it.
fn body_at(address: u64, run: &Run, stub: u64) -> Body {
    let replay_trap = &mut *replay_trap();
    let is_right = |body: &Body| {
        let alike =
            [body.start, body.end - 1].into_iter().all(|end| is_writable(end) == replay_trap.writable);
        let is_fixed = !replay_trap.writable && !replay_trap.guard.is_shared();
        let is_seen = is_fixed || replay_trap.guard.is_to_close();
        alike && is_seen && reaches_from(stub, body.start, body.instructions())
    };
    let may_stop_inside = process().has_agent() || live::is_on();
    let body = if may_stop_inside { None } else { Body::of_loop(address, run) };
    body.filter(is_right).unwrap_or_else(|| Body::of_run(address, run))
}

/// Where the replay trap is.
pub fn place() -> u64 {
    replay_trap().address
}

/// False if the program stands at the replay trap, of which nothing is planted, with other
/// registers or words than the preemption's.
pub fn may_take(registers: &Registers) -> bool {
    let is_as_expected = |(index, &word): (usize, &u64)| {
        let wanted = expected(index as u64);
        word == if index == preemption_word::FLAGS { wanted & STATE_FLAGS } else { wanted }
    };
    state_words(registers).iter().enumerate().all(is_as_expected) && differing_word().is_none()
}

/// True if the replay trap is to be planted.
pub fn is_lifted() -> bool {
    replay_trap().address != 0 && replay_trap().lifted
}

/// The same, for this address.
pub fn is_lifted_at(address: u64) -> bool {
    is_lifted() && replay_trap().address == address
}

/// True if a jump would cover the address.
pub fn would_cover(address: u64) -> bool {
    (replay_trap().address..replay_trap().address + JUMP_BYTES as u64).contains(&address)
}

/// True for an address in the replay trap's stub.
pub fn is_in_stub(address: u64) -> bool {
    let replay_trap = &mut *replay_trap();
    replay_trap.address != 0
        && !replay_trap.lifted
        && replay_trap.stub != 0
        && (replay_trap.stub..written().layout.end + 1).contains(&address)
}

/// The program's own address of an instruction that has a copy in the stub.
pub fn original_of(address: u64) -> Option<u64> {
    if !is_in_stub(address) {
        return None;
    }
    let Stub { layout, body } = &*written();
    let mut copies = body.instructions().iter().zip(&layout.copies);
    let copied = copies.find(|&(_, &copy)| copy == address).map(|(moved, _)| body.address_of(moved));
    let is_behind = address == layout.back;
    Some(copied.unwrap_or(if is_behind { body.end } else { replay_trap().address }))
}

/// Takes away what is planted; the preemption is looked for by other means.
pub fn lift() {
    let replay_trap = &mut *replay_trap();
    if replay_trap.address == 0 || replay_trap.lifted {
        return;
    }
    replay_trap.lifted = true;
    let bytes = if replay_trap.stub != 0 { JUMP_BYTES } else { 1 };
    if !core::mem::take(&mut replay_trap.stepping_over) {
        put_code(replay_trap.address, &replay_trap.original[..bytes]);
    }
    replay_trap.guard.open();
    if replay_trap.stub != 0 && replay_trap.stub_mapped {
        kernel::munmap(replay_trap.stub & !0xfff, STUB_MAPPED_BYTES);
    }
    replay_trap.stub = 0;
}

/// The program stands at the replay trap, of which nothing is planted: true if this is
/// the preemption, which comes next then.
pub fn takes(context: &mut RealFrame) -> bool {
    let registers = context.registers();
    if !is_expected(&registers, context) {
        return false;
    }
    go_to_point(registers, context);
    true
}

fn go_to_point(registers: Registers, context: &mut RealFrame) {
    say(LogSubject::Preemption, "replay trap taken", [registers.rip, 0]);
    float_place().put(context.vector_memory().0);
    remove();
    preemption_point::lead_to(context, registers);
}

const STUB_MAPPED_BYTES: u64 = 0x2000;
/// int3, and opcodes that 64-bit mode does not have: the highest byte of a
/// displacement decides where the stub is.
const TRAPPING: &[u8] = &[
    0x06, 0x07, 0x0e, 0x16, 0x1e, 0x27, 0x2f, 0x37, 0xea, 0xd6, 0xd4, 0xce, 0xcc, 0x3f, 0x17, 0x1f, 0x60,
    0x61, 0x9a, 0x82,
];
const ANY: &[u8] = &[0x01, 0xfe, 0x03, 0xfc, 0x08, 0xf6, 0x10, 0xee, 0x1d, 0xe1, 0x2a, 0xd3, 0x3a, 0xc3];

/// Memory for a stub, so far from the address that a jump into the middle of the
/// jump to it traps. It is there as long as the replay trap: nothing is mapped meanwhile.
fn map_stub(address: u64, run: &Run) -> Option<u64> {
    let starts = |offset: u8| run.instructions[..run.count].iter().any(|moved| moved.offset == offset);
    let low = [1, 2, 3].map(|offset| if starts(offset) { 0xcc } else { 0 });
    let high = if starts(4) { TRAPPING } else { ANY };
    let behind = address + JUMP_BYTES as u64;
    let map = |displacement: i32| {
        let stub = behind.checked_add_signed(i64::from(displacement))?;
        let is_near = stub >= 0x1_0000 && reaches_from(stub, address, &run.instructions[..run.count]);
        (is_near && map_stub_at(stub & !0xfff)).then_some(stub)
    };
    let far = |byte: u8| i32::from_le_bytes([low[0], low[1], low[2], byte]);
    high.iter().find_map(|&byte| map(far(byte))).or_else(|| {
        // Nothing is free there: what is free, and the bytes of which lead there.
        gaps::find(address, STUB_MAPPED_BYTES, &mut |gap| {
            let fits =
                |stub: u64| stub & !0xfff >= gap.start && (stub & !0xfff) + STUB_MAPPED_BYTES <= gap.end;
            (0..=0xff).filter(|byte| !starts(4) || TRAPPING.contains(byte)).find_map(|byte| {
                let base = behind.checked_add_signed(i64::from(far(byte)))?;
                // The byte below is free to choose, unless an instruction began there.
                let steps =
                    gap.start.next_multiple_of(0x1000).saturating_sub(base & !0xfff).div_ceil(0x1_0000);
                let steps = if starts(3) { 0 } else { steps };
                let is_stub = steps <= 0xff && fits(base + (steps << 16));
                if is_stub { map(far(byte) + ((steps as i32) << 16)) } else { None }
            })
        })
    })
}

fn map_stub_at(start: u64) -> bool {
    use linux_abi::general as nr;
    let flags = nr::MAP_SHARED | nr::MAP_ANONYMOUS | nr::MAP_FIXED_NOREPLACE;
    let mapped = kernel::mmap(start, STUB_MAPPED_BYTES, 7, flags, -1, 0);
    if !kernel::failed(mapped) && mapped as u64 != start {
        kernel::munmap(mapped as u64, STUB_MAPPED_BYTES);
    }
    mapped as u64 == start
}

/// True if what instructions name relative to themselves can be named from a stub there.
fn reaches_from(stub: u64, address: u64, instructions: &[Moved]) -> bool {
    let moved_by = address.wrapping_sub(stub) as i64;
    instructions.iter().all(|moved| {
        let Some(place) = moved.displacement else { return true };
        let mut displacement = [0; 4];
        match moved.code.get(place as usize..place as usize + 4) {
            Some(field) => displacement.copy_from_slice(field),
            None => return false,
        }
        let far = i64::from(i32::from_le_bytes(displacement)) + moved_by;
        far.unsigned_abs() < 0x7fff_0000
    })
}

/// A trap in the middle of the jump: the instruction's copy goes on.
pub fn on_interior(signal: u32, context: &mut RealFrame) -> bool {
    const SIGTRAP: u32 = 5;
    let replay_trap = &mut *replay_trap();
    if replay_trap.address == 0 || replay_trap.stub == 0 || replay_trap.lifted {
        return false;
    }
    let at = context.rip.wrapping_sub(u64::from(signal == SIGTRAP));
    let is_inside = (replay_trap.address + 1..replay_trap.address + JUMP_BYTES as u64).contains(&at);
    let found = written().body.index_of(at).filter(|_| is_inside);
    if let Some(index) = found {
        context.rip = written().layout.copies[index];
    }
    found.is_some()
}

fn put_code(address: u64, bytes: &[u8]) {
    let replay_trap = &mut *replay_trap();
    if !replay_trap.writable {
        sites::write_code(address, bytes);
        return;
    }
    replay_trap.guard.without(|| {
        sites::put_code(address, bytes);
    });
}

/// Takes the replay trap away.
fn remove() {
    let replay_trap = &mut *replay_trap();
    if core::mem::take(&mut replay_trap.lifted) {
        replay_trap.address = 0;
        return;
    }
    let bytes = if replay_trap.stub != 0 { 5 } else { 1 };
    put_code(replay_trap.address, &replay_trap.original[..bytes]);
    replay_trap.guard.open();
    replay_trap.address = 0;
    if replay_trap.stub != 0 && replay_trap.stub_mapped {
        kernel::munmap(replay_trap.stub & !0xfff, STUB_MAPPED_BYTES);
    }
}

/// Writes the stub with its present conditions.
fn write_stub() {
    let replay_trap = &mut *replay_trap();
    let newest = (replay_trap.next_condition + CONDITIONS - 1) % CONDITIONS;
    let writer = Writer::new(
        replay_trap.stub,
        replay_trap.address,
        &replay_trap.conditions,
        &replay_trap.wanted,
        newest,
    );
    written().layout = writer.write(&written().body, replay_trap.flags_are_dead);
}

/// A trap of the program: true if it was the replay trap's.
pub fn on_trap(context: &mut RealFrame) -> bool {
    let replay_trap = &mut *replay_trap();
    if replay_trap.address == 0 || replay_trap.lifted {
        return false;
    }
    let mut registers = context.registers();
    if replay_trap.stub != 0 && context.rip == written().layout.trap + 1 {
        let [rax, saved] = replay_trap_stub::kept(replay_trap.stub);
        registers.rax = rax;
        let arithmetic = match replay_trap.flags_are_dead {
            true => expected(preemption_word::FLAGS as u64) & ARITHMETIC_FLAGS,
            false => (saved >> 8) & 0xd5 | (saved & 1) << 11,
        };
        registers.flags = registers.flags & !ARITHMETIC_FLAGS | arithmetic;
    } else if replay_trap.stub != 0 || context.rip != replay_trap.address + 1 {
        return false;
    }
    registers.rip = replay_trap.address;
    if is_expected(&registers, context) {
        go_to_point(registers, context);
    } else if replay_trap.stub != 0 {
        write_stub();
        context.rip = written().layout.miss;
    } else {
        // Step over the instruction with its own first byte.
        put_code(replay_trap.address, &replay_trap.original[..1]);
        replay_trap.stepping_over = true;
        context.rip = replay_trap.address;
        single_steps::begin(context);
    }
    true
}

/// A single step: true if it was the one over a breakpoint.
pub fn on_step(context: &mut RealFrame) -> bool {
    let replay_trap = &mut *replay_trap();
    if core::mem::take(&mut replay_trap.steps_to_put_down) {
        single_steps::end(context);
        put_down(replay_trap.wants_breakpoint);
        return true;
    }
    if replay_trap.address == 0 || !replay_trap.stepping_over {
        return false;
    }
    replay_trap.stepping_over = false;
    single_steps::end(context);
    put_code(replay_trap.address, &[0xcc]);
    true
}

/// A write to what the guard protects: true if it is let through.
pub fn on_write(signal: u32, address: u64, context: &mut RealFrame, inside: bool) -> bool {
    const SIGSEGV: u32 = 11;
    let replay_trap = &mut *replay_trap();
    if signal != SIGSEGV || replay_trap.address == 0 || replay_trap.lifted {
        return false;
    }
    let Some(written) = replay_trap.guard.protected(address) else { return false };
    if inside {
        // The runtime's own, which are not followed.
        replay_trap.guard.open();
        return true;
    }
    replay_trap.guard.note_pass(written);
    if let Some(original) = original_of(context.rip) {
        context.rip = original;
    }
    lift();
    replay_trap.steps_to_put_down = true;
    single_steps::begin(context);
    true
}

/// A fault inside the stub: a word that it compares is not mapped, so it is not
/// equal.
pub fn on_fault(context: &mut RealFrame) -> bool {
    let replay_trap = &mut *replay_trap();
    if replay_trap.address == 0 || replay_trap.stub == 0 {
        return false;
    }
    let layout = written().layout;
    let goes_on = match context.rip {
        rip if (layout.entry..layout.goes_on).contains(&rip) => layout.goes_on,
        rip if (layout.compares..layout.kept).contains(&rip) => layout.goes_on,
        rip if (layout.kept..layout.miss).contains(&rip) => layout.miss,
        _ => return false,
    };
    context.rip = goes_on;
    true
}

/// Compares the whole state; learns from the first difference.
fn is_expected(registers: &Registers, context: &RealFrame) -> bool {
    let words = state_words(registers);
    for (index, &word) in words.iter().enumerate() {
        let wanted = if index == preemption_word::FLAGS {
            expected(preemption_word::FLAGS as u64) & STATE_FLAGS
        } else {
            expected(index as u64)
        };
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
    let sum = frame::saved_vector_sum(context, &float_place());
    if sum != expected(preemption_word::VECTOR_SUM as u64) {
        say(LogSubject::Preemption, "other vector registers", [registers.rip, sum]);
        if let Some((condition, wanted)) = differing_vector() {
            learn(condition, wanted);
        }
        return false;
    }
    {
        let mut is_expected = false;
        notices::without_breakpoints(&mut || is_expected = memory_is_expected());
        is_expected
    }
}

fn learn(condition: Condition, wanted: u64) {
    let replay_trap = &mut *replay_trap();
    let index = replay_trap.next_condition % CONDITIONS;
    replay_trap.conditions[index] = condition;
    replay_trap.wanted[index] = wanted;
    replay_trap.next_condition += 1;
}

/// The first half of a vector register that is not as it was, or part of the floating-point stack.
fn differing_vector() -> Option<(Condition, u64)> {
    let (first, words) = blob(Tag::Vectors)?;
    let differs = |place: u64| {
        let wanted = (place < words).then(|| expected(first + place))?;
        let now = memory::read_word(frame::summed_vectors() + place * 8)?;
        (now != wanted).then_some(wanted)
    };
    let find = |make: fn(u8) -> Condition, count: u8, place: &dyn Fn(u64) -> u64| {
        (0..count).find_map(|number| Some((make(number), differs(place(u64::from(number)) / 8)?)))
    };
    find(Condition::Vector, 16, &frame::lower_half)
        .or_else(|| find(Condition::VectorHigh, 16, &|number| frame::lower_half(number) + 8))
        .or_else(|| find(Condition::Float, 8, &frame::significand))
}

/// Where the floating-point unit was used at last before the preemption at hand.
fn float_place() -> FloatPlace {
    let first = blob(Tag::Vectors).map(|(first, _)| first);
    FloatPlace(core::array::from_fn(|index| first.map_or(0, |first| expected(first + index as u64))))
}

/// The first logged word that is not as it was. What the replay trap covers holds no
/// word of the program's; it is among the memory that is summed.
fn differing_word() -> Option<(u64, u64)> {
    let (first, words) = blob(Tag::Words)?;
    let covered = replay_trap().address..replay_trap().address + JUMP_BYTES as u64;
    (0..words / 2).find_map(|index| {
        let (address, wanted) = (expected(first + index * 2), expected(first + index * 2 + 1));
        if address + 8 > covered.start && address < covered.end {
            return None;
        }
        let equals = || memory::read_word(address) == Some(wanted);
        let is_equal = equals() || replay_trap().guard.is_shared() && with_original(&equals);
        (!is_equal).then_some((address, wanted))
    })
}

/// What is found while the program's own instructions are in place of what the replay trap put there.
fn with_original<T>(find: &dyn Fn() -> T) -> T {
    let ReplayTrap { address, original, lifted, stub, .. } = *replay_trap();
    let planted = match (lifted, stub) {
        (true, _) => 0,
        (false, 0) => 1,
        (false, _) => JUMP_BYTES,
    };
    let mut put = [0u8; JUMP_BYTES];
    memory::copy(put.as_mut_ptr() as u64, address, planted as u64);
    put_code(address, &original[..planted]);
    let found = find();
    put_code(address, &put[..planted]);
    found
}

/// Compares the memory that the preemption names, first what differed last.
fn memory_is_expected() -> bool {
    let replay_trap = &mut *replay_trap();
    let Some((first, words)) = blob(Tag::Ranges) else {
        return with_original(&checksum::sum)
            .is_none_or(|sum| sum == expected(preemption_word::MEMORY_SUM as u64));
    };
    let count = words / 2;
    let last = replay_trap.last_range.min(count);
    (last..count).chain(0..last).all(|index| {
        let range = SummedRange::from_words([expected(first + index * 2), expected(first + index * 2 + 1)]);
        // What the replay trap put there is not the program's.
        let pages = range.first..range.first + range.pages;
        let covers = pages.contains(&(replay_trap.address / 4096))
            || pages.contains(&((replay_trap.address + 4) / 4096));
        let sum = || checksum::range_sum(range.first, range.pages);
        let equal = (!covers && sum() == range.sum)
            || ((covers || replay_trap.guard.is_shared()) && with_original(&sum) == range.sum);
        if !equal {
            say(LogSubject::Preemption, "other memory from, pages", [range.first * 4096, range.pages]);
            replay_trap.last_range = index;
            if !covers && let Some((word, wanted)) = counters::on_miss(&range) {
                learn(Condition::Word(word), wanted);
            }
        }
        equal
    })
}

/// A blob of the preemption at hand: the index of its first word, and how many.
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
