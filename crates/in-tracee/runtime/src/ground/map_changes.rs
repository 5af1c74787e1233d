//! Which parts of the address space have other mappings than when somebody listed them.
//!
//! Invariant: every call that maps, unmaps, moves or protects memory, of the program's or of the
//! runtime's own, notes where, but for the runtime's region. Deliberately absent: where the stack has
//! grown by itself.

use crate::ground::memory::in_region;
use crate::ground::owned::Owned;
use crate::ground::range_set::{Range, tidied};

const PAGE_BYTES: u64 = 4096;
/// More at a time count as everything.
pub const CHANGES_MAX: usize = 32;

pub struct Changes {
    count: usize,
    /// More than fit, or it is not known where.
    everything: bool,
    all: [Range; CHANGES_MAX],
}

impl Changes {
    const NONE: Changes =
        Changes { count: 0, everything: false, all: [Range { start: 0, end: 0 }; CHANGES_MAX] };

    /// The parts, which do not touch; `None`: everything may have changed.
    pub fn parts(&self) -> Option<&[Range]> {
        (!self.everything).then_some(&self.all[..self.count])
    }
}

static CHANGES: Owned<Changes> = Owned::new(Changes::NONE);
/// There are mappings besides the stack that grow without telling.
static GROW: Owned<bool> = Owned::new(false);

fn changes() -> &'static mut Changes {
    // SAFETY: one thread runs in an address space, and its handlers do not nest.
    unsafe { &mut *CHANGES.get() }
}

/// Mappings at these addresses are others from now on.
pub fn note(start: u64, bytes: u64) {
    if bytes == 0 || in_region(start, bytes) {
        return;
    }
    let range = Range {
        start: start & !(PAGE_BYTES - 1),
        end: start.saturating_add(bytes).next_multiple_of(PAGE_BYTES),
    };
    let changes = changes();
    if let Some(last) = changes.all[..changes.count].last_mut()
        && range.start <= last.end
        && last.start <= range.end
    {
        (last.start, last.end) = (last.start.min(range.start), last.end.max(range.end));
        return;
    }
    if changes.count == CHANGES_MAX {
        changes.count = tidied(&mut changes.all);
    }
    match changes.all.get_mut(changes.count) {
        Some(place) => {
            *place = range;
            changes.count += 1;
        }
        None => changes.everything = true,
    }
}

/// Something was changed, and it is not known where.
pub fn note_everything() {
    changes().everything = true;
}

/// A mapping was made that grows without telling.
pub fn note_growing() {
    // SAFETY: as above.
    unsafe { *GROW.get() = true };
}

/// What has changed since the last call of this.
pub fn take() -> Changes {
    let mut taken = core::mem::replace(changes(), Changes::NONE);
    // SAFETY: as above.
    taken.everything |= unsafe { *GROW.get() };
    taken.count = tidied(&mut taken.all[..taken.count]);
    taken
}
