//! The lists that a shadow makes after the program went on: whoever is about to change what they
//! list waits for them.

use core::sync::atomic::Ordering;

use lane_protocol::Checkpoint;

use crate::checkpoint::area::area;
use crate::checkpoint::resources::{keeper, postponed};
use crate::checkpoint::take::saved_pages;
use crate::checkpoint::take::slots::{self, all, is_alive, is_taken};
use crate::ground::kernel;
use crate::signals;
use crate::state::block::{thread, thread_status};

/// Makes the keeper that was not made when the checkpoint was taken. Where that fails, the
/// checkpoint is lost: see [`crate::checkpoint::take::checkpoint::loss`].
fn make_postponed(slot: &'static Checkpoint) {
    let Some(mut increment) = area().increments.increment_of(slot).map(saved_pages::of) else { return };
    let is_agent = thread().status == thread_status::AGENT;
    if !is_agent {
        signals::set_real_mask(!0);
    }
    let keeper = keeper::make(slot, &mut increment);
    if !is_agent {
        signals::set_real_mask(thread().signals.mask);
    }
    slot.shadow.store(if kernel::failed(keeper) { -1 } else { keeper as i32 }, Ordering::Release);
}

/// Waits for a shadow's lists, or its end.
pub fn wait_until_ready(slot: &'static Checkpoint) {
    if slots::is_postponed(slot) {
        make_postponed(slot);
    }
    while slot.ready.load(Ordering::Acquire) == 0 && is_alive(slot) {
        kernel::futex_wait(&slot.ready, 0, 100);
    }
}

/// The lists of what was there then are made.
pub fn have_lists(slot: &'static Checkpoint) {
    match area().increments.increment_of(slot) {
        Some(index) if slots::is_postponed(slot) => postponed::list(&mut saved_pages::of(index)),
        _ => wait_until_ready(slot),
    }
}

/// Waits for the lists of all shadows: the program is about to change what they list.
pub fn wait_for_all() {
    wait_but_for(&|_| false);
}

/// The same, where what is about to change was noted of those whose keeper is not made yet.
pub fn wait_for_lists() {
    wait_but_for(&slots::is_postponed);
}

/// The program closes these descriptors: what a shadow still has open would not be closed,
/// so that its peer, or an epoll set, would not know; and what nobody has open would be gone.
pub fn wait_for_closing(first: u32, last: u32) {
    wait_but_for(&|slot| slots::is_postponed(slot) && !postponed::has_any(slot, first, last));
}

fn wait_but_for(is_left: &dyn Fn(&Checkpoint) -> bool) {
    if core::mem::take(&mut area().unready) == 0 {
        return;
    }
    for slot in all().iter().filter(|slot| is_taken(slot)) {
        if is_left(slot) {
            area().unready = 1;
        } else {
            wait_until_ready(slot);
        }
    }
}
