//! Variables of the runtime without locks: who holds the token owns them.

use core::cell::UnsafeCell;

/// A cell that the single running thread of the address space owns.
#[repr(transparent)]
pub struct Owned<T>(UnsafeCell<T>);

// SAFETY: one thread of an address space holds the token at a time (a parent waits for
// its vfork child inside the kernel), and only that one comes here.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    pub const fn new(value: T) -> Self {
        Owned(UnsafeCell::new(value))
    }

    pub fn get(&self) -> *mut T {
        self.0.get()
    }
}
