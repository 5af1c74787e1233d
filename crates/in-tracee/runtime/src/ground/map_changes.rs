//! Which parts of the address space have other mappings than when somebody listed them.
//!
//! Invariant: every call that maps, unmaps, moves or protects memory, of the program's or of the
//! runtime's own, notes where, but for the runtime's region. Deliberately absent: where the stack has
//! grown by itself.

use crate::ground::memory::in_region;
use crate::ground::owned::{Held, Owned};
pub use runtime_logic::map_changes::Changes;

static CHANGES: Owned<Changes> = Owned::new(Changes::NONE);
/// There are mappings besides the stack that grow without telling.
static GROW: Owned<bool> = Owned::new(false);

fn changes() -> Held<Changes> {
    CHANGES.hold()
}

/// Mappings at these addresses are others from now on.
pub fn note(start: u64, bytes: u64) {
    if !in_region(start, bytes) {
        changes().note(start, bytes);
    }
}

/// Something was changed, and it is not known where.
pub fn note_everything() {
    changes().note_everything();
}

/// A mapping was made that grows without telling.
pub fn note_growing() {
    // SAFETY: as above.
    unsafe { *GROW.get() = true };
}

/// What has changed since the last call of this.
pub fn take() -> Changes {
    let mut taken = core::mem::replace(&mut *changes(), Changes::NONE);
    // SAFETY: as above.
    if unsafe { *GROW.get() } {
        taken.note_everything();
    }
    taken.tidy();
    taken
}
