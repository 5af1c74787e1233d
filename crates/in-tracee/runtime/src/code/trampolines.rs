//! Memory near the program's code for what a jump in the code leads to: the calls
//! of the runtime for rewritten sites, and the stub of a replay trap.
//!
//! Where it lies is logged, so that replay has it at the same place.

use events::{Header, Kind};
use lane_protocol::{Recipe, site_kind};

use crate::code::gaps::{self, REACH_BYTES};
use crate::code::gs;
use crate::code::sites::map_of;
use crate::ground::assembly::{rv_entry_instruction, rv_entry_site};
use crate::ground::owned::Held;
use crate::ground::{kernel, memory};
use crate::state::block::{process, space};
use crate::state::patched_code::{TRAMPOLINES, Trampoline, Trampolines};
use crate::state::runtime_log::{LogSubject, say};
use runtime_logic::branches::Branch;

/// Bytes of a trampoline for sites; behind them a page for a replay trap.
const TRAMPOLINE_BYTES: u64 = 0x3000;
const TRAMPOLINE_MAPPED_BYTES: u64 = TRAMPOLINE_BYTES + 0x1000;
/// Of the jump to an entry, without its address.
const JUMP_BYTES: usize = 6;
/// Longest trampoline of one site, in bytes.
pub const TRAMPOLINE_CODE_MAX: u64 = 104;

impl Trampolines {
    /// A new image has none.
    pub fn forget(&mut self) {
        self.count = 0;
    }
}

fn trampolines() -> Held<Trampolines> {
    space().part(|space| &mut space.sites.trampolines)
}

/// Writes the trampoline of a site; returns the address behind the runtime's call. A branch that is not
/// taken goes on there.
pub fn write_trampoline(trampoline: u64, site: u64, recipe: &Recipe, branch: Option<Branch>) -> u64 {
    let mut code = [0u8; TRAMPOLINE_CODE_MAX as usize];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        code[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
        at
    };
    let before = recipe.before as usize;
    let after = recipe.after as usize;
    put(&recipe.code[..before]);
    let behind = site + u64::from(recipe.site_bytes);
    let is_call = recipe.kind == site_kind::SYSCALL;
    // Over the call, where the branch would not be taken.
    let skip_at = branch.and_then(|branch| branch.not_taken()).map(|code| put(&[code, 0]));
    let entry = if is_call {
        // mov rcx, imm64: what the kernel would leave there.
        put(&[0x48, 0xb9]);
        put(&behind.to_le_bytes());
        rv_entry_site as *const () as u64
    } else {
        // The instruction leaves it alone.
        put(&gs::keep_r11());
        rv_entry_instruction as *const () as u64
    };
    // mov r11, imm64: where a call goes on; which instruction it is.
    put(&[0x49, 0xbb]);
    let resume_at = put(&[]);
    put(&site.to_le_bytes());
    // jmp [rip + 0]: the entry's address follows. It is read with the program's flags, which may ask
    // for data that is aligned.
    const NOPS: [u8; 7] = [0x90; 7];
    let unaligned = (trampoline as usize + resume_at + 8 + JUMP_BYTES) % 8;
    put(&NOPS[..(8 - unaligned) % 8]);
    put(&[0xff, 0x25, 0, 0, 0, 0]);
    let after_at = put(&entry.to_le_bytes());
    put(&recipe.code[before..before + after]);
    let jump_at = put(&[0xe9]) - 1;
    let back = behind + after as u64;
    let end = put(&(back.wrapping_sub(trampoline + jump_at as u64 + 5) as u32).to_le_bytes());
    let resume = if after > 0 { trampoline + after_at as u64 } else { behind };
    if let Some(skip_at) = skip_at {
        code[skip_at - 1] = (after_at - skip_at) as u8;
    }
    if is_call {
        code[resume_at..resume_at + 8].copy_from_slice(&resume.to_le_bytes());
    }
    // Displacements relative to the instruction pointer moved with the code.
    if recipe.fixup_before != 0xff {
        let moved = (site - before as u64).wrapping_sub(trampoline);
        fix(&mut code, recipe.fixup_before as usize, moved);
    }
    if recipe.fixup_after != 0xff {
        let place = recipe.fixup_after as usize - before + after_at;
        let moved = behind.wrapping_sub(trampoline + after_at as u64);
        fix(&mut code, place, moved);
    }
    memory::copy(trampoline, code.as_ptr() as u64, end as u64);
    resume
}

fn fix(code: &mut [u8], place: usize, moved: u64) {
    if let Some(field) = code.get_mut(place..place + 4) {
        let mut displacement = [0; 4];
        displacement.copy_from_slice(field);
        let fixed = u32::from_le_bytes(displacement).wrapping_add(moved as u32);
        field.copy_from_slice(&fixed.to_le_bytes());
    }
}

/// Space for one trampoline within reach of the site.
pub fn trampoline_near(site: u64) -> Option<u64> {
    take_near(site, TRAMPOLINE_CODE_MAX).or_else(|| {
        add_trampoline_near(site)?;
        take_near(site, TRAMPOLINE_CODE_MAX)
    })
}

/// Takes memory of a trampoline within reach of the address.
fn take_near(address: u64, bytes: u64) -> Option<u64> {
    let state = &mut *trampolines();
    let count = state.count;
    let trampoline = state.list[..count].iter_mut().find(|trampoline| {
        trampoline.start.abs_diff(address) < REACH_BYTES && trampoline.used + bytes <= TRAMPOLINE_BYTES
    })?;
    trampoline.used += bytes;
    Some(trampoline.start + trampoline.used - bytes)
}

