//! Breakpoints with programs: how the program goes on behind one without a step.
//!
//! The instructions at the breakpoint have copies in a *stub*. Where five bytes can be
//! replaced, a jump leads to the stub, which calls the runtime and goes on with the
//! copies: no trap at all. Elsewhere a trap does, and the program goes on at the copy.
//!
//! A jump may cover several instructions, into which the program may jump: as for the
//! replay trap of a preemption, the stub is placed so that the jump's displacement traps there.
//!
//! Invariant: stubs lie where the program has nothing; if it maps something there, they
//! go first ([`make_room`]). They are shared mappings, which no checksum looks at.

use linux_abi::general as nr;

use crate::debugger::programs::{self, Verdict};
use crate::debugger::{agent_state, breakpoints};
use crate::ground::assembly::{rv_agent_stop, rv_entry_breakpoint};
use crate::ground::decode::{self, JUMP_BYTES, Run};
use crate::ground::frame::RealFrame;
use crate::ground::owned::{Held, Owned};
use crate::ground::registers::Registers;
use crate::ground::{kernel, memory};
use crate::preemption::replay_trap_stub::{jump_to, put_copy};

const STUBS_MAX: usize = 2 * lane_protocol::BREAKPOINTS_MAX;
const PAGES_MAX: usize = 512;
/// Space of a stub.
const STUB_BYTES: u64 = 192;
const PAGE_BYTES: u64 = 4096;

#[derive(Clone, Copy)]
struct Stub {
    address: u64,
    start: u64,
    /// The jump leads here, and goes on at the first copy; a trap needs the copies only.
    is_jump: bool,
    original: [u8; JUMP_BYTES],
    run: Run,
    copies: [u64; JUMP_BYTES],
    end: u64,
    /// Which of the breakpoints it is.
    index: usize,
}

struct Stubs {
    count: usize,
    list: [Stub; STUBS_MAX],
    page_count: usize,
    pages: [u64; PAGES_MAX],
    /// Where the program is about to map something: start and end.
    room: [u64; 2],
}

static STUBS: Owned<Stubs> = Owned::new(Stubs {
    count: 0,
    list: [Stub {
        address: 0,
        start: 0,
        is_jump: false,
        original: [0; JUMP_BYTES],
        run: Run::NONE,
        copies: [0; JUMP_BYTES],
        end: 0,
        index: 0,
    }; STUBS_MAX],
    page_count: 0,
    pages: [0; PAGES_MAX],
    room: [0; 2],
});

fn stubs() -> Held<Stubs> {
    STUBS.hold()
}

fn list() -> Held<[Stub]> {
    stubs().part(|own| &mut own.list[..own.count])
}

/// What to plant at a breakpoint: a trap, or a jump.
pub fn code_for(address: u64, index: usize, may_jump: bool) -> ([u8; JUMP_BYTES], usize) {
    const TRAP: ([u8; JUMP_BYTES], usize) = ([0xcc; JUMP_BYTES], 1);
    let may_jump = may_jump && !programs::need_vectors(index);
    let jump = if may_jump { stub_at(address, true) } else { None };
    let Some(mut stub) = jump.or_else(|| stub_at(address, false)) else { return TRAP };
    stub.index = index;
    if stub.is_jump { (jump_to(stub.start, address), JUMP_BYTES) } else { TRAP }
}

/// The stub for this address, made if there is none.
fn stub_at(address: u64, is_jump: bool) -> Option<Held<Stub>> {
    let mut own = stubs();
    let mut original = [0u8; JUMP_BYTES];
    let bytes = if is_jump { JUMP_BYTES } else { 1 };
    if !memory::copy(original.as_mut_ptr() as u64, address, bytes as u64) {
        return None;
    }
    let is_it = |stub: &Stub| stub.address == address && stub.is_jump == is_jump;
    if let Some(known) = list().iter().position(is_it) {
        if own.list[known].original == original {
            // Where there was no space once there is none now.
            return Some(own.part(|own| &mut own.list[known])).filter(|stub| stub.start != 0);
        }
        // Other code is there by now.
        own.count -= 1;
        let last = own.count;
        own.list.swap(known, last);
    }
    if own.count == STUBS_MAX {
        return None;
    }
    let run = decode::run_with_calls(address, bytes);
    let start = run.and_then(|run| place(address, &run, is_jump)).unwrap_or(0);
    let run = run.unwrap_or(Run::NONE);
    let last = own.count;
    own.list[last] =
        Stub { address, start, is_jump, original, run, copies: [0; JUMP_BYTES], end: start, index: 0 };
    own.count += 1;
    let mut stub = own.part(|own| &mut own.list[last]);
    if stub.start == 0 {
        return None;
    }
    write(&mut stub);
    Some(stub)
}

