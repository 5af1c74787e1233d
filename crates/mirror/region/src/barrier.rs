//! The barrier as functions: for stores of code that was not compiled with the pass.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::check;
use crate::layout::is_in_window;
use crate::save::save;

/// Stores a word to the region, with the barrier of compiled code before it.
///
/// # Safety
/// The address is that of an aligned word in the open region, which nobody else uses now.
#[inline]
pub unsafe fn put(address: usize, value: u64) {
    debug_assert!(is_in_window(address) && address.is_multiple_of(8));
    // SAFETY: as the caller says.
    unsafe {
        save(address, 8);
        (*(address as *const AtomicU64)).store(value, Relaxed);
    }
}

/// Saves what will be stored to, as far as it is in the region.
///
/// # Safety
/// The bytes are mapped.
#[inline]
pub unsafe fn will_write(address: usize, count: usize) {
    // SAFETY: as the caller says.
    unsafe { save(address, count) };
}

/// Says what was just stored by code that has no barrier: the check does not count it as missed.
///
/// # Safety
/// The bytes are mapped.
pub unsafe fn wrote(address: usize, count: usize) {
    if check::is_on() {
        // SAFETY: as the caller says.
        unsafe { save(address, count) };
    }
}
