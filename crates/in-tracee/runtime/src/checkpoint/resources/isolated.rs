//! Opening files of the program's in a process of its own, which shares all memory: a process
//! loses its locks on a file (fcntl(2)) with any of its descriptors that is closed.
//!
//! Deliberately absent: descriptors that stay open.

use core::mem::MaybeUninit;

use linux_abi::general as nr;

use crate::checkpoint::take::slots;
use crate::ground::assembly::rv_make_keeper;
use crate::ground::kernel;

const STACK_BYTES: usize = 0x8000;

/// Begins at the upper end of its stack.
#[repr(C, align(16))]
struct Stack(MaybeUninit<[u8; STACK_BYTES]>);

struct Start<'a> {
    act: &'a mut dyn FnMut(),
}

/// Does something with descriptors of its own, to begin with those of the program; an errno if
/// that cannot be. Returns when it is done, and nobody else of the caller's kind goes on meanwhile.
pub fn run(act: &mut dyn FnMut()) -> Result<(), i64> {
    let stack = Stack(MaybeUninit::uninit());
    let mut start = Start { act };
    let top = &raw const stack as u64 + STACK_BYTES as u64;
    let flags = u64::from(nr::CLONE_VM | nr::CLONE_VFORK);
    // SAFETY: the child has a stack of its own, and the caller waits until it is gone.
    let child = unsafe { rv_make_keeper(flags, top, begin as *const () as u64, &raw mut start as u64) };
    if kernel::failed(child) {
        return Err(child);
    }
    slots::wait_for(child as i32, 0);
    Ok(())
}

unsafe extern "C" fn begin(start: *mut Start) -> ! {
    slots::hide();
    // SAFETY: `run` made it, and waits for us.
    unsafe { ((*start).act)() };
    kernel::exit_group(0)
}
