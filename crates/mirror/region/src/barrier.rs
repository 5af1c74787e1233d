//! The barrier as functions: for stores of code that was not compiled with the pass.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::check;
use crate::layout::is_in_window;
pub use crate::save::save as will_write;

/// Stores a word to the region, with the barrier of compiled code before it.
///
/// # Safety
/// The address is that of an aligned word in the open region, which nobody else uses now.
#[inline]
pub unsafe fn put(address: usize, value: u64) {
    debug_assert!(is_in_window(address) && address.is_multiple_of(8));
    // SAFETY: as the caller says.
    unsafe {
        will_write(address, 8);
        (*(address as *const AtomicU64)).store(value, Relaxed);
    }
}

/// Says what was just stored by code that has no barrier: the check does not count it as missed.
pub fn wrote(address: usize, count: usize) {
    if check::is_on() && is_in_window(address) && count != 0 {
        check::tell(address..address + count);
    }
}
