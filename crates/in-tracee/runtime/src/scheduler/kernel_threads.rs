//! Threads of the kernel's for blocks that are prepared.

use core::sync::atomic::Ordering;

use linux_abi::general as nr;

use crate::ground::assembly::rv_clone_shared;
use crate::state::block::Thread;

/// Makes a thread of the kernel's for a block that is prepared; it shares all.
pub fn make_kernel_thread(block: &mut Thread) -> i64 {
    const FLAGS: u32 = nr::CLONE_VM
        | nr::CLONE_FS
        | nr::CLONE_FILES
        | nr::CLONE_SIGHAND
        | nr::CLONE_THREAD
        | nr::CLONE_SYSVSEM
        | nr::CLONE_CHILD_CLEARTID;
    block.alive.store(1, Ordering::Release);
    let alive = block.alive.as_ptr() as u64;
    // SAFETY: the block and its stack are the new thread's alone.
    unsafe { rv_clone_shared(&[u64::from(FLAGS), 0, 0, alive, 0, CLONE], core::ptr::from_mut(block).cast()) }
}

/// The call that makes threads.
pub const CLONE: u64 = nr::__NR_clone as u64;
