//! What is planted in the program's code while it runs at full speed under the
//! debugger: breakpoints, and the probe of the pause that comes next.
//!
//! Invariant: while the program stands still, its code is its own.

use lane_protocol::BREAKPOINTS_MAX;

use crate::block::Owned;
use crate::{agent, memory, probe, sites};

const INT3: u8 = 0xcc;

struct Planted {
    is_in: bool,
    count: usize,
    addresses: [u64; BREAKPOINTS_MAX],
    /// What was there; `None`: nothing could be planted.
    originals: [Option<u8>; BREAKPOINTS_MAX],
}

static PLANTED: Owned<Planted> = Owned::new(Planted {
    is_in: false,
    count: 0,
    addresses: [0; BREAKPOINTS_MAX],
    originals: [None; BREAKPOINTS_MAX],
});

fn planted() -> &'static mut Planted {
    // SAFETY: as for the agent's state.
    unsafe { &mut *PLANTED.get() }
}

/// Plants all.
pub fn put_in() {
    let wanted = agent::breakpoints();
    // A jump would cover a breakpoint, or a breakpoint break a jump.
    if probe::is_lifted() {
        hide();
        let crowded = wanted.iter().any(|&address| probe::would_cover(address));
        probe::put_down(crowded);
    }
    show(wanted);
}

/// Takes all away.
pub fn take_out() {
    hide();
    probe::lift();
}

/// Plants the breakpoints.
fn show(wanted: &[u64]) {
    let planted = planted();
    if planted.is_in {
        return;
    }
    planted.is_in = true;
    planted.count = wanted.len();
    planted.addresses[..wanted.len()].copy_from_slice(wanted);
    for (&address, original) in wanted.iter().zip(&mut planted.originals) {
        *original = memory::read::<u8>(address).filter(|&byte| byte != INT3);
        if original.is_some() && !sites::put_code(address, &[INT3]) {
            *original = None;
        }
    }
}

/// Takes the breakpoints away.
fn hide() {
    let planted = planted();
    if !core::mem::take(&mut planted.is_in) {
        return;
    }
    for (&address, original) in planted.addresses[..planted.count].iter().zip(&planted.originals) {
        // Other memory may have been mapped there since.
        if let Some(byte) = original
            && memory::read::<u8>(address) == Some(INT3)
        {
            sites::put_code(address, &[*byte]);
        }
    }
}

/// Does something while the breakpoints are away.
pub fn without<T>(act: impl FnOnce() -> T) -> T {
    let were_in = planted().is_in;
    hide();
    let result = act();
    if were_in {
        show(agent::breakpoints());
    }
    result
}

/// True if a breakpoint is planted there.
pub fn is_in(address: u64) -> bool {
    let planted = planted();
    planted.is_in && planted.addresses[..planted.count].contains(&address)
}
