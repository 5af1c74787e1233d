//! The runtime's stacks of each thread, and whose a stack is.

use lane_protocol::{THREAD_AREA_BYTES, THREADS_START};

use crate::state::block::{
    AREA_BLOCK, BLOCKS, FIRST_STACK_TOP, HOME, SIGNAL_STACK_BYTES, SIGNAL_STACKS_END, STACK_BYTES, area,
};

/// Top of the stack of this index.
pub fn stack_top(index: usize) -> u64 {
    if index >= BLOCKS {
        return area(index) + AREA_BLOCK as u64;
    }
    HOME.get() as u64 + (FIRST_STACK_TOP - index * STACK_BYTES) as u64
}

/// Start of the signal stack of this index.
pub fn signal_stack(index: usize) -> u64 {
    if index >= BLOCKS {
        return area(index);
    }
    HOME.get() as u64 + (SIGNAL_STACKS_END - (index + 1) * SIGNAL_STACK_BYTES) as u64
}

/// The thread whose signal stack this address is on.
pub fn owner_of_signal_stack(address: u64) -> usize {
    match address.checked_sub(THREADS_START) {
        Some(offset) => BLOCKS + (offset / THREAD_AREA_BYTES) as usize,
        None => (signal_stack(0) + SIGNAL_STACK_BYTES as u64 - address) as usize / SIGNAL_STACK_BYTES,
    }
}
