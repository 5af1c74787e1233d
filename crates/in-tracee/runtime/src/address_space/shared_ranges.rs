//! The program's writable mappings that a child of fork would share.

use lane_protocol::MemoryRange;

use crate::state::block::space;

pub fn note_shared(start: u64, bytes: u64) {
    let space = &mut *space();
    // A full list stays as it is: then the process has shared memory for ever.
    if space.shared_count < space.shared.len() {
        space.shared[space.shared_count] = MemoryRange { start, end: start + bytes };
        space.shared_count += 1;
    }
}

pub fn forget_shared(start: u64, bytes: u64) {
    let space = &mut *space();
    let mut index = 0;
    while index < space.shared_count && space.shared_count < space.shared.len() {
        let range = space.shared[index];
        if start <= range.start && range.end <= start.saturating_add(bytes) {
            space.shared_count -= 1;
            space.shared[index] = space.shared[space.shared_count];
        } else {
            index += 1;
        }
    }
}

/// True if the program has memory that a child of fork would share.
pub fn has_shared() -> bool {
    space().shared_count != 0
}
