//! Replay: the program's own code stands where a preemption was recorded, and later the jumps to trampolines
//! again. Under the debugger jumps stand while the program runs at full speed, and where it calls often:
//! while it stands still its code is its own.

use core::ops::Range;

use lane_protocol::site_kind;

use super::table::{find, find_or_add, sites};
use super::{UD2, cover, jump_from, recipe_of, restore, write_code};
use crate::ground::{memory, notices};
use crate::state::block::process;
use crate::state::live;
use crate::state::patched_code::{Site, SiteState};

/// Traps of an instruction at which nothing else stands any more before the jump does again.
const STOPS_BEFORE_COVERING: u8 = 4;

/// Replay: a preemption was recorded at this address, where the program's own code
/// has to stand.
pub fn restore_at(address: u64) {
    give_back_code(address, !process().has_agent() && !live::is_on());
}

/// The program's code becomes another one at this address.
pub fn restore_for_good(address: u64) {
    give_back_code(address, false);
}

fn give_back_code(address: u64, for_a_while: bool) {
    let state = &mut *sites();
    for site in &mut state.table[..state.site_count] {
        let start = site.address - u64::from(site.before);
        // The call itself may lie behind the jump, and is not come to while that is there.
        let covered = start..(start + 5).max(site.address + 1);
        if site.state != SiteState::Rewritten || !covered.contains(&address) {
            continue;
        }
        let reads_outside = site.is_stopped();
        restore(site);
        if reads_outside && write_code(site.address, &UD2) {
            (site.state, site.stops, site.comes_back) = (SiteState::Stopped, 0, for_a_while);
        } else if !reads_outside && (for_a_while || process().has_agent()) {
            (site.state, site.hits) = (SiteState::Restored, 0);
        }
    }
}

/// Replay: the preemption is over, and calls go through the site again.
pub(super) fn cover_again(site: &mut Site) {
    if !is_trapped(site) && put_back(site) {
        notices::code_changed();
    }
}

/// The jump stands again, where the code is as it was: its trampoline is. True if it does.
fn put_back(site: &mut Site) -> bool {
    let start = site.address - u64::from(site.before);
    if memory::read::<[u8; 5]>(start) != Some(site.covered) {
        return false;
    }
    let stands = write_code(start, &jump_from(start, site.trampoline));
    site.state = if stands { SiteState::Rewritten } else { SiteState::Hopeless };
    stands
}

/// True while the replay trap of a preemption is there, also where a step leads over it.
fn is_trapped(site: &Site) -> bool {
    const REACH: u64 = 16;
    let place = process().replay_trap.address;
    place != 0 && place.abs_diff(site.address) < REACH + u64::from(site.before)
}

/// The same for this address, where an instruction trapped and was performed.
pub fn cover_again_at(address: u64) -> bool {
    find(address).is_some_and(|mut site| cover_again_stopped(&mut site))
}

/// Replay: the same of an instruction that traps: true if a jump leads to it from now on.
pub fn cover_again_stopped(site: &mut Site) -> bool {
    if site.state != SiteState::Stopped || !site.comes_back || is_trapped(site) {
        return false;
    }
    site.stops = site.stops.wrapping_add(1);
    let start = site.address - u64::from(site.before);
    let mut stands = site.covered;
    for (byte, place) in UD2.iter().zip(site.address..) {
        if let Some(covered) = stands.get_mut((place - start) as usize) {
            *covered = *byte;
        }
    }
    if !site.stops.is_multiple_of(STOPS_BEFORE_COVERING) || memory::read::<[u8; 5]>(start) != Some(stands) {
        return false;
    }
    notices::code_changed();
    let jumps_ahead = site.before >= 5;
    let is_whole = jumps_ahead || write_code(site.address, &site.own[..site.bytes as usize]);
    let covers = is_whole && write_code(start, &jump_from(start, site.trampoline));
    site.state = if covers { SiteState::Rewritten } else { SiteState::Stopped };
    covers
}

// --- under the debugger ---

/// Traps at a site before a jump is put in. A trap costs some 3 us more than a jump; to put one in and to
/// take it away again costs as much as ten of them.
const TRAPS_BEFORE_JUMP: u32 = 16;
/// Where the program stands still again before this many calls came by a jump, it has to trap twice as often
/// before the next.
const CALLS_WORTH_JUMPS: u32 = 64;
const LATER_MAX: u32 = 10;

/// A call trapped at full speed: puts a jump in where the program calls often. `is_free` says whether
/// nothing else is planted in the code that a jump replaces or its trampoline has copies of.
pub fn jump_when_dense(address: u64, is_free: &dyn Fn(&Range<u64>) -> bool) {
    let Some((mut site, _)) = find_or_add(address, site_kind::SYSCALL) else { return };
    site.hits = site.hits.wrapping_add(1);
    let may_jump = matches!(site.state, SiteState::Trapping | SiteState::Restored);
    if !may_jump || !site.hits.is_multiple_of(TRAPS_BEFORE_JUMP << sites().jumps_later) {
        return;
    }
    let Some(recipe) = recipe_of(address).filter(|recipe| recipe.kind == site_kind::SYSCALL) else { return };
    let end = address + u64::from(recipe.site_bytes + recipe.after);
    if is_free(&(address - u64::from(recipe.before)..end)) {
        let is_there = site.state == SiteState::Restored;
        sites().jumps_in |=
            if is_there { put_back(&mut site) } else { cover(&mut site, recipe, &write_code) };
    }
}

/// A call came by a jump.
pub fn note_jump_taken() {
    let state = &mut *sites();
    state.jumps_taken = state.jumps_taken.saturating_add(1);
}

/// The program is about to stand still, or to be stepped.
pub fn lift_jumps() {
    let state = &mut *sites();
    if !core::mem::take(&mut state.jumps_in) {
        return;
    }
    let was_worth_it = core::mem::take(&mut state.jumps_taken) >= CALLS_WORTH_JUMPS;
    state.jumps_later = if was_worth_it { 0 } else { (state.jumps_later + 1).min(LATER_MAX) };
    let jumps = state.table[..state.site_count].iter_mut();
    for site in jumps.filter(|site| site.state == SiteState::Rewritten && site.kind == site_kind::SYSCALL) {
        write_code(site.address - u64::from(site.before), &site.covered);
        (site.state, site.hits) = (SiteState::Restored, 0);
    }
}