/// Space for a stub that a jump reaches, with a displacement that traps where the
/// program may jump to.
fn place(address: u64, run: &Run, is_jump: bool) -> Option<u64> {
    let starts =
        |offset: u8| is_jump && run.instructions[..run.count].iter().any(|moved| moved.offset == offset);
    // Downwards first: what grows, grows upwards.
    const TRAPPING: [u8; 8] = [0xea, 0xd6, 0xd4, 0xce, 0x06, 0x16, 0x27, 0x37];
    const ANY: [u8; 8] = [0xfe, 0xfc, 0xf6, 0xee, 0xe1, 0x10, 0x1d, 0x2a];
    let high = if starts(4) { TRAPPING } else { ANY };
    for high in high {
        for spread in 0..512u32 {
            let [low, middle] = ((spread * STUB_BYTES as u32) as u16).to_le_bytes();
            let byte = |offset: u8, free: u8| if starts(offset) { 0xcc } else { free };
            let displacement = i32::from_le_bytes([byte(1, low), byte(2, middle), byte(3, 0x40), high]);
            let Some(start) = (address + JUMP_BYTES as u64).checked_add_signed(i64::from(displacement))
            else {
                continue;
            };
            if start < 0x2_0000 || !is_free(start) || is_in_room(start) {
                continue;
            }
            if (start..start + STUB_BYTES).step_by(STUB_BYTES as usize - 1).all(has_page) {
                return Some(start);
            }
            // Something else is there.
            break;
        }
    }
    None
}

/// True if a page of a stub there would be where the program is about to map something: it
/// would be gone again.
fn is_in_room(start: u64) -> bool {
    let [room_start, room_end] = stubs().room;
    start & !(PAGE_BYTES - 1) < room_end && start + STUB_BYTES + PAGE_BYTES > room_start
}

fn is_free(start: u64) -> bool {
    list().iter().all(|stub| start + STUB_BYTES <= stub.start || stub.start + STUB_BYTES <= start)
}

/// True if the page of the address is ours, from now on if it was free.
fn has_page(address: u64) -> bool {
    let own = &mut *stubs();
    let page = address & !(PAGE_BYTES - 1);
    if own.pages[..own.page_count].contains(&page) {
        return true;
    }
    if own.page_count == PAGES_MAX {
        return false;
    }
    let flags = nr::MAP_SHARED | nr::MAP_ANONYMOUS | nr::MAP_FIXED_NOREPLACE;
    let mapped = kernel::mmap(page, PAGE_BYTES, 7, flags, -1, 0);
    if kernel::failed(mapped) {
        return false;
    }
    if mapped as u64 != page {
        kernel::munmap(mapped as u64, PAGE_BYTES);
        return false;
    }
    own.pages[own.page_count] = page;
    own.page_count += 1;
    true
}

fn write(stub: &mut Stub) {
    let mut code = [0u8; STUB_BYTES as usize];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        code[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
        at
    };
    let mut end = 0;
    if stub.is_jump {
        put(&crate::code::gs::keep_r11());
        // mov r11, imm64: the breakpoint; jmp [rip + 0]
        put(&[0x49, 0xbb]);
        put(&stub.address.to_le_bytes());
        put(&[0xff, 0x25, 0, 0, 0, 0]);
        end = put(&(rv_entry_breakpoint as *const () as u64).to_le_bytes());
    }
    for (index, moved) in stub.run.instructions[..stub.run.count].iter().enumerate() {
        let copy = stub.start + end as u64;
        stub.copies[index] = copy;
        end = put_copy(&mut put, moved, stub.address + u64::from(moved.offset), copy);
    }
    end = put(&jump_to(stub.address + stub.run.bytes, stub.start + end as u64));
    stub.end = stub.start + end as u64;
    memory::copy(stub.start, code.as_ptr() as u64, end as u64);
}

/// A jump has led here: rip is the breakpoint. Returns where the program goes on.
pub extern "C" fn on_breakpoint(registers: &mut Registers) {
    let list = list();
    let Some(stub) = list.iter().find(|stub| stub.is_jump && stub.address == registers.rip) else {
        crate::state::report::fail("a breakpoint that is not known");
    };
    // What it decides may plant others.
    let goes_on_at = stub.copies[0];
    match programs::decide(stub.index, registers, 0, 0) {
        Verdict::GoesOn => registers.rip = goes_on_at,
        verdict => {
            if programs::ends_command(verdict) {
                // SAFETY: as at a boundary; the handler knows why by the agent's state.
                unsafe { rv_agent_stop(registers) }
            }
            registers.rip = goes_on_at;
        }
    }
}

