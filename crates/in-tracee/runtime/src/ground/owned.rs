//! Variables of the runtime without locks: who holds the token owns them.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

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

    /// What is in it, for the thread that holds the token.
    #[inline(always)]
    pub fn hold(&'static self) -> Held<T> {
        // SAFETY: only the thread that holds the token comes here, as for `Sync`.
        unsafe { Held::of(self.0.get()) }
    }
}

/// A part of the runtime's state, in the hands of the thread that owns it. What is borrowed of it ends
/// with it: at the end of the statement, or of the function that keeps it. So none outlives what its
/// borrower knows; a reference for ever would.
pub struct Held<T: ?Sized + 'static>(NonNull<T>);

impl<T: ?Sized> Held<T> {
    /// # Safety
    ///
    /// There is such a value for ever, and only the thread that calls this comes to it, or others to its
    /// atomics only.
    #[inline(always)]
    pub unsafe fn of(value: *mut T) -> Held<T> {
        // SAFETY: of a value that is there.
        Held(unsafe { NonNull::new_unchecked(value) })
    }

    /// A part of it.
    #[inline(always)]
    pub fn part<U: ?Sized>(mut self, find: impl FnOnce(&mut T) -> &mut U) -> Held<U> {
        Held(NonNull::from(find(&mut self)))
    }

    /// A reference that does not end.
    ///
    /// # Safety
    ///
    /// While it is used, nothing of it changes but atomics.
    #[inline(always)]
    pub unsafe fn shared(self) -> &'static T {
        // SAFETY: see `of`; the caller sees to the rest.
        unsafe { &*self.0.as_ptr() }
    }
}

impl<T: ?Sized> Deref for Held<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: see `of`.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Held<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: see `of`.
        unsafe { self.0.as_mut() }
    }
}
