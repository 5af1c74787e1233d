//! Addresses in the program's own code, and in trampolines.

use super::TRAMPOLINE_CODE_MAX;
use super::table::{find, sites};
use crate::code::trampolines;
use crate::ground::memory;
use crate::state::patched_code::{Site, SiteState};

/// The address to go on at for an instruction pointer that a frame or a waiting
/// thread holds: inside of a patch, that is its copy in the trampoline.
pub fn translate(rip: u64) -> u64 {
    const JUMP: u8 = 0xe9;
    const BEFORE_MAX: u64 = 36;
    let mut behind = [0u8; 4];
    if !memory::copy(behind.as_mut_ptr() as u64, rip.wrapping_sub(4), 4) || !behind.contains(&JUMP) {
        return rip;
    }
    let lowest = rip.wrapping_sub(4);
    let covering = (lowest..=lowest + 4 + BEFORE_MAX).filter_map(find).find(|site| {
        let start = site.address - u64::from(site.before);
        site.state == SiteState::Rewritten && (start + 1..start + 5).contains(&rip)
    });
    let Some(site) = covering else { return rip };
    let start = site.address - u64::from(site.before);
    let behind_site = site.address + u64::from(site.bytes);
    if rip >= behind_site && site.resume != 0 {
        site.resume + (rip - behind_site)
    } else if rip <= site.address {
        site.trampoline + (rip - start)
    } else {
        rip
    }
}

/// The address in the program's own code for an instruction pointer that may be in an
/// trampoline, also in one to which no jump leads any more: a thread may have waited in it.
pub fn original(rip: u64) -> u64 {
    if !trampolines::in_trampoline(rip) {
        return rip;
    }
    let state = &mut *sites();
    let is_near = |site: &&Site| {
        site.trampoline != 0 && (site.trampoline..site.trampoline + TRAMPOLINE_CODE_MAX).contains(&rip)
    };
    let Some(site) = state.table[..state.site_count].iter().find(is_near) else { return rip };
    let before = u64::from(site.before);
    let place = rip - site.trampoline;
    if place <= before {
        site.address - before + place
    } else if (site.trampoline..=rip).contains(&site.resume) {
        site.address + u64::from(site.bytes) + (rip - site.resume)
    } else {
        rip
    }
}