/// What the trap of a breakpoint with programs leads to.
pub enum Trapped {
    /// It is no such breakpoint's.
    NotOurs,
    GoesOn,
    /// Why the program stops there, an `agent_stop`.
    Stops(u32),
}

/// A trap of the program's.
pub fn on_trap(context: &mut RealFrame) -> Trapped {
    let address = context.rip.wrapping_sub(1);
    let list = list();
    let Some(stub) = list.iter().find(|stub| !stub.is_jump && stub.start != 0 && stub.address == address)
    else {
        return Trapped::NotOurs;
    };
    if !breakpoints::is_in(address) || crate::preemption::replay_trap::place() == address {
        return Trapped::NotOurs;
    }
    let mut registers = context.registers();
    registers.rip = address;
    let vectors = context.vector_memory().0;
    let goes_on_at = stub.copies[0];
    match programs::decide(stub.index, &registers, vectors, 0) {
        Verdict::GoesOn => {}
        verdict => {
            if let Some(kind) = programs::stop_of(verdict) {
                context.rip = address;
                return Trapped::Stops(kind);
            }
        }
    }
    context.rip = goes_on_at;
    Trapped::GoesOn
}

/// A fault or an invalid instruction, at full speed: true if it is what a jump of a
/// breakpoint has in its middle. A fault in a stub is told of the program's own code.
pub fn on_fault(signal: u32, context: &mut RealFrame) -> bool {
    if agent_state::state().mode == agent_state::Mode::Running && on_interior(signal, context) {
        return true;
    }
    if let Some(original) = original_of(context.rip) {
        context.rip = original;
    }
    false
}

/// A trap in the middle of a jump: the instruction's copy goes on.
pub fn on_interior(signal: u32, context: &mut RealFrame) -> bool {
    const SIGTRAP: u32 = 5;
    let at = context.rip.wrapping_sub(u64::from(signal == SIGTRAP));
    for stub in
        list().iter().filter(|stub| stub.is_jump && stub.start != 0 && breakpoints::is_in(stub.address))
    {
        let offset = at.wrapping_sub(stub.address);
        let run = &stub.run;
        let found = (1..run.count).find(|&index| u64::from(run.instructions[index].offset) == offset);
        if let Some(index) = found {
            context.rip = stub.copies[index];
            return true;
        }
    }
    false
}

/// The program's own address of an instruction that has a copy in a stub.
pub fn original_of(address: u64) -> Option<u64> {
    let list = list();
    let stub = list.iter().find(|stub| (stub.start..stub.end).contains(&address))?;
    let run = &stub.run;
    if address < stub.copies[0] {
        return Some(stub.address);
    }
    let behind = stub.copies[..run.count].iter().take_while(|&&copy| copy <= address).count();
    let last = run.instructions[behind - 1];
    let within = address - stub.copies[behind - 1];
    let is_behind_all =
        behind == run.count && within >= u64::from(last.bytes) && !last.is_call && last.jump.is_none();
    Some(stub.address + if is_behind_all { run.bytes } else { u64::from(last.offset) })
}

/// True for an address in a stub.
pub fn is_in_stub(address: u64) -> bool {
    list().iter().any(|stub| (stub.start..stub.end).contains(&address))
}

/// True if stubs' memory begins there.
pub fn is_page(start: u64) -> bool {
    let own = &mut *stubs();
    own.pages[..own.page_count].contains(&start)
}

/// The program is about to map or unmap something there.
pub fn make_room(start: u64, bytes: u64) {
    if !agent_state::is_debugging() {
        return;
    }
    let end = start.saturating_add(bytes);
    let own = &mut *stubs();
    // Breakpoints are planted again before the mapping is there.
    own.room = [start, end];
    if own.pages[..own.page_count].iter().any(|&page| start < page + PAGE_BYTES && page < end) {
        breakpoints::without(forget);
    }
}

/// All stubs go. Nothing is planted.
pub fn forget() {
    let own = &mut *stubs();
    for &page in &own.pages[..own.page_count] {
        kernel::munmap(page, PAGE_BYTES);
    }
    own.count = 0;
    own.page_count = 0;
}
