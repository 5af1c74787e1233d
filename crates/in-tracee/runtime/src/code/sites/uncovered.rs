//! Replay: the program's own code stands where a pause was recorded, and later the jumps to islands
//! again.

use super::table::{find, sites};
use super::{Site, State, UD2, jump_from, restore, write_code};
use crate::checkpoint;
use crate::debugger::translate;
use crate::ground::memory;
use crate::preemption::probe;
use crate::state::block::process;

/// Traps of an instruction at which nothing else stands any more before the jump does again.
const STOPS_BEFORE_COVERING: u8 = 4;

/// Replay: a pause was recorded at this address, where the program's own code
/// has to stand.
pub fn uncover(address: u64) {
    give_back_code(address, !process().debugged && !checkpoint::is_on());
}

/// The program's code becomes another one at this address.
pub fn uncover_for_good(address: u64) {
    give_back_code(address, false);
}

fn give_back_code(address: u64, for_a_while: bool) {
    let state = sites();
    for site in &mut state.table[..state.site_count] {
        let start = site.address - u64::from(site.before);
        if site.state != State::Rewritten || !(start..start + 5).contains(&address) {
            continue;
        }
        let reads_outside = site.is_stopped();
        restore(site);
        if reads_outside && write_code(site.address, &UD2) {
            (site.state, site.stops, site.comes_back) = (State::Stopped, 0, for_a_while);
        } else if !reads_outside && for_a_while {
            (site.state, site.hits) = (State::Uncovered, 0);
        }
    }
}

/// Replay: the pause is over, and calls go through the site again.
pub(super) fn cover_again(site: &mut Site) {
    let start = site.address - u64::from(site.before);
    if !is_probed(site) && memory::read::<[u8; 5]>(start) == Some(site.covered) {
        translate::forget();
        let stands = write_code(start, &jump_from(start, site.island));
        site.state = if stands { State::Rewritten } else { State::Hopeless };
    }
}

/// True while the probe of a pause is there, also where a step leads over it.
fn is_probed(site: &Site) -> bool {
    const REACH: u64 = 16;
    let place = probe::place();
    place != 0 && place.abs_diff(site.address) < REACH + u64::from(site.before)
}

/// The same for this address, where an instruction trapped and was performed.
pub fn cover_again_at(address: u64) -> bool {
    find(address).is_some_and(cover_again_stopped)
}

/// Replay: the same of an instruction that traps: true if a jump leads to it from now on.
pub fn cover_again_stopped(site: &mut Site) -> bool {
    if site.state != State::Stopped || !site.comes_back || is_probed(site) {
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
    translate::forget();
    let jumps_ahead = site.before >= 5;
    let is_whole = jumps_ahead || write_code(site.address, &site.own[..site.bytes as usize]);
    let covers = is_whole && write_code(start, &jump_from(start, site.island));
    site.state = if covers { State::Rewritten } else { State::Stopped };
    covers
}
