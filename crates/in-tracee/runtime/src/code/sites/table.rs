//! The sites of an address space that trapped or were replaced, found by their addresses.
//!
//! Invariant: a site that was added stays; there is always a free slot behind it, so that a
//! search ends.

use lane_protocol::site_kind;

use crate::ground::owned::Held;
use crate::state::block::space;
use crate::state::patched_code::{SLOTS, Site, SiteState, Sites, TABLE};

/// Of these, kept for calls: whoever has more of other sites than fit goes on trapping at them,
/// and shall not trap at each call as well.
const KEPT_FOR_CALLS: usize = 512;

const _: () = assert!(SLOTS.is_power_of_two() && SLOTS > TABLE && TABLE <= u16::MAX as usize);

impl Sites {
    /// Bytes of the state with a few sites.
    pub const FEW_BYTES: usize = core::mem::offset_of!(Sites, table) + 16 * size_of::<Site>();
}

pub fn sites() -> Held<Sites> {
    space().part(|space| &mut space.sites)
}

/// Place of the address in the hash table: its own, or a free one.
fn slot_of(address: u64) -> Option<usize> {
    let state = sites();
    let start = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.trailing_zeros())) as usize;
    (0..SLOTS).map(|step| (start + step) % SLOTS).find(|&slot| match state.places[slot] {
        0 => true,
        place => state.table[usize::from(place) - 1].address == address,
    })
}

/// The site at this address, if it is known.
pub fn find(address: u64) -> Option<Held<Site>> {
    let state = sites();
    match state.places[slot_of(address)?] {
        0 => None,
        place => Some(state.part(|state| &mut state.table[usize::from(place) - 1])),
    }
}

/// The site at this address, made known if it was not; true: it was not.
pub fn find_or_add(address: u64, kind: u8) -> Option<(Held<Site>, bool)> {
    let mut state = sites();
    let slot = slot_of(address)?;
    let is_new = state.places[slot] == 0;
    if is_new {
        let kept = if kind == site_kind::SYSCALL { 0 } else { KEPT_FOR_CALLS };
        if state.site_count >= TABLE - kept {
            return None;
        }
        let place = state.site_count;
        state.table[place] = Site {
            address,
            resume: 0,
            trampoline: 0,
            hits: 0,
            state: SiteState::Trapping,
            traps_always: false,
            comes_back: false,
            stops: 0,
            kind: site_kind::SYSCALL,
            bytes: 2,
            before: 0,
            covered: [0; 5],
            own: [0; 15],
        };
        state.site_count += 1;
        state.places[slot] = state.site_count as u16;
    }
    let place = usize::from(state.places[slot]);
    Some((state.part(|state| &mut state.table[place - 1]), is_new))
}