/// Maps and logs a new trampoline within reach of the address. Replay has those that
/// were recorded, and no others.
fn add_trampoline_near(address: u64) -> Option<()> {
    if process().replays() || trampolines().count == TRAMPOLINES {
        return None;
    }
    let near = map_of(address).map_or(address, |map| map.start);
    let start = map_trampoline(near)?;
    let log = &mut process().log;
    log.begin(Kind::Trampoline, 0, 0);
    log.word(start);
    log.word(TRAMPOLINE_BYTES);
    log.end();
    add_trampoline(start);
    Some(())
}

/// Recording: sees to it that replay will have memory near the address.
pub fn ensure_trampoline_near(address: u64) {
    let state = &mut *trampolines();
    let there =
        state.list[..state.count].iter().any(|trampoline| trampoline.start.abs_diff(address) < REACH_BYTES);
    if !there {
        // Without, replay uses a breakpoint, which is slower.
        let _ = add_trampoline_near(address);
    }
}

/// Memory for a replay trap's stub near the address: the last bytes of a trampoline, which
/// no site takes.
pub fn replay_trap_space(address: u64) -> Option<u64> {
    let state = &mut *trampolines();
    state.list[..state.count]
        .iter()
        .find(|trampoline| trampoline.start.abs_diff(address) < REACH_BYTES)
        .map(|trampoline| trampoline.start + TRAMPOLINE_BYTES)
}

/// Maps memory near the code, below it where there is room.
fn map_trampoline(code_start: u64) -> Option<u64> {
    for step in 1..512u64 {
        let distance = step * 0x10_0000;
        let below = code_start.wrapping_sub(distance) & !0xfff;
        if below < code_start && below > 0x10_0000 && map_trampoline_at(below) {
            return Some(below);
        }
        let above = code_start.wrapping_add(distance) & !0xfff;
        if above < 0x7fff_f000_0000 && map_trampoline_at(above) {
            return Some(above);
        }
    }
    // In the middle of what is free: neighbours may grow.
    gaps::find(code_start, TRAMPOLINE_MAPPED_BYTES, &mut |gap| {
        let middle = (gap.start.midpoint(gap.end) - TRAMPOLINE_MAPPED_BYTES / 2) & !0xfff;
        let start = middle.max(gap.start);
        map_trampoline_at(start).then_some(start)
    })
}

fn map_trampoline_at(address: u64) -> bool {
    kernel::map_code(address, TRAMPOLINE_MAPPED_BYTES)
}

fn add_trampoline(start: u64) {
    say(LogSubject::Code, "trampolines mapped", [start, 0]);
    let state = &mut *trampolines();
    if state.count < TRAMPOLINES {
        state.list[state.count] = Trampoline { start, used: 0 };
        state.count += 1;
    }
}

/// Where the trampolines' memory is.
pub fn all() -> impl Iterator<Item = core::ops::Range<u64>> {
    let state = trampolines();
    (0..state.count)
        .map(move |index| state.list[index].start)
        .map(|start| start..start + TRAMPOLINE_MAPPED_BYTES)
}

/// Logs all trampolines again, at the beginning of a window.
pub fn log_all() {
    let log = &mut process().log;
    for trampoline in all() {
        log.begin(Kind::Trampoline, 0, 0);
        log.word(trampoline.start);
        log.word(TRAMPOLINE_BYTES);
        log.end();
    }
}

/// True for an address inside of a trampoline.
pub fn in_trampoline(address: u64) -> bool {
    let state = &mut *trampolines();
    state.list[..state.count]
        .iter()
        .any(|trampoline| (trampoline.start..trampoline.start + TRAMPOLINE_MAPPED_BYTES).contains(&address))
}

/// True for the start of a trampoline's memory.
pub fn is_trampoline(start: u64) -> bool {
    let state = &mut *trampolines();
    state.list[..state.count].iter().any(|trampoline| trampoline.start == start)
}

/// munmap(2) by a program that may name more than it has: not the trampolines between.
pub fn unmap_around(address: u64, bytes: u64) -> i64 {
    let end = address.saturating_add(bytes);
    let mut at = address;
    loop {
        let state = &mut *trampolines();
        let starts = state.list[..state.count].iter().map(|trampoline| trampoline.start);
        match starts.filter(|start| (at..end).contains(start)).min() {
            Some(start) => {
                let result = if start > at { kernel::munmap(at, start - at) } else { 0 };
                if result != 0 {
                    return result;
                }
                at = start + TRAMPOLINE_BYTES;
                if at >= end {
                    return 0;
                }
            }
            None => return kernel::munmap(at, end - at),
        }
    }
}

/// Replay: the recorded process mapped a trampoline here.
pub fn replay_trampoline(word: Header) {
    let log = &mut process().log;
    let start = log.body(0);
    if log.body(1) != TRAMPOLINE_BYTES || !map_trampoline_at(start) {
        crate::state::report::fail("the memory of a recorded trampoline is not free");
    }
    log.consume(word);
    log.events += 1;
    add_trampoline(start);
}

/// Replay: those that were recorded where code is to be replaced now, and are needed before.
pub fn replay_needed_trampolines() {
    while process().replays()
        && let Some(word) = process().log.peek()
        && word.is(Kind::Trampoline)
    {
        replay_trampoline(word);
    }
}
