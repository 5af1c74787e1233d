//! What is planted in the program's code while it runs at full speed under the
//! debugger: breakpoints, the replay trap of the preemption that comes next, and jumps where it calls often.
//!
//! Invariant: while the program stands still, its code is its own. In a replay nothing is
//! planted but in code of files that the program cannot write to: what it generates is
//! written again where a breakpoint was, and was data before, which it reads. A program with
//! breakpoints there is stepped by the translator.

use core::ops::Range;

use lane_protocol::BREAKPOINTS_MAX;

use crate::address_space::code_changes;
use crate::code::{sites, trampolines};
use crate::debugger::{agent_state, displaced, open_calls, programs};
use crate::ground::decode::JUMP_BYTES;
use crate::ground::memory;
use crate::ground::owned::{Held, Owned};
use crate::preemption::replay_trap;
use crate::state::block::process;

const INT3: u8 = 0xcc;
const JUMP: u8 = 0xe9;

struct Planted {
    is_in: bool,
    /// Memory was mapped or unmapped since all were looked at.
    is_stale: bool,
    count: usize,
    addresses: [u64; BREAKPOINTS_MAX],
    /// What was there, and how many bytes of it are replaced; 0: nothing could be planted.
    originals: [([u8; JUMP_BYTES], usize); BREAKPOINTS_MAX],
}

static PLANTED: Owned<Planted> = Owned::new(Planted {
    is_in: false,
    is_stale: false,
    count: 0,
    addresses: [0; BREAKPOINTS_MAX],
    originals: [([0; JUMP_BYTES], 0); BREAKPOINTS_MAX],
});

fn planted() -> Held<Planted> {
    PLANTED.hold()
}

/// Plants all.
pub fn put_in() {
    let wanted = agent_state::breakpoints();
    // A jump would cover a breakpoint, or a breakpoint break a jump.
    if replay_trap::is_lifted() {
        hide();
        let crowded = wanted.iter().any(|&address| replay_trap::would_cover(address));
        replay_trap::put_down(crowded);
    }
    show(wanted);
}

/// Takes all away.
pub fn take_out() {
    hide();
    replay_trap::lift();
}

/// The same, and the jumps: the program stands still from now on, or is stepped.
pub fn give_back_code() {
    take_out();
    sites::lift_jumps();
}

/// Replay: a call trapped. Where the program calls often, a jump to the runtime is planted, too.
#[cold]
pub fn on_trapped_call(site: u64) {
    /// Of what is planted at an address, with all instructions that it replaces.
    const REACH: u64 = JUMP_BYTES as u64 + 15;
    if !agent_state::is_at_full_speed() {
        return;
    }
    let is_clear_of = |address: u64, code: &Range<u64>| address >= code.end || address + REACH <= code.start;
    sites::jump_when_dense(site, &|code| {
        agent_state::breakpoints()
            .iter()
            .chain(&[replay_trap::place()])
            .all(|&address| is_clear_of(address, code))
    });
}

/// Plants the breakpoints.
fn show(wanted: &[u64]) {
    let planted = &mut *planted();
    if planted.is_in {
        return;
    }
    planted.is_in = true;
    planted.count = wanted.len();
    planted.addresses[..wanted.len()].copy_from_slice(wanted);
    for (index, &address) in wanted.iter().enumerate() {
        planted.originals[index] = plant(address, index, wanted).unwrap_or_default();
    }
}

/// Memory was mapped or unmapped.
pub fn note_mapping() {
    planted().is_stale = true;
}

/// The same as [`need_steps`], asked where memory may have been mapped: what is planted is
/// planted anew then, in what is there now.
pub fn need_steps_since() -> bool {
    if !core::mem::take(&mut planted().is_stale) {
        return false;
    }
    hide();
    need_steps()
}

/// True if some are in memory of a replay that may become other code, so that the program
/// has to be stepped.
pub fn need_steps() -> bool {
    process().replays()
        && agent_state::breakpoints().iter().any(|&address| {
            !trampolines::in_trampoline(address)
                && !sites::is_constant_code(address)
                && memory::read::<u8>(address).is_some()
        })
}

/// Breakpoints where calls end are wanted from now on, or no more.
pub fn follow_calls() {
    let planted = &mut *planted();
    if !planted.is_in {
        return;
    }
    let wanted = agent_state::breakpoints();
    for (index, &address) in wanted.iter().enumerate().filter(|(index, _)| programs::ends_calls(*index)) {
        let original = &mut planted.originals[index];
        let before = core::mem::take(original);
        restore(address, &before);
        *original = plant(address, index, wanted).unwrap_or_default();
    }
}

/// Plants one, if it is wanted; gives what was there.
fn plant(address: u64, index: usize, wanted: &[u64]) -> Option<([u8; JUMP_BYTES], usize)> {
    let is_wanted = !programs::ends_calls(index) || open_calls::are_followed();
    if !is_wanted || code_changes::is_inside_jump(address) {
        return None;
    }
    let first = memory::read::<u8>(address).filter(|&byte| byte != INT3)?;
    let (code, bytes) = if programs::are_of(index) && replay_trap::place() != address {
        let covered = address + 1..address + JUMP_BYTES as u64;
        // A jump would cover another breakpoint, or the place of a preemption.
        let is_alone = !wanted.iter().chain(&[replay_trap::place()]).any(|other| covered.contains(other));
        displaced::code_for(address, index, is_alone)
    } else {
        ([INT3; JUMP_BYTES], 1)
    };
    let mut original = [first; JUMP_BYTES];
    let read = memory::copy(original.as_mut_ptr() as u64, address, bytes as u64);
    (read && sites::put_code(address, &code[..bytes])).then_some((original, bytes))
}

/// Takes the breakpoints away.
pub fn hide() {
    let planted = &mut *planted();
    if !core::mem::take(&mut planted.is_in) {
        return;
    }
    for (&address, original) in planted.addresses[..planted.count].iter().zip(&planted.originals) {
        restore(address, original);
    }
}

/// Puts back what was there before one was planted.
fn restore(address: u64, (bytes, count): &([u8; JUMP_BYTES], usize)) {
    // Other memory may have been mapped there since.
    if *count != 0 && matches!(memory::read::<u8>(address), Some(INT3 | JUMP)) {
        sites::put_code(address, &bytes[..*count]);
    }
}

/// Does something while the breakpoints are away.
pub fn without<T>(act: impl FnOnce() -> T) -> T {
    let were_in = planted().is_in;
    hide();
    let result = act();
    if were_in {
        show(agent_state::breakpoints());
    }
    result
}

/// True if a breakpoint is planted there.
pub fn is_in(address: u64) -> bool {
    let planted = &mut *planted();
    planted.is_in && planted.addresses[..planted.count].contains(&address)
}
