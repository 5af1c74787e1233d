//! The runtime's stacks of each thread, and whose a stack is.

use lane_protocol::{THREAD_AREA_BYTES, THREADS_START};
use linux_abi::general as nr;

use crate::block::{
    AREA_BLOCK, BLOCKS, FIRST_STACK_TOP, HOME, SIGNAL_STACK_BYTES, SIGNAL_STACKS_END, STACK_BYTES, area,
    session, thread_at,
};
use crate::kernel;

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

/// A handler of ours begins, on the signal stack at hand. By gs the runtime finds the thread's
/// block, and the program may have changed that by instructions that ask nobody: it is set
/// right. True if it was wrong.
pub fn regain_block() -> bool {
    const ARCH_SET_GS: u64 = 0x1001;
    if session().reads_gs_base == 0 {
        return false;
    }
    let (base, at): (u64, u64);
    // SAFETY: both only read registers; the kernel lets programs use the instruction.
    unsafe {
        core::arch::asm!("rdgsbase {}", "mov {}, rsp", out(reg) base, out(reg) at,
            options(nostack, nomem, preserves_flags));
    }
    if crate::log::in_region(base, 1) {
        return false;
    }
    let index = match at.checked_sub(THREADS_START) {
        Some(offset) => BLOCKS + (offset / THREAD_AREA_BYTES) as usize,
        None => (signal_stack(0) + SIGNAL_STACK_BYTES as u64 - at) as usize / SIGNAL_STACK_BYTES,
    };
    kernel::call(nr::__NR_arch_prctl, [ARCH_SET_GS, thread_at(index).own_address, 0, 0, 0, 0]);
    true
}
