//! Where a thread of the program stands while it has not got the token, and how it
//! goes on from there, now or after its memory went back.

use core::sync::atomic::Ordering;

use linux_abi::general as nr;

use crate::code::clocks;
use crate::ground::registers::Registers;
use crate::ground::{frame, kernel, notices};
use crate::scheduler::token;
use crate::signals;
use crate::state::block::{Thread, process, thread};
use crate::state::signal_state::ResumeState;
use crate::state::stacks::signal_stack;

/// Bytes below the top of a thread's stack that going on leaves alone.
const KEPT_STACK_BYTES: u64 = 8192;

/// A new thread of the program begins with what its maker's processor has.
pub fn prepare_new(block: &mut Thread, has_tls: bool, tls: u64) {
    block.fs_base = if has_tls { tls } else { crate::ground::registers::fs_base() };
    frame::save_vectors_at(signal_stack(block.index));
}

/// A kernel thread that another one left to us may have another processor state than
/// a new one.
pub fn begin_thread() {
    if !crate::state::live::is_on() {
        return;
    }
    let own = &mut *thread();
    signals::set_real_mask(!0);
    clocks::take_over_traps();
    kernel::set_fs_base(own.fs_base);
    frame::load_vectors_from(signal_stack(own.index));
}

/// The block of a thread of then, prepared for the kernel's thread that takes it up.
pub fn prepare(block: &mut Thread) {
    block.start = arrive as *const () as u64;
    if matches!(block.resume_state, ResumeState::Call | ResumeState::Preemption) {
        // They may lie deeper, where it is about to run.
        let place = (block.stack_top - size_of::<Registers>() as u64) & !15;
        // SAFETY: the thread is not running, and both places are on its own stack.
        unsafe { core::ptr::copy(block.registers_at as *const Registers, place as *mut Registers, 1) };
        block.registers_at = place;
    }
    block.stack_top -= KEPT_STACK_BYTES;
}

/// A kernel thread arrives here to go on as the block's thread.
unsafe extern "C" fn arrive(block: *mut Thread) -> ! {
    // SAFETY: the block is the calling thread's alone from here on.
    let block = unsafe { &mut *block };
    block.stack_top += KEPT_STACK_BYTES;
    take_up(block)
}

/// The calling thread is the block's from now on, and goes on as it.
fn take_up(block: &mut Thread) -> ! {
    signals::set_real_mask(!0);
    // One that had not begun then does not know who it is.
    token::begin_thread();
    signals::use_own_stack();
    crate::code::interception::intercept();
    clocks::take_over_traps();
    if block.robust_list[0] != 0 {
        kernel::call(nr::__NR_set_robust_list, [block.robust_list[0], block.robust_list[1], 0, 0, 0, 0]);
    }
    if !process().replays() {
        signals::restore_pending(&crate::checkpoint::area::area().pending);
    }
    crate::checkpoint::area::area().arrived.fetch_add(1, Ordering::SeqCst);
    kernel::set_fs_base(block.fs_base);
    frame::load_vectors_from(signal_stack(block.index));
    notices::thread_goes_on()
}
